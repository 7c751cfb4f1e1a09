"""Completeness and chains: is every row there, and is every row the one that was written?"""

import json
import sqlite3
from typing import Any

from s3gym.audit.findings import Audit
from s3gym.calls import APART
from s3gym.plans import episode_id
from s3gym.records import Phase
from s3gym.schedule import Schedule
from s3gym.seeds import SeedPlan
from s3gym.store.chain import digest, link
from s3gym.store.ledger import EpisodeRow
from s3gym.store.verdicts import study_root, verdict_link
from s3gym.text import shorten

Rows = list[tuple[Any, ...]]
STUDY_STATUSES = ("pending", "running", "paused", "failed", "done")


def check_completeness(db: sqlite3.Connection, audit: Audit) -> None:
    """Every finished study has the rows that its schedule requires, and no row is an orphan."""
    for study, spec, status in db.execute("SELECT id, spec, status FROM studies ORDER BY id"):
        audit.count("completeness")
        if status not in STUDY_STATUSES:
            audit.fail("completeness", f"studies {study}", f"there is no status {shorten(status)}")
        sealed = db.execute("SELECT 1 FROM seals WHERE study = ?", (study,)).fetchone()
        if status != "done" and not sealed:
            audit.warn("completeness", f"studies {study}", f"not finished: {status}")
            continue
        schedule = Schedule(**json.loads(spec)["schedule"])
        present = dict(
            db.execute("SELECT id, status FROM episodes WHERE study = ?", (study,)).fetchall()
        )
        invalid = {
            row[0]
            for row in db.execute("SELECT checkpoint FROM invalid_points WHERE study = ?", (study,))
        }
        for point in sorted(invalid):
            audit.warn("completeness", f"invalid_points {study} {point}", "not evaluated")
        for name, checkpoint in _expected(study, schedule):
            if checkpoint in invalid:
                continue
            if name not in present:
                audit.fail("completeness", f"episodes {name}", "the row is missing")
            elif present[name] != "done":
                audit.fail("completeness", f"episodes {name}", "it was not played to its end")
        if not sealed:
            audit.fail("completeness", f"seals {study}", "a finished study has no root")
    _orphans(db, audit)


def _expected(study: str, schedule: Schedule) -> list[tuple[str, int | None]]:
    explored: list[tuple[str, int | None]] = [
        (episode_id(study, Phase.EXPLORATION, ordinal, None), None)
        for ordinal in range(1, schedule.exploration_episodes + 1)
    ]
    evaluated: list[tuple[str, int | None]] = [
        (episode_id(study, Phase.EVALUATION, ordinal, checkpoint), checkpoint)
        for checkpoint in schedule.checkpoints
        for ordinal in range(1, schedule.evaluation_episodes + 1)
    ]
    return explored + evaluated


def _orphans(db: sqlite3.Connection, audit: Audit) -> None:
    questions = {
        "steps of recollections": "SELECT episode || ' ' || idx FROM steps WHERE "
        "recollection != '' AND recollection NOT IN (SELECT hash FROM recollections)",
        "calls of messages": "SELECT DISTINCT place || ' ' || step || ' ' || purpose || ' ' || "
        "attempt FROM calls, json_each(CASE WHEN json_valid(calls.messages) THEN calls.messages "
        "ELSE '[]' END) WHERE json_each.value NOT IN "
        "(SELECT hash FROM messages)",
        "steps": "SELECT episode || ' ' || idx FROM steps WHERE episode NOT IN "
        "(SELECT id FROM episodes)",
        "verdicts": "SELECT v.episode || ' ' || v.idx FROM verdicts v LEFT JOIN steps s "
        "ON s.episode = v.episode AND s.idx = v.idx WHERE s.episode IS NULL",
        "scores": "SELECT episode FROM scores WHERE episode NOT IN (SELECT id FROM episodes)",
        "episodes": "SELECT id FROM episodes WHERE study NOT IN (SELECT id FROM studies)",
        "calls": "SELECT place || ' ' || step || ' ' || purpose || ' ' || attempt FROM calls "
        f"WHERE study NOT IN (SELECT id FROM studies) AND study != '{APART}'",
        "seals": "SELECT study FROM seals WHERE study NOT IN (SELECT id FROM studies)",
    }
    for name, question in questions.items():
        table, _, of = name.partition(" of ")
        says = f"names a row of {of} that is missing" if of else "belongs to no recorded row"
        for (key,) in db.execute(f"{question} ORDER BY 1"):
            audit.fail("completeness", f"{table} {key}", says)
    (apart,) = db.execute("SELECT count(*) FROM calls WHERE study = ?", (APART,)).fetchone()
    if apart:
        says = f"{apart} calls that 's3gym proxy' recorded belong to no study"
        audit.warn("completeness", f"calls {APART}", says)


def _check_studies(db: sqlite3.Connection, audit: Audit) -> None:
    """Every study's columns say what its specification, which the root covers, says."""
    for study, game, version, agent, memory, repeat, text in db.execute(
        "SELECT id, game, game_version, agent, memory, repeat, spec FROM studies ORDER BY id"
    ):
        spec = json.loads(text)
        due = (
            spec["game"]["name"],
            spec["game"]["version"],
            spec["agent"]["name"],
            spec["memory"]["name"],
            spec["repeat"],
        )
        if (game, version, agent, memory, repeat) != due:
            audit.fail("chain", f"studies {study}", "its columns do not fit its specification")


def _check_calls(db: sqlite3.Connection, audit: Audit) -> None:
    """Every call's request fits its hash."""
    for place, step, purpose, attempt, chat, most, seed, sent, asked in db.execute(
        "SELECT place, step, purpose, attempt, chat, max_tokens, seed, messages, request_hash "
        "FROM calls ORDER BY study, place, step, purpose, attempt"
    ):
        audit.count("chain")
        hashes = _hashes(sent)
        if digest(chat, most, seed, hashes) != asked:
            where = f"calls {place} {step} {purpose} {attempt}"
            audit.fail("chain", where, "the request does not fit its hash")


def _hashes(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def check_chain(db: sqlite3.Connection, audit: Audit) -> None:
    """Every hash fits its row and the row before it, and every root fits its study."""
    _check_studies(db, audit)
    _check_calls(db, audit)
    episodes = db.execute(
        "SELECT e.id, e.study, s.game, e.phase, e.ordinal, e.checkpoint, e.rules, e.instruction, "
        "e.opening, e.max_steps, e.n_steps, e.status, e.start_hash FROM episodes e "
        "JOIN studies s ON s.id = e.study ORDER BY e.id"
    ).fetchall()
    for row in episodes:
        audit.count("chain")
        _check_episode(db, audit, row)
    for table, columns in (
        ("recollections", "text, tokens, sources, dropped, n_steps, cut"),
        ("messages", "role, content, stable"),
    ):
        for stored, *content in db.execute(f"SELECT hash, {columns} FROM {table} ORDER BY hash"):
            audit.count("chain")
            if digest(*content) != stored:
                audit.fail("chain", f"{table} {stored}", "its content does not fit its hash")
    for study, root in db.execute("SELECT study, root FROM seals ORDER BY study").fetchall():
        known = db.execute("SELECT 1 FROM studies WHERE id = ?", (study,)).fetchone()
        if known and study_root(db, study) != root:
            audit.fail("chain", f"seals {study}", "the study does not fit its sealed root")


def _check_episode(db: sqlite3.Connection, audit: Audit, row: tuple[Any, ...]) -> None:
    name, n_steps, status = row[0], row[10], row[11]
    if row[3] not in tuple(Phase):
        audit.fail("chain", f"episodes {name}", f"there is no phase {row[3]!r}")
        return
    opened = EpisodeRow(
        id=name,
        study=row[1],
        game=row[2],
        phase=Phase(row[3]),
        ordinal=row[4],
        checkpoint=row[5],
        rules=row[6],
        instruction=row[7],
        opening=row[8],
        max_steps=row[9],
    )
    if opened.start_hash() != row[12]:
        audit.fail("chain", f"episodes {name}", "its opening does not fit its hash")
    steps: Rows = db.execute(
        "SELECT * FROM steps WHERE episode = ? ORDER BY idx", (name,)
    ).fetchall()
    verdicts: Rows = db.execute(
        "SELECT * FROM verdicts WHERE episode = ? ORDER BY idx", (name,)
    ).fetchall()
    score = db.execute("SELECT * FROM scores WHERE episode = ?", (name,)).fetchone()
    if status == "done":
        _check_counts(audit, name, n_steps, steps, verdicts, score)
    elif score is not None:
        audit.fail("chain", f"scores {name}", "an unfinished episode has a score")
    previous = row[12]
    for step in steps:
        if link(previous, step[:13]) != step[13]:
            audit.fail("chain", f"steps {name} {step[1]}", "the row does not fit its hash")
        previous = step[13]
    hashes = {step[1]: step[13] for step in steps}
    previous = ""
    for verdict in verdicts:
        if verdict_link(previous, hashes.get(verdict[1], ""), verdict[:6]) != verdict[6]:
            audit.fail("chain", f"verdicts {name} {verdict[1]}", "the row does not fit its hash")
        previous = verdict[6]
    if score is not None and link(previous, score[:6]) != score[6]:
        audit.fail("chain", f"scores {name}", "the row does not fit its hash")


def _check_counts(
    audit: Audit, name: str, n_steps: int, steps: Rows, verdicts: Rows, score: object
) -> None:
    for table, rows in (("steps", steps), ("verdicts", verdicts)):
        present = [row[1] for row in rows]
        for index in range(max(n_steps, len(present))):
            if index not in present:
                audit.fail("completeness", f"{table} {name} {index}", "the row is missing")
            elif index >= n_steps:
                audit.fail("completeness", f"{table} {name} {index}", "the row is one too many")
        for index in present:
            if not 0 <= index < max(n_steps, len(present)):
                audit.fail("completeness", f"{table} {name} {index}", "no step has this number")
    if score is None:
        audit.fail("completeness", f"scores {name}", "the row is missing")


def check_seeds(db: sqlite3.Connection, audit: Audit) -> None:
    """Every episode was played under the seed that the plan gives it."""
    secrets = dict(db.execute("SELECT key, value FROM secrets").fetchall())
    if not db.execute("SELECT 1 FROM studies").fetchone():
        return
    if not {"root_seed", "salt"} <= set(secrets):
        audit.fail("seeds", "secrets", "the root seed or the salt is missing")
        return
    for name, seed, phase, ordinal, checkpoint, game, repeat, spec in db.execute(
        "SELECT e.id, c.seed, e.phase, e.ordinal, e.checkpoint, s.game, s.repeat, s.spec "
        "FROM scores c JOIN episodes e ON e.id = c.episode JOIN studies s ON s.id = e.study "
        "ORDER BY e.id"
    ):
        audit.count("seeds")
        if phase not in tuple(Phase):
            continue
        plan = SeedPlan(
            root=int(secrets["root_seed"]),
            salt=secrets["salt"],
            fresh_evaluation_seeds=json.loads(spec)["schedule"]["fresh_evaluation_seeds"],
        )
        due = plan.episode(game, repeat, Phase(phase), ordinal - 1, checkpoint or 0)
        if seed != due:
            audit.fail("seeds", f"scores {name}", "played under another seed than the plan's")
