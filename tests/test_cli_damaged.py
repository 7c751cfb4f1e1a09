"""Whatever stands in a row, every command says so in one line and shows no traceback."""

import sqlite3
from contextlib import closing
from pathlib import Path
from shutil import copy

import pytest

from s3gym.cli.main import main

STUDY = "trust/strategist/history/r0"
COMMANDS = (
    ["status", "e.db"],
    ["report", "e.db", "--json", "e.json", "--quiet"],
    ["compare", "d.db", "e.db"],
    ["memory", "show", "e.db", "--study", STUDY],
    ["memory", "diff", "e.db", "1", "2", "--study", STUDY],
    ["replay", "e.db", f"{STUDY}/x001"],
    ["export", "sft", "e.db", "--policy", "keep", "--out", "e.jsonl", "--force"],
    ["audit", "e.db"],
    ["resume", "e.db", "--quiet"],
)
ODD = ("{", "[1]", "7", "")
"""No JSON, and JSON of another shape than any that we write."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a finished store, ``d.db``."""
    folder = tmp_path_factory.mktemp("damaged")
    with pytest.raises(SystemExit):
        main([
            "run", "--game", "trust", "--memory", "history", "--schedule", "quick", "--seed", "7",
            "--repeats", "1", "--quiet", "--store", str(folder / "d.db"),
        ])  # fmt: skip
    return folder


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("studies", "spec"),
        ("steps", "repairs"),
        ("steps", "usage"),
        ("memory_versions", "sources"),
        ("memory_versions", "state"),
        ("provenance", "value"),
    ],
)
def test_a_row_of_another_shape_is_no_traceback(
    folder: Path, table: str, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    for odd in ODD:
        for command in COMMANDS:
            copy("d.db", "e.db")
            with closing(sqlite3.connect("e.db")) as db, db:
                db.execute(f"UPDATE {table} SET {column} = ?", (odd,))
            with pytest.raises(SystemExit):  # anything else would be shown with a traceback
                main(command)
