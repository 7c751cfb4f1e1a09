"""Names of chat models, and the two chat models that need no network."""

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from s3gym.agents.anthropic_chat import AnthropicChat
from s3gym.agents.chat_names import chat_model, is_chat_name
from s3gym.agents.local_chat import LocalChat
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.agents.replay_chat import ReplayChat
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import Message

PROMPT = [Message("user", "Your move?")]


def request_hash(chat: str, messages: Sequence[Message], max_tokens: int, seed: int | None) -> str:
    return sha256(repr((chat, list(messages), max_tokens, seed)).encode()).hexdigest()


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-2")


def test_each_prefix_names_its_kind_of_model(tmp_path: Path) -> None:
    file = tmp_path / "tiny.gguf"
    file.touch()
    chats: list[ChatModel] = [
        chat_model("openai:gpt-5", settings={"effort": "low"}),
        chat_model("anthropic:claude-x"),
        chat_model(f"local:{file}", settings={"temperature": 0.0}, offline=True),
    ]
    assert list(map(type, chats)) == [OpenAIChat, AnthropicChat, LocalChat]
    assert [chat.name for chat in chats] == [
        "openai:gpt-5 reasoning_effort=low",
        "anthropic:claude-x",
        "local:tiny.gguf temperature=0.0",
    ]


def test_a_models_name_may_hold_colons() -> None:
    chat = chat_model("openai:qwen3:4b", base_url="http://localhost:11434/v1")
    assert isinstance(chat, OpenAIChat)
    assert chat.model == "qwen3:4b"


@pytest.mark.parametrize("name", ["gpt-5", "openai:", "openai: ", "google:gemini", ""])
def test_other_names_are_refused_with_examples(name: str) -> None:
    with pytest.raises(ConfigError, match=r"'openai:MODEL', 'anthropic:MODEL', "):
        chat_model(name)
    assert not is_chat_name("random")
    assert is_chat_name("openai:gpt-5")


def test_a_missing_key_is_found_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        chat_model("openai:gpt-5")
    with pytest.raises(ConfigError, match="GEMINI_KEY"):
        chat_model("openai:gemini-x", "https://gemini.example/v1", "GEMINI_KEY")
    assert chat_model("openai:gpt-5", offline=True).name == "openai:gpt-5"


def test_a_key_is_no_part_of_what_a_chat_shows() -> None:
    for name in ("openai:gpt-5", "anthropic:claude-x"):
        chat = chat_model(name)
        assert "sk-" not in repr(chat) + chat.name + str(chat.endpoint)


def test_unknown_settings_are_named() -> None:
    with pytest.raises(
        ConfigError, match=r"openai:gpt-5 takes no setting 'heat'; it takes .*effort"
    ):
        chat_model("openai:gpt-5", settings={"heat": 1})


def test_a_local_model_takes_no_address(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use 'openai:MODEL' with the base URL"):
        chat_model("local:tiny.gguf", base_url="http://localhost:1/v1")
    with pytest.raises(ConfigError, match="expected a GGUF file, and there is none at"):
        chat_model(f"local:{tmp_path}/none.gguf")


async def test_replay_answers_what_was_recorded() -> None:
    reply = Reply(text="Answer: cheat, Score: 3", request_id="req-1")
    replies = {request_hash("openai:gpt-5", PROMPT, 9, 7): reply}
    chat = ReplayChat("openai:gpt-5", replies, request_hash)
    assert await chat.complete(PROMPT, max_tokens=9, seed=7) is reply


async def test_replay_names_a_request_that_was_not_recorded() -> None:
    chat = ReplayChat("openai:gpt-5", {}, request_hash)
    with pytest.raises(ModelError, match=r"its last message begins 'Your move\?'") as caught:
        await chat.complete(PROMPT, max_tokens=9, seed=7)
    assert not caught.value.retryable
