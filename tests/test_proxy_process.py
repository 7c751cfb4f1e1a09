"""An app in a process of its own, which knows nothing of s3gym, behind the proxy of a study.

The app is started before the study, as a service would be; all that it is given is the address.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from model_server import ModelServer, Served, by_hash

from s3gym import Result, Schedule, Study
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.proxy import environment
from s3gym.proxy.server import listening

ONE_EACH = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
SECONDS = 60.0
OPENAI = """
import json
import sys

import openai

client = openai.OpenAI(api_key="the-apps-own-key")
print("ready", flush=True)
for line in sys.stdin:
    ask = [{"role": "user", "content": json.loads(line)}]
    events = client.chat.completions.create(model="MODEL", messages=ask, stream=True)
    print(json.dumps("".join(event.choices[0].delta.content or "" for event in events)), flush=True)
"""
ANTHROPIC = """
import json
import sys

import anthropic

client = anthropic.Anthropic(api_key="the-apps-own-key")
print("ready", flush=True)
for line in sys.stdin:
    ask = [{"role": "user", "content": json.loads(line)}]
    with client.messages.stream(model="MODEL", messages=ask, max_tokens=99) as events:
        print(json.dumps("".join(events.text_stream)), flush=True)
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


class App:
    """A running app; plays by asking it, prompt by prompt."""

    name = "app"

    def __init__(self, program: str, variables: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", program],
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._one = threading.Lock()
        assert self._stdout.readline() == "ready\n"

    @property
    def _stdin(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def _stdout(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def answer(self, prompt: str) -> str:
        with self._one:  # without the proxy episodes are played side by side
            self._stdin.write(json.dumps(prompt) + "\n")
            self._stdin.flush()
            line = self._stdout.readline()
        if not line:
            raise OSError(f"the app ended with {self.process.wait()}")
        return str(json.loads(line))

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@contextmanager
def running(program: str, variables: dict[str, str]) -> Iterator[App]:
    app = App(program, variables)
    try:
        yield app
    finally:
        app.close()


def free_port() -> int:
    with closing(listening(0)) as found:
        return int(found.getsockname()[1])


def study(app: App, store: Path) -> Study:
    def app_answer(prompt: str) -> str:
        return app.answer(prompt)

    return Study(
        game="trust", agent=app_answer, memory="history", schedule=ONE_EACH, repeats=1, seed=5,
        store=store,
    )  # fmt: skip


def rows(store: Path, question: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(store)) as db:
        return db.execute(question).fetchall()


def failed(result: Result) -> str:
    return "".join(result.outcome.failed.values())


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize(
    "program",
    [OPENAI, pytest.param(ANTHROPIC, marks=pytest.mark.slow)],
    ids=["openai", "anthropic"],
)
async def test_an_app_elsewhere_plays_behind_the_proxy_as_it_does_without(
    program: str, server: ModelServer, tmp_path: Path
) -> None:
    text = program.replace("MODEL", server.script(by_hash))
    port = free_port()
    straight = {"OPENAI_BASE_URL": server.openai_url, "ANTHROPIC_BASE_URL": server.url}
    with running(text, straight) as app:
        plain = await study(app, tmp_path / "plain.db").run()
    with running(text, environment(f"http://127.0.0.1:{port}")) as app:
        found = study(app, tmp_path / "proxied.db")
        async with found.proxy(openai=server.openai_url, anthropic=server.url, port=port) as url:
            assert url == f"http://127.0.0.1:{port}"
            proxied = await found.run()
    assert failed(plain) == failed(proxied) == ""
    said = "SELECT episode, idx, action, self_score, raw, outcome FROM steps ORDER BY 1, 2"
    assert rows(plain.store, said) == rows(proxied.store, said)
    calls = rows(proxied.store, "SELECT reply, input_tokens, output_tokens FROM calls")
    assert len(calls) == 30
    assert all("data: " in reply for reply, *_ in calls), "streams, as they came"
    assert all(
        "the-apps-own-key" not in str(row) for row in rows(proxied.store, "SELECT * FROM calls")
    )
    audit = audit_store(proxied.store, find_game)
    assert audit.level() != "fail", audit.findings


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_an_app_that_is_killed_fails_its_study_and_a_resume_pays_for_nothing_twice(
    server: ModelServer, tmp_path: Path
) -> None:
    asked: list[int] = []

    def answers(body: dict[str, Any]) -> Served:
        asked.append(1)
        return by_hash(body)

    text, store, port = (
        OPENAI.replace("MODEL", server.script(answers)),
        tmp_path / "a.db",
        free_port(),
    )
    address = environment(f"http://127.0.0.1:{port}")
    with running(text, address) as app:
        found = study(app, store)
        whole = app.answer

        def dying(prompt: str) -> str:
            if len(asked) == 12:
                app.process.send_signal(signal.SIGKILL)
            return whole(prompt)

        app.answer = dying  # type: ignore[method-assign] # the kill comes between two turns
        async with found.proxy(openai=server.openai_url, port=port):
            result = await found.run()
    assert "the app ended with -9" in failed(result)
    with running(text, address) as app:
        found = study(app, store)
        async with found.proxy(openai=server.openai_url, port=port):
            assert failed(await found.resume()) == ""
    assert len(asked) == len(rows(store, "SELECT 1 FROM calls")) == 30


@pytest.mark.slow
def test_a_proxy_that_serves_until_it_is_interrupted_keeps_what_apps_asked(
    server: ModelServer, tmp_path: Path
) -> None:
    model, store, port = server.script(by_hash), tmp_path / "calls.db", free_port()
    proxy = subprocess.Popen(
        [sys.executable, "-P", "-m", "s3gym", "proxy", "--store", store, "--port", str(port)],
        env=os.environ | {"OPENAI_BASE_URL": server.openai_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert proxy.stdout is not None
        assert proxy.stdout.readline() == f"export OPENAI_BASE_URL=http://127.0.0.1:{port}/v1\n"
        with running(
            OPENAI.replace("MODEL", model), environment(f"http://127.0.0.1:{port}")
        ) as app:
            answers = [app.answer(prompt) for prompt in ("one", "two", "one")]
        proxy.send_signal(signal.SIGINT)
        _, told = proxy.communicate(timeout=SECONDS)
    finally:
        proxy.kill()
        proxy.communicate()
    assert (proxy.returncode, "3 calls, " in told) == (0, True)
    assert answers[0] == answers[2]
    assert [row[0] for row in rows(store, "SELECT step FROM calls ORDER BY step")] == [0, 1, 2]
