"""The units of nullify and what combining two of them gives. Knows no boards and no episodes."""

import math
from dataclasses import dataclass

ZERO = 1e-6
"""The one tolerance: zero tests, and snapping of floor and ceil."""
LARGEST = 1e12
"""Results above it are illegal."""
DIGITS = 12
"""Significant digits shown; enough to win by arithmetic on the text."""
TIMES, OVER = "*", "/"
SQRT, SQUARE, RECIPROCAL, FLOOR, CEIL = UNARY = ("sqrt", "square", "reciprocal", "floor", "ceil")


@dataclass(frozen=True, slots=True)
class Operator:
    """A unit that changes a number.

    Attributes:
        name: ``*``, ``/`` or one of ``UNARY``.
        k: Factor or divisor of ``*`` and ``/``, never 0; 0 for the others.
    """

    name: str
    k: int = 0


Unit = float | Operator
"""A number, or an operator."""


def show(unit: Unit) -> str:
    """Return a unit as the board shows it; numbers carry their sign and 12 digits at most."""
    if isinstance(unit, Operator):
        return f"{unit.name}{unit.k}" if unit.k else unit.name
    return f"{unit:+.{DIGITS}g}"


def is_zero_sum(one: float, two: float) -> bool:
    """Return whether two numbers cancel, relative to the larger of them and 1."""
    return abs(one + two) <= ZERO * max(1.0, abs(one), abs(two))


def floor(x: float) -> int:
    """Return the greatest integer up to x; x next to an integer counts as that integer."""
    nearest = round(x)
    return nearest if abs(x - nearest) <= ZERO else math.floor(x)


def operate(operator: Operator, x: float) -> float | None:
    """Return the operator's effect on a number, or ``None`` when it is illegal."""
    name, k = operator.name, operator.k
    if name == TIMES:
        return x * k
    if name == OVER:
        return x / k
    if name == SQRT:
        return math.sqrt(x) if x >= 0 else None
    if name == SQUARE:
        return x * x
    if name == RECIPROCAL:
        return 1 / x if x else None
    return float(floor(x)) if name == FLOOR else float(-floor(-x))


def combine(one: Unit, two: Unit, zero_vanishes: bool = True) -> tuple[Unit, ...] | None:
    """Return what takes the place of two units; their order does not matter.

    Args:
        one: A unit.
        two: Another.
        zero_vanishes: Whether an operator's result of zero leaves nothing, or the number 0.

    Returns:
        One number, or nothing when both vanish; ``None`` when the pair is illegal.
    """
    if isinstance(one, Operator):
        if isinstance(two, Operator):
            return None
        one, two = two, one
    if isinstance(two, Operator):
        result = operate(two, one)
        if result is not None and abs(result) <= ZERO:
            return () if zero_vanishes else (0.0,)
    else:
        if is_zero_sum(one, two):
            return ()
        result = one + two
    return (result,) if result is not None and abs(result) <= LARGEST else None
