"""How a study of a sweep stands, read from its shard."""

import sqlite3
from dataclasses import dataclass

from s3gym.cluster.lease import holder
from s3gym.records import Phase
from s3gym.schedule import Schedule
from s3gym.store.spec import read_spec
from s3gym.store.updates import UpdateLog
from s3gym.store.verdicts import VerdictLog


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyStatus:
    """How one study of a sweep stands.

    Attributes:
        study: Its id.
        status: As in a store; ``pending`` too where there is no shard yet, and ``unreadable``.
        note: Why it stopped.
        explored: Exploration episodes that are over, of ``to_explore``.
        invalid: (checkpoint, reason) of its invalid points.
        curve: (checkpoint, mean score) so far.
        updates: What each update of its weights came to, for a training study.
        root: Its sealed root.
        worker: Who writes to it now; empty for nobody.
    """

    study: str
    status: str
    note: str = ""
    explored: int = 0
    to_explore: int = 0
    invalid: tuple[tuple[int, str], ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    updates: tuple[str, ...] = ()
    root: str | None = None
    worker: str = ""

    @property
    def done(self) -> bool:
        """Whether nothing is left for a resume."""
        return self.status == "done" and not self.invalid


def standing(study: str, db: sqlite3.Connection) -> StudyStatus:
    """Return how the study of a shard stands."""
    spec, status, note = db.execute("SELECT spec, status, note FROM studies").fetchone()
    schedule = Schedule(**read_spec(study, spec)["schedule"])
    (explored,) = db.execute(
        "SELECT count(*) FROM episodes WHERE phase = ? AND status = 'done'", (Phase.EXPLORATION,)
    ).fetchone()
    invalid = db.execute("SELECT checkpoint, reason FROM invalid_points ORDER BY checkpoint")
    log, held = VerdictLog(db), holder(db)
    return StudyStatus(
        study=study,
        status=status,
        note=note,
        explored=explored,
        to_explore=schedule.exploration_episodes,
        invalid=tuple(invalid.fetchall()),
        curve=tuple(log.curve(study)),
        updates=outcomes_of(db, study),
        root=log.root(study),
        worker=held[0] if held is not None and held[1] else "",
    )


def outcomes_of(db: sqlite3.Connection, study: str) -> tuple[str, ...]:
    """Return what each update of a study's weights came to, in order; empty for other studies."""
    return tuple(row.outcome for version, row in UpdateLog(db).of(study).items() if version)
