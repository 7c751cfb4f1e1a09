"""OpenTelemetry spans of model calls, by the GenAI conventions.

Without the package ``opentelemetry-api``, or without an SDK that the user sets up, nothing
happens. Prompts and replies are never part of a span.
"""

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ModelError


@cache
def _api() -> Any:
    """Return the module ``opentelemetry.trace``, or ``None`` where it is not installed."""
    try:
        return import_module("opentelemetry.trace")
    except ImportError:
        return None


@cache
def _tracer() -> Any:
    return _api().get_tracer("s3gym")


def tracer() -> Any:
    """Return the tracer of s3gym, or ``None`` where nobody set up where spans go."""
    trace = _api()
    if trace is None or isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return None
    return _tracer()


async def traced(chat: ChatModel, send: Callable[[], Awaitable[Reply]]) -> Reply:
    """Send a request inside a span of its own, one per attempt.

    Raises:
        ModelError: The attempt failed; the span says so.
    """
    active = tracer()
    if active is None:
        return await send()
    model = str(getattr(chat, "model", chat.name))
    with active.start_as_current_span(
        f"chat {model}",
        kind=import_module("opentelemetry.trace").SpanKind.CLIENT,
        attributes=asked(chat, model),
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            reply = await send()
        except ModelError as error:
            span.set_attribute("error.type", str(error.status or "connection"))
            span.set_status(import_module("opentelemetry.trace").StatusCode.ERROR)
            raise
        span.set_attributes(answered(reply))
        return reply


def asked(chat: ChatModel, model: str) -> dict[str, str]:
    """Return the attributes of a request."""
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": chat.name.partition(":")[0],
        "gen_ai.request.model": model,
    }
    host = urlsplit(str(getattr(chat, "endpoint", ""))).hostname
    if host:
        attributes["server.address"] = host
    return attributes


def answered(reply: Reply) -> dict[str, str | int | list[str]]:
    """Return the attributes of a reply."""
    return {
        "gen_ai.response.model": reply.model,
        "gen_ai.response.id": reply.request_id,
        "gen_ai.response.finish_reasons": [reply.finish],
        "gen_ai.usage.input_tokens": reply.usage.input_tokens,
        "gen_ai.usage.output_tokens": reply.usage.output_tokens,
    }
