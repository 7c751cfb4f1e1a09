"""The official Anthropic SDK against a real server on loopback, fault by fault."""

import logging
import traceback
from collections.abc import Iterator

import anyio
import pytest
from model_server import Fault, ModelServer, Served

from s3gym.agents.answers import JsonAnswer
from s3gym.agents.anthropic_chat import AnthropicChat, anthropic_messages
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import Message, Usage

KEY = "sk-ant-canary-90210"
PROMPT = [Message("system", "Play well."), Message("user", "Your move?")]
MARK = {"type": "ephemeral"}


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


async def ask(server: ModelServer, served: Served) -> Reply:
    chat = AnthropicChat(server.script([served]), base_url=server.url)
    try:
        return await chat.complete(PROMPT, max_tokens=50, seed=7)
    finally:
        await chat.aclose()


async def failures(server: ModelServer, *script: Served) -> list[ModelError]:
    """Return what each answer of a script fails with."""
    chat = AnthropicChat(server.script(script), base_url=server.url)
    errors = []
    for _ in script:
        with pytest.raises(ModelError) as caught:
            await chat.complete(PROMPT, max_tokens=50)
        errors.append(caught.value)
    await chat.aclose()
    return errors


async def test_an_answer_comes_back_with_usage_model_and_request_id(server: ModelServer) -> None:
    reply = await ask(server, Served(text="Answer: UP, Score: 1", reasoning="two words", cached=3))
    assert reply == Reply(
        text="Answer: UP, Score: 1",
        usage=Usage(calls=1, input_tokens=4, cached_tokens=3, output_tokens=6, reasoning_tokens=2),
        model=reply.model,
        request_id="req-1",
    )


async def test_sampling_thinking_and_effort_go_along_and_a_seed_does_not(
    server: ModelServer,
) -> None:
    model = server.script([Served()])
    chat = AnthropicChat(
        model, base_url=server.url, temperature=1.0, thinking_tokens=1024, effort="low"
    )
    await chat.complete(PROMPT, max_tokens=14_000, seed=7)
    await chat.aclose()
    [entry] = server.requests(model)
    assert entry.body == {
        "model": model,
        "system": [{"type": "text", "text": "Play well."}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Your move?"}]}],
        "max_tokens": 14_000,
        "temperature": 1.0,
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "output_config": {"effort": "low"},
    }
    assert chat.name == f"anthropic:{model} effort=low temperature=1.0 thinking_tokens=1024"


async def test_a_long_reply_may_be_asked_for_without_streaming(server: ModelServer) -> None:
    model = server.script([Served()])
    chat = AnthropicChat(model, base_url=server.url)
    assert (await chat.complete(PROMPT, max_tokens=60_000)).text.startswith("Answer:")
    await chat.aclose()


async def test_a_thinking_budget_without_room_for_an_answer_is_refused() -> None:
    chat = AnthropicChat("claude", thinking_tokens=4000)
    with pytest.raises(
        ConfigError, match="thinking_tokens below the 4000 new tokens of a reply, got 4000"
    ):
        await chat.complete(PROMPT, max_tokens=4000)


async def test_adaptive_thinking_and_a_schema_go_along(server: ModelServer) -> None:
    model = server.script([Served()])
    chat = AnthropicChat(
        model, base_url=server.url, arguments={"thinking": {"type": "adaptive"}}
    ).with_schema(JsonAnswer)
    await chat.complete(PROMPT, max_tokens=50)
    await chat.aclose()
    body = server.requests(model)[0].body
    assert body["thinking"] == {"type": "adaptive"}
    assert body["output_config"]["format"]["schema"]["required"] == ["action", "self_score"]
    assert chat.name.endswith("thinking={'type': 'adaptive'} schema=JsonAnswer")


def test_stable_messages_and_the_last_one_end_with_a_cache_breakpoint() -> None:
    system, turns = anthropic_messages(
        [
            Message("system", "rules", stable=True),
            Message("user", "memory", stable=True),
            Message("user", "board 1"),
            Message("assistant", "Answer: UP, Score: 1"),
            Message("user", " "),
            Message("user", "board 2"),
        ]
    )
    assert system == [{"type": "text", "text": "rules", "cache_control": MARK}]
    assert turns == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "memory", "cache_control": MARK},
                {"type": "text", "text": "board 1"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Answer: UP, Score: 1"}]},
        {
            "role": "user",
            "content": [{"type": "text", "text": "board 2", "cache_control": MARK}],
        },
    ]


def test_without_a_stable_message_there_is_no_breakpoint() -> None:
    system, turns = anthropic_messages(PROMPT)
    assert "cache_control" not in str(system) + str(turns)


def test_at_most_four_breakpoints_are_set() -> None:
    messages = [Message("user", str(number), stable=True) for number in range(9)]
    _, turns = anthropic_messages(messages)
    marked = [block["text"] for block in turns[0]["content"] if "cache_control" in block]
    assert marked == ["5", "6", "7", "8"]


SAID: tuple[tuple[Served, str, str], ...] = (
    (Served(text=None), "", "stop"),
    (Served(text=None, reasoning="Answer: UP, Score: 1"), "", "stop"),
    (Served(text="", refusal="policy"), "", "refusal"),
    (Served(text="Answer: U", finish="length"), "Answer: U", "length"),
    (Served(text="hm", finish="tool"), "hm", "other"),
)


async def test_what_was_said_is_kept_apart_from_what_was_thought(server: ModelServer) -> None:
    chat = AnthropicChat(server.script([served for served, _, _ in SAID]), base_url=server.url)
    for _, text, finish in SAID:
        reply = await chat.complete(PROMPT, max_tokens=50)
        assert (reply.text, reply.finish) == (text, finish)
    await chat.aclose()


async def test_a_server_that_counts_no_tokens_is_a_call_without_tokens(
    server: ModelServer,
) -> None:
    assert (await ask(server, Served(usage=False))).usage == Usage(calls=1)


async def test_a_busy_or_broken_server_may_be_asked_again(server: ModelServer) -> None:
    statuses = (408, 409, 429, 500, 503, 529)
    errors = await failures(
        server, *(Served(status=status, message="later") for status in statuses)
    )
    assert all(error.retryable for error in errors)
    assert tuple(error.status for error in errors) == statuses
    for status, error in zip(statuses, errors, strict=True):
        assert f"answered {status}: later" in str(error)


async def test_a_wrong_request_may_not_be_asked_again(server: ModelServer) -> None:
    statuses = (400, 401, 403, 404, 413, 422)
    errors = await failures(
        server, *(Served(status=status, message="no such thing") for status in statuses)
    )
    assert not any(error.retryable for error in errors)
    for status, error in zip(statuses, errors, strict=True):
        assert f"answered {status}: no such thing" in str(error)


async def test_the_wait_that_a_server_asks_for_is_read(server: ModelServer) -> None:
    [error] = await failures(server, Served(status=429, headers={"retry-after": "7"}))
    assert error.retry_after == 7.0


async def test_a_broken_transport_may_be_asked_again(server: ModelServer) -> None:
    faults: tuple[Fault, ...] = ("drop", "half", "not json", "wrong shape", "page")
    errors = await failures(server, *(Served(fault=fault) for fault in faults))
    assert all(error.retryable for error in errors)


async def test_slow_bytes_end_at_the_deadline(server: ModelServer) -> None:
    chat = AnthropicChat(server.script([Served(fault="slow")]), base_url=server.url)
    with anyio.move_on_after(0.2) as deadline:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert deadline.cancelled_caught


async def test_the_key_reaches_the_server_and_nothing_else(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    model = server.script([Served(status=401, message=f"invalid x-api-key {KEY}")])
    chat = AnthropicChat(model, base_url=server.url, api_key_env="ANTHROPIC_API_KEY")
    with pytest.raises(ModelError) as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert KEY in str(server.requests(model)[0].headers)
    shown = "".join(traceback.format_exception(caught.value)) + repr(chat) + chat.name
    assert KEY not in caplog.text
    assert KEY not in shown + repr(caught.value.args) + repr(vars(caught.value))
    assert "invalid x-api-key [key]" in shown
    assert caught.value.__context__ is None


@pytest.mark.parametrize("named", [False, True])
async def test_a_key_goes_to_no_other_address_unless_it_is_named(
    server: ModelServer, *, named: bool
) -> None:
    model = server.script([Served()])
    variable = "ANTHROPIC_API_KEY" if named else None
    chat = AnthropicChat(model, base_url=server.url, api_key_env=variable)
    await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert (KEY in str(server.requests(model)[0].headers)) is named


def test_anthropics_own_address_needs_the_key_when_it_is_spelt_out_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ConfigError, match="ANTHROPIC_API_KEY"):
        AnthropicChat("x", base_url="https://api.anthropic.com").check_key()


async def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(ConfigError, match="variable ANTHROPIC_API_KEY, which is not set"):
        await AnthropicChat("claude").complete(PROMPT, max_tokens=5)
