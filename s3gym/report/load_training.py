"""Reading what a store knows of the weights of its training studies."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping
from math import isfinite
from typing import Any

from s3gym.report.records import TrainingRecord, UpdateRecord
from s3gym.store.updates import UpdateLog, UpdateRow

PEAKS = ("peak_mb", "peak_gpu_mb")
CONTRACT = """
SELECT episodes.study, episodes.checkpoint, sum(steps.status IN ('ok', 'end')
  AND steps.repairs = '[]'), count(*)
FROM episodes JOIN steps ON steps.episode = episodes.id
WHERE episodes.status = 'done' AND episodes.phase = 'evaluation' GROUP BY 1, 2 ORDER BY 1, 2
"""
"""Replies that kept the response contract exactly, and all of them, per study and checkpoint."""


def load_training(
    db: sqlite3.Connection, specs: Mapping[str, Mapping[str, Any]]
) -> dict[str, TrainingRecord]:
    """Return what is known of the training studies among some, by id.

    Args:
        db: The store.
        specs: Specification of each study.
    """
    trained = {study: spec["training"] for study, spec in specs.items() if "training" in spec}
    if not trained:
        return {}
    replies: dict[str, dict[int, tuple[int, int]]] = defaultdict(dict)
    for study, checkpoint, inside, n in db.execute(CONTRACT):
        replies[study][checkpoint] = (inside, n)
    log = UpdateLog(db)
    return {
        study: TrainingRecord(
            trainer=str(told["trainer"]),
            policy=dict(told["policy"]),
            start=str(told["start"]),
            experience=str(told["experience"]),
            variant=str(told["variant"]),
            updates=tuple(_update(row) for row in log.of(study).values()),
            replies=replies[study],
        )
        for study, told in trained.items()
    }


def _update(row: UpdateRow) -> UpdateRecord:
    return UpdateRecord(
        version=row.version,
        outcome=row.outcome,
        start=row.start,
        n_examples=row.n_examples,
        origins=row.chosen.get("kept", {}),
        dropped=row.chosen.get("dropped", {}),
        losses=_losses(row.log.get("losses")),
        tokens=_whole(row.log.get("tokens")),
        steps=_whole(row.log.get("steps")),
    )


def _losses(told: object) -> tuple[float, ...]:
    """Return the losses that a trainer told of; one that is no number is left out."""
    values = told if isinstance(told, list) else []
    return tuple(
        float(value)
        for value in values
        if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    )


def _whole(told: object) -> int | None:
    return told if isinstance(told, int) and not isinstance(told, bool) else None


def machine_values(
    timings: tuple[tuple[str, str, float], ...], provenance: Mapping[str, Any]
) -> dict[str, dict[str, float]]:
    """Return what the updates of each study took, by study.

    ``n``; ``seconds``, the trainer's own where it tells them, else those around its call;
    ``peak_mb`` and ``peak_gpu_mb``, 0 where it does not tell.
    """
    found: dict[str, dict[str, float]] = {}
    for kind, place, seconds in timings:
        if kind != "update":
            continue
        told = provenance.get(f"update {place}")
        told = told if isinstance(told, dict) else {}
        nothing = {"n": 0, "seconds": 0.0} | dict.fromkeys(PEAKS, 0.0)
        entry = found.setdefault(place.rpartition("/")[0], nothing)
        entry["n"] += 1
        entry["seconds"] += _number(told.get("seconds"), seconds)
        for peak in PEAKS:
            entry[peak] = max(entry[peak], _number(told.get(peak), 0.0))
    return {study: found[study] for study in sorted(found)}


def _number(told: object, default: float) -> float:
    if isinstance(told, int | float) and not isinstance(told, bool) and isfinite(told):
        return float(told)
    return default
