"""Forwarding an app's request as a model call: what is sent, and what is read out of the answer.

The body of an answer passes through as it came, so that streams are the same byte for byte; only
its token counts are read. A request becomes messages, so that a store keeps each part of a growing
conversation once.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Any, Literal, cast

from s3gym.agents.connection import checked_url, retry_after, said
from s3gym.broker import CHARACTERS_PER_TOKEN
from s3gym.contracts.chat import Finish, Reply
from s3gym.errors import ModelError, retryable_status
from s3gym.records import Message, Role, Usage, is_count
from s3gym.store.chain import canonical

Provider = Literal["openai", "anthropic"]
UPSTREAMS: dict[Provider, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
}
PLACEHOLDER = "held-by-s3gym"
"""In place of a key, for an app that shall not have one."""
KEYS = frozenset({"authorization", "x-api-key"})
"""Headers that hold a key."""
ANTHROPIC_PATHS = ("/v1/messages", "/v1/complete")
CALLS = frozenset(
    {
        "/v1/chat/completions",
        "/v1/completions",
        "/v1/embeddings",
        "/v1/messages",
        "/v1/messages/count_tokens",
        "/v1/responses",
    }
)
"""Paths that a key of ours pays for: not files, images or training, which no budget counts."""
NOT_FORWARDED = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "host",
        "keep-alive",
        "proxy-authorization",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
CONVERSATIONS = ("messages", "input")
"""Fields of a request body that hold a list of parts, one per message."""
ROLES: dict[str, Role] = {"system": "system", "developer": "system", "assistant": "assistant"}
MOST_TOKENS = 2**53
"""As much as a limit of new tokens is taken for."""
LONGEST_NAME = 500
LIMITS = ("max_completion_tokens", "max_output_tokens", "max_tokens")
FINISHES: dict[str, Finish] = {
    "length": "length",
    "max_tokens": "length",
    "content_filter": "refusal",
    "refusal": "refusal",
}


class UpstreamError(ModelError):
    """The server of the model refused; ``body`` is what it said."""

    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What an app asked.

    Attributes:
        path: With its query, for example ``/v1/chat/completions``.
        headers: With the app's key, which goes to the server and nowhere else.
        body: As it came.
        method: ``POST`` asks a model; ``GET`` asks about models.
    """

    path: str
    body: bytes
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def provider(self) -> Provider:
        """Whose wire format it is, by its path; both ask about models under one path."""
        theirs = self.path.startswith(ANTHROPIC_PATHS) or "anthropic-version" in self.headers
        return "anthropic" if theirs else "openai"

    @property
    def needs_our_key(self) -> bool:
        """Whether the app has but a placeholder for a key."""
        return any(
            name.lower() in KEYS and PLACEHOLDER in self.headers[name] for name in self.headers
        )

    def check(self) -> None:
        """Raise ``ValueError`` for a body that is no JSON object or that no store can keep."""
        try:
            for message in self.messages():
                message.content.encode()
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        except UnicodeEncodeError:
            raise ValueError("it holds half of a surrogate pair") from None

    def fields(self) -> dict[str, Any]:
        """Return the body; raises ``ValueError`` when it is no JSON object."""
        values = json.loads(self.body)
        if not isinstance(values, dict):
            raise ValueError(f"expected a JSON object, got {type(values).__name__}")  # noqa: TRY004 - as for text that is no JSON
        return values

    def messages(self) -> list[Message]:
        """Return the request as messages: first everything else, then part by part."""
        values = self.fields()
        parts: list[Any] = []
        for name in CONVERSATIONS:
            if isinstance(values.get(name), list):
                parts, values[name] = values[name], len(values[name])
                break
        head = Message("system", canonical({"path": self.path, "body": values}))
        return [head, *(Message(_role(part), canonical(part)) for part in parts)]

    def max_tokens(self) -> int:
        """Return the limit of new tokens that the app set; 0 when it set none."""
        values = self.fields()
        found = next((values[name] for name in LIMITS if isinstance(values.get(name), int)), 0)
        return min(max(0, int(found)), MOST_TOKENS)


def _role(part: Any) -> Role:
    role = part.get("role") if isinstance(part, dict) else None
    return ROLES.get(str(role), "user")


class Upstream:
    """One request to a real model server, in the form of a chat model.

    Args:
        request: What the app asked.
        url: Address of the server, without ``/v1``.
        client: An ``httpx2.AsyncClient``.
        key: Sent where the app has but a ``PLACEHOLDER``.
    """

    def __init__(self, request: Request, url: str, client: Any, key: str = "") -> None:
        asks = request.method == "POST"
        self.model = str(request.fields().get("model") or "") if asks else ""
        self.name = f"{request.provider}:{self.model}"
        self.endpoint = f"{url}/v1" if request.provider == "openai" else url
        self._request, self._url, self._client = request, url, client
        self._key = key or PLACEHOLDER

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Send the request as it is.

        Raises:
            UpstreamError: The server refused, or could not be reached.
        """
        return estimated(read_reply(*await self.forward()), self._request)

    async def forward(self) -> tuple[str, Mapping[str, str]]:
        """Send the request as it is and return the answer's body and headers.

        Raises:
            UpstreamError: The server refused, or could not be reached.
        """
        request, library = self._request, import_module("httpx2")
        headers = {
            name: value.replace(PLACEHOLDER, self._key) if name.lower() in KEYS else value
            for name, value in request.headers.items()
            if name.lower() not in NOT_FORWARDED
        }
        try:
            response = await self._client.request(
                request.method,
                f"{self._url}{request.path}",
                content=request.body,
                headers=headers | {"accept-encoding": "identity"},
            )
        except (library.HTTPError, library.InvalidURL) as error:
            failure = UpstreamError(
                f"{self.endpoint} could not be reached: {type(error).__name__}", retryable=True
            )
        else:
            content = self._keyless(response.content)
            if response.status_code == 200:
                return self._text(content), response.headers
            failure = self._refusal(response, content)
        raise failure  # outside the handler: the library's error holds the app's key

    def _keyless(self, content: bytes) -> bytes:
        """Return a body without the key that the app shall not have: servers quote wrong ones."""
        return content.replace(self._key.encode(), PLACEHOLDER.encode())

    def _blotted(self, text: str) -> str:
        """Return a text for the record without the app's own key."""
        for name, value in self._request.headers.items():
            key = value.rpartition(" ")[2]
            if name.lower() in KEYS and key:
                text = text.replace(key, "[key]")
        return text

    def _text(self, content: bytes) -> str:
        try:
            text = content.decode()
        except UnicodeDecodeError:  # sound, for example: asked again it would be no other
            raise UpstreamError(
                f"{self.endpoint} answered with something else than text, which no store keeps",
                retryable=False,
                status=501,
            ) from None
        if not text:
            raise UpstreamError(f"{self.endpoint} answered 200 without a text", retryable=True)
        return text

    def _refusal(self, response: Any, content: bytes) -> UpstreamError:
        status = response.status_code
        try:
            told, _ = said(json.loads(content), "")
        except (ValueError, RecursionError):
            told = ""
        failure = UpstreamError(
            f"{self.endpoint} answered {status}: {self._blotted(told)[:300]}",
            retryable=retryable_status(status),
            retry_after=retry_after(response.headers),
            status=status,
        )
        failure.body = content
        return failure


def read_reply(text: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return a body as a reply: all of it as the text, with what it tells about itself."""
    given = headers or {}
    usage, finish, model, name = Usage(calls=1), "", "", ""
    for part in _parts(text):
        usage = _merged(usage, part.get("usage"))
        model = _word(part, "model") or model
        name = _word(part, "id") or name
        finish = _word(part, "stop_reason") or finish
        choices = part.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            finish = _word(_table(choice), "finish_reason") or finish
    return Reply(
        text=text,
        finish=FINISHES.get(finish, "stop"),
        usage=usage,
        model=model,
        request_id=given.get("x-request-id") or given.get("request-id") or name,
    )


def estimated(reply: Reply, request: Request) -> Reply:
    """Return a reply whose tokens are estimated where a stream tells none, else as it is.

    OpenAI's chat streams tell none unless they are asked to, and no budget could be kept. An
    event holds about one token.
    """
    usage = reply.usage
    events = sum(line.startswith("data:") for line in reply.text.splitlines())
    if usage.input_tokens or usage.output_tokens or not is_stream(reply.text) or not events:
        return reply
    asked = -(-len(request.body) // CHARACTERS_PER_TOKEN)
    return replace(reply, usage=replace(usage, input_tokens=asked, output_tokens=events))


def is_stream(text: str) -> bool:
    """Return whether a body is a stream of events rather than one JSON value."""
    return not text.lstrip().startswith(("{", "["))


def _parts(text: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a body, each with the message or response inside it taken out."""
    lines = [text]
    if is_stream(text):
        lines = [line[5:] for line in text.splitlines() if line.startswith("data:")]
    for line in lines:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue  # "[DONE]"
        if isinstance(value, dict):
            inner = [value.get(name) for name in ("message", "response", "delta")]
            yield value
            yield from (cast(dict[str, Any], one) for one in inner if isinstance(one, dict))


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _word(table: dict[str, Any], name: str) -> str:
    """Return a text that names something; empty where there is none of a name's length."""
    value = table.get(name)
    return value if isinstance(value, str) and len(value) <= LONGEST_NAME else ""


def _count(table: dict[str, Any], *names: str) -> int | None:
    """Return the first number that is a count."""
    return next((table[name] for name in names if is_count(table.get(name))), None)


def _merged(before: Usage, told: Any) -> Usage:
    """Return token counts brought up to date: a stream tells them in pieces."""
    table = _table(told)
    details = _table(table.get("prompt_tokens_details") or table.get("input_tokens_details"))
    thought = _table(table.get("completion_tokens_details") or table.get("output_tokens_details"))
    read = _count(table, "cache_read_input_tokens")
    written = _count(table, "cache_creation_input_tokens") or 0
    given = _count(table, "prompt_tokens", "input_tokens")
    if given is not None and read is not None:
        given += read + written  # Anthropic leaves them out
    cached = read if read is not None else _count(details, "cached_tokens")
    new = _count(table, "completion_tokens", "output_tokens")
    reasoning = _count(thought, "reasoning_tokens", "thinking_tokens")
    return Usage(
        calls=1,
        input_tokens=before.input_tokens if given is None else given,
        cached_tokens=before.cached_tokens if cached is None else cached,
        output_tokens=before.output_tokens if new is None else new,
        reasoning_tokens=before.reasoning_tokens if reasoning is None else reasoning,
    )


def checked_upstream(url: str) -> str:
    """Return a server's address without ``/v1``; raises ``ConfigError`` when it is none."""
    return checked_url(url).removesuffix("/v1")
