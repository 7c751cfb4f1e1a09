"""Studies, arms and comparisons: the numbers of a report that learning curves give."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from s3gym import metrics
from s3gym.metrics import Points
from s3gym.report.records import GameFacts, StudyRecord
from s3gym.report.schema import ArmRow, ComparisonRow, NullRow, PathwayRow, Spread, StudyRow

CONTROL = "none"
UNPARSED = ("no_action", "no_score", "truncated", "refused")
DESCRIPTIVE = ("avg", "max", "auc_plus", "signed_area", "naba", "slope")
OWN: Mapping[str, Callable[[Points], float | None]] = {
    "avg": metrics.avg,
    "max": metrics.best,
    "auc_plus": metrics.auc_plus,
    "signed_area": metrics.signed_area,
    "naba": metrics.naba,
    "slope": metrics.slope,
    "start": metrics.start,
    "later": metrics.later,
    "later_best": metrics.later_best,
    "gain": metrics.gain,
    "final_change": metrics.final_change,
}
"""Metrics of one curve, by name."""


class Arm(NamedTuple):
    """What is compared: a game, an agent and a memory, of one store."""

    game: str
    agent: str
    memory: str
    store: str = ""

    @property
    def control(self) -> "Arm":
        """The same with an empty memory."""
        return self._replace(memory=CONTROL)


Arms = Mapping[Arm, Sequence[StudyRecord]]


def arm_of(study: StudyRecord) -> Arm:
    """Return the arm that a study belongs to."""
    return Arm(study.game, study.agent, study.memory, study.store)


def by_arm(studies: Iterable[StudyRecord]) -> dict[Arm, list[StudyRecord]]:
    """Group studies by arm; arms and repeats in rising order."""
    found: dict[Arm, list[StudyRecord]] = defaultdict(list)
    for study in studies:
        found[arm_of(study)].append(study)
    return {arm: sorted(found[arm], key=lambda s: s.repeat) for arm in sorted(found)}


def spread(values: Iterable[float | None]) -> Spread:
    """Return mean and interval of the values that are defined."""
    kept = [value for value in values if value is not None]
    found = metrics.estimate(kept)
    return Spread(mean=found.mean, low=found.low, high=found.high, n=found.n)


def share(part: int, whole: int) -> float | None:
    """Return part / whole, or ``None`` of nothing."""
    return part / whole if whole else None


def pooled_starts(arms: Arms) -> dict[tuple[str, str, str, int], float | None]:
    """Return y0 pooled over the arms of a game, agent, store and repeat."""
    curves: dict[tuple[str, str, str, int], list[Points]] = defaultdict(list)
    for arm, studies in arms.items():
        for study in studies:
            curves[arm.game, arm.agent, arm.store, study.repeat].append(study.points)
    return {key: metrics.pooled_start(found) for key, found in curves.items()}


def study_metrics(study: StudyRecord, pooled: float | None) -> dict[str, float | None]:
    """Return every metric of one learning curve."""
    found = {name: metric(study.points) for name, metric in OWN.items()}
    found["auc_plus_pooled"] = (
        None if pooled is None else metrics.auc_plus(study.points, baseline=pooled)
    )
    return dict(sorted(found.items()))


def study_row(
    study: StudyRecord, found: Mapping[str, float | None], facts: GameFacts | None
) -> StudyRow:
    """Return one study's row."""
    n_steps = sum(study.statuses.values())
    judged = (metrics.Judged(s.self_score, s.reward, s.status) for s in study.steps)
    used = [entry.usage for entry in study.usage]
    return StudyRow(
        id=study.id,
        store=study.store,
        game=study.game,
        agent=study.agent,
        memory=study.memory,
        repeat=study.repeat,
        status=study.status,
        note=study.note,
        root=study.root,
        kept=study.kept,
        not_provable=list(study.not_provable),
        points=list(study.points),
        invalid=list(study.invalid),
        metrics=found,
        exploration_scores=[episode.score for episode in study.exploration],
        n_exploration_steps=len(study.steps),
        n_observations=study.n_observations,
        n_actions=study.n_actions,
        judging=metrics.judge(judged, facts.reward_range if facts else None),
        statuses={name: count / n_steps for name, count in sorted(study.statuses.items())},
        unparsed=share(sum(study.statuses.get(name, 0) for name in UNPARSED), n_steps),
        refused=share(study.n_refused, n_steps),
        recalls_cut=share(study.recalls.n_cut, study.recalls.n_steps),
        first_cut=study.recalls.first_cut,
        most_tokens=study.recalls.most_tokens,
        memory_tokens=study.schedule.memory_tokens,
        memory_failures=study.memory_failures,
        n_calls=sum(usage.calls for usage in used),
        tokens=sum(usage.input_tokens + usage.output_tokens for usage in used),
    )


def _skill(rows: Sequence[StudyRow], study: StudyRecord, facts: GameFacts | None) -> Spread | None:
    if facts is None or dict(study.options) != dict(facts.default_options):
        return None
    values = [row.metrics["later"] for row in rows]
    return spread(
        None if value is None else metrics.skill(value, facts.random, facts.reference)
        for value in values
    )


def arm_row(
    arm: Arm, studies: Sequence[StudyRecord], rows: Sequence[StudyRow], facts: GameFacts | None
) -> ArmRow:
    """Return one arm's row."""
    scores: dict[int, list[float | None]] = defaultdict(list)
    for study in studies:
        for checkpoint, score in study.points:
            scores[checkpoint].append(score)
    return ArmRow(
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        store=arm.store,
        repeats=[study.repeat for study in studies],
        status=dict(sorted(Counter(study.status for study in studies).items())),
        n_invalid=sum(len(study.invalid) for study in studies),
        metrics={name: spread(row.metrics[name] for row in rows) for name in rows[0].metrics},
        skill=_skill(rows, studies[0], facts),
        curve=[(checkpoint, spread(scores[checkpoint])) for checkpoint in sorted(scores)],
    )


def compare_with_control(arms: Arms, arm: Arm) -> ComparisonRow | None:
    """Return an arm's primary estimand, or ``None`` for the control arm and without one."""
    control = arms.get(arm.control)
    if arm.memory == CONTROL or control is None:
        return None
    paired = metrics.paired_differences(
        {study.repeat: study.points for study in arms[arm]},
        {study.repeat: study.points for study in control},
    )
    found = metrics.estimate(list(paired.values()))
    return ComparisonRow(
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        store=arm.store,
        control=CONTROL,
        repeats=list(paired),
        differences=list(found.values),
        mean=found.mean,
        low=found.low,
        high=found.high,
        p=found.p,
        q=None,
        least_p=found.least_p,
        detectable=found.detectable,
        direction=found.direction,
        slope=spread(metrics.slope(study.points) for study in arms[arm]),
        verdict=metrics.verdict(found, arm.memory),
    )


def comparisons(arms: Arms) -> list[ComparisonRow]:
    """Return every arm's primary estimand, p values adjusted over all of them."""
    rows = [row for arm in arms if (row := compare_with_control(arms, arm)) is not None]
    tested = [row.p for row in rows if row.p is not None]
    adjusted = iter(metrics.benjamini_hochberg(tested))
    done = []
    for row in rows:
        if row.p is None:
            done.append(row)
            continue
        q = next(adjusted)
        done.append(replace(row, q=q, verdict=row.verdict + _adjusted(row, q, len(tested))))
    return done


def _adjusted(row: ComparisonRow, q: float, n: int) -> str:
    if n < 2 or row.direction == "unclear":
        return ""
    if q > 1 - metrics.LEVEL:
        return f"; not beyond chance among {n} comparisons (q = {q:.2g})"
    return f"; holds among {n} comparisons (q = {q:.2g})"


def null_rows(arms: Arms, rows: Mapping[Arm, Sequence[StudyRow]]) -> list[NullRow]:
    """Return the control arms' ranges of the descriptive metrics."""
    return [
        NullRow(
            game=arm.game,
            agent=arm.agent,
            store=arm.store,
            bands={
                name: metrics.null_band(
                    [row.metrics[name] for row in rows[arm]], [study.points for study in studies]
                )
                for name in DESCRIPTIVE
            },
        )
        for arm, studies in arms.items()
        if arm.memory == CONTROL
    ]


def pathway_rows(arms: Arms) -> list[PathwayRow]:
    """Return summary against history for every game, agent and store that has both arms."""
    found = []
    for arm, studies in arms.items():
        history = arms.get(arm._replace(memory="history"))
        if arm.memory != "summary" or history is None:
            continue
        curves = {study.repeat: study.points for study in history}
        deltas = [
            metrics.delta_naba(study.points, curves[study.repeat])
            for study in studies
            if study.repeat in curves
        ]
        found.append(
            PathwayRow(
                game=arm.game, agent=arm.agent, store=arm.store, wins=metrics.pathway_wins(deltas)
            )
        )
    return found
