"""Chat models behind the OpenAI wire format: OpenAI itself and every compatible server.

vLLM, llama.cpp, Ollama, SGLang, LM Studio, Gemini's compatible endpoint and others speak it.
"""

import logging
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from s3gym.agents.connection import (
    Connection,
    said,
    shown_arguments,
    visible,
)
from s3gym.contracts.chat import Finish, Reply
from s3gym.errors import retryable_status
from s3gym.records import Message, Usage

OPENAI_URL = "https://api.openai.com/v1"
SEED_RANGE = 2**31
FINISHES: dict[str | None, Finish] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "refusal",
}
TokenLimitName = Literal["max_completion_tokens", "max_tokens"]
logger = logging.getLogger(__name__)


class OpenAIChat:
    """A model behind the OpenAI chat-completions format.

    Args:
        model: Id of the model, as the server knows it.
        base_url: Address of a compatible server, for example ``http://localhost:8000/v1``;
            ``None`` is OpenAI's own.
        api_key_env: Environment variable that holds the key. Default: ``OPENAI_API_KEY`` for
            OpenAI's own address, and no key for others.
        effort: Reasoning effort, for models that take one.
        temperature: Sampling temperature; not sent when ``None``, as reasoning models refuse it.
        top_p: Nucleus sampling; not sent when ``None``.
        arguments: Further fields of the request body, passed on as they are.
        token_limit_name: Field that carries the limit of new tokens. Default:
            ``max_completion_tokens`` for OpenAI's own address, ``max_tokens`` elsewhere.
        send_seed: Whether the agent's seed goes along, modulo 2**31.
        timeout: Seconds without a byte before a call is given up.

    Attributes:
        name: ``openai:MODEL`` and every setting that can change an answer.
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
        temperature: float | None = None,
        top_p: float | None = None,
        arguments: Mapping[str, Any] | None = None,
        token_limit_name: TokenLimitName | None = None,
        send_seed: bool = True,
        timeout: float = 300.0,
    ) -> None:
        self.model = model
        self.arguments = dict(arguments or {}) | {
            key: value
            for key, value in (
                ("reasoning_effort", effort),
                ("temperature", temperature),
                ("top_p", top_p),
            )
            if value is not None
        }
        own = base_url is None or urlsplit(base_url).hostname == "api.openai.com"
        self._connection = Connection(
            "openai",
            "AsyncOpenAI",
            provider="openai",
            default_url=OPENAI_URL,
            base_url=base_url,
            api_key_env=api_key_env or "OPENAI_API_KEY",
            needs_key=own or api_key_env is not None,
            timeout=timeout,
        )
        self._token_limit: TokenLimitName = token_limit_name or (
            "max_completion_tokens" if own else "max_tokens"
        )
        self._send_seed = send_seed
        self.endpoint = self._connection.endpoint
        self.name = f"openai:{model}{shown_arguments(self.arguments)}"

    def __repr__(self) -> str:
        return f"OpenAIChat({self.name!r}, endpoint={self.endpoint!r})"

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
        other.arguments = self.arguments | {
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": schema.__name__,
                    "schema": schema.model_json_schema(),
                    "strict": True,
                },
            }
        }
        return other

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [
                {"role": message.role, "content": message.content} for message in messages
            ],
            self._token_limit: max_tokens,
            **self.arguments,
        }
        if seed is not None and self._send_seed:
            body["seed"] = seed % SEED_RANGE
        response = await self._connection.post("/chat/completions", body)
        return self._reply(response.content, response.headers.get("x-request-id") or "")

    def _reply(self, content: bytes, request_id: str) -> Reply:
        try:
            answer = Completion.model_validate_json(content)
        except ValidationError as error:
            failure = self._connection.malformed(error, "chat completion")
        else:
            if answer.choices:
                return as_reply(answer, request_id, self.model)
            message, code = said(answer.error, "its answer holds no choices")
            status = int(code) if code.isdigit() else 200
            failure = self._connection.failure(
                f"answered 200, but with an error: {message}",
                retryable=status == 200 or retryable_status(status),
                status=status,
            )
        raise failure

    async def aclose(self) -> None:
        """Close the connections; a later call opens new ones."""
        await self._connection.aclose()


def as_reply(answer: "Completion", request_id: str, asked: str) -> Reply:
    """Return the first choice of a completion as a reply; warn when another model served it."""
    choice = answer.choices[0]
    refusal = choice.message.refusal or ""
    served = answer.model or ""
    if served and asked not in served and served not in asked:
        logger.warning("asked for the model %r and was served by %r", asked, served)
    return Reply(
        text=refusal or visible(choice.message.content or ""),
        finish="refusal" if refusal else FINISHES.get(choice.finish_reason, "other"),
        usage=answer.usage.value() if answer.usage else Usage(calls=1),
        model=served,
        request_id=request_id or answer.id or "",
    )


class _Answer(BaseModel):
    """Base of what a server sends: checked where it is read, open elsewhere."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class PromptDetails(_Answer):
    """Part of a server's token counts."""

    cached_tokens: int | None = None


class CompletionDetails(_Answer):
    """Part of a server's token counts."""

    reasoning_tokens: int | None = None


class TokenCounts(_Answer):
    """A server's token counts."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None

    def value(self) -> Usage:
        """Return them as a ``Usage``."""
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            calls=1,
            input_tokens=self.prompt_tokens or 0,
            cached_tokens=(prompt.cached_tokens if prompt else None) or 0,
            output_tokens=self.completion_tokens or 0,
            reasoning_tokens=(completion.reasoning_tokens if completion else None) or 0,
        )


class AnswerMessage(_Answer):
    """The message of a choice; reasoning text in further fields is not read."""

    content: str | None = None
    refusal: str | None = None


class Choice(_Answer):
    """One answer of the model."""

    message: AnswerMessage
    finish_reason: str | None = None


class Completion(_Answer):
    """A chat completion, or the error that some servers send with status 200."""

    choices: list[Choice] = []
    usage: TokenCounts | None = None
    model: str | None = None
    id: str | None = None
    error: dict[str, Any] | None = None
