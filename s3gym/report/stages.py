"""Where does it break: does the agent test enough, judge well, and improve by it?

Three numbers in [0, 1] per arm, each with its evidence, and a sentence that names the weakest
stage, or says that the data cannot tell. Rough on purpose: exploration is easier than the
evaluation whose anchors place its best episode, and only an oracle arm can show a cause.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from s3gym import metrics
from s3gym.report.arms import Arm, Arms, share
from s3gym.report.judged import judged
from s3gym.report.records import GameFacts, StudyRecord
from s3gym.report.schema import ComparisonRow, StageRow

WEAK = 0.5
CLEARLY = 0.1


class Stages(NamedTuple):
    """The three numbers; ``None`` where one is not defined."""

    testing: float | None
    judging: float | None
    improving: float | None


def _clip(value: float | None) -> float | None:
    return None if value is None else min(max(value, 0.0), 1.0)


def _testing(studies: Sequence[StudyRecord], facts: GameFacts | None) -> float | None:
    if facts is None:
        return None
    peaks = [max((e.score for e in s.exploration), default=None) for s in studies]
    skills = [
        _clip(metrics.skill(peak, facts.random, facts.reference))
        for peak in peaks
        if peak is not None
    ]
    return metrics.mean(skill for skill in skills if skill is not None)


def _improving(
    arms: Arms, arm: Arm, row: ComparisonRow | None, facts: GameFacts | None
) -> float | None:
    if facts is None or row is None or row.mean is None:
        return None
    levels = [metrics.later(study.points) for study in arms[arm.control]]
    level = metrics.mean(value for value in levels if value is not None)
    if level is None or not facts.reference > level:
        return None
    return _clip(row.mean / (facts.reference - level))


def stage_rows(
    arms: Arms, rows: Sequence[ComparisonRow], facts: Mapping[str, GameFacts]
) -> list[StageRow]:
    """Return one row per arm that has a control arm beside it."""
    return [
        _row(arms, Arm(row.game, row.agent, row.memory, row.store), row, facts.get(row.game))
        for row in rows
    ]


def _row(arms: Arms, arm: Arm, row: ComparisonRow, facts: GameFacts | None) -> StageRow:
    studies = arms[arm]
    pairs = metrics.judged_pairs(judged(studies))
    n_steps = sum(len(study.steps) for study in studies)
    n_seen = n_steps + sum(len(study.exploration) for study in studies)
    rewarded = sum(step.reward > 0 for study in studies for step in study.steps)
    anchored = facts if facts and dict(studies[0].options) == dict(facts.default_options) else None
    stages = Stages(
        testing=_testing(studies, anchored),
        judging=_clip(metrics.informedness(pairs)),
        improving=_improving(arms, arm, row, anchored),
    )
    reward_share = share(rewarded, n_steps)
    weakest, sentence = explain(stages, row.direction, len(row.repeats), reward_share)
    return StageRow(
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        store=arm.store,
        testing=stages.testing,
        judging=stages.judging,
        improving=stages.improving,
        reward_share=reward_share,
        distinct_observations=share(sum(s.n_observations for s in studies), n_seen),
        distinct_actions=metrics.mean(float(study.n_actions) for study in studies),
        weakest=weakest,
        sentence=sentence,
    )


def explain(
    stages: Stages, direction: str, n_repeats: int, reward_share: float | None
) -> tuple[str, str]:
    """Return the weakest stage and a sentence with its evidence.

    The stage is ``""`` when the data cannot tell: too few repeats, a stage that could not be
    measured, or two stages within 0.1 of each other.
    """
    if reward_share is None:
        return "", "No exploration step is on record."
    if reward_share == 0:
        return "testing", (
            "Testing: exploration never met a reward, so there was nothing to judge or to keep."
        )
    if n_repeats < metrics.LEAST_REPEATS_FOR_INTERVAL:
        return "", f"The data cannot tell: {n_repeats} paired repeats, at least 3 are needed."
    measured = {name: value for name, value in stages._asdict().items() if value is not None}
    if direction == "unclear":
        measured.pop("improving", None)
    low = sorted(measured, key=lambda name: measured[name])
    said = ", ".join(f"{name} {measured[name]:.2f}" for name in Stages._fields if name in measured)
    if len(low) < 2 or measured[low[1]] - measured[low[0]] < CLEARLY:
        reason = "no stage is clearly the weakest" if len(low) > 1 else "too little is measured"
        return (
            "",
            f"The data cannot tell: {reason} ({said or 'nothing measured'}). {_gain(direction)}",
        )
    weakest = low[0]
    if measured[weakest] >= WEAK:
        return weakest, f"No stage is weak; {weakest} is the weakest ({said}). {_gain(direction)}"
    return weakest, f"{WHY[weakest]} ({said}). {_gain(direction)}"


WHY = {
    "testing": "Testing: even the best exploration episodes stay far from the reference player",
    "judging": "Judging: positive self-scores hardly depend on whether a reward comes",
    "improving": "Improving: what was explored and judged moves later scores little",
}


def _gain(direction: str) -> str:
    return {
        "better": "Experience did help.",
        "worse": "Experience did harm.",
    }.get(direction, "Whether experience helped is not clear yet.")
