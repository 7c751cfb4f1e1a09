"""What the chat models over an official SDK share: keys, addresses, clients, failures.

Both SDKs come from one generator, so their clients and exceptions have the same shape. Their own
retries are off: ``s3gym.limits`` is the one retry layer. Nothing that leaves this module holds
the key: not a name, not a message, not the context of an exception.
"""

import os
import re
from collections.abc import Awaitable, Callable, Mapping
from email.utils import parsedate_to_datetime
from importlib import import_module
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
from anyio.lowlevel import current_token
from pydantic import ValidationError

from s3gym.errors import ConfigError, ModelError, retryable_status
from s3gym.text import shorten

T = TypeVar("T")
LONGEST_MESSAGE = 500
NEEDED = ("model", "messages")
NO_KEY = "none"
HEADER_TEXT = re.compile(r"[!-~]+")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
SPENT = ("insufficient_quota", "billing_hard_limit_reached")
"""Codes of a 429 that no waiting cures."""


class Connection:
    """An SDK client that is made when it is first needed, once per event loop.

    Args:
        sdk: Import name of the SDK; it is imported on first use, in a worker thread.
        client: Name of its asynchronous client class.
        provider: Name for messages.
        base_url: Address of the server, or ``None`` for the provider's own.
        api_key_env: Environment variable that holds the key.
        needs_key: Whether a key is sent, and a missing one an error; servers at home often take
            none.
        timeout: Seconds without a byte before a call is given up.

    Raises:
        ConfigError: The address is no http address, or has a password or a query in it, or the
            variable's name is no name.
    """

    def __init__(
        self,
        sdk: str,
        client: str,
        *,
        provider: str,
        default_url: str,
        base_url: str | None,
        api_key_env: str,
        needs_key: bool,
        timeout: float,
    ) -> None:
        self.provider, self.api_key_env = provider, checked_name(api_key_env)
        self.endpoint = default_url if base_url is None else checked_url(base_url)
        self._sdk, self._class = sdk, client
        self._base_url, self._needs_key, self._timeout = base_url, needs_key, timeout
        self._client: Any = None
        self._loop: object = None
        self.sdk: Any = None
        self._response: Any = None

    def key(self) -> str:
        """Return the key; ``"none"`` where the server needs none.

        A provider's key goes to no other address unless its variable is named: an address may
        stand in a store that somebody else made.

        Raises:
            ConfigError: The environment variable is not set, or holds what no header can carry:
                the layers below quote such a key in their errors.
        """
        if not self._needs_key:
            return NO_KEY
        key = os.environ.get(self.api_key_env, "").strip()
        if key and not HEADER_TEXT.fullmatch(key):
            raise ConfigError(
                f"the environment variable {self.api_key_env} holds a blank, a line break or a "
                f"character outside ASCII, which no key has; set it again (it is not shown)"
            )
        if not key:
            raise ConfigError(
                f"{self.provider} needs a key: expected it in the environment variable "
                f"{self.api_key_env}, which is not set"
            )
        return key

    async def client(self) -> Any:
        """Return the SDK's client for the running event loop."""
        key = self.key()
        if self.sdk is None:
            self.sdk = await anyio.to_thread.run_sync(import_module, self._sdk)
            self._response = import_module("httpx2").Response
        loop = current_token()
        if self._client is None or self._loop != loop:
            self._client = getattr(self.sdk, self._class)(
                api_key=key, base_url=self.endpoint, max_retries=0, timeout=self._timeout
            )
            self._loop = loop
        return self._client

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """Send one request and return the HTTP response.

        The SDK's general request method sends the body as it is. Its typed methods walk through
        every message first, which takes longer than all else that is done for a call.

        Args:
            path: Below the base URL.
            body: Becomes JSON.

        Raises:
            ConfigError: The key is missing.
            ModelError: The request failed.
        """
        client = await self.client()
        try:
            return await client.post(path, body=body, cast_to=self._response)
        except self.sdk.APIError as error:
            failure = with_hint(self._failure(error), body)
        raise failure  # outside the handler: the SDK's error holds the request, and it the key

    async def ask(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Return what a function does with the SDK's client.

        Raises:
            ConfigError: The key is missing.
            ModelError: A request failed.
        """
        client = await self.client()
        try:
            return await call(client)
        except self.sdk.APIError as error:
            failure = self._failure(error)
        raise failure  # as above

    async def aclose(self) -> None:
        """Close the client; a later call makes a new one."""
        client, self._client = self._client, None
        if client is not None and self._loop == current_token():
            await client.close()

    def failure(
        self,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> ModelError:
        """Return an error that names the endpoint; the key is blotted out of the message."""
        return ModelError(
            self.blotted(f"{self.provider} at {self.endpoint} {message}"),
            retryable=retryable,
            retry_after=retry_after,
            status=status,
        )

    def malformed(self, error: ValidationError, expected: str) -> ModelError:
        """Return the error for a body that is not what was expected; retryable."""
        fault = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "its body"
        return self.failure(
            f"answered 200, but with no {expected}: {where}: {fault['msg']}",
            retryable=True,
            status=200,
        )

    def without_key(self, body: bytes) -> bytes:
        """Return a body without the key, which a server may send back."""
        key = os.environ.get(self.api_key_env, "").strip().encode()
        return body.replace(key, b"[key]") if key else body

    def blotted(self, text: str) -> str:
        """Return the text without the key, in one line of bounded length."""
        key = os.environ.get(self.api_key_env, "").strip()
        clean = text.replace(key, "[key]") if key else text
        clean = " ".join(clean.split())
        return clean if len(clean) <= LONGEST_MESSAGE else f"{clean[:LONGEST_MESSAGE]}..."

    def _failure(self, error: Any) -> ModelError:
        status = getattr(error, "status_code", None)
        if isinstance(error, self.sdk.APITimeoutError):
            return self.failure("did not answer in time", retryable=True)
        if isinstance(error, self.sdk.APIConnectionError):
            cause = error.__cause__
            detail = f": {type(cause).__name__}: {cause}" if cause else ""
            return self.failure(f"could not be reached{detail}", retryable=True)
        if status is None:
            return self.failure(f"failed: {error.message}", retryable=False)
        message, code = said(error.body, error.message)
        request = getattr(error, "request_id", None)
        return self.failure(
            f"answered {status}: {message}" + (f" (request {request})" if request else ""),
            retryable=retryable_status(status) and code not in SPENT,
            retry_after=retry_after(error.response.headers),
            status=status,
        )


def checked_name(variable: object) -> str:
    """Return the name of an environment variable.

    Raises:
        ConfigError: It is none; it may be a key that was given in its place, so it is not shown.
    """
    if not isinstance(variable, str) or not VARIABLE.fullmatch(variable):
        raise ConfigError(
            "expected the name of an environment variable that holds the key, for example "
            "OPENAI_API_KEY, and got something else (not shown: it may be the key itself)"
        )
    return variable


def checked_url(url: object) -> str:
    """Return an address that may be shown and stored.

    Raises:
        ConfigError: It is no http address, or holds a password or a query.
    """
    url = str(url)  # a study file may hold anything
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"expected a base URL such as 'http://localhost:8000/v1', got {parts.scheme!r} as its "
            f"scheme and {parts.hostname!r} as its host"
        )
    if parts.username or parts.password or parts.query:
        raise ConfigError(
            f"the base URL of {parts.hostname} holds a user name, a password or a query; it is "
            f"stored and shown, so put the key into an environment variable and name that one"
        )
    return url.rstrip("/")


def said(body: object, default: str) -> tuple[str, str]:
    """Return a provider's own error message, and its code, out of an error body."""
    if isinstance(body, Mapping):
        inner = body.get("error", body)
        if isinstance(inner, Mapping):
            message = inner.get("message")
            return str(message or default), str(inner.get("code") or inner.get("type") or "")
        if isinstance(inner, str):
            return inner, ""
    return default, ""


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return how many seconds a server asks to wait; a date counts from the server's own clock."""
    exact = _seconds(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact / 1000
    given = headers.get("retry-after", "")
    seconds = _seconds(given)
    if seconds is not None or not given:
        return seconds
    try:
        wait = parsedate_to_datetime(given) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError):
        return None
    return max(0.0, wait.total_seconds())


def _seconds(text: str) -> float | None:
    plain = text.strip()
    return float(plain) if re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", plain) else None


def visible(text: str) -> str:
    """Return a reply without the reasoning that some servers leave in it as ``<think>`` text."""
    head = text.lstrip()
    if not head.startswith("<think>"):
        return text
    _, closed, answer = head.rpartition("</think>")
    return answer.lstrip() if closed else ""


def checked_table(what: str, given: object) -> dict[str, Any]:
    """Return a table of a study file; raises ``ConfigError`` where it is none."""
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError(f"{what}: expected a table, got {shorten(given)}")
    return dict(given or {})


def shown_arguments(arguments: Mapping[str, Any]) -> str:
    """Return request arguments as part of a chat model's name, sorted."""
    return "".join(f" {name}={value}" for name, value in sorted(arguments.items()))


def with_hint(error: ModelError, sent: Mapping[str, Any]) -> ModelError:
    """Return the error, with what to do about it when it names an argument that was sent."""
    if error.status not in (400, 422):
        return error
    words = str(error).replace("'", " ").replace('"', " ").replace(":", " ").split()
    named = [name for name in sent if name in words and name not in NEEDED]
    if not named:
        return error
    return ModelError(
        f"{error}; s3gym sent {named[0]}, which this model or server does not take in this form: "
        f"leave it out or change it",
        retryable=False,
        status=error.status,
    )
