"""What the repeats of a study allow one to conclude.

The unit is the *repeat*: checkpoints of one study share their evaluation seeds and their past,
so they are no independent evidence. Everything here takes one number per repeat.

Primary estimand: the arm's mean score over the checkpoints after 0, minus that of the control
arm (memory ``none``) with the same seeds, in game points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import fsum, isfinite, sqrt
from typing import Literal

from s3gym.metrics.curve import Points, mean, valid_points

LEAST_REPEATS_FOR_INTERVAL = 3
LEAST_REPEATS_FOR_P = 6
MOST_REPEATS_FOR_P = 44
LEVEL = 0.95
POWER = 0.8
Direction = Literal["better", "worse", "unclear"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A mean over repeats and how sure it is.

    Attributes:
        values: One number per repeat, in the order given.
        n: Number of repeats.
        mean: Their mean; ``None`` of none.
        sd: Their standard deviation (n - 1); ``None`` below two.
        low: Lower end of the t interval at ``LEVEL``; ``None`` below three repeats, and when
            all repeats are equal (then the spread cannot be estimated).
        high: Upper end.
        p: Exact two-sided sign-flip p; ``None`` below six repeats.
        least_p: The smallest p that so many repeats can give, ``2 / 2**n``.
        detectable: Least true effect found with power 0.8, at the observed spread.
        direction: ``"better"`` or ``"worse"`` when the evidence excludes zero.
    """

    values: tuple[float, ...]
    n: int
    mean: float | None
    sd: float | None
    low: float | None
    high: float | None
    p: float | None
    least_p: float | None
    detectable: float | None
    direction: Direction


def paired_difference(arm: Points, control: Points) -> float | None:
    """Return the primary estimand of one repeat, in game points.

    The mean over the checkpoints after 0 of arm minus control; checkpoints that are invalid in
    either are left out of both. ``None`` when none is left.
    """
    reference = dict(valid_points(control))
    return mean(y - reference[x] for x, y in valid_points(arm) if x > 0 and x in reference)


def paired_differences(
    arm: Mapping[int, Points], control: Mapping[int, Points]
) -> dict[int, float]:
    """Return the primary estimand of every repeat that both arms have, by repeat."""
    found = {
        repeat: paired_difference(arm[repeat], control[repeat])
        for repeat in sorted(arm.keys() & control.keys())
    }
    return {repeat: value for repeat, value in found.items() if value is not None}


def standard_deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation with n - 1; ``None`` below two values."""
    if len(values) < 2:
        return None
    centre = fsum(values) / len(values)
    return sqrt(fsum((value - centre) ** 2 for value in values) / (len(values) - 1))


def t_interval(values: Sequence[float], level: float = LEVEL) -> tuple[float, float] | None:
    """Return the two-sided t interval of the mean.

    ``None`` below three values, and when all are equal: a width of 0 would claim certainty that
    a few equal numbers do not give.
    """
    n, spread = len(values), standard_deviation(values)
    if n < LEAST_REPEATS_FOR_INTERVAL or not spread or len(set(values)) == 1:
        return None
    from scipy.special import stdtrit  # 0.5 s to import: only when an interval is asked for

    centre = fsum(values) / n
    half = float(stdtrit(n - 1, (1 + level) / 2)) * spread / sqrt(n)
    return centre - half, centre + half


def sign_flip_p(values: Sequence[float]) -> float | None:
    """Return the exact two-sided sign-flip p of a mean of zero.

    The share of the ``2**n`` sign assignments whose sum is at least as far from 0 as the one
    observed. Exact when the differences are symmetric about 0, which swapping two arms without
    effect gives. ``None`` below six values (the least p would be above .05) or above 44.
    """
    n = len(values)
    if not LEAST_REPEATS_FOR_P <= n <= MOST_REPEATS_FOR_P:
        return None
    import numpy as np  # only when a p is asked for

    def sums(part: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        found = np.zeros(1)
        for value in part:
            found = np.concatenate([found + value, found - value])
        return np.sort(found)

    goal = abs(fsum(values)) - 1e-9 * fsum(map(abs, values))
    if goal <= 0:
        return 1.0
    left, right = sums(values[: n // 2]), sums(values[n // 2 :])
    below = int(np.searchsorted(right, goal - left).sum())
    return float(min(1.0, 2 * (2**n - below) / 2**n))


def least_p(n: int) -> float | None:
    """Return the smallest sign-flip p of ``n`` repeats; ``None`` where no p is given."""
    return 2.0 ** (1 - n) if LEAST_REPEATS_FOR_P <= n <= MOST_REPEATS_FOR_P else None


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """Return p values adjusted for the false discovery rate, in the order given."""
    n = len(ps)
    adjusted = [1.0] * n
    running = 1.0
    for place, index in enumerate(sorted(range(n), key=lambda i: ps[i], reverse=True)):
        running = min(running, ps[index] * n / (n - place))
        adjusted[index] = running
    return adjusted


def _power(n: int, shift: float, level: float) -> float:
    """Return the power of a t test whose noncentrality is ``shift``."""
    from scipy.special import nctdtr, stdtrit

    critical = float(stdtrit(n - 1, (1 + level) / 2))
    return float(1 - nctdtr(n - 1, shift, critical) + nctdtr(n - 1, shift, -critical))


def minimum_detectable_effect(
    sd: float, n: int, power: float = POWER, level: float = LEVEL
) -> float | None:
    """Return the least true mean that the t interval excludes 0 for, with the given power.

    Args:
        sd: Standard deviation of one repeat's difference.
        n: Number of repeats.
        power: Wanted probability of finding it, in (0, 1).
        level: Level of the interval, in (0, 1).

    Returns:
        In the unit of ``sd``; ``None`` below three repeats.
    """
    if n < LEAST_REPEATS_FOR_INTERVAL:
        return None
    return _detectable_shift(n, power, level) * sd / sqrt(n)


@cache
def _detectable_shift(n: int, power: float, level: float) -> float:
    """Return the noncentrality whose power is as wanted, by bisection."""
    low, high = 0.0, 1.0
    while _power(n, high, level) < power:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if _power(n, middle, level) >= power else (middle, high)
    return high


def repeats_needed(
    sd: float, effect: float, power: float = POWER, level: float = LEVEL, most: int = 1000
) -> int | None:
    """Return how many repeats find a true effect with the given power.

    Returns:
        At least 3; ``None`` when ``most`` repeats do not suffice.

    Raises:
        ValueError: The effect is not above 0.
    """
    if not effect > 0:
        raise ValueError(f"expected an effect above 0, got {effect!r}")
    low, high = LEAST_REPEATS_FOR_INTERVAL, most

    def enough(n: int) -> bool:
        found = minimum_detectable_effect(sd, n, power, level)
        return found is not None and found <= effect

    if not enough(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return low


def estimate(values: Sequence[float]) -> Estimate:
    """Return the mean over repeats with its interval, p and direction.

    The direction is ``"unclear"`` unless the interval excludes 0 and, from six repeats on, the
    sign-flip p is at most .05 as well.

    Raises:
        ValueError: A value is not finite.
    """
    if not all(isfinite(value) for value in values):
        raise ValueError(f"expected finite numbers, got {values!r}")
    n, spread = len(values), standard_deviation(values)
    interval, p = t_interval(values), sign_flip_p(values)
    centre = fsum(values) / n if n else None
    direction: Direction = "unclear"
    excluded = not interval[0] <= 0 <= interval[1] if interval else p is not None
    if centre and excluded and (p is None or p <= 1 - LEVEL):
        direction = "better" if centre > 0 else "worse"
    return Estimate(
        values=tuple(values),
        n=n,
        mean=centre,
        sd=spread,
        low=interval[0] if interval else None,
        high=interval[1] if interval else None,
        p=p,
        least_p=least_p(n),
        detectable=minimum_detectable_effect(spread, n) if interval and spread else None,
        direction=direction,
    )


def unpaired(arm: Sequence[float], control: Sequence[float]) -> Estimate:
    """Return the difference of two means whose repeats share no seeds (Welch's interval).

    Args:
        arm: One number per repeat.
        control: One number per repeat of the other arm.

    Returns:
        ``n`` is the smaller number of repeats, ``values`` is empty, and there is no p. The
        interval is ``None`` below three repeats on either side, or without any spread.
    """
    n, above, below = min(len(arm), len(control)), mean(arm), mean(control)
    nothing = Estimate(
        values=(),
        n=n,
        mean=None if above is None or below is None else above - below,
        sd=None,
        low=None,
        high=None,
        p=None,
        least_p=None,
        detectable=None,
        direction="unclear",
    )
    left, right = standard_deviation(arm), standard_deviation(control)
    if nothing.mean is None or left is None or right is None or n < LEAST_REPEATS_FOR_INTERVAL:
        return nothing
    parts = left**2 / len(arm), right**2 / len(control)
    error = sqrt(sum(parts))
    if error == 0:
        return nothing
    from scipy.special import stdtrit

    freedom = sum(parts) ** 2 / (
        parts[0] ** 2 / (len(arm) - 1) + parts[1] ** 2 / (len(control) - 1)
    )
    half = float(stdtrit(freedom, (1 + LEVEL) / 2)) * error
    low, high = nothing.mean - half, nothing.mean + half
    direction: Direction = "better" if low > 0 else "worse" if high < 0 else "unclear"
    reach = half + float(stdtrit(freedom, POWER)) * error
    return replace(nothing, low=low, high=high, direction=direction, detectable=reach)


def verdict(found: Estimate, arm: str, control: str = "none", unit: str = "points") -> str:
    """Return one sentence that says what the repeats show, and no more than that."""
    if found.n == 0 or found.mean is None:
        return f"no repeat has both {arm} and {control}: nothing to compare"
    seen = f"{found.mean:+.3g} {unit}"
    if found.n < LEAST_REPEATS_FOR_INTERVAL:
        extent = "one run cannot tell" if found.n == 1 else "one run cannot tell, nor can two,"
        return f"{extent} whether {arm} beats {control} ({seen} seen)"
    if found.low is None or found.high is None:
        if found.mean == 0:
            return f"{arm} and {control} do not differ in any of {found.n} repeats"
        if found.direction == "unclear":
            return f"too few repeats: {arm} and {control} differ by {seen} in all {found.n}"
        return f"{arm} is {found.direction} than {control} by {seen} in all {found.n} repeats"
    extent = f"95 % interval {found.low:+.3g} to {found.high:+.3g}, {found.n} repeats"
    if found.direction == "unclear":
        reach = f"; {found.detectable:.3g} would be found in 4 of 5 such runs"
        return f"cannot tell whether {arm} beats {control}: {seen} ({extent}{reach})"
    return f"{arm} is {found.direction} than {control} by {seen} ({extent})"


@dataclass(frozen=True, slots=True, kw_only=True)
class NullBand:
    """What a descriptive metric gives where nothing can be carried over.

    Attributes:
        low: Least value over the control arm's repeats; ``None`` of none.
        high: Greatest value.
        n: Number of repeats behind it.
        by_construction: True when every control curve is flat: then AUC+, signed area and slope
            are 0 by construction, and the band says nothing about noise.
    """

    low: float | None
    high: float | None
    n: int
    by_construction: bool


def is_flat(points: Points) -> bool:
    """Return whether all valid points have one score, as deterministic play gives."""
    return len({y for _, y in valid_points(points)}) <= 1


def null_band(values: Sequence[float | None], curves: Sequence[Points] = ()) -> NullBand:
    """Return the range of a metric over the control arm's repeats.

    Args:
        values: The metric of every control curve; ``None`` where it is not defined.
        curves: The control curves themselves, to see whether they are flat.
    """
    kept = [value for value in values if value is not None]
    return NullBand(
        low=min(kept, default=None),
        high=max(kept, default=None),
        n=len(kept),
        by_construction=bool(curves) and all(map(is_flat, curves)),
    )


def skill(score: float, random: float, reference: float) -> float | None:
    """Return where a score lies between random play (0) and the reference player (1).

    Below 0 and above 1 are legal. ``None`` when the two anchors are equal.
    """
    return None if random == reference else (score - random) / (reference - random)
