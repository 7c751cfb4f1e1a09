"""Dealing boards of nullify that can be won: built backwards from nothing.

Each construction step undoes one later move: from the value ``c`` that must be cancelled it goes
to the value before that move. The units in construction order are the solution, so they stay
here; a game deals them shuffled by a stream of their own.
"""

import math
from itertools import count

from s3gym.games._nullify_units import (
    CEIL,
    FLOOR,
    OVER,
    RECIPROCAL,
    SQRT,
    SQUARE,
    TIMES,
    UNARY,
    ZERO,
    Operator,
    Unit,
    combine,
    floor,
)
from s3gym.seeds import EpisodeSeeds, Stream

ADDENDS = tuple(v for v in range(-10, 11) if v)
FACTORS = tuple(k for k in range(-10, 11) if k not in (0, 1))
SMALLEST, GREATEST = 0.01, 10_000.0
"""Bounds of every value on the way."""
ADD, MULTIPLY, APPLY = KINDS = ("add", "multiply", "apply")

Extension = tuple[tuple[Unit, ...], float]
"""Units to append, and the value before them."""


def construct(seeds: EpisodeSeeds, steps: tuple[int, int]) -> tuple[Unit, ...]:
    """Return the units of a board in construction order.

    Combining the last one with the one before it, then the result with the one before that, and
    so on, wins the board; a board where rounding breaks this is drawn again.

    Args:
        seeds: The episode's seeds.
        steps: Least and greatest number of construction steps.
    """
    return next(
        units
        for attempt in count()
        if wins(units := _build(seeds.stream("construction", attempt), steps))
    )


def deal(seeds: EpisodeSeeds, n_units: int) -> list[int]:
    """Return the construction index of each dealt unit: a uniform order of their own stream."""
    return seeds.stream("order").shuffled(range(n_units))


def wins(units: tuple[Unit, ...]) -> bool:
    """Return whether the units, in construction order, cancel from the last to the first."""
    *rest, value = units
    for position, unit in enumerate(reversed(rest), start=1):
        result = combine(value, unit)
        if not result:
            return result == () and position == len(rest)
        value = result[0]
    return False


def _build(stream: Stream, steps: tuple[int, int]) -> tuple[Unit, ...]:
    n_steps = stream.between(*steps)
    units: list[Unit] = []
    value, done = 0.0, 0
    while done < n_steps:
        kinds: tuple[str, ...] = KINDS
        if not done:
            kinds = (ADD,)
        elif done == n_steps - 1 and not any(isinstance(unit, Operator) for unit in units):
            kinds = (MULTIPLY, APPLY)
        extension = _extend(stream.pick(kinds), value, stream)
        if extension is not None and SMALLEST <= abs(extension[1]) <= GREATEST:
            units.extend(extension[0])
            value = extension[1]
            done += 1
    return (*units, value)


def _extend(kind: str, value: float, stream: Stream) -> Extension | None:
    if kind == ADD:
        addend = float(stream.pick(ADDENDS))
        return (addend,), value - addend
    if kind == MULTIPLY:
        name, k = stream.pick((TIMES, OVER)), stream.pick(FACTORS)
        return (Operator(name, k),), value / k if name == TIMES else value * k
    name = stream.pick(UNARY)
    if name == RECIPROCAL:
        return (Operator(name),), 1 / value
    if name in (FLOOR, CEIL):
        return _round(name, value, stream)
    if value < 0:
        return None
    if name == SQRT:
        return (Operator(SQRT),), value * value
    return (Operator(SQUARE),), stream.pick((1, -1)) * math.sqrt(value)


def _round(name: str, value: float, stream: Stream) -> Extension | None:
    """Undo a floor or ceil: the integer part comes from it, the rest is a number of its own."""
    whole = floor(value)
    fraction = value - whole
    hidden = stream.between(1, 99) / 100
    if not whole:
        return None
    added: tuple[Unit, ...] = (fraction,) if fraction > ZERO else ()
    before = whole + hidden if name == FLOOR else whole - hidden
    return (*added, Operator(name)), before
