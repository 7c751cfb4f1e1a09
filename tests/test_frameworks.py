"""Agent apps of the real frameworks, as the how-to page shows them. See ``workshop``."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from workshop import APPS, Workshop

from s3gym.audit import audit_store
from s3gym.catalog import find_game

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("program", APPS)
def test_the_program_of_a_framework_plays_and_its_audit_passes(
    program: str, workshop: Workshop
) -> None:
    folder = workshop.played(program).folder
    for store in ("memory.db", "own.db"):
        audit = audit_store(folder / store, find_game)
        assert audit.level() != "fail", audit.findings
        assert not [one for one in audit.findings if "not provable" in one.message]
        assert statuses(folder / store) == {"ok"}
    assert recalled(folder / "memory.db") > recalled(folder / "own.db") == 0
    tokens = tokens_of(folder / "own.db")
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
