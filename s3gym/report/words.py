"""Numbers as people read them, the same in the terminal and on the page."""

from collections.abc import Callable

from s3gym.report.schema import Spread

MISSING = "–"


def number(value: float | None, signed: bool = False) -> str:
    """Return three significant digits, or a dash."""
    if value is None:
        return MISSING
    if value == 0:
        return "0"
    text = f"{value:+.3g}" if signed else f"{value:.3g}"
    if "e" in text and 1e-4 <= abs(value) < 1e7:
        text = f"{value:+,.0f}" if signed else f"{value:,.0f}"
    return text.replace("-", "\u2212")


def percent(share: float | None) -> str:
    """Return a share in per cent, or a dash; small shares keep a digit."""
    if share is None:
        return MISSING
    if 0 < share < 0.1 or 0.99 < share < 1:
        return f"{share:.1%}".replace("%", "\u00a0%")
    return f"{share:.0%}".replace("%", "\u00a0%")


def count(value: float | None) -> str:
    """Return a whole number with separators, or a dash."""
    return MISSING if value is None else f"{value:,.0f}"


def probability(value: float | None) -> str:
    """Return a p value, or a dash."""
    if value is None:
        return MISSING
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"


def interval(low: float | None, high: float | None) -> str:
    """Return an interval, or a dash."""
    if low is None or high is None:
        return MISSING
    return f"{number(low, signed=True)} to {number(high, signed=True)}"


def spread(found: Spread | None, signed: bool = False) -> str:
    """Return a mean with half the width of its interval."""
    if found is None or found.mean is None:
        return MISSING
    if found.low is None or found.high is None:
        return number(found.mean, signed)
    return f"{number(found.mean, signed)} ± {number((found.high - found.low) / 2)}"


def change(ends: tuple[float | None, float | None], shown: Callable[[float | None], str]) -> str:
    """Return a first and a last value, or a dash."""
    first, last = ends
    return MISSING if first is None and last is None else f"{shown(first)} to {shown(last)}"
