"""The programs of the how-to page, with the real frameworks, each in an environment of its own.

Slow, and they install packages: set ``S3GYM_FRAMEWORK_TESTS=1`` to run them.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Served, by_hash
from pages import ROOT, blocks

from s3gym.audit import audit_store
from s3gym.catalog import find_game

PAGE = ROOT / "docs" / "how-to" / "test-an-agent-app.md"
PACKAGES = {
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim[openai]",
    "langgraph": "langgraph langchain-openai",
    "smolagents": "smolagents[openai]",
}
INSTALL_SECONDS, RUN_SECONDS = 600, 240
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("S3GYM_FRAMEWORK_TESTS") != "1",
        reason="installs agent frameworks: set S3GYM_FRAMEWORK_TESTS=1",
    ),
]


def answer(body: dict[str, Any]) -> Served:
    """Answer trust; where a final answer has to be a tool's call, write that call."""
    text = by_hash(body).text
    if any(tool["function"]["name"] == "final_answer" for tool in body.get("tools") or ()):
        text = json.dumps({"name": "final_answer", "arguments": {"answer": text}})
    return Served(text=text)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(answer).running() as running:
        yield running


def environment(folder: Path, packages: str) -> Path:
    """Make an environment with some packages and, behind them, all that this one has."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    seen = [path for path in map(Path, sys.path) if path.name == "site-packages"]
    lines = [f"import site; site.addsitedir({str(path)!r})" for path in seen]
    (inside,) = folder.glob("lib/python*/site-packages")
    (inside / "behind.pth").write_text("\n".join(lines) + "\n")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *packages.split()], check=True, timeout=INSTALL_SECONDS)
    return python


@pytest.mark.parametrize("framework", sorted(PACKAGES))
def test_the_program_of_a_framework_plays_and_its_audit_passes(
    framework: str, server: ModelServer, tmp_path: Path
) -> None:
    name = f"app_{framework}.py"
    (program,) = [block for block in blocks(PAGE.read_text()) if block.title == name]
    (tmp_path / name).write_text(program.text)
    done = subprocess.run(
        [environment(tmp_path / "venv", PACKAGES[framework]), name],
        cwd=tmp_path,
        env=os.environ
        | {
            "OPENAI_BASE_URL": server.openai_url,
            "OPENAI_API_KEY": "none",
            "PYTHONSAFEPATH": "1",
        },
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for store in ("memory.db", "own.db"):
        audit = audit_store(tmp_path / store, find_game)
        assert audit.level() != "fail", audit.findings
        assert not [one for one in audit.findings if "not provable" in one.message]
        assert statuses(tmp_path / store) == {"ok"}
    assert recalled(tmp_path / "memory.db") > recalled(tmp_path / "own.db") == 0
    tokens = tokens_of(tmp_path / "own.db")
    assert tokens["e003"] > tokens["e000"] > 0  # what it went through is in its prompts


def rows(store: Path, question: str) -> list[Any]:
    db = sqlite3.connect(store)
    try:
        return db.execute(question).fetchall()
    finally:
        db.close()


def statuses(store: Path) -> set[str]:
    return {row[0] for row in rows(store, "SELECT DISTINCT status FROM steps")}


def recalled(store: Path) -> int:
    return int(rows(store, "SELECT count(*) FROM steps WHERE recollection != ''")[0][0])


def tokens_of(store: Path) -> dict[str, int]:
    """Return the prompt tokens of each checkpoint's first steps, all repeats together."""
    question = (
        "SELECT episodes.id, json_extract(usage, '$.input_tokens') FROM steps "
        "JOIN episodes ON episodes.id = episode WHERE idx = 0 AND phase = 'evaluation'"
    )
    found: dict[str, int] = {}
    for episode, tokens in rows(store, question):
        place = episode.rpartition("/")[2].partition(".")[0]
        found[place] = found.get(place, 0) + tokens
    return found
