"""The training pathway in a report: what became of the weights, and of the scores by them."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import NamedTuple

from s3gym import metrics
from s3gym.metrics import Estimate
from s3gym.report.arms import Arm, Arms, share, spread
from s3gym.report.records import StudyRecord, TrainingRecord
from s3gym.report.schema import ComparisonRow, Report, TrainingRow, TransferRow, UpdateCell

BASE = "base"
TRANSFER = {"better": "positive", "worse": "negative"}


def training_rows(arms: Arms) -> list[TrainingRow]:
    """Return one row per training study."""
    return [
        _training_row(arm, study, study.training)
        for arm, studies in arms.items()
        for study in studies
        if study.training is not None
    ]


def _training_row(arm: Arm, study: StudyRecord, training: TrainingRecord) -> TrainingRow:
    scores = dict(study.points)
    updates = [
        UpdateCell(
            version=update.version,
            outcome=update.outcome,
            start=update.start,
            score=scores.get(update.version),
            contract=share(*training.replies.get(update.version, (0, 0))),
            n_examples=update.n_examples,
            origins=update.origins,
            dropped=update.dropped,
            losses=list(update.losses),
            tokens=update.tokens,
            steps=update.steps,
        )
        for update in training.updates
    ]
    told = [cell.tokens for cell in updates if cell.outcome == "trained"]
    known = [tokens for tokens in told if tokens is not None]
    return TrainingRow(
        study=study.id,
        store=arm.store,
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        repeat=study.repeat,
        trainer=training.trainer,
        policy=training.policy,
        start=training.start,
        experience=training.experience,
        variant=training.variant,
        n_examples=sum(cell.n_examples for cell in updates),
        tokens=sum(known) if len(known) == len(told) else None,
        updates=updates,
    )


def transfer_rows(arms: Arms, compared: Sequence[ComparisonRow]) -> list[TransferRow]:
    """Return what training did to the scores, one row per arm that trains."""
    controls = {Arm(row.game, row.agent, row.memory, row.store): row for row in compared}
    return [
        _transfer_row(arm, studies, controls.get(arm))
        for arm, studies in arms.items()
        if any(study.training is not None for study in studies)
    ]


def _transfer_row(
    arm: Arm, studies: Sequence[StudyRecord], control: ComparisonRow | None
) -> TransferRow:
    curves = [study.points for study in studies]
    if control is not None and control.differences:
        against, found = control.control, metrics.estimate(control.differences)
    else:
        gains = (metrics.gain(points) for points in curves)
        against, found = BASE, metrics.estimate([value for value in gains if value is not None])
    pairs = [
        (y, base)
        for points in curves
        if (base := metrics.start(points)) is not None
        for x, y in metrics.valid_points(points)
        if x > 0
    ]
    n_worse = sum(y < base for y, base in pairs)
    return TransferRow(
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        store=arm.store,
        repeats=[study.repeat for study in studies],
        against=against,
        base=spread(metrics.start(points) for points in curves),
        later=spread(metrics.later(points) for points in curves),
        later_best=spread(metrics.later_best(points) for points in curves),
        final_change=spread(metrics.final_change(points) for points in curves),
        n_worse=n_worse,
        n_points=len(pairs),
        transfer=TRANSFER.get(found.direction, "unclear"),
        sentence=_sentence(found, against, n_worse, len(pairs), _unchanged(studies)),
    )


def _unchanged(studies: Sequence[StudyRecord]) -> bool:
    """Return whether no update of an arm has changed its weights."""
    made = [
        update.outcome
        for study in studies
        if study.training is not None
        for update in study.training.updates
        if update.version
    ]
    return bool(made) and set(made) == {"unchanged"}


def _sentence(found: Estimate, against: str, n_worse: int, n_points: int, unchanged: bool) -> str:
    """Say what training did to the scores, negative transfer by its name."""
    if unchanged:
        return "no update changed the weights: no step became an example"
    if found.mean is None:
        return "no score after training is known yet"
    control = "the base weights" if against == BASE else against
    verdict = metrics.verdict(found, "training", control)
    below = below_base(n_worse, n_points)
    if found.direction == "worse":
        return f"negative transfer: {verdict}; {below}"
    if found.mean < 0 and n_points and n_worse == n_points:
        return f"this looks like negative transfer, but {verdict}; {below}"
    if found.direction == "better":
        return f"positive transfer: {verdict}; {below}"
    return f"{verdict}; {below}"


class Progress(NamedTuple):
    """What the updates of an arm came to, over its repeats.

    Attributes:
        n_trained: Updates that changed the weights.
        n_updates: All of them.
        tokens: Trained on; ``None`` where an update does not tell.
        losses: Last loss of the first update and of the last, mean over repeats.
        contract: Share of replies that kept the contract, of the base and of the last weights.
        seconds: That the updates took.
        peak_mb: Most memory, in MB.
        peak_gpu_mb: Most memory of an accelerator, in MB.
    """

    n_trained: int
    n_updates: int
    n_examples: int
    tokens: int | None
    losses: tuple[float | None, float | None]
    contract: tuple[float | None, float | None]
    seconds: float | None
    peak_mb: float | None
    peak_gpu_mb: float | None


def progress(report: Report, arm: TransferRow) -> Progress:
    """Return what the updates of an arm came to."""
    rows = [
        row
        for row in report.training
        if (row.game, row.agent, row.memory, row.store)
        == (arm.game, arm.agent, arm.memory, arm.store)
    ]
    made = [cell for row in rows for cell in row.updates if cell.version]
    known = [row.tokens for row in rows if row.tokens is not None]
    machine = [found for row in rows if (found := machine_of(report, row)) is not None]
    lossy = [[cell.losses[-1] for cell in row.updates if cell.losses] for row in rows]
    shares = [[cell.contract for cell in row.updates if cell.contract is not None] for row in rows]
    return Progress(
        n_trained=sum(cell.outcome == "trained" for cell in made),
        n_updates=len(made),
        n_examples=sum(row.n_examples for row in rows),
        tokens=sum(known) if known and len(known) == len(rows) else None,
        losses=_ends(lossy),
        contract=_ends(shares),
        seconds=fsum(found["seconds"] for found in machine) if machine else None,
        peak_mb=max((found["peak_mb"] for found in machine), default=0.0) or None,
        peak_gpu_mb=max((found["peak_gpu_mb"] for found in machine), default=0.0) or None,
    )


def _ends(series: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Return the mean of the first values and that of the last ones."""
    return (
        metrics.mean(values[0] for values in series if values),
        metrics.mean(values[-1] for values in series if values),
    )


def below_base(n_worse: int, n_points: int) -> str:
    """Say how many checkpoints score below the base weights."""
    return f"{n_worse} of {n_points} checkpoints after training score below the base weights"


def machine_of(report: Report, row: TrainingRow) -> Mapping[str, float] | None:
    """Return what the updates of a study took, see ``load_training.machine_values``."""
    studies = report.timings.get(row.store, {}).get("update", {}).get("studies", {})
    found: Mapping[str, float] | None = studies.get(row.study)
    return found
