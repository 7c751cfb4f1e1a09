"""Barrier and isolation: prompts hold learner-side rows alone, memory exploration alone."""

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from s3gym.audit.findings import Audit
from s3gym.audit.memory_calls import memory_prompt
from s3gym.contracts.memory import CallRenderer
from s3gym.errors import S3GymError
from s3gym.records import LAYOUTS, Message, Observation, Phase, Turn
from s3gym.store.hashes import message_hash
from s3gym.store.ledger import Ledger, RecordedStep
from s3gym.store.spec import kept_apart, read_spec
from s3gym.text import shorten

EXAMPLES = ("correct", "sample")
"""Purposes of the calls that training examples take."""


def check_isolation(db: sqlite3.Connection, audit: Audit) -> None:
    """What was recalled comes from earlier exploration episodes of the same study."""
    exploration = {
        row[0]: (row[1], row[2])
        for row in db.execute("SELECT id, study, ordinal FROM episodes WHERE phase = 'exploration'")
    }
    for episode, study, phase, ordinal, checkpoint, index, sources in db.execute(
        "SELECT e.id, e.study, e.phase, e.ordinal, e.checkpoint, min(s.idx), r.sources "
        "FROM steps s JOIN episodes e ON e.id = s.episode "
        "JOIN recollections r ON r.hash = s.recollection "
        "WHERE s.recollection != '' GROUP BY e.id, s.recollection ORDER BY e.id, 6"
    ):
        audit.count("isolation")
        bound = ordinal - 1 if phase == Phase.EXPLORATION else checkpoint
        for source in json.loads(sources):
            owner, position = exploration.get(source, (None, 0))
            if owner != study or position > bound:
                audit.fail(
                    "isolation",
                    f"steps {episode} {index}",
                    f"recalled {shorten(source)}, which is no earlier exploration episode of its "
                    f"study",
                )
    for study, version, sources in db.execute(
        "SELECT study, version, sources FROM memory_versions ORDER BY study, version"
    ):
        audit.count("isolation")
        for source in json.loads(sources):
            owner, position = exploration.get(source, (None, 0))
            if owner != study or position > version:
                audit.fail(
                    "isolation",
                    f"memory_versions {study} {version}",
                    f"rests on {shorten(source)}, which is no earlier exploration episode of its "
                    f"study",
                )
    for study, spec in db.execute("SELECT id, spec FROM studies ORDER BY id"):
        audit.kept[study] = kept_apart(read_spec(study, spec))
    for study, parts in not_provable(db).items():
        audit.warn(
            "isolation",
            f"studies {study}",
            f"isolation not provable: its {' and its '.join(parts)} may keep experience where no "
            f"fork and no frozen view holds it still",
        )


def not_provable(db: sqlite3.Connection) -> dict[str, tuple[str, ...]]:
    """Return study -> its parts (``agent``, ``memory``) whose isolation cannot be proven."""
    outside = {
        study
        for study, state in db.execute("SELECT study, state FROM memory_versions")
        if json.loads(state).get("isolated") is False
    }
    found = {}
    for study, spec in db.execute("SELECT id, spec FROM studies ORDER BY id"):
        told = read_spec(study, spec).get("isolated", {})
        known = {
            "agent": told.get("agent", True),
            "memory": told.get("memory", True) and study not in outside,
        }
        if parts := tuple(part for part, isolated in known.items() if not isolated):
            found[study] = parts
    return found


def check_barrier(
    db: sqlite3.Connection,
    audit: Audit,
    prompts: Mapping[str, CallRenderer],
    asked_again: Collection[str] = (),
) -> None:
    """Every message that was sent is made again, byte for byte, from learner-side rows.

    Calls for training examples of the studies ``asked_again`` are made again with the examples.
    """
    ledger = Ledger(db)
    custom: dict[str, int] = {}
    loaded: tuple[str, list[RecordedStep]] | None = None
    for study, place, step, purpose, attempt, layout, sent, seed, max_tokens in db.execute(
        "SELECT study, place, step, purpose, attempt, layout, messages, seed, max_tokens "
        "FROM calls ORDER BY study, place, step, purpose, attempt"
    ).fetchall():
        where = f"calls {place} {step} {purpose} {attempt}"
        plays = layout in LAYOUTS and purpose == "act" and "~" not in place
        digests = layout in prompts and purpose == "memory" and not attempt
        if purpose in EXAMPLES and study in asked_again:
            audit.count("barrier")
            continue
        prompt: Sequence[Message] | None = None
        try:
            if plays:
                if loaded is None or loaded[0] != place:
                    loaded = (place, ledger.steps(place))
                turn = _turn(db, ledger, place, step, loaded[1], seed or 0, max_tokens)
                prompt = turn.messages(layout)
            elif digests:
                prompt = memory_prompt(db, ledger, study, place, prompts[layout])
            if prompt is None:
                custom[study] = custom.get(study, 0) + 1
                continue
            made = [message_hash(message) for message in prompt]
        except (S3GymError, ValueError, TypeError, LookupError, AttributeError) as error:
            audit.count("barrier")
            audit.fail("barrier", where, f"cannot be made again: {shorten(str(error))}")
            continue
        audit.count("barrier")
        if made != json.loads(sent):
            audit.fail("barrier", where, "the prompt differs from what learner-side rows give")
    for study, n in sorted(custom.items()):
        audit.warn(
            "barrier",
            f"calls {study}",
            f"{n} prompts not checked: built by an agent or memory in a layout of its own",
        )


def _turn(
    db: sqlite3.Connection,
    ledger: Ledger,
    episode: str,
    index: int,
    steps: list[RecordedStep],
    seed: int,
    max_tokens: int,
) -> Turn:
    row: tuple[Any, ...] = db.execute(
        "SELECT s.game, e.phase, e.rules, e.instruction, e.opening, e.max_steps FROM episodes e "
        "JOIN studies s ON s.id = e.study WHERE e.id = ?",
        (episode,),
    ).fetchone()
    trail = tuple(recorded.step for recorded in steps[:index])
    recollection = ledger.recollection(steps[index].recollection)
    return Turn(
        episode=episode,
        game=row[0],
        phase=Phase(row[1]),
        rules=row[2],
        instruction=row[3],
        observation=trail[-1].outcome if trail else Observation(text=row[4]),
        trail=trail,
        recollection=recollection,
        index=index,
        max_steps=row[5],
        seed=seed,
        max_tokens=max_tokens,
    )
