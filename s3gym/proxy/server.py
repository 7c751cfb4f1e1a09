"""The proxy's HTTP side: a server in a thread of its own that hands requests to the study's loop.

A request waits until its answer is whole, recorded and paid for; then the app gets every byte of
it. So a retry never shows an app half an answer, and what an app saw is always in the store.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import anyio
from anyio.from_thread import BlockingPortal

from s3gym.errors import (
    BudgetExhaustedError,
    ConfigError,
    MissingExtraError,
    ModelError,
    S3GymError,
    ServiceError,
)
from s3gym.proxy.upstream import (
    CALLS,
    PLACEHOLDER,
    UPSTREAMS,
    Provider,
    Request,
    Upstream,
    UpstreamError,
    checked_upstream,
    is_stream,
)
from s3gym.text import shorten

log = logging.getLogger("s3gym")
HOST = "127.0.0.1"
START_SECONDS = 10.0
READ_SECONDS = 300.0
MOST_BODY = 1 << 26
"""Largest body of a request, in bytes; it is held in memory and kept in a store."""
OURS = frozenset({HOST, "localhost", "::1"})
"""Names under which programs of this machine reach the proxy; web pages come under others."""
KEY_VARIABLES: dict[Provider, str] = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """What the app gets."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


Answering = Callable[[Request, Upstream], Awaitable[str]]
"""Answers a request with the text of a body; raises ``S3GymError`` when it cannot."""


def environment(url: str) -> dict[str, str]:
    """Return the variables that point the official SDKs, and apps on top of them, at a proxy."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
    }


def keyless(url: str) -> dict[str, str]:
    """Return ``environment`` for an app that shall not have a key: the proxy puts it in."""
    return environment(url) | dict.fromkeys(KEY_VARIABLES.values(), PLACEHOLDER)


def listening(port: int) -> socket.socket:
    """Return a socket that listens on loopback; raises ``ConfigError`` when it cannot."""
    # The protocol is named because asyncio looks for it before it turns off Nagle's algorithm,
    # which would make every answer wait 40 ms.
    found = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HOST, port))
    except OSError as error:
        found.close()
        raise ConfigError(f"cannot listen on {HOST}:{port}: {error}") from error
    found.listen(128)
    return found


def address(listener: socket.socket) -> str:
    """Return the URL of a listening socket."""
    return f"http://{HOST}:{listener.getsockname()[1]}"


class Serving:
    """The proxy while it serves; an async context manager.

    Args:
        answer: Answers requests, in the event loop that entered this.
        openai: Address of the server behind the OpenAI paths; default ``OPENAI_BASE_URL`` as it
            is now, else OpenAI's own.
        anthropic: The same for the Anthropic paths.
        listener: A listening socket; default a new one on a free port.
        keys: Variable -> key of a server, for apps that have but a placeholder.
        offline: Nothing is asked of a server here; what apps ask about models is refused.

    Attributes:
        url: Root of both formats; OpenAI's SDK wants ``URL/v1``, Anthropic's wants ``URL``.

    Raises:
        MissingExtraError: The server's packages are not installed.
        ConfigError: An address is none.
    """

    def __init__(
        self,
        answer: Answering,
        *,
        openai: str | None = None,
        anthropic: str | None = None,
        listener: socket.socket | None = None,
        keys: Mapping[str, str] | None = None,
        offline: bool = False,
    ) -> None:
        self._answer, self._keys, self._offline = answer, keys or {}, offline
        self.upstreams = upstreams(openai, anthropic)
        self._server = _server(self._handle)
        self._listener = listener or listening(0)
        self.url = address(self._listener)
        self._stack = AsyncExitStack()
        self._thread: threading.Thread | None = None
        self._portal: BlockingPortal | None = None
        self._client: Any = None

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        library = import_module("httpx2")
        self._portal = await self._stack.enter_async_context(BlockingPortal())
        client = library.AsyncClient(timeout=READ_SECONDS, follow_redirects=False)
        self._client = await self._stack.enter_async_context(client)
        run = partial(self._server.run, sockets=[self._listener])
        self._thread = threading.Thread(target=run, name="s3gym-proxy", daemon=True)
        self._thread.start()
        end = time.monotonic() + START_SECONDS
        while not self._server.started:
            if time.monotonic() > end or not self._thread.is_alive():
                raise ConfigError(f"the proxy did not start on {self.url}")
            await anyio.sleep(0.005)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.should_exit = self._server.force_exit = True
        if self._thread is not None:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(partial(self._thread.join, START_SECONDS))
        # As if nothing was raised: else the portal would wrap it into a group.
        await self._stack.__aexit__(None, None, None)

    async def _handle(self, request: Request) -> Exchange:
        """Answer in the study's loop; runs in the server's."""
        portal = self._portal
        if portal is None:
            return failed(503, "the proxy is not ready")
        return await anyio.to_thread.run_sync(partial(portal.call, self._exchange, request))

    async def _exchange(self, request: Request) -> Exchange:
        provider = request.provider
        path = request.path.partition("?")[0]
        if request.method == "POST" and request.needs_our_key and path not in CALLS:
            return failed(403, f"{path}: the proxy's key is for calls of models alone")
        try:
            if request.method == "POST":
                request.check()
            key = self._keys.get(KEY_VARIABLES[provider], "")
            upstream = Upstream(request, self.upstreams[provider], self._client, key)
        except ValueError as error:
            return failed(400, f"the request's body is no JSON that can be kept: {error}")
        try:
            if request.method == "GET":
                text = await self._about_models(upstream)
            else:
                text = await self._answer(request, upstream)
        except S3GymError as error:
            return refused(error)
        kind = "text/event-stream; charset=utf-8" if is_stream(text) else "application/json"
        return Exchange(status=200, body=text.encode(), headers={"content-type": kind})

    async def _about_models(self, upstream: Upstream) -> str:
        """Pass on what asks about models; it is no call of one, so nothing is recorded."""
        if self._offline:
            raise ModelError("nothing is recorded about models", retryable=False, status=404)
        text, _ = await upstream.forward()
        return text


def upstreams(openai: str | None, anthropic: str | None) -> dict[Provider, str]:
    """Return the addresses of the servers behind a proxy."""
    return {
        "openai": checked_upstream(
            openai or os.environ.get("OPENAI_BASE_URL") or UPSTREAMS["openai"]
        ),
        "anthropic": checked_upstream(
            anthropic or os.environ.get("ANTHROPIC_BASE_URL") or UPSTREAMS["anthropic"]
        ),
    }


def refused(error: S3GymError) -> Exchange:
    """Return what an app gets when its request cannot be answered."""
    if isinstance(error, BudgetExhaustedError):
        return failed(429, str(error), "insufficient_quota")
    if not isinstance(error, ServiceError):
        return failed(409, str(error))
    origin: BaseException | None = error
    while origin is not None and not isinstance(origin, UpstreamError):
        origin = origin.__cause__
    status = error.status if isinstance(error, ModelError) and error.status else 502
    if origin is not None and origin.body:
        return Exchange(status=status, body=origin.body, headers=_headers())
    return failed(status, str(error))


def failed(status: int, message: str, kind: str = "s3gym_proxy") -> Exchange:
    """Return an error in a form that both SDKs read."""
    told = {"type": "error", "error": {"type": kind, "code": kind, "message": message}}
    return Exchange(status=status, body=json.dumps(told).encode(), headers=_headers())


def stranger(headers: Mapping[str, str]) -> str:
    """Return why a request comes from no program of this machine; empty where it may.

    A web page that a browser shows here could otherwise spend what the proxy's keys pay for.
    """
    asked, origin = headers.get("host", ""), headers.get("origin")
    if _host_of(f"//{asked}") not in OURS:
        return f"the proxy is for this machine, not for the host {shorten(asked)}"
    if origin is not None and _host_of(origin) not in OURS:
        return f"the proxy is for this machine, not for pages from {shorten(origin)}"
    return ""


def _host_of(url: str) -> str | None:
    try:
        return urlsplit(url).hostname
    except ValueError:
        return None


def odd_path(path: str) -> str:
    """Return why a path is refused; empty where it leads to no other part of the server."""
    if any(part in (".", "..") for part in path.replace("\\", "/").split("/")):
        return "the path leads out of the API"
    return "" if path.isprintable() else "the path holds a character that is not printable"


def _headers() -> dict[str, str]:
    # Both SDKs heed it: the proxy has tried again already.
    return {"content-type": "application/json", "x-should-retry": "false"}


def _server(handle: Callable[[Request], Awaitable[Exchange]]) -> Any:
    try:
        uvicorn = import_module("uvicorn")
        applications = import_module("starlette.applications")
        responses = import_module("starlette.responses")
        routing = import_module("starlette.routing")
    except ModuleNotFoundError as error:
        raise MissingExtraError("the proxy", "proxy") from error

    async def answered(request: Any) -> Exchange:
        path = str(request.url.path)
        problem = stranger(request.headers) or odd_path(request.scope["path"])
        body, size = bytearray(), 0
        async for part in request.stream():  # to its end: a client that still sends cannot read
            size += len(part)
            if not problem and size <= MOST_BODY:
                body += part
        if problem:
            return failed(403, problem)
        if size > MOST_BODY:
            return failed(413, f"the request's body is larger than {MOST_BODY} bytes")
        query = f"?{request.url.query}" if request.url.query else ""
        asked = Request(
            path=f"{path}{query}",
            body=bytes(body),
            method=request.method,
            headers=dict(request.headers),
        )
        return await handle(asked)

    async def serve(request: Any) -> Any:
        given = await answered(request)
        return responses.Response(given.body, given.status, headers=dict(given.headers))

    routes = [
        routing.Route("/v1/models{path:path}", serve, methods=["GET"]),
        routing.Route("/v1/{path:path}", serve, methods=["POST"]),
    ]
    app = applications.Starlette(routes=routes)
    settings = uvicorn.Config(
        app,
        log_level="critical",
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        date_header=False,
        server_header=False,
        timeout_keep_alive=600,
    )
    return uvicorn.Server(settings)
