"""``s3gym proxy`` and ``s3gym run --proxy``, with a program that knows nothing of s3gym."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_server import ModelServer, by_hash

from s3gym.audit import audit_store
from s3gym.catalog import find_game

APP = """
import openai

client = openai.OpenAI(api_key="none")


def answer(prompt: str) -> str:
    ask = [{"role": "user", "content": prompt}]
    events = client.chat.completions.create(model="scripted-1", messages=ask, stream=True)
    return "".join(event.choices[0].delta.content or "" for event in events)


if __name__ == "__main__":
    print(answer("hello"))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        assert running.script(by_hash) == "scripted-1"
        yield running


def s3gym(folder: Path, server: ModelServer, *words: str) -> "subprocess.CompletedProcess[str]":
    (folder / "app.py").write_text(APP)
    return subprocess.run(
        [sys.executable, "-m", "s3gym", *words],
        cwd=folder,
        env=os.environ | {"OPENAI_BASE_URL": server.openai_url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_a_program_is_recorded_and_then_answered_without_its_server(
    server: ModelServer, tmp_path: Path
) -> None:
    words = ["proxy", "--store", "calls.db", "--"]
    first = s3gym(tmp_path, server, *words, sys.executable, "app.py")
    assert first.returncode == 0, first.stderr
    assert "Answer:" in first.stdout
    n_requests = len(server.log)
    again = s3gym(tmp_path, server, *words[:3], "--replay", "--", sys.executable, "app.py")
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert len(server.log) == n_requests
    failing = s3gym(tmp_path, server, *words, sys.executable, "-c", "raise SystemExit(7)")
    assert failing.returncode == 7
    none = s3gym(tmp_path, server, "proxy", "--store", "other.db", "--replay")
    assert (none.returncode, "no such file" in none.stderr) == (2, True)


@pytest.mark.slow
def test_an_app_without_a_line_of_code_plays_a_study_behind_the_proxy(
    server: ModelServer, tmp_path: Path
) -> None:
    small = ["--set", "schedule.exploration_episodes=1", "--set", "schedule.evaluate_every=1"]
    words = ["run", "--agent", "app:answer", "--game", "trust", "--memory", "history", *small]
    words += ["--set", "schedule.evaluation_episodes=1", "--repeats", "1", "--seed", "3"]
    n_before = len(server.log)
    first = s3gym(tmp_path, server, *words, "--proxy", "0", "--store", "a.db")
    assert first.returncode == 0, first.stderr
    assert len(server.log) == n_before + 30
    audit = audit_store(tmp_path / "a.db", find_game)
    assert audit.level() != "fail", audit.findings
    again = s3gym(tmp_path, server, *words, "--proxy", "0", "--store", "b.db", "--replay", "a.db")
    assert again.returncode == 0, again.stderr
    assert len(server.log) == n_before + 30
    root = [line for line in first.stdout.splitlines() if line.startswith("root")]
    assert root == [line for line in again.stdout.splitlines() if line.startswith("root")]
