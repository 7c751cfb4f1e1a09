"""Spans of model calls: what they say, and what they never say."""

from typing import Any

import pytest

from s3gym import telemetry
from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Message, Usage
from s3gym.testing.fakes import ScriptedChat

SECRET = "the prompt stays at home"
QUICK = LimitSettings(first_wait=0.001, longest_wait=0.002)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Any:
    sdk = pytest.importorskip("opentelemetry.sdk.trace", reason="opentelemetry-sdk is missing")
    export = pytest.importorskip("opentelemetry.sdk.trace.export")
    memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "tracer", lambda: provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


async def ask(chat: ScriptedChat) -> Reply:
    prompt = [Message("user", SECRET)]
    return await Meter(Limits(QUICK)).call(
        chat, lambda: chat.complete(prompt, max_tokens=5), tokens=1
    )


async def test_every_attempt_has_a_span_with_the_conventions_attributes(spans: Any) -> None:
    paid = Reply(
        text=SECRET,
        model="m-2",
        request_id="req-1",
        usage=Usage(calls=1, input_tokens=7, output_tokens=2),
    )
    busy = ModelError("busy", retryable=True, status=429)
    await ask(ScriptedChat([busy, paid], name="openai:m", endpoint="https://host.example/v1"))
    failed, answered = spans.get_finished_spans()
    assert failed.name == answered.name == "chat openai:m"
    assert failed.attributes["error.type"] == "429"
    assert not failed.status.is_ok
    assert dict(answered.attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "openai:m",
        "server.address": "host.example",
        "gen_ai.response.model": "m-2",
        "gen_ai.response.id": "req-1",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 7,
        "gen_ai.usage.output_tokens": 2,
    }


async def test_a_span_holds_neither_prompt_nor_reply(spans: Any) -> None:
    await ask(ScriptedChat([SECRET]))
    [span] = spans.get_finished_spans()
    assert SECRET not in span.to_json()


async def test_without_opentelemetry_calls_go_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "tracer", lambda: None)
    assert (await ask(ScriptedChat(["fine"]))).text == "fine"
