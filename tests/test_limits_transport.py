"""Retries against a real server: transport faults cost time and change nothing."""

import logging
from collections import Counter
from collections.abc import Iterator

import anyio
import pytest
from model_server import ModelServer, Served, by_hash, unsteady

from s3gym.agents.anthropic_chat import AnthropicChat
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.contracts.chat import ChatModel
from s3gym.errors import ModelError
from s3gym.limits import EndpointLimits, LimitSettings
from s3gym.records import Message

QUICK = LimitSettings(first_wait=0.002, longest_wait=0.01, attempt_seconds=5)
KEY = "sk-canary-90210-transport"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def chat_at(server: ModelServer, kind: str, model: str) -> OpenAIChat | AnthropicChat:
    if kind == "openai":
        return OpenAIChat(model, base_url=server.openai_url)
    return AnthropicChat(model, base_url=server.url)


async def play(chat: ChatModel, limits: EndpointLimits, n_calls: int) -> list[str]:
    """Return the answers to numbered questions, asked side by side."""
    answers: dict[int, str] = {}

    async def ask(number: int) -> None:
        prompt = [Message("user", f"question {number}")]
        reply = await limits.call(lambda: chat.complete(prompt, max_tokens=50, seed=number))
        answers[number] = reply.text

    async with anyio.create_task_group() as group:
        for number in range(n_calls):
            group.start_soon(ask, number)
    return [answers[number] for number in range(n_calls)]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_transport_faults_change_no_answer(
    server: ModelServer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = server.script(unsteady(0.2, 1, by_number))
    chat = chat_at(server, kind, model)
    limits = EndpointLimits(chat.endpoint, QUICK)
    answers = await play(chat, limits, 60)
    await chat.aclose()
    assert answers == [by_number({"messages": f"question {number}"}).text for number in range(60)]
    log = server.requests(model)
    assert len(log) > 65
    asked = Counter(entry.key for entry in log)
    assert len(asked) == 60
    assert max(asked.values()) > 1
    assert KEY not in caplog.text


def by_number(body: dict[str, object]) -> Served:
    """Answer by the question alone, in whatever wire format it came."""
    number = int("".join(filter(str.isdigit, str(body["messages"]))))
    return Served(text=by_hash({"number": number}).text)


async def test_a_refused_request_reaches_the_server_once(server: ModelServer) -> None:
    model = server.script([Served(status=404, message="gone"), Served()])
    chat = chat_at(server, "openai", model)
    with pytest.raises(ModelError, match="gone"):
        await play_one(chat)
    await chat.aclose()
    assert len(server.requests(model)) == 1


async def play_one(chat: ChatModel) -> None:
    limits = EndpointLimits("test", QUICK)
    await limits.call(lambda: chat.complete([Message("user", "hi")], max_tokens=5))


async def test_the_wait_that_a_server_asks_for_is_kept(server: ModelServer) -> None:
    busy = Served(status=429, headers={"retry-after-ms": "40"})
    model = server.script([busy, Served()])
    chat = chat_at(server, "openai", model)
    begun = anyio.current_time()
    await play_one(chat)
    await chat.aclose()
    assert anyio.current_time() - begun >= 0.04
