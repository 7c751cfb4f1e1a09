"""A proxy before a scripted server, for tests."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from model_server import ModelServer
from starlette.applications import Starlette
from starlette.routing import Route

from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.proxy import Serving
from s3gym.proxy.recording import Recording
from s3gym.store.store import Store


@contextmanager
def plain_server(routes: list[Route]) -> Iterator[str]:
    """Serve routes of one's own on loopback, and give the address."""
    settings = uvicorn.Config(
        Starlette(routes=routes), port=0, log_level="critical", lifespan="off"
    )
    found = uvicorn.Server(settings)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    while not found.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{found.servers[0].sockets[0].getsockname()[1]}"
    finally:
        found.should_exit = True
        thread.join(timeout=5)


def chat(model: str, prompt: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": prompt}], **more}


def recording(store: Store, **more: Any) -> Recording:
    return Recording(store, Meter(Limits(LimitSettings(first_wait=0.01))), **more)


def serving(answer: Any, server: ModelServer) -> Serving:
    return Serving(answer, openai=server.openai_url, anthropic=server.url)


def call_rows(path: Path) -> list[Any]:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT * FROM calls ORDER BY study, place, step, attempt").fetchall()
    finally:
        db.close()
