"""Chat models behind the Anthropic messages format."""

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from s3gym.agents.connection import Connection, shown_arguments
from s3gym.contracts.chat import Finish, Reply
from s3gym.errors import ConfigError
from s3gym.records import Message, Usage

ANTHROPIC_URL = "https://api.anthropic.com"
MOST_BREAKPOINTS = 4
FINISHES: dict[str | None, Finish] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class AnthropicChat:
    """A model behind the Anthropic messages format.

    Messages that are marked stable end with a cache breakpoint; when there is one, the last
    message gets one too, so that a prompt that extends it is read from the cache.

    Args:
        model: Id of the model.
        base_url: Address of a compatible server; ``None`` is Anthropic's own.
        api_key_env: Environment variable that holds the key. Default: ``ANTHROPIC_API_KEY`` for
            Anthropic's own address, and no key for others.
        effort: How much effort goes into a reply, for models that take one.
        thinking_tokens: Tokens that the model may think with, a part of the reply's limit; not
            sent when ``None``.
        temperature: Sampling temperature; not sent when ``None``.
        top_p: Nucleus sampling; not sent when ``None``.
        arguments: Further fields of the request body, passed on as they are.
        timeout: Seconds without a byte before a call is given up.

    Attributes:
        name: ``anthropic:MODEL`` and every setting that can change an answer.
        endpoint: The address; chats with equal ones share their limits.
        model: Id of the model.

    Raises:
        ConfigError: The address is no http address, or holds a password or a query.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        effort: str | None = None,
        thinking_tokens: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        timeout: float = 300.0,
    ) -> None:
        self.model, self._thinking_tokens, self._effort = model, thinking_tokens, effort
        self.arguments = dict(arguments or {}) | {
            key: value
            for key, value in (("temperature", temperature), ("top_p", top_p))
            if value is not None
        }
        own = base_url is None or urlsplit(base_url).hostname == "api.anthropic.com"
        self._connection = Connection(
            "anthropic",
            "AsyncAnthropic",
            provider="anthropic",
            default_url=ANTHROPIC_URL,
            base_url=base_url,
            api_key_env=api_key_env or "ANTHROPIC_API_KEY",
            needs_key=own or api_key_env is not None,
            timeout=timeout,
        )
        self.endpoint = self._connection.endpoint
        shown = self.arguments | {
            key: value
            for key, value in (("effort", effort), ("thinking_tokens", thinking_tokens))
            if value is not None
        }
        self.name = f"anthropic:{model}{shown_arguments(shown)}"
        self._format: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"AnthropicChat({self.name!r}, endpoint={self.endpoint!r})"

    def check_key(self) -> None:
        """Check, without sending anything, that the key is there.

        Raises:
            ConfigError: Its environment variable is not set.
        """
        self._connection.key()

    def with_schema(self, schema: type[BaseModel]) -> Self:
        """Return a copy that answers with a JSON object of the schema."""
        other = copy(self)
        other.name = f"{self.name} schema={schema.__name__}"
        other._format = {"type": "json_schema", "schema": schema.model_json_schema()}
        return other

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return the model's reply; the format has no seed, so none is sent.

        Raises:
            ConfigError: The thinking budget leaves no room for an answer.
            ModelError: The call failed.
        """
        system, turns = anthropic_messages(messages)
        body = {
            "model": self.model,
            "max_tokens": max_tokens,
            "messages": turns,
            **self._settings(max_tokens),
        }
        if system:
            body["system"] = system
        response = await self._connection.post("/v1/messages", body)
        return self._reply(response.content, response.headers.get("request-id") or "")

    def _settings(self, max_tokens: int) -> dict[str, Any]:
        body = dict(self.arguments)
        budget = self._thinking_tokens
        if budget is not None:
            if budget >= max_tokens:
                raise ConfigError(
                    f"expected thinking_tokens below the {max_tokens} new tokens of a reply, got "
                    f"{budget}"
                )
            body["thinking"] = {"type": "enabled", "budget_tokens": budget}
        output: dict[str, Any] = {"effort": self._effort} if self._effort else {}
        if self._format:
            output["format"] = self._format
        if output:
            body["output_config"] = output
        return body

    def _reply(self, content: bytes, request_id: str) -> Reply:
        try:
            answer = Answer.model_validate_json(content)
        except ValidationError as error:
            failure = self._connection.malformed(error, "message")
        else:
            return Reply(
                text="".join(block.text or "" for block in answer.content if block.type == "text"),
                finish=FINISHES.get(answer.stop_reason, "other"),
                usage=answer.usage.value() if answer.usage else Usage(calls=1),
                model=answer.model or "",
                request_id=request_id or answer.id or "",
            )
        raise failure

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._connection.aclose()


def anthropic_messages(
    messages: Sequence[Message],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return system blocks and messages, neighbours of one role joined, breakpoints set.

    Blank texts are left out, for the format refuses them. Of more than four breakpoints the
    last four stay, which is what the format allows.
    """
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    marked: list[dict[str, Any]] = []
    block: dict[str, Any] = {}
    for message in messages:
        if not message.content.strip():
            continue
        block = {"type": "text", "text": message.content}
        if message.role == "system":
            system.append(block)
        elif turns and turns[-1]["role"] == message.role:
            turns[-1]["content"].append(block)
        else:
            turns.append({"role": message.role, "content": [block]})
        if message.stable:
            marked.append(block)
    if marked and marked[-1] is not block:
        marked.append(block)
    for breakpoint_block in marked[-MOST_BREAKPOINTS:]:
        breakpoint_block["cache_control"] = {"type": "ephemeral"}
    return system, turns


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class OutputDetails(_Part):
    """Part of the provider's token counts."""

    thinking_tokens: int | None = None


class TokenCounts(_Part):
    """The provider's token counts; its input tokens leave out what the cache read or wrote."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None

    def value(self) -> Usage:
        """Return them as a ``Usage``, whose input tokens are all of them."""
        read = self.cache_read_input_tokens or 0
        written = self.cache_creation_input_tokens or 0
        details = self.output_tokens_details
        return Usage(
            calls=1,
            input_tokens=(self.input_tokens or 0) + read + written,
            cached_tokens=read,
            output_tokens=self.output_tokens or 0,
            reasoning_tokens=(details.thinking_tokens if details else None) or 0,
        )


class Block(_Part):
    """One block of an answer; thinking blocks are not read."""

    type: str
    text: str | None = None


class Answer(_Part):
    """A message of the model."""

    content: list[Block]
    stop_reason: str | None = None
    usage: TokenCounts | None = None
    model: str | None = None
    id: str | None = None
