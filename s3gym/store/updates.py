"""Updates of weights, on the learner's side of the store: what they were made of, never a score."""

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from s3gym.store.chain import canonical, digest

UpdateOutcome = Literal["base", "trained", "unchanged"]
OUTCOMES: tuple[UpdateOutcome, ...] = get_args(UpdateOutcome)
COLUMNS = (
    "study, version, outcome, start, start_hash, explorer, trainer, policy, sources, examples, "
    "n_examples, chosen, location, weights, log"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRow:
    """One version of the weights of a training study.

    Attributes:
        version: Exploration episodes before the update; 0 for the base weights.
        outcome: ``base``, ``trained``, or ``unchanged`` where no example was left.
        start: Version that the update started from.
        start_hash: Hash of those weights; empty for the base.
        explorer: Version that explored the newest episodes.
        trainer: Name of the trainer.
        policy: How examples were chosen, as canonical JSON.
        sources: Ids of the exploration episodes that were looked at, in order.
        examples: Hash over the examples; empty for the base.
        n_examples: How many there were.
        chosen: Counts of what was kept and left out, with reasons, and thresholds.
        location: ``./...`` within the folder ``STORE.weights``, or a provider's id; of the base
            the last part of its path alone.
        weights: Hash of the weights.
        log: What the trainer says of the update: losses, tokens, steps.
    """

    study: str
    version: int
    outcome: UpdateOutcome
    start: int = 0
    start_hash: str = ""
    explorer: int = 0
    trainer: str
    policy: str
    sources: tuple[str, ...] = ()
    examples: str = ""
    n_examples: int = 0
    chosen: Mapping[str, Any] = field(default_factory=dict)
    location: str
    weights: str
    log: Mapping[str, Any] = field(default_factory=dict)


class UpdateLog:
    """Reads and writes the table ``updates``; the caller opens and commits transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def add(self, row: UpdateRow) -> None:
        """Keep an update; it must not exist."""
        self._db.execute(
            "INSERT INTO updates VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                row.study,
                row.version,
                row.outcome,
                row.start,
                row.start_hash,
                row.explorer,
                row.trainer,
                row.policy,
                canonical(row.sources),
                row.examples,
                row.n_examples,
                canonical(dict(row.chosen)),
                row.location,
                row.weights,
                canonical(dict(row.log)),
            ),
        )

    def of(self, study: str) -> dict[int, UpdateRow]:
        """Return the updates of a study by version, in order."""
        rows = self._db.execute(
            f"SELECT {COLUMNS} FROM updates WHERE study = ? ORDER BY version", (study,)
        ).fetchall()
        return {row[1]: _row(row) for row in rows}


def _row(row: tuple[Any, ...]) -> UpdateRow:
    return UpdateRow(
        study=row[0],
        version=row[1],
        outcome=row[2],
        start=row[3],
        start_hash=row[4],
        explorer=row[5],
        trainer=row[6],
        policy=row[7],
        sources=tuple(json.loads(row[8])),
        examples=row[9],
        n_examples=row[10],
        chosen=json.loads(row[11]),
        location=row[12],
        weights=row[13],
        log=json.loads(row[14]),
    )


def update_digests(db: sqlite3.Connection, study: str) -> list[str]:
    """Return the hash of every update of a study, in order of versions."""
    return [
        digest(*row)
        for row in db.execute(
            f"SELECT {COLUMNS} FROM updates WHERE study = ? ORDER BY version", (study,)
        )
    ]
