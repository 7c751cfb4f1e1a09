"""The verifier's side of the store: rewards, scores, seeds and seals.

The learner's side never imports this module, and its connections are refused these tables.
"""

import sqlite3
from collections.abc import Sequence
from typing import Any

from s3gym.records import Phase
from s3gym.store.chain import canonical, digest, link
from s3gym.store.updates import update_digests
from s3gym.verdict import Verdict


def verdict_row(episode: str, index: int, verdict: Verdict) -> tuple[Any, ...]:
    """Return the hashed columns of a verdict, in the table's order."""
    return (
        episode,
        index,
        float(verdict.reward),
        int(verdict.legal),
        int(verdict.terminated),
        int(verdict.truncated),
    )


def verdict_link(previous: str, step_hash: str, row: Sequence[Any]) -> str:
    """Return a verdict's hash: over the verdict before it, its own step and its own row."""
    return link(f"{previous}\n{step_hash}", row)


class VerdictLog:
    """Reads and writes the verifier's tables; the caller opens and commits transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    def set_secret(self, key: str, value: str) -> None:
        """Keep a root seed or salt."""
        self._db.execute("INSERT INTO secrets VALUES (?, ?)", (key, value))

    def secret(self, key: str) -> str | None:
        """Return a root seed or salt."""
        row = self._db.execute("SELECT value FROM secrets WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def add(self, episode: str, index: int, verdict: Verdict, previous: str, step_hash: str) -> str:
        """Keep a step's verdict; return its hash."""
        row = verdict_row(episode, index, verdict)
        verdict_hash = verdict_link(previous, step_hash, row)
        self._db.execute("INSERT INTO verdicts VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, verdict_hash))
        return verdict_hash

    def verdicts(self, episode: str) -> list[tuple[Verdict, str]]:
        """Return the verdicts of an episode with their hashes, in order."""
        return [
            (
                Verdict(
                    reward=row[0],
                    legal=bool(row[1]),
                    terminated=bool(row[2]),
                    truncated=bool(row[3]),
                ),
                str(row[4]),
            )
            for row in self._db.execute(
                "SELECT reward, legal, terminated, truncated, hash FROM verdicts "
                "WHERE episode = ? ORDER BY idx",
                (episode,),
            )
        ]

    def add_score(
        self,
        episode: str,
        study: str,
        phase: Phase,
        checkpoint: int | None,
        seed: int,
        score: float,
        previous: str,
    ) -> None:
        """Keep an episode's score; its hash closes the verdict chain."""
        row = (episode, study, phase.value, checkpoint, seed, float(score))
        self._db.execute(
            "INSERT INTO scores VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, link(previous, row))
        )

    def score(self, episode: str) -> float:
        """Return the score of a finished episode, in game points."""
        row = self._db.execute("SELECT score FROM scores WHERE episode = ?", (episode,)).fetchone()
        return float(row[0])

    def curve(self, study: str) -> list[tuple[int, float]]:
        """Return the points of a study so far: (checkpoint, mean score), in order."""
        return self._db.execute(
            "SELECT checkpoint, score FROM curves WHERE study = ? ORDER BY checkpoint", (study,)
        ).fetchall()

    def remove_attempt(self, episode: str, attempt: int, reason: str, steps: str) -> None:
        """Move a half-played episode's verdicts and steps to ``abandoned``."""
        rows = self._db.execute(
            "SELECT * FROM verdicts WHERE episode = ? ORDER BY idx", (episode,)
        ).fetchall()
        self._db.execute("DELETE FROM verdicts WHERE episode = ?", (episode,))
        self._db.execute(
            "INSERT INTO abandoned VALUES (?, ?, ?, ?, ?)",
            (episode, attempt, reason, steps, canonical(rows)),
        )

    def attempts(self, episode: str) -> int:
        """Return how many attempts at an episode were abandoned."""
        row = self._db.execute(
            "SELECT count(*) FROM abandoned WHERE episode = ?", (episode,)
        ).fetchone()
        return int(row[0])

    def seal(self, study: str) -> str:
        """Compute, keep and return the root of a finished study."""
        root = study_root(self._db, study)
        self._db.execute("INSERT OR REPLACE INTO seals VALUES (?, ?)", (study, root))
        return root

    def root(self, study: str) -> str | None:
        """Return the sealed root of a study."""
        row = self._db.execute("SELECT root FROM seals WHERE study = ?", (study,)).fetchone()
        return None if row is None else str(row[0])


def study_root(db: sqlite3.Connection, study: str) -> str:
    """Return the hash over a study's specification, episodes by id, memory, calls and updates.

    What a provider calls a request and a model is left out: equal runs need not share it.
    """
    (spec,) = db.execute("SELECT spec FROM studies WHERE id = ?", (study,)).fetchone()
    episodes = db.execute(
        "SELECT episodes.id, n_steps, start_hash, "
        "(SELECT hash FROM steps WHERE episode = episodes.id ORDER BY idx DESC LIMIT 1), "
        "scores.hash FROM episodes LEFT JOIN scores ON scores.episode = episodes.id "
        "WHERE episodes.study = ? AND episodes.status = 'done' ORDER BY episodes.id",
        (study,),
    ).fetchall()
    memory = [
        digest(*row)
        for row in db.execute(
            "SELECT version, text, sources, state FROM memory_versions WHERE study = ? "
            "ORDER BY version",
            (study,),
        )
    ]
    invalid = db.execute(
        "SELECT checkpoint FROM invalid_points WHERE study = ? ORDER BY checkpoint", (study,)
    ).fetchall()
    calls = [
        digest(*row)
        for row in db.execute(
            "SELECT place, step, purpose, attempt, chat, layout, request_hash, reply, finish, "
            "input_tokens, cached_tokens, output_tokens, reasoning_tokens FROM calls "
            "WHERE study = ? ORDER BY place, step, purpose, attempt",
            (study,),
        )
    ]
    updates = update_digests(db, study)
    more = [calls, updates] if updates else [calls] if calls else []
    return digest(study, spec, episodes, memory, invalid, *more)


def store_root(db: sqlite3.Connection) -> str | None:
    """Return the root over all sealed studies, or ``None`` while any is unfinished."""
    unfinished = db.execute(
        "SELECT count(*) FROM studies WHERE id NOT IN (SELECT study FROM seals)"
    ).fetchone()[0]
    rows = db.execute("SELECT study, root FROM seals ORDER BY study").fetchall()
    return None if unfinished or not rows else digest(*rows)
