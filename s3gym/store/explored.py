"""Exploration episodes as training examples are made of them; evaluation is never read.

Knows nothing of verdicts and scores: a learner's connection is enough.
"""

import sqlite3
from collections.abc import Collection

from s3gym.records import LAYOUTS, Phase
from s3gym.sft.dataset import Explored
from s3gym.sft.datasheet import Source
from s3gym.store.ledger import Ledger
from s3gym.store.spec import read_spec

PLAIN = "paper"
"""Layout of examples whose prompts no store can make again: the agent or framework built them."""


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


def load_sources(
    db: sqlite3.Connection,
    *,
    studies: Collection[str] = (),
    games: Collection[str] = (),
    agents: Collection[str] = (),
    memories: Collection[str] = (),
) -> list[Source]:
    """Return the studies of a store with their exploration, by id.

    Args:
        db: The store.
        studies: Ids wanted; all of them when empty, as for the others.
        games: Names wanted.
        agents: Names wanted.
        memories: Names wanted.
    """
    found = []
    for study, game, version, agent, memory, status, spec in db.execute(
        "SELECT id, game, game_version, agent, memory, status, spec FROM studies ORDER BY id"
    ).fetchall():
        wanted = ((study, studies), (game, games), (agent, agents), (memory, memories))
        if any(names and name not in names for name, names in wanted):
            continue
        explored = tuple(load_explored(db, study))
        found.append(
            Source(
                id=study,
                game=game,
                game_version=version,
                agent=agent,
                memory=memory,
                status=status,
                oracle=read_spec(study, spec).get("oracle", ""),
                explored=explored,
                hashes={item.episode.id: _last_hash(db, item.episode.id) for item in explored},
                layouts={item.episode.id: _layout(db, item.episode.id) for item in explored},
            )
        )
    return found


def _last_hash(db: sqlite3.Connection, episode: str) -> str:
    (text,) = db.execute(
        "SELECT hash FROM steps WHERE episode = ? ORDER BY idx DESC LIMIT 1", (episode,)
    ).fetchone()
    return str(text)


def _layout(db: sqlite3.Connection, episode: str) -> str:
    """Return the layout in which the agent saw an episode."""
    used = db.execute(
        "SELECT DISTINCT layout FROM calls WHERE place = ? AND purpose = 'act'", (episode,)
    ).fetchall()
    return str(used[0][0]) if len(used) == 1 and used[0][0] in LAYOUTS else PLAIN
