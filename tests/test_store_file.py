"""Opening and creating stores: odd paths, unfinished creations, and what a learner may read."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from studies import plan, run_plans

from s3gym.errors import StoreError
from s3gym.store import file
from s3gym.store.store import Store


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])
    with Store.open(path) as opened:
        opened.note_provenance(command=["s3gym", "run", "--seed", "7"])
    return path


@pytest.mark.parametrize("name", ["file:a.db", "ü ?#%41 .db", "a\nb.db", ":memory:"])
def test_a_store_lies_at_the_path_that_was_named(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    Store.create(path).close()
    assert path.is_file()
    file.open_reader(path).close()


def test_a_relative_path_is_never_an_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Store.create("file:a.db?mode=memory").close()
    assert (tmp_path / "file:a.db?mode=memory").is_file()


def test_a_name_that_is_too_long_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300 + ".db")
    for refused in (Store.create, Store.open, file.must_be_new):
        with pytest.raises(StoreError, match="too long"):
            refused(path)


def test_a_run_that_died_before_its_first_study_is_started_again(tmp_path: Path) -> None:
    empty, created = tmp_path / "empty.db", tmp_path / "created.db"
    empty.touch()
    with Store.create(created) as store, store.transaction():
        store.verdicts.set_secret("root_seed", "7")
    for path in (empty, created):
        file.must_be_new(path)
        with Store.create(path) as store:
            assert store.verdicts.secret("root_seed") is None


def test_a_run_that_died_with_its_log_open_is_started_again(tmp_path: Path) -> None:
    first = Store.create(tmp_path / "whole.db")
    path = tmp_path / "killed.db"
    for end in ("", "-wal", "-shm"):
        shutil.copy(f"{first.path}{end}", f"{path}{end}")
    first.close()
    Store.create(path).close()


async def test_a_store_with_a_study_and_a_foreign_file_are_never_replaced(
    store: Path, tmp_path: Path
) -> None:
    text = tmp_path / "a.txt"
    text.write_text("mine")
    other = tmp_path / "other.db"
    sqlite3.connect(other).execute("CREATE TABLE t (x)").connection.close()
    for path, says in ((store, "resume"), (text, "not a database"), (other, "not an s3gym")):
        before = path.read_bytes()
        with pytest.raises(StoreError, match=says):
            Store.create(path)
        assert path.read_bytes() == before


Trick = Callable[[sqlite3.Connection], Any]
TRICKS: dict[str, Trick] = {
    "a table": lambda db: db.execute("SELECT reward FROM verdicts").fetchall(),
    "capitals": lambda db: db.execute('SELECT REWARD FROM "VERDICTS"').fetchall(),
    "a count": lambda db: db.execute("SELECT count(*) FROM main.scores").fetchall(),
    "seeds": lambda db: db.execute("SELECT * FROM secrets").fetchall(),
    "the command line": lambda db: db.execute("SELECT * FROM provenance").fetchall(),
    "a view of one's own": lambda db: db.executescript(
        "CREATE TEMP VIEW mine AS SELECT * FROM verdicts; SELECT * FROM mine"
    ),
    "a table of one's own": lambda db: db.execute("CREATE TEMP TABLE t AS SELECT * FROM scores"),
    "the curves": lambda db: db.execute("SELECT * FROM curves").fetchall(),
    "a trigger": lambda db: db.executescript(
        "CREATE TEMP TABLE t (x); CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN "
        "SELECT score FROM scores; END; INSERT INTO t VALUES (1)"
    ),
    "a subquery": lambda db: db.execute("SELECT (SELECT max(score) FROM scores)").fetchall(),
    "attaching": lambda db: db.execute("ATTACH ':memory:' AS m"),
    "a copy in a file": lambda db: db.execute("VACUUM INTO 'copy.db'"),
    "pages": lambda db: db.execute("SELECT * FROM dbstat").fetchall(),
    "a blob": lambda db: db.blobopen("scores", "hash", 1, readonly=True).read(),
    "a backup": lambda db: db.backup(sqlite3.connect(":memory:")),
    "the bytes": lambda db: db.serialize(),
    "a dump": lambda db: list(db.iterdump()),
    "no authorizer": lambda db: db.set_authorizer(None),
}


@pytest.mark.parametrize("trick", sorted(TRICKS))
async def test_a_learners_connection_gives_nothing_of_the_verifier(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trick: str
) -> None:
    monkeypatch.chdir(tmp_path)
    db = file.open_learner(store)
    try:
        with pytest.raises(sqlite3.DatabaseError):
            TRICKS[trick](db)
        assert db.execute("SELECT count(*) FROM steps").fetchone()[0] > 0
    finally:
        db.close()
