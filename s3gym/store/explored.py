"""Exploration episodes as training examples are made of them; evaluation is never read.

Knows nothing of verdicts and scores: a learner's connection is enough.
"""

import sqlite3

from s3gym.records import Phase
from s3gym.sft.dataset import Explored
from s3gym.store.ledger import Ledger


def load_explored(
    db: sqlite3.Connection, study: str, *, first: int = 1, last: int | None = None
) -> list[Explored]:
    """Return the finished exploration episodes of a study, in order.

    Args:
        db: The store.
        study: Id of the study.
        first: Ordinal of the first episode wanted, one-based.
        last: Ordinal of the last one; ``None`` for all that follow.
    """
    ledger = Ledger(db)
    rows = db.execute(
        "SELECT id, instruction, max_steps FROM episodes WHERE study = ? AND phase = ? "
        "AND status = 'done' AND ordinal >= ? AND (? IS NULL OR ordinal <= ?) ORDER BY ordinal",
        (study, Phase.EXPLORATION.value, first, last, last),
    ).fetchall()
    return [
        Explored(episode=ledger.load_episode(row[0]), instruction=row[1], max_steps=row[2])
        for row in rows
    ]
