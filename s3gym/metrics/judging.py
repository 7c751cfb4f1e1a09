"""How well self-scores foretell the verifier's rewards, step by step.

Everything works on ``Judged`` steps: a self-score, a reward and how the reply kept the response
contract. Two kinds of step are left out of the measures and reported as shares instead: steps
without a self-score (never read as 0) and END steps (the contract fixes their self-score at 0
and the runner their reward, so they would only flatter the agreement).

Source: S3Gym paper, step-level judging (tables 5 and 6), which counts all transitions.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, isfinite
from typing import NamedTuple

Pair = tuple[float, float]
"""``(self-score, reward)``, both in game points."""


class Judged(NamedTuple):
    """One step as judging sees it.

    Attributes:
        self_score: The agent's estimate, in game points; ``None`` when missing.
        reward: The verifier's value, in game points.
        status: How the reply kept the response contract; ``"end"`` for END steps.
    """

    self_score: float | None
    reward: float
    status: str = "ok"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Least and greatest self-score and reward of a pool of steps, in game points."""

    self_low: float
    self_high: float
    reward_low: float
    reward_high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Judging:
    """The judging measures of a pool of steps; ``None`` where no step can tell.

    Attributes:
        n_steps: All steps of the pool.
        n_judged: Steps with a self-score that are not END.
        missing_share: Share of the steps other than END without a self-score, in [0, 1].
        end_share: Share of END steps, in [0, 1].
        agreement: See ``agreement``.
        nmae: See ``nmae``.
        nmae_clipped: See ``nmae_clipped``; ``None`` without a reward range.
        over_confidence: See ``over_confidence``.
        under_confidence: See ``under_confidence``.
        positive_self_scores: P(s > 0), in [0, 1].
        positive_rewards: P(r > 0) over the judged steps, in [0, 1].
    """

    n_steps: int
    n_judged: int
    missing_share: float | None
    end_share: float | None
    agreement: float | None
    nmae: float | None
    nmae_clipped: float | None
    over_confidence: float | None
    under_confidence: float | None
    positive_self_scores: float | None
    positive_rewards: float | None


def judged_pairs(steps: Iterable[Judged]) -> list[Pair]:
    """Return (self-score, reward) of the steps that count: a self-score, and not END.

    Raises:
        ValueError: A number is not finite.
    """
    pairs = [(s, r) for s, r, status in steps if s is not None and status != "end"]
    for pair in pairs:
        if not (isfinite(pair[0]) and isfinite(pair[1])):
            raise ValueError(f"expected finite numbers, got (self-score, reward) {pair!r}")
    return pairs


def _share(flags: Iterable[bool]) -> float | None:
    kept = list(flags)
    return sum(kept) / len(kept) if kept else None


def agreement(pairs: Sequence[Pair]) -> float | None:
    """Return mean[1(s > 0) = 1(r > 0)], in [0, 1]: do both see an event, or neither?

    ``None`` of nothing. ``agreement + over_confidence + under_confidence = 1``.

    Source: S3Gym paper, event agreement.
    """
    return _share((s > 0) == (r > 0) for s, r in pairs)


def over_confidence(pairs: Sequence[Pair]) -> float | None:
    """Return P(s > 0 and r <= 0), in [0, 1]: expected gains that did not come."""
    return _share(s > 0 >= r for s, r in pairs)


def under_confidence(pairs: Sequence[Pair]) -> float | None:
    """Return P(s <= 0 and r > 0), in [0, 1]: gains that were not expected."""
    return _share(r > 0 >= s for s, r in pairs)


def informedness(pairs: Sequence[Pair]) -> float | None:
    """Return P(s > 0 | r > 0) - P(s > 0 | r <= 0), in [-1, 1]: Youden's J.

    0 is what any self-score unrelated to the reward reaches, however rare rewards are; agreement
    is high there for an agent that never expects one. ``None`` when rewards are all above 0 or
    all not.
    """
    hits = _share(s > 0 for s, r in pairs if r > 0)
    alarms = _share(s > 0 for s, r in pairs if r <= 0)
    return None if hits is None or alarms is None else hits - alarms


def scale_of(pairs: Sequence[Pair]) -> Scale | None:
    """Return the extremes of a pool of pairs, the paper's "per game"; ``None`` of nothing."""
    if not pairs:
        return None
    selves, rewards = [s for s, _ in pairs], [r for _, r in pairs]
    return Scale(
        self_low=min(selves),
        self_high=max(selves),
        reward_low=min(rewards),
        reward_high=max(rewards),
    )


def _unit(value: float, low: float, high: float) -> float:
    """Return where a value lies between low (0) and high (1); 0 on a constant column."""
    if not high > low:
        return 0.0
    if not isfinite(high - low):
        value, low, high = value / 4, low / 4, high / 4
    return (value - low) / (high - low)


def errors(pairs: Sequence[Pair], scale: Scale) -> list[float]:
    """Return |minmax(s) - minmax(r)| of every pair, each in [0, 1] inside the scale."""
    return [
        abs(
            _unit(s, scale.self_low, scale.self_high)
            - _unit(r, scale.reward_low, scale.reward_high)
        )
        for s, r in pairs
    ]


def nmae(pairs: Sequence[Pair], scale: Scale | None = None) -> float | None:
    """Return the normalised mean absolute error: mean |minmax(s) - minmax(r)|, in [0, 1].

    Self-scores and rewards are each brought to [0, 1] by their own extremes, so one wild
    self-score compresses all others: read ``nmae_clipped`` beside it.

    Args:
        pairs: Steps of one agent and one game.
        scale: Extremes to use; those of ``pairs`` by default.

    Returns:
        ``None`` of nothing, and where both columns are constant (there is no scale at all). One
        constant column counts as 0.

    Source: S3Gym paper, table 5 (min and max per game; here per agent and game).
    """
    scale = scale or scale_of(pairs)
    if scale is None or not pairs:
        return None
    if scale.self_low == scale.self_high and scale.reward_low == scale.reward_high:
        return None
    return fsum(errors(pairs, scale)) / len(pairs)


def nmae_clipped(pairs: Sequence[Pair], reward_range: tuple[float, float]) -> float | None:
    """Return the mean of |clip(s) - r| / (high - low), in [0, 1].

    Self-scores are clipped to the range of rewards that the game can give and measured on that
    range: no step's error depends on another step. ``None`` of nothing.

    Raises:
        ValueError: The range is empty.
    """
    low, high = reward_range
    if not low < high:
        raise ValueError(f"expected a reward range with low < high, got {reward_range!r}")
    if not pairs:
        return None
    gaps = (abs(min(max(s, low), high) - min(max(r, low), high)) for s, r in pairs)
    return fsum(gap / (high - low) for gap in gaps) / len(pairs)


def status_shares(statuses: Iterable[str]) -> dict[str, float]:
    """Return the share of each status that occurs, in [0, 1], sorted by name."""
    counts = Counter(statuses)
    total = sum(counts.values())
    return {name: counts[name] / total for name in sorted(counts)}


def judge(steps: Iterable[Judged], reward_range: tuple[float, float] | None = None) -> Judging:
    """Return every judging measure of a pool of steps.

    Args:
        steps: Exploration steps of one agent in one game.
        reward_range: Least and greatest reward of one action, in game points.
    """
    pool = list(steps)
    pairs = judged_pairs(pool)
    others = [step for step in pool if step.status != "end"]
    return Judging(
        n_steps=len(pool),
        n_judged=len(pairs),
        missing_share=_share(step.self_score is None for step in others),
        end_share=_share(step.status == "end" for step in pool),
        agreement=agreement(pairs),
        nmae=nmae(pairs),
        nmae_clipped=nmae_clipped(pairs, reward_range) if reward_range else None,
        over_confidence=over_confidence(pairs),
        under_confidence=under_confidence(pairs),
        positive_self_scores=_share(s > 0 for s, _ in pairs),
        positive_rewards=_share(r > 0 for _, r in pairs),
    )


class Bin(NamedTuple):
    """Steps with alike self-scores: their number, mean self-score and mean reward."""

    n_steps: int
    self_score: float
    reward: float


def reliability(pairs: Sequence[Pair], n_bins: int = 10) -> list[Bin]:
    """Return mean rewards along rising self-scores, for a reliability plot.

    Every distinct self-score is a bin; beyond ``n_bins`` of them neighbours are joined so that
    bins hold about equally many steps. Equal self-scores always share a bin.
    """
    by_score: dict[float, list[float]] = {}
    for s, r in pairs:
        by_score.setdefault(s, []).append(r)
    goal = len(pairs) / n_bins if len(by_score) > n_bins else 0
    groups: list[list[Pair]] = []
    for s in sorted(by_score):
        if not groups or len(groups[-1]) >= goal:
            groups.append([])
        groups[-1] += [(s, r) for r in by_score[s]]
    return [
        Bin(
            len(group),
            fsum(s for s, _ in group) / len(group),
            fsum(r for _, r in group) / len(group),
        )
        for group in groups
    ]
