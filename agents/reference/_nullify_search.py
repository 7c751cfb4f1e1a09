"""Depth-first search for a way to empty a board of nullify.

A position is its sorted numbers and sorted operators. One move applies an operator to the sum of
some numbers; sums that no operator uses need no search, as without operators a board can be won
just when all its numbers sum to zero. Positions that failed are remembered.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations

from s3gym.agents.reading.nullify import Operator, Unit
from s3gym.agents.strategies._nullify_pairs import ZERO, cancel, combine, operate, play

MAX_NODES = 1_500
"""Positions of one search: 0.85 of evaluation boards are won; 3,000 win 0.88 in twice the time."""
Numbers = tuple[float, ...]
Operators = tuple[Operator, ...]
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Use:
    """One move of the search: an operator and the numbers whose sum it is applied to."""

    operator: Operator
    numbers: Numbers


@dataclass(slots=True)
class _Search:
    """One depth-first search.

    Attributes:
        nodes: Positions that may still be looked at.
        failed: Positions without a way from them.
    """

    nodes: int
    failed: set[tuple[Numbers, Operators]] = field(default_factory=set)

    def solve(self, numbers: Numbers, operators: Operators) -> list[Use] | None:
        """Return the moves that leave numbers which sum to zero, or ``None``."""
        if not operators:
            return [] if sums_to_zero(numbers) else None
        if not numbers or (numbers, operators) in self.failed or self.nodes <= 0:
            return None
        self.nodes -= 1
        for use, after in moves(numbers, operators):
            rest = list(operators)
            rest.remove(use.operator)
            found = self.solve(after, tuple(rest))
            if found is not None:
                return [use, *found]
        self.failed.add((numbers, operators))
        return None


def in_order(numbers: Iterator[float] | list[float]) -> Numbers:
    """Return numbers sorted by size, so that the largest, with the widest tolerance, is last."""
    return tuple(sorted(sorted(numbers), key=abs))


def sums_to_zero(numbers: Numbers) -> bool:
    """Return whether adding the numbers in order leaves nothing."""
    total: float | None = None
    for number in numbers:
        if total is None:
            total = number
        else:
            total = None if cancel(total, number) else total + number
    return total is None


def add_up(numbers: Numbers) -> float | None:
    """Return the sum, added in order; ``None`` when a part of it cancels on the way."""
    total = numbers[0]
    for number in numbers[1:]:
        if cancel(total, number):
            return None
        total += number
    return total


def sums(numbers: Numbers) -> Iterator[tuple[Numbers, list[float], float]]:
    """Return each choice of numbers, those left over and the sum, the smallest choices first."""
    seen = set()
    indices = range(len(numbers))
    for size in range(1, len(numbers) + 1):
        for picked in combinations(indices, size):
            used = tuple([numbers[index] for index in picked])
            if used in seen:
                continue
            seen.add(used)
            total = add_up(used)
            if total is not None:
                yield used, [numbers[index] for index in indices if index not in picked], total


def moves(numbers: Numbers, operators: Operators) -> Iterator[tuple[Use, Numbers]]:
    """Return the moves of a position and the numbers that they leave.

    With one operator left only moves are returned after which all numbers may sum to zero.
    """
    different = tuple(dict.fromkeys(operators))
    everything = math.fsum(numbers)
    margin = ZERO * (len(numbers) + 1)
    for used, left, total in sums(numbers):
        for operator in different:
            result = operate(operator, total)
            if result is None:
                continue
            if len(operators) == 1:
                rest = everything - total
                if abs(result + rest) > margin * max(1.0, *map(abs, numbers), abs(result)):
                    continue
            new = left if abs(result) <= ZERO else [*left, result]
            yield Use(operator, used), in_order(new)


def find_plan(units: tuple[Unit, ...], max_nodes: int = MAX_NODES) -> tuple[Pair, ...] | None:
    """Return pairs of indices that empty the board one after the other, or ``None``.

    Args:
        units: The board.
        max_nodes: Most positions to look at.
    """
    numbers = in_order([unit for unit in units if not isinstance(unit, Operator)])
    operators = tuple(sorted(unit for unit in units if isinstance(unit, Operator)))
    uses = _Search(max_nodes).solve(numbers, operators)
    return None if uses is None else spell_out(units, uses)


def spell_out(units: tuple[Unit, ...], uses: list[Use]) -> tuple[Pair, ...] | None:
    """Return the moves of a search as pairs of indices; ``None`` if they do not win after all."""
    pairs: list[Pair] = []

    def pair_up(one: Unit, two: Unit) -> tuple[Unit, ...]:
        nonlocal units
        first = units.index(one)
        second = next(i for i, unit in enumerate(units) if unit == two and i != first)
        pair = (min(first, second), max(first, second))
        pairs.append(pair)
        result = combine(one, two)
        units = play(units, *pair) or ()
        return result or ()

    for use in uses:
        total: Unit = use.numbers[0]
        for number in use.numbers[1:]:
            (total,) = pair_up(total, number)
        pair_up(total, use.operator)
    sums: tuple[Unit, ...] = ()
    for number in in_order([unit for unit in units if not isinstance(unit, Operator)]):
        sums = pair_up(sums[0], number) if sums else (number,)
    return None if units else tuple(pairs)
