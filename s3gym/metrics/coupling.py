"""Does good self-judging go with gains? Blocks between checkpoints, and whole runs.

Exploration steps are cut into blocks between checkpoints. A block's agreement ``A`` and
normalised error ``E`` are set against the normalised change of score that follows it,
``g = (y_t - y_previous) / (max y - min y)`` with the extremes of that game.

Source: S3Gym paper, table 6 and the run-level correlations.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import fsum, sqrt

from s3gym.metrics.curve import Points, valid_points
from s3gym.metrics.judging import Pair, Scale, agreement, errors


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One block of exploration and what came after it.

    Attributes:
        agreement: Event agreement of its steps, in [0, 1].
        error: Mean normalised error of its steps, in [0, 1].
        gain: Change of score over the block, as a share of the game's range of scores.
    """

    agreement: float
    error: float
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Coupling:
    """How judging in a block goes with the gain after it; ``None`` where it is not defined.

    Attributes:
        n_blocks: Blocks that could be used.
        rho_agreement_gain: Spearman's rho of A and g, in [-1, 1].
        rho_calibration_gain: Spearman's rho of -E and g, in [-1, 1].
        gap_agreement: Mean g of the top tertile by A minus that of the bottom tertile.
        gap_calibration: The same by -E.
    """

    n_blocks: int
    rho_agreement_gain: float | None
    rho_calibration_gain: float | None
    gap_agreement: float | None
    gap_calibration: float | None


def ranks(values: Sequence[float]) -> list[float]:
    """Return one-based ranks; equal values share the mean of their ranks."""
    order = sorted(range(len(values)), key=lambda index: values[index])
    result = [0.0] * len(values)
    first = 0
    while first < len(order):
        last = first
        while last + 1 < len(order) and values[order[last + 1]] == values[order[first]]:
            last += 1
        for position in range(first, last + 1):
            result[order[position]] = (first + last) / 2 + 1
        first = last + 1
    return result


def pearson(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return Pearson's correlation, in [-1, 1].

    ``None`` with fewer than three pairs or a constant column.

    Raises:
        ValueError: The columns differ in length.
    """
    if len(left) != len(right):
        raise ValueError(f"expected equally long columns, got {len(left)} and {len(right)}")
    if len(left) < 3 or len(set(left)) == 1 or len(set(right)) == 1:
        return None
    centre_x, centre_y = fsum(left) / len(left), fsum(right) / len(right)
    xs, ys = [x - centre_x for x in left], [y - centre_y for y in right]
    scale = sqrt(fsum(x * x for x in xs)) * sqrt(fsum(y * y for y in ys))
    if scale == 0:
        return None
    return max(-1.0, min(1.0, fsum(x * y for x, y in zip(xs, ys, strict=True)) / scale))


def spearman(left: Sequence[float], right: Sequence[float]) -> float | None:
    """Return Spearman's rank correlation (ties share ranks); ``None`` as for ``pearson``."""
    return pearson(ranks(left), ranks(right))


def tertile_gap(keys: Sequence[float], gains: Sequence[float]) -> float | None:
    """Return the mean gain of the top third by key minus that of the bottom third.

    Thirds are cut by shared ranks, so the result does not depend on the order of the blocks.
    ``None`` when a third is empty (too few blocks, or too many equal keys).
    """
    n = len(keys)
    placed = list(zip(ranks(keys), gains, strict=True))
    bottom = [g for rank, g in placed if 3 * (rank - 0.5) < n]
    top = [g for rank, g in placed if 3 * (rank - 0.5) > 2 * n]
    if n < 3 or not top or not bottom:
        return None
    return fsum(top) / len(top) - fsum(bottom) / len(bottom)


def score_range(curves: Iterable[Points]) -> float | None:
    """Return max y - min y over the valid points of a game's curves; ``None`` of none."""
    scores = [y for points in curves for _, y in valid_points(points)]
    return max(scores) - min(scores) if scores else None


def blocks(
    points: Points, steps: Mapping[float, Sequence[Pair]], *, scale: Scale, width: float
) -> list[Block]:
    """Return the usable blocks of one study.

    Args:
        points: Its learning curve.
        steps: The judged pairs of the block that ends at each checkpoint.
        scale: Extremes of self-scores and rewards in this game.
        width: ``score_range`` of this game, in game points.

    Returns:
        In order. Blocks without judged steps or beside an invalid point are absent; without a
        range of scores there are none.
    """
    found: list[Block] = []
    if not width > 0:
        return found
    for (_, before), (checkpoint, after) in pairwise(points):
        pairs = steps.get(checkpoint, ())
        share = agreement(pairs)
        if before is None or after is None or share is None:
            continue
        error = fsum(errors(pairs, scale)) / len(pairs)
        found.append(Block(agreement=share, error=error, gain=(after - before) / width))
    return found


def couple(found: Sequence[Block]) -> Coupling:
    """Return how judging and following gains go together over a pool of blocks."""
    agreements = [block.agreement for block in found]
    calibrations = [-block.error for block in found]
    gains = [block.gain for block in found]
    return Coupling(
        n_blocks=len(found),
        rho_agreement_gain=spearman(agreements, gains),
        rho_calibration_gain=spearman(calibrations, gains),
        gap_agreement=tertile_gap(agreements, gains),
        gap_calibration=tertile_gap(calibrations, gains),
    )
