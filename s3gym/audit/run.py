"""All checks of an audit, over one store."""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

from s3gym.audit.barrier import check_barrier, check_isolation
from s3gym.audit.findings import Audit, GameFinder
from s3gym.audit.replay import check_replay
from s3gym.audit.rows import check_chain, check_completeness, check_seeds
from s3gym.audit.updates import (
    asked_again,
    check_update_chain,
    check_update_examples,
    check_update_rows,
)
from s3gym.contracts.memory import CallRenderer
from s3gym.errors import StoreError
from s3gym.parts import Teachings
from s3gym.records import STATUSES
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.store.verdicts import store_root
from s3gym.text import shorten

Check = Callable[[sqlite3.Connection, Audit], None]
UNREADABLE = (
    ValueError, LookupError, TypeError, AttributeError, RecursionError, OverflowError, StoreError,
)  # fmt: skip
"""What a row of another shape than ours makes a check raise."""


def audit_store(
    path: str | Path,
    find_game: GameFinder,
    expect: str | None = None,
    prompts: Mapping[str, CallRenderer] | None = None,
    teachings: Teachings | None = None,
) -> Audit:
    """Audit a store.

    Args:
        path: The store; it is only read.
        find_game: Gives the games for the replay; see ``GameFinder``.
        expect: Root that the store must have, from a copy kept elsewhere.
        prompts: From the layout of a memory's call to the function that makes its prompt again;
            calls in other layouts are named as not checked.
        teachings: How the training examples of built-in agents are made again; those of other
            agents are named as not checked.

    Returns:
        Findings with row ids; ``level()`` is the verdict.

    Raises:
        StoreError: The store cannot be read.
    """
    audit = Audit()
    where = Path(path)
    db = file.open_reader(where)
    db.text_factory = _text
    try:
        with file.disk_errors(where):
            _hold_still(db)
            for name, check in _checks(find_game, prompts or {}, teachings or {}):
                try:
                    check(db, audit)
                except UNREADABLE as error:
                    audit.fail(name, name, f"a row cannot be read: {shorten(str(error))}")
            audit.root = store_root(db)
    finally:
        db.close()
    if expect is not None and audit.root != expect.strip().lower():
        audit.fail(
            "chain", "root", f"expected {expect.strip() or 'none'}, the store has {audit.root}"
        )
    return audit


def _hold_still(db: sqlite3.Connection) -> None:
    """Let all checks see one state of a store that is being written to.

    Not where a writer would have to wait for it, as in a shard that several machines write to.
    """
    (journal,) = db.execute("PRAGMA journal_mode").fetchone()
    if journal == "wal":
        db.execute("BEGIN")


def _text(raw: bytes) -> str:
    """Decode a text, also a damaged one: its row is then found like any other edited row."""
    return raw.decode("utf-8", "backslashreplace")


def _checks(
    find_game: GameFinder, prompts: Mapping[str, CallRenderer], teachings: Teachings
) -> list[tuple[str, Check]]:
    return [
        ("completeness", check_completeness),
        ("completeness", check_update_rows),
        ("chain", check_chain),
        ("chain", check_update_chain),
        ("seeds", check_seeds),
        ("isolation", check_isolation),
        ("isolation", lambda db, audit: check_update_examples(db, audit, teachings)),
        (
            "barrier",
            lambda db, audit: check_barrier(db, audit, prompts, asked_again(db, teachings)),
        ),
        ("replay", lambda db, audit: check_replay(db, audit, find_game)),
        ("budget", _check_budget),
        ("statuses", _check_statuses),
        ("schedule", _check_schedule),
    ]


def _check_budget(db: sqlite3.Connection, audit: Audit) -> None:
    """No recollection is over its study's budget."""
    for study, spec, episode, index, tokens, cut in db.execute(
        "SELECT u.id, u.spec, e.id, s.idx, r.tokens, r.cut FROM steps s "
        "JOIN episodes e ON e.id = s.episode JOIN studies u ON u.id = e.study "
        "JOIN recollections r ON r.hash = s.recollection WHERE s.recollection != '' "
        "GROUP BY u.id, r.hash ORDER BY u.id, e.id, s.idx"
    ):
        audit.count("budget")
        limit = json.loads(spec)["schedule"]["memory_tokens"]
        if tokens > limit:
            audit.fail("budget", f"steps {episode} {index}", f"recalled {tokens} tokens of {limit}")
        if cut:
            audit.warn(
                "budget",
                f"steps {episode} {index}",
                f"the memory of {study} recalled too much and was cut at a line end",
            )


def _check_statuses(db: sqlite3.Connection, audit: Audit) -> None:
    """Every step has a known status and a finite self-score or none."""
    for episode, index, status, self_score in db.execute(
        "SELECT episode, idx, status, self_score FROM steps ORDER BY episode, idx"
    ):
        audit.count("statuses")
        if status not in STATUSES:
            audit.fail(
                "statuses", f"steps {episode} {index}", f"there is no status {shorten(status)}"
            )
        if self_score is not None and not math.isfinite(self_score):
            audit.fail("statuses", f"steps {episode} {index}", "its self-score is not finite")


def _check_schedule(db: sqlite3.Connection, audit: Audit) -> None:
    """Say where a study's budget differs from the paper's; a difference is no fault."""
    told: set[str] = set()
    for study, spec in db.execute("SELECT id, spec FROM studies ORDER BY id"):
        audit.count("schedule")
        oracle, training = json.loads(spec).get("oracle"), json.loads(spec).get("training")
        if oracle:
            audit.warn("schedule", f"studies {study}", f"outside the protocol: oracle {oracle}")
        if training and training["variant"] != "plain":
            what = f"outside the protocol: variant {training['variant']}"
            audit.warn("schedule", f"studies {study}", what)
        paper = (Schedule.paper_training() if training else Schedule.paper()).model_dump()
        given = json.loads(spec)["schedule"]
        changes = ", ".join(
            f"{key} {given.get(key)} (paper: {paper[key]})"
            for key in sorted(paper)
            if given.get(key) != paper[key]
        )
        if changes and changes not in told:
            told.add(changes)
            audit.warn("schedule", f"studies {study}", f"differs from the paper: {changes}")
