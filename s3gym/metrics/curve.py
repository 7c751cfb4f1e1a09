"""Learning curves: what the paper reads off them, and what it does not.

A curve is a sequence of points ``(checkpoint, score)``: checkpoints are numbers of exploration
episodes in rising order, scores are means of the evaluation episodes there, in game points, and
``None`` where the evaluation could not be completed (an *invalid* point). Between valid points
a curve is a straight line, so an invalid point's neighbours are joined. Nothing here knows of
games, agents or stores.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, isfinite

Points = Sequence[tuple[float, float | None]]
"""A learning curve: ``(checkpoint, score or None)`` in rising order of checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwayWins:
    """How often one pathway has the higher NABA.

    Attributes:
        n_pairs: Pairs whose delta NABA is defined.
        n_undefined: Pairs where it is not. The paper counts such a pair (GPT-4o in nullify, whose
            summary arm never scored), by which value it does not say.
        summary_wins: Those where it is above 0.
        history_wins: Those where it is below 0.
        ties: Those where it is 0.
        mean_delta_naba: Its mean, in episodes; ``None`` without a pair.
    """

    n_pairs: int
    n_undefined: int
    summary_wins: int
    history_wins: int
    ties: int
    mean_delta_naba: float | None


def valid_points(points: Points) -> list[tuple[float, float]]:
    """Return the points that have a score.

    Raises:
        ValueError: Checkpoints do not rise strictly, or a number is not finite.
    """
    for left, right in pairwise(points):
        if not left[0] < right[0]:
            raise ValueError(f"expected rising checkpoints, got {left[0]!r} before {right[0]!r}")
    kept = [(float(x), float(y)) for x, y in points if y is not None]
    for point in kept:
        if not (isfinite(point[0]) and isfinite(point[1])):
            raise ValueError(f"expected finite numbers, got the point {point!r}")
    return kept


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, or ``None`` of nothing; exact up to one rounding of the sum."""
    kept = list(values)
    return fsum(kept) / len(kept) if kept else None


def avg(points: Points) -> float | None:
    """Return the mean score over the valid points, in game points (Avg in the paper).

    ``None`` when no point is valid.

    Source: S3Gym paper, evaluation metrics.
    """
    return mean(y for _, y in valid_points(points))


def best(points: Points) -> float | None:
    """Return the highest valid score, in game points (Max in the paper).

    ``None`` when no point is valid. The best of several noisy points lies above their common
    mean even where nothing was learned: descriptive only.

    Source: S3Gym paper, evaluation metrics.
    """
    return max((y for _, y in valid_points(points)), default=None)


def start(points: Points) -> float | None:
    """Return the score at checkpoint 0, y0; ``None`` when it is missing or invalid."""
    return next((y for x, y in valid_points(points) if x == 0), None)


def later(points: Points) -> float | None:
    """Return the mean score over the valid checkpoints after 0, in game points.

    ``None`` when there is none. The primary estimand compares arms by this number.
    """
    return mean(y for x, y in valid_points(points) if x > 0)


def later_best(points: Points) -> float | None:
    """Return the highest valid score after checkpoint 0, in game points, or ``None``."""
    return max((y for x, y in valid_points(points) if x > 0), default=None)


def gain(points: Points) -> float | None:
    """Return ``later - start``, in game points; ``None`` when either is missing."""
    first, rest = start(points), later(points)
    return None if first is None or rest is None else rest - first


def final_change(points: Points) -> float | None:
    """Return the last valid score minus the score at checkpoint 0, in game points.

    ``None`` when checkpoint 0 is invalid or nothing after it is valid.
    """
    first, kept = start(points), valid_points(points)
    return None if first is None or kept[-1][0] == 0 else kept[-1][1] - first


def _relative(points: Points, baseline: float | None) -> list[tuple[float, float]] | None:
    """Return valid points minus the baseline, or ``None`` where no area is defined."""
    level = start(points) if baseline is None else baseline
    kept = valid_points(points)
    if level is None or not kept or (len(kept) == 1 and len(points) > 1):
        return None
    return [(x, y - level) for x, y in kept]


def _above(width: float, left: float, right: float) -> float:
    """Return the exact area above zero of one straight stretch."""
    low, high = min(left, right), max(left, right)
    if high <= 0:
        return 0.0
    if low >= 0:
        return width * (left + right) / 2
    return width * (high / (high - low)) * high / 2


def auc_plus(points: Points, baseline: float | None = None) -> float | None:
    """Return the area above the first score, in game points times episodes (AUC+).

    The integral of ``max(0, y(x) - y(0))`` over the checkpoints, ``y`` piecewise linear. A line
    that crosses the baseline is cut where it meets it: a peak of 1/3 between neighbours 1/3 and
    2/3 below the baseline, 3 episodes apart, has 1/4 + 1/6 = 0.417 (a figure of the paper that
    clipping at the checkpoints cannot give).

    Args:
        points: The curve; its first point should be checkpoint 0.
        baseline: Level to use in place of the curve's own score at checkpoint 0, for example
            ``pooled_start`` of several arms.

    Returns:
        At least 0. ``None`` when checkpoint 0 is missing or invalid (and no baseline is given),
        or when no other point is valid although more were scheduled. A curve of one valid
        point has an area of 0. Invalid points at the end shorten the curve: nothing is
        extrapolated.

    Source: S3Gym paper, evaluation metrics. Above 0 for most curves without any learning (see
        the explanation of the statistics), so descriptive only.
    """
    curve = _relative(points, baseline)
    if curve is None:
        return None
    return fsum(_above(b[0] - a[0], a[1], b[1]) for a, b in pairwise(curve))


def signed_area(points: Points, baseline: float | None = None) -> float | None:
    """Return the area between curve and first score, losses counted as negative.

    The integral of ``y(x) - y(0)``, in game points times episodes: without learning its mean
    is 0, which is not true of AUC+. Arguments and ``None`` as for ``auc_plus``.
    """
    curve = _relative(points, baseline)
    if curve is None:
        return None
    return fsum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairwise(curve))


def pooled_start(curves: Iterable[Points]) -> float | None:
    """Return the mean score at checkpoint 0 over curves whose arms share that state.

    Before the first exploration episode all memories are empty, so arms of one game, agent and
    repeat measure the same thing there. ``None`` when no curve has a valid checkpoint 0.
    """
    return mean(y for y in map(start, curves) if y is not None)


def slope(points: Points) -> float | None:
    """Return the least-squares slope, in game points per exploration episode.

    ``None`` with fewer than two valid points.
    """
    kept = valid_points(points)
    if len(kept) < 2:
        return None
    centre_x = fsum(x for x, _ in kept) / len(kept)
    centre_y = fsum(y for _, y in kept) / len(kept)
    spread = fsum((x - centre_x) ** 2 for x, _ in kept)
    return fsum((x - centre_x) * (y - centre_y) for x, y in kept) / spread


def naba(points: Points) -> float | None:
    """Return the normalised area above baseline: ``AUC+ / y0``, in episodes.

    Where ``y0 <= 0`` the divisor is eps, the first positive score of the curve (the paper: "the
    first non-zero score scale"). ``None`` when there is none, or when AUC+ is ``None``.

    Source: S3Gym paper, analysis of pathways. Unstable by construction: a low y0 inflates both
        the area and the quotient, so descriptive only.
    """
    area, first = auc_plus(points), start(points)
    if area is None or first is None:
        return None
    if first > 0:
        return area / first
    scale = next((y for _, y in valid_points(points) if y > 0), None)
    return None if scale is None else area / scale


def delta_naba(summary: Points, history: Points) -> float | None:
    """Return NABA of the summary arm minus NABA of the history arm, in episodes.

    ``None`` when either is ``None``.

    Source: S3Gym paper, table 7.
    """
    left, right = naba(summary), naba(history)
    return None if left is None or right is None else left - right


def pathway_wins(deltas: Iterable[float | None]) -> PathwayWins:
    """Count which pathway has the higher NABA over pairs of a summary and a history arm.

    Args:
        deltas: ``delta_naba`` of every pair; those that are ``None`` win nothing and are counted.

    Source: S3Gym paper, table 7. Rests on NABA, so descriptive only.
    """
    every = list(deltas)
    kept = [delta for delta in every if delta is not None]
    return PathwayWins(
        n_pairs=len(kept),
        n_undefined=len(every) - len(kept),
        summary_wins=sum(delta > 0 for delta in kept),
        history_wins=sum(delta < 0 for delta in kept),
        ties=sum(delta == 0 for delta in kept),
        mean_delta_naba=mean(kept),
    )
