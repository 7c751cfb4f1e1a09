"""The official OpenAI SDK against a real server on loopback, fault by fault."""

import logging
import traceback
from collections.abc import Iterator

import anyio
import pytest
from model_server import Fault, ModelServer, Served

from s3gym.agents.openai_chat import OpenAIChat
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import Message, Usage

KEY = "sk-canary-90210-openai"
PROMPT = [Message("system", "Play well.", stable=True), Message("user", "Your move?")]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


async def ask(server: ModelServer, served: Served) -> Reply:
    chat = OpenAIChat(server.script([served]), base_url=server.openai_url)
    try:
        return await chat.complete(PROMPT, max_tokens=50, seed=7)
    finally:
        await chat.aclose()


async def failures(server: ModelServer, *script: Served) -> list[ModelError]:
    """Return what each answer of a script fails with."""
    chat = OpenAIChat(server.script(script), base_url=server.openai_url)
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
        finish="stop",
        usage=Usage(calls=1, input_tokens=4, cached_tokens=3, output_tokens=6, reasoning_tokens=2),
        model=reply.model,
        request_id="req-1",
    )
    assert reply.model.startswith("scripted-")


async def test_a_request_carries_messages_limit_seed_and_settings(server: ModelServer) -> None:
    model = server.script([Served()])
    chat = OpenAIChat(model, base_url=server.openai_url, effort="low", temperature=0.5)
    await chat.complete(PROMPT, max_tokens=50, seed=2**40 + 7)
    await chat.aclose()
    [entry] = server.requests(model)
    assert entry.body == {
        "model": model,
        "messages": [
            {"role": "system", "content": "Play well."},
            {"role": "user", "content": "Your move?"},
        ],
        "max_tokens": 50,
        "seed": 7,
        "reasoning_effort": "low",
        "temperature": 0.5,
    }
    assert chat.name == f"openai:{model} reasoning_effort=low temperature=0.5"


async def test_the_limit_is_named_for_reasoning_models_on_openais_own_address(
    server: ModelServer,
) -> None:
    model = server.script([Served()])
    chat = OpenAIChat(
        model,
        base_url=server.openai_url,
        token_limit_name="max_completion_tokens",
        send_seed=False,
    )
    await chat.complete(PROMPT, max_tokens=50, seed=7)
    await chat.aclose()
    body = server.requests(model)[0].body
    assert body["max_completion_tokens"] == 50
    assert "max_tokens" not in body
    assert "seed" not in body
    own = OpenAIChat("gpt-5")
    assert own.endpoint == "https://api.openai.com/v1"
    assert own._token_limit == "max_completion_tokens"


SAID: tuple[tuple[Served, str, str], ...] = (
    (Served(text=""), "", "stop"),
    (Served(text=None, reasoning="Answer: UP, Score: 1"), "", "stop"),
    (Served(text=None, refusal="I will not."), "I will not.", "refusal"),
    (Served(text="Answer: U", finish="length"), "Answer: U", "length"),
    (Served(text="cut off", finish="filter"), "cut off", "refusal"),
    (Served(text="hm", finish="tool"), "hm", "other"),
    (Served(text="<think>Answer: A, Score: 1</think>\nB"), "B", "stop"),
    (Served(text="<think>Answer: A, Score: 1", finish="length"), "", "length"),
)


async def test_what_was_said_is_kept_apart_from_what_was_thought(server: ModelServer) -> None:
    chat = OpenAIChat(server.script([served for served, _, _ in SAID]), base_url=server.openai_url)
    for _, text, finish in SAID:
        reply = await chat.complete(PROMPT, max_tokens=50)
        assert (reply.text, reply.finish) == (text, finish)
    await chat.aclose()


async def test_a_server_that_counts_no_tokens_is_a_call_without_tokens(
    server: ModelServer,
) -> None:
    reply = await ask(server, Served(usage=False))
    assert reply.usage == Usage(calls=1)


async def test_another_model_than_asked_for_is_recorded_and_logged(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    reply = await ask(server, Served(model="impostor-7b"))
    assert reply.model == "impostor-7b"
    assert "impostor-7b" in caplog.text


async def test_a_busy_or_broken_server_may_be_asked_again(server: ModelServer) -> None:
    statuses = (408, 409, 429, 500, 502, 503, 529)
    errors = await failures(
        server, *(Served(status=status, message="later") for status in statuses)
    )
    assert all(error.retryable for error in errors)
    assert tuple(error.status for error in errors) == statuses
    for status, error in zip(statuses, errors, strict=True):
        assert f"answered {status}: later" in str(error)


async def test_a_wrong_request_may_not_be_asked_again(server: ModelServer) -> None:
    statuses = (400, 401, 403, 404, 422)
    errors = await failures(
        server, *(Served(status=status, message="no such thing") for status in statuses)
    )
    assert not any(error.retryable for error in errors)
    for status, error in zip(statuses, errors, strict=True):
        assert f"answered {status}: no such thing" in str(error)


async def test_an_empty_account_may_not_be_asked_again(server: ModelServer) -> None:
    [error] = await failures(server, Served(status=429, code="insufficient_quota"))
    assert not error.retryable


async def test_a_wrong_model_id_fails_with_the_servers_words(server: ModelServer) -> None:
    chat = OpenAIChat("no-such-model", base_url=server.openai_url)
    with pytest.raises(ModelError, match="no model 'no-such-model'") as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert not caught.value.retryable


WAITS: tuple[tuple[dict[str, str], float | None], ...] = (
    ({}, None),
    ({"retry-after": "7"}, 7.0),
    ({"retry-after": "0.5"}, 0.5),
    ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
    ({"retry-after": "nonsense"}, None),
    (
        {
            "date": "Wed, 21 Oct 2026 07:28:00 GMT",
            "retry-after": "Wed, 21 Oct 2026 07:28:30 GMT",
        },
        30.0,
    ),
)


async def test_the_wait_that_a_server_asks_for_is_read(server: ModelServer) -> None:
    script = (Served(status=429, headers=headers) for headers, _ in WAITS)
    errors = await failures(server, *script)
    assert [error.retry_after for error in errors] == [seconds for _, seconds in WAITS]


async def test_a_broken_transport_may_be_asked_again(server: ModelServer) -> None:
    faults: tuple[Fault, ...] = ("drop", "half", "not json", "wrong shape", "page")
    errors = await failures(server, *(Served(fault=fault) for fault in faults))
    assert all(error.retryable for error in errors)


async def test_slow_bytes_end_at_the_deadline(server: ModelServer) -> None:
    chat = OpenAIChat(server.script([Served(fault="slow")]), base_url=server.openai_url)
    with anyio.move_on_after(0.2) as deadline:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert deadline.cancelled_caught


async def test_a_silent_server_is_given_up(server: ModelServer) -> None:
    model = server.script([Served(delay=0.3)])
    chat = OpenAIChat(model, base_url=server.openai_url, timeout=0.05)
    with pytest.raises(ModelError, match="did not answer in time") as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert caught.value.retryable


async def test_a_server_that_is_not_there_may_be_asked_again() -> None:
    chat = OpenAIChat("any", base_url="http://127.0.0.1:9/v1")
    with pytest.raises(ModelError, match="could not be reached") as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert caught.value.retryable


async def test_an_argument_that_a_model_refuses_is_named_with_a_way_out(
    server: ModelServer,
) -> None:
    refused = Served(status=400, message="Unsupported value: 'temperature' does not support 0.2")
    chat = OpenAIChat(server.script([refused]), base_url=server.openai_url, temperature=0.2)
    with pytest.raises(ModelError, match="s3gym sent temperature, which this model") as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert not caught.value.retryable


async def test_an_error_in_a_body_of_status_200_is_an_error(server: ModelServer) -> None:
    model = server.script([Served()])
    chat = OpenAIChat(model, base_url=server.openai_url)
    overloaded = b'{"error": {"message": "overloaded", "code": 503}}'
    wrong = b'{"error": {"message": "unknown model", "code": 404}}'
    with pytest.raises(ModelError, match="with an error: overloaded") as caught:
        chat._reply(overloaded, "")
    assert caught.value.retryable
    with pytest.raises(ModelError, match="with an error: unknown model") as caught:
        chat._reply(wrong, "")
    assert not caught.value.retryable


async def test_a_schema_goes_along_and_marks_the_name(server: ModelServer) -> None:
    from s3gym.agents.answers import JsonAnswer

    model = server.script([Served()])
    chat = OpenAIChat(model, base_url=server.openai_url)
    held = chat.with_schema(JsonAnswer)
    await held.complete(PROMPT, max_tokens=5)
    await held.aclose()
    sent = server.requests(model)[0].body["response_format"]["json_schema"]
    assert sent["strict"] is True
    assert sent["schema"]["required"] == ["action", "self_score"]
    assert held.name == f"{chat.name} schema=JsonAnswer"
    assert "response_format" not in chat.arguments


async def test_the_key_reaches_the_server_and_nothing_else(
    server: ModelServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    served = Served(status=401, message=f"Incorrect API key provided: {KEY}")
    model = server.script([served])
    chat = OpenAIChat(model, base_url=server.openai_url, api_key_env="OPENAI_API_KEY")
    with pytest.raises(ModelError) as caught:
        await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert server.requests(model)[0].headers["authorization"] == f"Bearer {KEY}"
    shown = "".join(traceback.format_exception(caught.value)) + repr(chat) + chat.name
    assert KEY not in caplog.text
    assert KEY not in shown + repr(caught.value.args) + repr(vars(caught.value))
    assert "Incorrect API key provided: [key]" in shown
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("key", ["sk-top\nsecret", "sk-top\rsecret", "sk-top secret", "sk-töp"])
async def test_a_key_that_no_header_can_carry_is_refused_unseen(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    chat = OpenAIChat("x")
    with pytest.raises(ConfigError, match="OPENAI_API_KEY") as checked:
        chat.check_key()
    with pytest.raises(ConfigError) as asked:
        await chat.complete(PROMPT, max_tokens=5)
    assert not any("sk-" in str(error.value) for error in (checked, asked))


def test_a_key_in_place_of_its_variables_name_is_not_shown() -> None:
    with pytest.raises(ConfigError, match="name of an environment variable") as error:
        OpenAIChat("x", api_key_env="sk-top-secret")
    assert "sk-top" not in str(error.value)


async def test_a_key_goes_to_no_other_address_unless_it_is_named(server: ModelServer) -> None:
    model = server.script([Served()])
    chat = OpenAIChat(model, base_url=server.openai_url)
    await chat.complete(PROMPT, max_tokens=5)
    await chat.aclose()
    assert KEY not in str(server.requests(model)[0].headers)


async def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ConfigError, match="variable OPENAI_API_KEY, which is not set"):
        await OpenAIChat("gpt-5").complete(PROMPT, max_tokens=5)
    with pytest.raises(ConfigError, match="MY_KEY"):
        OpenAIChat("x", base_url="http://localhost:1/v1", api_key_env="MY_KEY").check_key()
    OpenAIChat("x", base_url="http://localhost:1/v1").check_key()


@pytest.mark.parametrize(
    "url", ["http://user:secret@host/v1", "http://host/v1?key=secret", "ftp://host", "host"]
)
def test_an_address_with_a_secret_in_it_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        OpenAIChat("x", base_url=url)
    assert "secret" not in str(caught.value)


def test_one_chat_serves_two_event_loops(server: ModelServer) -> None:
    chat = OpenAIChat(server.script([Served(), Served()]), base_url=server.openai_url)

    async def once() -> str:
        reply = await chat.complete(PROMPT, max_tokens=5)
        await chat.aclose()
        return reply.text

    assert anyio.run(once, backend="asyncio") == anyio.run(once, backend="trio")
