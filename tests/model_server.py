"""A model server for tests: real HTTP on loopback, both wire formats, every fault on demand.

In a test: ``server.script([...])`` returns the id of a model that answers so. As a program
(``python tests/model_server.py --log FILE``) it prints its address and outlives the run under
test, so that its log is the judge of what was asked and paid for.
"""

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Literal

import anyio
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from streams import anthropic_events, openai_events

Fault = Literal["drop", "half", "slow", "not json", "wrong shape", "page"]
PLAIN = "Answer: collaborate, Score: 2"
OPENAI_FINISH = {"length": "length", "filter": "content_filter", "tool": "tool_calls"}
ANTHROPIC_FINISH = {"length": "max_tokens", "filter": "refusal", "tool": "tool_use"}


@dataclass(frozen=True, kw_only=True)
class Served:
    """One answer of the server."""

    text: str | None = PLAIN
    status: int = 200
    message: str = "scripted failure"
    code: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    finish: str = "stop"
    refusal: str | None = None
    reasoning: str | None = None
    model: str | None = None
    usage: bool = True
    cached: int = 0
    fault: Fault | None = None


Script = Sequence[Served] | Callable[[dict[str, Any]], Served]


@dataclass(kw_only=True)
class Logged:
    """One request as the server saw it; ``status`` 0 means that no full answer left."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    status: int
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def key(self) -> str:
        """Hash of the body: equal requests have equal keys."""
        return sha256(json.dumps(self.body, sort_keys=True).encode()).hexdigest()


def words(text: Any) -> int:
    """Count words; of a content in blocks those of its texts."""
    if isinstance(text, list):
        return sum(words(block.get("text")) for block in text)
    return len((text or "").split())


class ModelServer:
    """The server, running in a thread of its own."""

    def __init__(
        self,
        default: Script | None = None,
        log: Path | None = None,
        port: int = 0,
        more: Sequence[Route] = (),
    ) -> None:
        self.log: list[Logged] = []
        self.url = ""
        self._file = log
        self._default = default
        self._scripts: dict[str, Script] = {}
        self._asked: dict[str, int] = {}
        self._numbers = count(1)
        routes = [
            Route("/v1/chat/completions", self._openai, methods=["POST"]),
            Route("/v1/messages", self._anthropic, methods=["POST"]),
            *more,
        ]
        settings = uvicorn.Config(
            Starlette(routes=routes),
            port=port,
            log_level="critical",
            http="h11",
            ws="none",
            lifespan="off",
            access_log=False,
            date_header=False,
        )
        self._server = uvicorn.Server(settings)

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"

    def script(self, answers: Script) -> str:
        """Return the id of a model that gives these answers."""
        model = f"scripted-{next(self._numbers)}"
        self._scripts[model] = answers
        return model

    def requests(self, model: str) -> list[Logged]:
        """Return what was asked of a model, oldest first."""
        return [entry for entry in self.log if entry.body.get("model") == model]

    @contextmanager
    def running(self) -> Iterator["ModelServer"]:
        thread = threading.Thread(target=self._server.run, daemon=True)
        thread.start()
        while not self._server.started:
            time.sleep(0.005)
        address = self._server.servers[0].sockets[0].getsockname()
        self.url = f"http://127.0.0.1:{address[1]}"
        try:
            yield self
        finally:
            self._server.should_exit = True
            thread.join(timeout=5)

    async def _openai(self, request: Request) -> Response:
        return await self._serve(request, self._openai_body)

    async def _anthropic(self, request: Request) -> Response:
        return await self._serve(request, self._anthropic_body)

    async def _serve(
        self,
        request: Request,
        shape: Callable[[Served, dict[str, Any], Logged], dict[str, Any]],
    ) -> Response:
        body = await request.json()
        served = self._next(body)
        entry = Logged(
            path=request.url.path, headers=dict(request.headers), body=body, status=served.status
        )
        await anyio.sleep(served.delay)
        if served.status != 200:
            self._keep(entry)
            error = {"type": served.code or "error", "code": served.code, "message": served.message}
            return JSONResponse(
                {"type": "error", "error": error}, served.status, headers=dict(served.headers)
            )
        return self._answer(request, served, entry, shape(served, body, entry))

    def _answer(
        self, request: Request, served: Served, entry: Logged, answer: dict[str, Any]
    ) -> Response:
        content = json.dumps(answer).encode()
        if served.fault in ("drop", "half", "slow"):
            entry.status = 0
        self._keep(entry)
        headers = {"x-request-id": "req-1", "request-id": "req-1", **served.headers}
        if served.fault == "not json":
            return Response(
                content[: len(content) // 2], headers=headers, media_type="application/json"
            )
        if served.fault == "wrong shape":
            return JSONResponse({"choices": "none", "content": "none"}, headers=headers)
        if served.fault == "page":
            return Response("<html>try later</html>", headers=headers, media_type="text/html")
        if served.fault == "drop":
            self._hang_up(request)
            return Response()
        if served.fault == "half":
            headers["content-length"] = str(len(content))
            return StreamingResponse(self._half(request, content), headers=headers)
        if served.fault == "slow":
            headers["content-length"] = str(len(content))
            return StreamingResponse(self._slowly(content), headers=headers)
        if entry.body.get("stream"):
            openai = "choices" in answer
            events = openai_events(answer, entry.body) if openai else anthropic_events(answer)
            return StreamingResponse(
                self._in_turn(events), headers=headers, media_type="text/event-stream"
            )
        return Response(content, headers=headers, media_type="application/json")

    def _next(self, body: dict[str, Any]) -> Served:
        model = str(body.get("model"))
        script = self._scripts.get(model, self._default)
        if script is None:
            return Served(status=404, message=f"no model {model!r}", code="model_not_found")
        if callable(script):
            return script(body)
        number = self._asked.get(model, 0)
        self._asked[model] = number + 1
        if number >= len(script):
            return Served(status=400, message=f"script of {model} is used up")
        return script[number]

    def _keep(self, entry: Logged) -> None:
        self.log.append(entry)
        if self._file is not None:
            line = {
                "key": entry.key,
                "status": entry.status,
                "path": entry.path,
                "input_tokens": entry.input_tokens,
                "output_tokens": entry.output_tokens,
            }
            with self._file.open("a") as file:
                file.write(json.dumps(line) + "\n")

    def _hang_up(self, request: Request) -> None:
        """Cut the connection of a request without a word."""
        for connection in list(self._server.server_state.connections):
            if getattr(connection, "client", None) == tuple(request.scope["client"]):
                connection.transport.abort()

    async def _half(self, request: Request, content: bytes) -> Any:
        yield content[: len(content) // 2]
        await anyio.sleep(0.01)
        self._hang_up(request)

    async def _in_turn(self, events: list[bytes]) -> Any:
        for one in events:
            yield one
            await anyio.sleep(0)

    async def _slowly(self, content: bytes) -> Any:
        for position in range(len(content)):
            yield content[position : position + 1]
            await anyio.sleep(0.03)

    def _openai_body(self, served: Served, body: dict[str, Any], entry: Logged) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": served.text}
        if served.refusal is not None:
            message["refusal"] = served.refusal
        if served.reasoning is not None:
            message["reasoning_content"] = served.reasoning
        answer: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": served.model or body["model"],
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": OPENAI_FINISH.get(served.finish, served.finish),
                }
            ],
        }
        if served.usage:
            entry.input_tokens = sum(words(item.get("content")) for item in body["messages"])
            entry.output_tokens = words(f"{served.text or ''} {served.reasoning or ''}")
            answer["usage"] = {
                "prompt_tokens": entry.input_tokens,
                "completion_tokens": entry.output_tokens,
                "total_tokens": entry.input_tokens + entry.output_tokens,
                "prompt_tokens_details": {"cached_tokens": served.cached},
                "completion_tokens_details": {"reasoning_tokens": words(served.reasoning or "")},
            }
        return answer

    def _anthropic_body(
        self, served: Served, body: dict[str, Any], entry: Logged
    ) -> dict[str, Any]:
        content: list[dict[str, Any]] = []
        if served.reasoning is not None:
            content.append({"type": "thinking", "thinking": served.reasoning, "signature": "x"})
        if served.text is not None:
            content.append({"type": "text", "text": served.text})
        finish = {"stop": "end_turn"} | ANTHROPIC_FINISH
        answer: dict[str, Any] = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": served.model or body["model"],
            "content": content,
            "stop_reason": "refusal" if served.refusal else finish.get(served.finish),
            "stop_sequence": None,
        }
        if served.usage:
            texts = [body.get("system"), *(item["content"] for item in body["messages"])]
            entry.input_tokens = sum(map(words, texts))
            entry.output_tokens = words(f"{served.text or ''} {served.reasoning or ''}")
            answer["usage"] = {
                "input_tokens": entry.input_tokens - served.cached,
                "output_tokens": entry.output_tokens,
                "cache_read_input_tokens": served.cached,
                "cache_creation_input_tokens": 0,
                "output_tokens_details": {"thinking_tokens": words(served.reasoning or "")},
            }
        return answer


FAULTS = (
    Served(status=429, headers={"retry-after-ms": "5"}),
    Served(status=429),
    Served(status=500),
    Served(status=503),
    Served(status=529),
    Served(fault="drop"),
    Served(fault="half"),
    Served(fault="not json"),
)
"""What can go wrong on the way, and never is the model's answer."""


def unsteady(share: float, seed: int, answer: Callable[[dict[str, Any]], Served]) -> Script:
    """Return a script that fails a share of the requests before it answers them.

    Whether the nth asking of a request fails is a hash, so no run depends on timing.
    """
    asked: dict[str, int] = {}

    def serve(body: dict[str, Any]) -> Served:
        key = sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
        asked[key] = asked.get(key, 0) + 1
        drawn = int(sha256(f"{seed} {key} {asked[key]}".encode()).hexdigest()[:12], 16)
        if drawn % 10_000 < share * 10_000:
            return FAULTS[drawn // 10_000 % len(FAULTS)]
        return answer(body)

    return serve


def by_hash(body: dict[str, Any]) -> Served:
    """Answer trust legally, by a hash of the request, so that equal prompts get equal answers."""
    drawn = int(sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:8], 16)
    action = ("collaborate", "cheat")[drawn % 2]
    return Served(text=f"I thought about it.\nAnswer: {action}, Score: {drawn // 2 % 4}")


def main() -> None:
    """Serve until the program is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--log", type=Path)
    parser.add_argument("--fault-share", type=float, default=0.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()

    def answer(body: dict[str, Any]) -> Served:
        return Served(text=by_hash(body).text, delay=options.delay)

    script = unsteady(options.fault_share, options.seed, answer)
    with ModelServer(script, options.log, options.port).running() as server:
        print(server.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
