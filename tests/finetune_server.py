"""A fine-tuning API for tests, beside the model server: real HTTP, files, jobs, every fault."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

import anyio
from model_server import ModelServer, Served
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Ending = Callable[[dict[str, Any]], None]
HANG_SECONDS = 30.0


def succeeds(job: dict[str, Any]) -> None:
    """Let a job succeed at its second look."""
    job |= {
        "status": "succeeded",
        "fine_tuned_model": f"ft:{job['model']}:{job['id']}",
        "trained_tokens": 123,
        "finished_at": job["created_at"] + 60,
    }


def fails(job: dict[str, Any]) -> None:
    """Let a job fail with a reason."""
    error = {"code": "bad", "message": "the file is too small", "param": None}
    job |= {"status": "failed", "error": error}


def is_cancelled(job: dict[str, Any]) -> None:
    """Let a job be cancelled by somebody."""
    job |= {"status": "cancelled"}


@dataclass(kw_only=True)
class FineTuneServer:
    """The server's state; a test changes it between requests.

    Attributes:
        ending: What becomes of a job when it is looked at for the second time.
        hang: Paths whose next POST is taken in, and never answered.
        faults: Statuses of the next POSTs, by path, before they are taken in.
        says: Bodies that are answered in place of the right ones, by the name of the answer:
            ``file``, ``created``, ``job``, ``files``, ``jobs``, ``events``.
        changes: Fields of a job that is told about, which say something else.
    """

    ending: Ending = succeeds
    hang: set[str] = field(default_factory=set)
    faults: dict[str, list[int]] = field(default_factory=dict)
    says: dict[str, bytes] = field(default_factory=dict)
    changes: dict[str, Any] = field(default_factory=dict)
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    contents: dict[str, bytes] = field(default_factory=dict)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    @contextmanager
    def running(self) -> Iterator["FineTuneServer"]:
        routes = [
            Route("/v1/files", self._upload, methods=["POST"]),
            Route("/v1/files", self._files),
            Route("/v1/fine_tuning/jobs", self._create, methods=["POST"]),
            Route("/v1/fine_tuning/jobs", self._list),
            Route("/v1/fine_tuning/jobs/{job}", self._job),
            Route("/v1/fine_tuning/jobs/{job}/events", self._events),
        ]
        with ModelServer(lambda body: Served(), more=routes).running() as server:
            self.url = server.openai_url
            yield self

    async def _upload(self, request: Request) -> Response:
        parts = _parts(request.headers["content-type"], await request.body())
        name, content = parts["file"]

        def take() -> dict[str, Any]:
            made = {
                "id": f"file-{len(self.files) + 1}",
                "object": "file",
                "bytes": len(content),
                "created_at": 1,
                "filename": name,
                "purpose": parts["purpose"][1].decode(),
                "status": "processed",
            }
            self.files[str(made["id"])] = made
            self.contents[str(made["id"])] = content
            return made

        return self._said("file", await self._taken(request, take))

    async def _create(self, request: Request) -> Response:
        body = json.loads(await request.body())

        def take() -> dict[str, Any]:
            made = {
                "id": f"ftjob-{len(self.jobs) + 1}",
                "object": "fine_tuning.job",
                "created_at": 1,
                "status": "queued",
                "organization_id": "o",
                "result_files": [],
                "fine_tuned_model": None,
                "finished_at": None,
                "trained_tokens": None,
                "validation_file": None,
                "error": None,
                "hyperparameters": {},
                "asked": body,
            } | {key: body.get(key) for key in ("model", "training_file", "seed")}
            self.jobs[str(made["id"])] = made
            return made

        return self._said("created", await self._taken(request, take))

    def _said(self, answer: str, right: Response) -> Response:
        body = self.says.get(answer)
        return right if body is None else Response(body, media_type="application/json")

    async def _taken(self, request: Request, take: Callable[[], dict[str, Any]]) -> Response:
        path = request.url.path
        self.asked.append(path)
        faults = self.faults.get(path, [])
        if faults:
            return JSONResponse({"error": {"message": "scripted"}}, faults.pop(0))
        made = take()
        if path in self.hang:
            self.hang.discard(path)
            with anyio.move_on_after(HANG_SECONDS):
                while not await request.is_disconnected():
                    await anyio.sleep(0.02)
        return JSONResponse(made)

    async def _files(self, request: Request) -> Response:
        self.asked.append("list files")
        return self._said("files", _page([*self.files.values()], request))

    async def _list(self, request: Request) -> Response:
        self.asked.append("list jobs")
        return self._said("jobs", _page([*self.jobs.values()], request))

    async def _job(self, request: Request) -> Response:
        job = self.jobs[request.path_params["job"]]
        self.asked.append(job["id"])
        if job["status"] == "running":
            self.ending(job)
        elif job["status"] == "queued":
            job["status"] = "running"
        return self._said("job", JSONResponse(job | self.changes))

    async def _events(self, request: Request) -> Response:
        events = [
            {
                "id": f"e{step}",
                "object": "fine_tuning.job.event",
                "created_at": step,
                "level": "info",
                "message": "step",
                "type": "metrics",
                "data": {"step": step, "train_loss": 1 / step},
            }
            for step in (3, 2, 1)
        ]
        return self._said("events", _page(events, request))


def _parts(kind: str, body: bytes) -> dict[str, tuple[str, bytes]]:
    """Return the parts of a form by name, each with its file's name and its content."""
    message = message_from_bytes(f"Content-Type: {kind}\r\n\r\n".encode() + body, policy=HTTP)
    found = {}
    for part in message.iter_parts():
        name = str(part.get_param("name", header="content-disposition"))
        content = part.get_content()
        held = content if isinstance(content, bytes) else str(content).encode()
        found[name] = (part.get_filename() or "", held)
    return found


def _page(entries: list[dict[str, Any]], request: Request) -> Response:
    """Answer page by page, two entries each."""
    ids = [entry["id"] for entry in entries]
    after = request.query_params.get("after")
    start = ids.index(after) + 1 if after else 0
    page = entries[start : start + 2]
    return JSONResponse({"object": "list", "data": page, "has_more": start + 2 < len(entries)})
