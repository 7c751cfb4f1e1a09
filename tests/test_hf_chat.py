"""HFChat with a tiny model of random weights, and what it checks before any library is loaded."""

import time
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tiny_model import make_tiny_model, needs_training_libraries

from s3gym.agents import hf_chat
from s3gym.agents.chat_names import chat_model
from s3gym.agents.hf_chat import HFChat
from s3gym.agents.hf_engine import Engine, Job
from s3gym.agents.hf_weights import Weights, find_weights
from s3gym.agents.model import ModelAgent
from s3gym.cli.main import main
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import STATUSES, Message, Observation, Phase, Turn

PROMPT = [Message("system", "Play well."), Message("user", "Your move?")]


def prompt(text: str) -> list[Message]:
    return [Message("system", "Play well."), Message("user", text)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_training_libraries()
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(autouse=True)
def _unloaded() -> Iterator[None]:
    yield
    for key in list(hf_chat._QUEUE._loaded):
        hf_chat._QUEUE.forget(key)
    deadline = time.monotonic() + 10
    while hf_chat._QUEUE._loaded and time.monotonic() < deadline:
        time.sleep(0.005)


async def together(chat: HFChat, prompts: list[list[Message]], max_tokens: int = 12) -> list[Reply]:
    replies: dict[int, Reply] = {}

    async def ask(index: int) -> None:
        replies[index] = await chat.complete(prompts[index], max_tokens=max_tokens, seed=index)

    async with anyio.create_task_group() as group:
        for index in range(len(prompts)):
            group.start_soon(ask, index)
    return [replies[index] for index in range(len(prompts))]


def fake_model(folder: Path) -> Path:
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("x")
    return folder


def test_a_folder_without_what_a_chat_needs_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is none at '.*nowhere'"):
        HFChat(tmp_path / "nowhere")
    for name, complaint in (
        ("config.json", "it has no config.json"),
        ("model.safetensors", r"expected weights as \*.safetensors"),
        ("tokenizer.json", "there is no tokenizer.json"),
        ("chat_template.jinja", "no chat template"),
    ):
        folder = tmp_path / name
        folder.mkdir()
        fake_model(folder)
        (folder / name).unlink()
        with pytest.raises(ConfigError, match=complaint):
            HFChat(folder)


def test_weights_that_are_a_pickle_are_not_read(tmp_path: Path) -> None:
    fake_model(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "pytorch_model.bin")
    with pytest.raises(ConfigError, match="is a pickle, which can run code"):
        HFChat(tmp_path)


def test_an_adapter_names_its_model_and_may_be_told_another(tmp_path: Path) -> None:
    model, adapter = tmp_path / "model", tmp_path / "adapter"
    model.mkdir()
    adapter.mkdir()
    fake_model(model)
    (adapter / "adapter_model.safetensors").write_bytes(b"")
    (adapter / "adapter_config.json").write_text('{"base_model_name_or_path": "/gone"}')
    with pytest.raises(ConfigError, match="none at '/gone'"):
        find_weights(adapter)
    found = find_weights(adapter, model=model)
    assert (found.model, found.adapter) == (model, adapter)


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    fake_model(tmp_path)
    with pytest.raises(ConfigError, match="temperature from 0 to 100, got -1"):
        HFChat(tmp_path, temperature=-1)
    with pytest.raises(ConfigError, match="top_p above 0 and at most 1, got 2"):
        HFChat(tmp_path, top_p=2)
    with pytest.raises(ConfigError, match="parallel of at least 1"):
        HFChat(tmp_path, parallel=0)
    with pytest.raises(ConfigError, match="'cuda:NUMBER', got 'gpu'"):
        HFChat(tmp_path, device="gpu")


def test_the_name_holds_what_can_change_an_answer(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    fake_model(folder)
    chat = chat_model(f"hf:{folder}", settings={"temperature": 0.0, "parallel": 2}, offline=True)
    assert chat.name == "hf:small temperature=0.0"
    assert isinstance(chat, HFChat)
    assert chat.most_concurrent == 2
    with pytest.raises(ConfigError, match="takes no base URL"):
        chat_model(f"hf:{folder}", "http://localhost:1/v1")


@pytest.mark.slow
async def test_a_reply_has_text_finish_and_usage(folder: Path) -> None:
    reply = await HFChat(folder).complete(PROMPT, max_tokens=7, seed=1)
    assert reply.finish in ("length", "stop")
    assert reply.usage.input_tokens > 20
    assert 1 <= reply.usage.output_tokens <= 7
    assert reply.model == folder.name


@pytest.mark.slow
async def test_a_seed_gives_the_same_reply_and_another_seed_another(folder: Path) -> None:
    chat = HFChat(folder)
    texts = [(await chat.complete(PROMPT, max_tokens=20, seed=seed)).text for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]
    greedy = HFChat(folder, temperature=0.0)
    again = [(await greedy.complete(PROMPT, max_tokens=20, seed=seed)).text for seed in (5, 6)]
    assert again[0] == again[1]


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.0, 1.0])
async def test_a_reply_is_the_same_alone_and_in_a_batch(folder: Path, temperature: float) -> None:
    prompts = [prompt("word " * length) for length in (1, 30, 7, 120, 2, 64)]
    alone = HFChat(folder, temperature=temperature, parallel=1)
    beside = HFChat(folder, temperature=temperature, parallel=6)
    assert await together(alone, prompts) == await together(beside, prompts)


@pytest.mark.slow
async def test_what_was_kept_changes_no_reply(folder: Path) -> None:
    long = [
        Message("system", "Play well. " * 20),
        *(
            Message(role, f"{role} says {index}")
            for index in range(8)
            for role in ("user", "assistant")
        ),
    ]
    asked = [[*long[: 2 * n], Message("user", f"move {n}?")] for n in range(1, 8)]
    keeping, forgetting = HFChat(folder), HFChat(folder, kept_tokens=0)
    for one in asked:
        kept = await keeping.complete(one, max_tokens=9, seed=3)
        assert kept == await forgetting.complete(one, max_tokens=9, seed=3)
    engine = hf_chat._QUEUE._loaded[keeping._key]
    assert isinstance(engine, Engine)
    assert len(engine._kept) == len(asked) + 1  # all beginnings, and the system message


@pytest.mark.slow
async def test_calls_under_way_together_are_answered_together(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    answer = Engine.answer

    def counted(self: Engine, jobs: list[Job]) -> None:
        sizes.append(len(jobs))
        answer(self, jobs)

    monkeypatch.setattr(Engine, "answer", counted)
    chat = HFChat(folder, parallel=4)
    await chat.complete(PROMPT, max_tokens=1)
    await together(chat, [prompt(f"move {n}?") for n in range(9)])
    assert sum(sizes) == 10
    assert max(sizes) == 4


@pytest.mark.slow
async def test_two_chats_of_one_folder_load_it_once(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = 0
    load = Engine._loaded

    def counted(self: Engine, weights: Weights) -> tuple[object, object]:
        nonlocal loaded
        loaded += 1
        return load(self, weights)

    monkeypatch.setattr(Engine, "_loaded", counted)
    first, second = HFChat(folder), HFChat(folder, temperature=0.0)
    await first.complete(PROMPT, max_tokens=1)
    await second.complete(PROMPT, max_tokens=1)
    assert loaded == 1
    await first.aclose()
    with anyio.fail_after(10):
        while hf_chat._QUEUE._loaded:
            await anyio.sleep(0.01)
    await second.complete(PROMPT, max_tokens=1)
    assert loaded == 2


@pytest.mark.slow
async def test_a_prompt_beyond_the_context_is_refused_for_good_and_others_are_answered(
    folder: Path,
) -> None:
    chat = HFChat(folder)
    with pytest.raises(ModelError, match="does not fit the model's context of 4096") as caught:
        await chat.complete(prompt("word " * 9000), max_tokens=5)
    assert not caught.value.retryable
    assert (await chat.complete(PROMPT, max_tokens=2)).usage.calls == 1


@pytest.mark.slow
async def test_a_cancelled_call_leaves_the_others_alone(folder: Path) -> None:
    chat = HFChat(folder)
    with anyio.move_on_after(0.05) as scope:
        await chat.complete(PROMPT, max_tokens=4000, seed=1)
    assert scope.cancelled_caught
    with anyio.fail_after(20):
        reply = await chat.complete(PROMPT, max_tokens=3, seed=1)
    assert reply.usage.output_tokens <= 3


@pytest.mark.slow
async def test_a_template_that_refuses_the_layout_is_named(tmp_path: Path) -> None:
    needs_training_libraries()
    make_tiny_model(tmp_path, template="{{ raise_exception('take turns') }}")
    with pytest.raises(ModelError, match="chat template refuses the messages: take turns"):
        await HFChat(tmp_path).complete(PROMPT, max_tokens=1)


@pytest.mark.slow
async def test_a_model_agent_plays_a_turn_with_it(folder: Path) -> None:
    turn = Turn(
        episode="trust/m/none/r0/x001",
        game="trust",
        phase=Phase.EXPLORATION,
        rules="Each round, choose collaborate or cheat.",
        instruction="You play a game of trust.",
        observation=Observation(text="Round 1 of 10."),
        max_steps=10,
        seed=17,
        max_tokens=20,
    )
    decision = await ModelAgent(HFChat(folder), layout="cached").act(turn)
    assert decision.status in STATUSES
    assert decision.usage.calls == 1


@pytest.mark.slow
def test_one_chat_serves_two_event_loops(folder: Path) -> None:
    chat = HFChat(folder)

    async def once() -> str:
        return (await chat.complete(PROMPT, max_tokens=5, seed=1)).text

    assert anyio.run(once, backend="asyncio") == anyio.run(once, backend="trio")


def test_it_is_no_model_for_the_json_contract(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "a.safetensors"):
        (tmp_path / name).write_text("{}")
    for command in (["run", "--dry-run"], ["plan"]):
        with pytest.raises(SystemExit) as ended:
            main([*command, "--agent", f"hf:{tmp_path}", "--contract", "json"])
        assert ended.value.code == 2
        said = capsys.readouterr().err
        assert "the contract 'json' needs a chat model with structured output" in said
        assert "use the contract 'line'" in said
        assert len(said.splitlines()) == 1
