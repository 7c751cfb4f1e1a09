"""An untouched store passes; any edited, deleted or swapped row is found and named."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import drawing, plan, run_plans

from s3gym.agents.model import ModelAgent
from s3gym.audit import audit_store
from s3gym.audit.findings import Audit
from s3gym.audit.rows import check_completeness
from s3gym.catalog import find_game
from s3gym.memory.none import NoMemory
from s3gym.records import Turn
from s3gym.store.store import Store
from s3gym.testing.fakes import ScriptedChat

ROOT = "the study does not fit its sealed root"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "finished.db"

    async def agent(turn: Turn) -> Any:
        if turn.game == "snake" and turn.index == 3:
            return "END", 0.0
        return await drawing(turn)

    anyio.run(run_plans, path, [plan("trust"), plan("snake", agent=agent, memory=NoMemory)])
    return path


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(finished, tmp_path / "store.db"))


def audited(path: Path, expect: str | None = None) -> Audit:
    return audit_store(path, find_game, expect)


def faults(path: Path) -> set[str]:
    return {finding.where for finding in audited(path).findings if finding.level == "fail"}


def edit(path: Path, statement: str, *values: object) -> int:
    db = sqlite3.connect(path)
    with db:
        changed = db.execute(statement, values).rowcount
    db.close()
    return changed


def test_an_untouched_store_has_no_fault(store: Path) -> None:
    audit = audited(store)
    assert audit.level() != "fail"
    assert all(n > 0 for check, n in audit.looked_at.items() if check != "barrier")
    assert audited(store, audit.root).level() != "fail"


def test_another_root_than_expected_is_a_fault(store: Path) -> None:
    assert audited(store, "0" * 64).level() == "fail"


KEYS = {"steps": 2, "verdicts": 2, "scores": 1}


def cells() -> Iterator[tuple[str, str, str]]:
    from s3gym.store.schema import SCHEMA

    db = sqlite3.connect(":memory:")
    db.executescript(SCHEMA)
    for table in KEYS:
        for _, column, kind, *_ in db.execute(f"PRAGMA table_info({table})"):
            yield table, column, kind
    db.close()


@pytest.mark.parametrize(("table", "column", "kind"), list(cells()))
def test_editing_any_value_is_found_and_named(
    store: Path, table: str, column: str, kind: str
) -> None:
    db = sqlite3.connect(store)
    key = ", ".join(("episode", "idx")[: KEYS[table]])
    rows = db.execute(f"SELECT {key}, {column} FROM {table} ORDER BY {key}").fetchall()
    db.close()
    *where, old = rows[len(rows) // 2]
    new: object = f"{old}x" if kind == "TEXT" else (old or 0) + 1_000
    condition = " AND ".join(f"{name} = ?" for name in key.split(", "))
    assert edit(store, f"UPDATE {table} SET {column} = ? WHERE {condition}", new, *where) == 1
    named = f"{table} {' '.join(map(str, where))}"
    assert named in faults(store)


@pytest.mark.parametrize("table", KEYS)
def test_deleting_a_row_is_found_and_named(store: Path, table: str) -> None:
    key = ", ".join(("episode", "idx")[: KEYS[table]])
    db = sqlite3.connect(store)
    rows = db.execute(f"SELECT {key} FROM {table} ORDER BY {key}").fetchall()
    db.close()
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        copy = Path(shutil.copy(store, store.with_name("copy.db")))
        condition = " AND ".join(f"{name} = ?" for name in key.split(", "))
        assert edit(copy, f"DELETE FROM {table} WHERE {condition}", *row) == 1
        assert f"{table} {' '.join(map(str, row))}" in faults(copy)


@pytest.mark.parametrize("table", ["steps", "verdicts"])
def test_swapping_two_rows_is_found(store: Path, table: str) -> None:
    db = sqlite3.connect(store)
    (episode,) = db.execute(f"SELECT min(episode) FROM {table} WHERE idx = 2").fetchone()
    db.close()
    for old, new in ((1, 900), (2, 1), (900, 2)):
        edit(store, f"UPDATE {table} SET idx = ? WHERE episode = ? AND idx = ?", new, episode, old)
    assert {f"{table} {episode} 1", f"{table} {episode} 2"} <= faults(store)


def test_swapping_two_scores_is_found(store: Path) -> None:
    db = sqlite3.connect(store)
    first, second = (row[0] for row in db.execute("SELECT episode FROM scores LIMIT 2"))
    db.close()
    for old, new in ((first, "aside"), (second, first), ("aside", second)):
        edit(store, "UPDATE scores SET episode = ? WHERE episode = ?", new, old)
    assert {f"scores {first}", f"scores {second}"} <= faults(store)


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("DELETE FROM episodes WHERE id = 'trust/drawing/history/r0/x001'", "x001"),
        ("UPDATE episodes SET rules = 'none' WHERE id = 'trust/drawing/history/r0/x001'", "x001"),
        ("UPDATE studies SET spec = replace(spec, '64', '65')", "seals"),
        ("DELETE FROM seals", "seals"),
        ("UPDATE secrets SET value = '8' WHERE key = 'root_seed'", "scores"),
        ("UPDATE recollections SET text = 'mine'", "recollections"),
        ("UPDATE studies SET spec = 'no json'", "completeness"),
        ("UPDATE studies SET agent = 'another'", "studies"),
        ("UPDATE studies SET memory = 'another'", "studies"),
        ("UPDATE studies SET game_version = 99", "studies"),
        ("UPDATE studies SET status = 'fine'", "studies"),
        ("DELETE FROM recollections", "steps"),
        ("UPDATE steps SET note = CAST(x'ff' AS TEXT) WHERE idx = 1", "steps"),
        ("UPDATE episodes SET opening = CAST(x'ff' AS TEXT)", "episodes"),
        ("UPDATE studies SET game = CAST(x'ff' AS TEXT)", "studies"),
    ],
)
def test_other_rows_are_guarded_too(store: Path, statement: str, named: str) -> None:
    assert edit(store, statement) > 0
    assert any(named in where for where in faults(store))


def test_an_episode_that_a_finished_study_did_not_play_to_its_end_is_found(store: Path) -> None:
    name = "trust/drawing/history/r0/e001.2"
    for table in ("steps", "verdicts", "scores"):
        assert edit(store, f"DELETE FROM {table} WHERE episode = ?", name)
    assert edit(store, "UPDATE episodes SET status = 'playing', n_steps = 0 WHERE id = ?", name)
    with Store.open(store) as opened, opened.transaction():
        opened.verdicts.seal("trust/drawing/history/r0")
    assert faults(store) == {f"episodes {name}"}


def test_a_sealed_study_that_is_no_longer_called_done_is_still_looked_at(store: Path) -> None:
    edit(store, "UPDATE studies SET status = 'paused'")
    edit(store, "DELETE FROM episodes WHERE id = 'trust/drawing/history/r0/x001'")
    assert "episodes trust/drawing/history/r0/x001" in faults(store)


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("DELETE FROM messages", "names a row of messages that is missing"),
        ("UPDATE calls SET seed = seed + 1", "the request does not fit its hash"),
        ("UPDATE calls SET chat = 'another'", "the request does not fit its hash"),
        ("UPDATE calls SET messages = '[]'", "the request does not fit its hash"),
        ("UPDATE calls SET messages = '['", "the request does not fit its hash"),
        ("UPDATE calls SET study = 'another'", "belongs to no recorded row"),
        ("UPDATE calls SET reply = 'another'", ROOT),
        ("UPDATE calls SET layout = 'another'", ROOT),
        ("UPDATE calls SET input_tokens = 10", ROOT),
        ("DELETE FROM calls WHERE step = 0", ROOT),
    ],
)
async def test_calls_are_guarded(tmp_path: Path, statement: str, says: str) -> None:
    chat = ScriptedChat(lambda asked: "Answer: cheat, Score: 1\ud800")
    path = tmp_path / "a.db"
    await run_plans(path, [plan(agent=ModelAgent(chat))])
    assert audited(path).level() != "fail"
    assert edit(path, statement) > 0
    found = [finding for finding in audited(path).findings if finding.message == says]
    assert found
    assert found[0].where.startswith(("calls trust/scripted/history/r0/", "seals trust/scripted/"))


def test_a_store_that_is_written_to_meanwhile_is_seen_as_it_was(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open(store) as opened:

        def look_and_go_on(db: sqlite3.Connection, audit: Audit) -> None:
            check_completeness(db, audit)
            with opened.transaction():
                opened.connection.execute("UPDATE episodes SET status = 'playing'")

        monkeypatch.setattr("s3gym.audit.run.check_completeness", look_and_go_on)
        assert faults(store) == set()


def test_a_recollection_of_evaluation_is_found(store: Path) -> None:
    evaluation = '["trust/drawing/history/r0/e000.1"]'
    edit(store, "UPDATE recollections SET sources = ?", evaluation)
    found = [finding for finding in audited(store).findings if finding.check == "isolation"]
    assert found
    assert found[0].level == "fail"


def test_a_game_that_is_not_at_hand_is_a_warning(store: Path) -> None:
    audit = audit_store(store, lambda name: None)
    assert audit.level("replay") == "warn"
    assert audit.level() == "warn"


@pytest.mark.parametrize("table", ["memory_versions", "studies"])
def test_a_value_that_is_nested_too_deeply_is_a_finding(store: Path, table: str) -> None:
    column = "sources" if table == "memory_versions" else "spec"
    assert edit(store, f"UPDATE {table} SET {column} = ?", '{"a":' * 5_000)
    assert audited(store).level() == "fail"
