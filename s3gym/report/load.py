"""Reading a store into the records that a report works on. Opens it read-only."""

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from hashlib import blake2b
from math import fsum
from pathlib import Path
from typing import Any

from s3gym.audit.barrier import not_provable
from s3gym.contracts.game import GameSpec
from s3gym.errors import StoreError
from s3gym.records import Phase, Usage
from s3gym.report.load_training import load_training
from s3gym.report.records import (
    EpisodeRow,
    GameFacts,
    ModelUsage,
    Point,
    Recalls,
    StepRow,
    StoreRecord,
    StudyRecord,
)
from s3gym.schedule import Schedule
from s3gym.store.file import damaged_rows, disk_errors, open_reader
from s3gym.store.ledger import ANSWERED
from s3gym.store.spec import kept_apart, read_spec
from s3gym.store.verdicts import store_root

STEPS = """
SELECT episodes.study, episodes.ordinal, steps.idx, steps.self_score, verdicts.reward,
  steps.status, verdicts.legal, steps.action, steps.outcome, episodes.opening
FROM episodes JOIN steps ON steps.episode = episodes.id
JOIN verdicts ON verdicts.episode = steps.episode AND verdicts.idx = steps.idx
WHERE episodes.phase = 'exploration' AND episodes.status = 'done'
ORDER BY episodes.study, episodes.ordinal, steps.idx
"""
SCORES = """
SELECT scores.study, scores.phase, episodes.id, coalesce(scores.checkpoint, episodes.ordinal),
  scores.seed, scores.score, episodes.n_steps
FROM scores JOIN episodes ON episodes.id = scores.episode WHERE episodes.status = 'done'
ORDER BY scores.study, 4, episodes.id
"""
STATUSES = """
SELECT episodes.study, steps.status, count(*), sum(NOT verdicts.legal)
FROM episodes JOIN steps ON steps.episode = episodes.id
JOIN verdicts ON verdicts.episode = steps.episode AND verdicts.idx = steps.idx
WHERE episodes.status = 'done' GROUP BY 1, 2 ORDER BY 1, 2
"""
RECALLS = """
SELECT episodes.study, episodes.phase, episodes.ordinal, steps.recollection, count(*)
FROM episodes JOIN steps ON steps.episode = episodes.id
WHERE episodes.status = 'done' AND steps.recollection <> ''
GROUP BY episodes.id, steps.recollection ORDER BY episodes.id, steps.recollection
"""
CALLS = f"""
SELECT study, model, chat, purpose, count(*), sum(input_tokens), sum(cached_tokens),
  sum(output_tokens), sum(reasoning_tokens)
FROM calls WHERE {ANSWERED} GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""
NEWEST = """
SELECT study, state FROM memory_versions AS one
WHERE version = (SELECT max(version) FROM memory_versions WHERE study = one.study)
"""
OWN_USAGE = """
SELECT episodes.study, sum(json_extract(usage, '$.calls')), sum(json_extract(usage,
  '$.input_tokens')), sum(json_extract(usage, '$.cached_tokens')), sum(json_extract(usage,
  '$.output_tokens')), sum(json_extract(usage, '$.reasoning_tokens'))
FROM steps JOIN episodes ON episodes.id = steps.episode WHERE usage <> '{}' GROUP BY 1
"""


def load_store(path: str | Path, label: str = "") -> StoreRecord:
    """Read everything that a report needs from a store.

    Args:
        path: The store.
        label: Set where several stores are reported on together; becomes the studies' ``store``.

    Raises:
        StoreError: The file is missing, no store, of another version, or damaged.
    """
    path = Path(path)
    with damaged_rows(path), disk_errors(path), closing(open_reader(path)) as db:
        db.execute("BEGIN")  # one snapshot, also beside a writer
        return StoreRecord(
            path=str(path),
            studies=_studies(db, path, label),
            root=store_root(db),
            provenance={
                key: json.loads(value)
                for key, value in db.execute("SELECT key, value FROM provenance ORDER BY key")
            },
            timings=tuple(db.execute("SELECT kind, id, seconds FROM timings ORDER BY rowid")),
        )


def load_stores(
    paths: Sequence[str | Path],
    load: Callable[[str | Path, str], StoreRecord] = load_store,
) -> list[StoreRecord]:
    """Read several stores; each study carries its store's file name when there are several.

    Args:
        paths: The stores.
        load: Reads one, under a label.

    Raises:
        StoreError: As ``load_store``.
    """
    if len(paths) == 1:
        return [load(paths[0], "")]
    names = Counter(Path(path).stem for path in paths)
    return [
        load(path, Path(path).stem if names[Path(path).stem] == 1 else str(path)) for path in paths
    ]


def select(record: StoreRecord, prefix: str) -> StoreRecord:
    """Keep the studies whose id is ``prefix`` or starts with ``prefix/``.

    Raises:
        StoreError: No study fits.
    """
    wanted = prefix.strip("/")
    kept = tuple(s for s in record.studies if f"{s.id}/".startswith(f"{wanted}/"))
    if not kept:
        known = ", ".join(sorted({s.id.rsplit("/", 1)[0] for s in record.studies})) or "none"
        raise StoreError(f"{record.path}: no study starts with {prefix!r}; there are: {known}")
    return replace(record, studies=kept)


def game_facts(spec: GameSpec, options: Mapping[str, Any] | None = None) -> GameFacts:
    """Return what a report needs to know of a game.

    Args:
        spec: The game.
        options: The switches that were played with; the defaults when omitted.
    """
    played = spec.options(**(options or {}))
    setup = spec.setup(played, Phase.EXPLORATION)
    return GameFacts(
        random=spec.anchors.random,
        reference=spec.anchors.reference,
        ceiling=spec.anchors.ceiling,
        reward_range=setup.reward_range,
        default_options=spec.options().model_dump(mode="json"),
    )


def _points(
    schedule: Schedule, invalid: Iterable[tuple[int, str]], episodes: Iterable[EpisodeRow]
) -> tuple[Point, ...]:
    scores: dict[int, list[float]] = defaultdict(list)
    for episode in episodes:
        scores[episode.place].append(episode.score)
    absent = {checkpoint for checkpoint, _ in invalid}
    needed = schedule.evaluation_episodes
    return tuple(
        (at, fsum(scores[at]) / needed)
        if len(scores[at]) == needed and at not in absent
        else (at, None)
        for at in schedule.checkpoints
    )


def _studies(db: sqlite3.Connection, path: Path, label: str) -> tuple[StudyRecord, ...]:
    steps, seen, tried = _exploration(db)
    episodes = _episodes(db)
    statuses, refused = _statuses(db)
    usage = _usage(db)
    recalls = _recalls(db)
    failures = {study: _failures(json.loads(state)) for study, state in db.execute(NEWEST)}
    invalid: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for study, checkpoint, reason in db.execute(
        "SELECT study, checkpoint, reason FROM invalid_points ORDER BY study, checkpoint"
    ):
        invalid[study].append((checkpoint, reason))
    roots = dict(db.execute("SELECT study, root FROM seals"))
    shared = not_provable(db)
    rows = db.execute("SELECT * FROM studies ORDER BY game, agent, memory, repeat, id").fetchall()
    specs = {row[0]: read_spec(row[0], row[6]) for row in rows}
    trained = load_training(db, specs)
    found = []
    for study, game, version, agent, memory, repeat, _, status, note in rows:
        spec = specs[study]
        schedule = Schedule(**spec["schedule"])
        evaluation = episodes[study, Phase.EVALUATION.value]
        found.append(
            StudyRecord(
                id=study,
                store=_label(label, spec.get("oracle", "")),
                oracle=spec.get("oracle", ""),
                game=game,
                game_version=version,
                agent=agent,
                memory=memory,
                repeat=repeat,
                status=status,
                note=note,
                schedule=schedule,
                options=spec.get("options", {}),
                points=_points(schedule, invalid[study], evaluation),
                invalid=tuple(invalid[study]),
                evaluation=tuple(evaluation),
                exploration=tuple(episodes[study, Phase.EXPLORATION.value]),
                steps=tuple(steps[study]),
                n_observations=len(seen[study]),
                n_actions=len(tried[study]),
                statuses=statuses[study],
                n_refused=refused[study],
                recalls=recalls.get(study, Recalls()),
                memory_failures=failures.get(study, 0),
                usage=tuple(usage[study]),
                root=roots.get(study),
                kept=kept_apart(spec),
                not_provable=shared.get(study, ()),
                training=trained.get(study),
            )
        )
    return tuple(found)


def _label(store: str, oracle: str) -> str:
    """Return a study's store label: an oracle is named wherever the study is."""
    return ", ".join(part for part in (store, f"oracle {oracle}" if oracle else "") if part)


def _mark(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def _exploration(
    db: sqlite3.Connection,
) -> tuple[dict[str, list[StepRow]], dict[str, set[bytes]], dict[str, set[bytes]]]:
    """Return per study: its steps, and marks of the observations met and the actions tried."""
    steps: dict[str, list[StepRow]] = defaultdict(list)
    seen: dict[str, set[bytes]] = defaultdict(set)
    tried: dict[str, set[bytes]] = defaultdict(set)
    names: dict[str, str] = {}
    for study, ordinal, index, score, reward, status, legal, action, outcome, opening in db.execute(
        STEPS
    ):
        status = names.setdefault(status, status)
        steps[study].append(StepRow(ordinal, score, reward, status, bool(legal)))
        tried[study].add(_mark(action))
        seen[study].add(_mark(outcome))
        if index == 0:
            seen[study].add(_mark(opening))
    return steps, seen, tried


def _episodes(db: sqlite3.Connection) -> dict[tuple[str, str], list[EpisodeRow]]:
    found: dict[tuple[str, str], list[EpisodeRow]] = defaultdict(list)
    for study, phase, *row in db.execute(SCORES):
        found[study, phase].append(EpisodeRow(*row))
    return found


def _recalls(db: sqlite3.Connection) -> dict[str, Recalls]:
    # A recollection's text is long and shared by many steps: each is looked at once.
    sizes = {
        name: (tokens, dropped)
        for name, tokens, dropped in db.execute("SELECT hash, tokens, dropped FROM recollections")
    }
    found: dict[str, Recalls] = {}
    for study, phase, ordinal, name, n_steps in db.execute(RECALLS):
        tokens, dropped = sizes.get(name, (0, 0))
        old = found.get(study, Recalls())
        first = old.first_cut
        if dropped and phase == Phase.EXPLORATION.value:
            first = ordinal if first is None else min(first, ordinal)
        found[study] = Recalls(
            n_steps=old.n_steps + n_steps,
            n_cut=old.n_cut + (n_steps if dropped else 0),
            first_cut=first,
            most_tokens=max(old.most_tokens, tokens),
        )
    return found


def _failures(state: Any) -> int:
    """Return how often a memory, or one inside it, could not write what it should have."""
    if not isinstance(state, dict):
        return 0
    own, parts = state.get("failures"), state.get("parts")
    inner = [*(parts if isinstance(parts, list) else ()), state.get("inner")]
    return (len(own) if isinstance(own, list) else 0) + sum(map(_failures, inner))


def _statuses(db: sqlite3.Connection) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
    statuses: dict[str, dict[str, int]] = defaultdict(dict)
    refused: dict[str, int] = defaultdict(int)
    for study, status, count, illegal in db.execute(STATUSES):
        statuses[study][status] = count
        refused[study] += illegal
    return statuses, refused


def _usage(db: sqlite3.Connection) -> dict[str, list[ModelUsage]]:
    found: dict[str, list[ModelUsage]] = defaultdict(list)
    for study, model, chat, purpose, *counts in db.execute(CALLS):
        found[study].append(ModelUsage(model, chat, purpose, _sum(counts)))
    for study, *counts in db.execute(OWN_USAGE):
        # An agent that calls its model itself reports what it used with each decision.
        if not any(entry.purpose == "act" for entry in found[study]):
            found[study].append(ModelUsage("", "", "act", _sum(counts)))
    return found


def _sum(counts: Sequence[int | None]) -> Usage:
    calls, read, cached, new, reasoning = (count or 0 for count in counts)
    return Usage(
        calls=calls,
        input_tokens=read,
        cached_tokens=cached,
        output_tokens=new,
        reasoning_tokens=reasoning,
    )
