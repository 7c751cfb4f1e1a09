"""What combining two units of nullify gives, as its rules print it."""

import math
from itertools import combinations

from s3gym.agents.reading.nullify import Operator, Unit

ZERO = 1e-6
LARGEST = 1e12


def cancel(one: float, two: float) -> bool:
    """Return whether two numbers vanish together."""
    return abs(one + two) <= ZERO * max(1.0, abs(one), abs(two))


def operate(operator: Operator, x: float) -> float | None:
    """Return the operator's effect on a number, or ``None`` when it is not allowed."""
    name, k = operator.name, operator.k
    if name == "*":
        result = x * k
    elif name == "/":
        result = x / k
    elif name == "sqrt":
        if x < 0:
            return None
        result = math.sqrt(x)
    elif name == "square":
        result = x * x
    elif name == "reciprocal":
        if not x:
            return None
        result = 1 / x
    else:
        nearest = round(x)
        whole = nearest if abs(x - nearest) <= ZERO else None
        result = float(whole if whole is not None else getattr(math, name)(x))
    return result if abs(result) <= LARGEST else None


def combine(one: Unit, two: Unit) -> tuple[Unit, ...] | None:
    """Return what replaces two units: one number or nothing; ``None`` when they are illegal."""
    if isinstance(one, Operator):
        if isinstance(two, Operator):
            return None
        one, two = two, one
    if isinstance(two, Operator):
        result = operate(two, one)
        if result is None:
            return None
        return () if abs(result) <= ZERO else (result,)
    if cancel(one, two):
        return ()
    return (one + two,) if abs(one + two) <= LARGEST else None


def play(units: tuple[Unit, ...], low: int, high: int) -> tuple[Unit, ...] | None:
    """Return the units after combining two of them, or ``None`` when that is illegal."""
    result = combine(units[low], units[high])
    if result is None:
        return None
    return (*units[:low], *units[low + 1 : high], *units[high + 1 :], *result)


def legal_pairs(units: tuple[Unit, ...]) -> list[tuple[int, int]]:
    """Return all pairs of indices that may be combined, the lower index first."""
    return [
        (low, high)
        for (low, one), (high, two) in combinations(enumerate(units), 2)
        if combine(one, two) is not None
    ]
