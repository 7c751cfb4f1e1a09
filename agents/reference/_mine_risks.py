"""The exact probability of a mine under every cell, from the visible numbers and mine count.

Cells that touch the same numbers form a group; groups that share numbers form a component. Each
component's placements are counted once per group sizes, then combined with the binomial number
of ways to place the remaining mines under cells that touch no number. Counts are exact integers.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from s3gym.agents.reading.minesweeper import FLAGGED, MINE, UNKNOWN, MinesweeperView

Ways = dict[int, int]
"""Mines placed -> number of placements."""


@dataclass(frozen=True, slots=True)
class Component:
    """Groups of cells that depend on one another, and what the numbers demand of them.

    Attributes:
        groups: Cells of each group.
        touching: For each group, the positions of its numbers in ``needs``.
        needs: Mines that each number still misses.
    """

    groups: tuple[tuple[int, ...], ...]
    touching: tuple[tuple[int, ...], ...]
    needs: tuple[int, ...]


def mine_risks(view: MinesweeperView) -> dict[int, float]:
    """Return the probability of a mine, in [0, 1], for every cell that is not open.

    Flags are not believed: flagged cells are treated like unknown ones. Where no placement fits
    the text, every cell gets the average.
    """
    closed = view.cells(UNKNOWN, FLAGGED)
    components = split(view)
    near = {cell for each in components for group in each.groups for cell in group}
    far = [cell for cell in closed if cell not in near]
    counted = [count(each) for each in components]
    ways = [total for total, _ in counted]
    everywhere = combine([*ways, {n: comb(len(far), n) for n in range(len(far) + 1)}])
    total = everywhere.get(view.remaining, 0)
    if not total:
        return dict.fromkeys(closed, view.remaining / max(1, len(closed)))
    risks: dict[int, float] = {}
    outside = {n: comb(len(far), n) for n in range(len(far) + 1)}
    for index, (component, (_, masses)) in enumerate(zip(components, counted, strict=True)):
        others = combine([*ways[:index], *ways[index + 1 :], outside])
        for group, mass in zip(component.groups, masses, strict=True):
            mined = sum(
                weight * others.get(view.remaining - placed, 0) for placed, weight in mass.items()
            )
            risks.update(dict.fromkeys(group, mined / (total * len(group))))
    if far:
        fewer = {n: comb(len(far) - 1, n - 1) for n in range(1, len(far) + 1)}
        mined = combine([*ways, fewer]).get(view.remaining, 0)
        risks.update(dict.fromkeys(far, mined / total))
    return risks


def combine(parts: Sequence[Ways]) -> Ways:
    """Return the ways to place mines in all parts together."""
    result: Ways = {0: 1}
    for part in parts:
        joined: Ways = defaultdict(int)
        for left, ways in result.items():
            for right, more in part.items():
                joined[left + right] += ways * more
        result = joined
    return result


def split(view: MinesweeperView) -> list[Component]:
    """Return the components of the cells that touch a number."""
    touching: dict[int, list[int]] = defaultdict(list)
    needs: dict[int, int] = {}
    for cell in view.cells(*"012345678"):
        around = view.neighbours(cell)
        closed = [near for near in around if view.marks[near] in (UNKNOWN, FLAGGED)]
        needs[cell] = int(view.marks[cell]) - sum(view.marks[near] == MINE for near in around)
        for near in closed:
            touching[near].append(cell)
    groups: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for cell in sorted(touching):
        groups[tuple(touching[cell])].append(cell)
    components = []
    left = dict(groups)
    while left:
        component = _connected(next(iter(left)), left)
        numbers = sorted({number for key in component for number in key})
        position = {number: index for index, number in enumerate(numbers)}
        components.append(
            Component(
                groups=tuple(tuple(left.pop(key)) for key in component),
                touching=tuple(tuple(position[number] for number in key) for key in component),
                needs=tuple(needs[number] for number in numbers),
            )
        )
    return components


def _connected(
    first: tuple[int, ...], groups: dict[tuple[int, ...], list[int]]
) -> list[tuple[int, ...]]:
    """Return the groups that hang together with the first, neighbours close to one another."""
    found, seen = [first], {first}
    for key in found:
        for other in groups:
            if other not in seen and not set(key).isdisjoint(other):
                seen.add(other)
                found.append(other)
    return found


def count(component: Component) -> tuple[Ways, list[Ways]]:
    """Count a component's placements.

    Returns:
        Mines placed -> placements; and for each group, mines placed in the component -> mines in
        the group summed over those placements.
    """
    groups, touching = component.groups, component.touching
    total: Ways = defaultdict(int)
    masses: list[Ways] = [defaultdict(int) for _ in groups]
    needs = list(component.needs)
    room = [0] * len(needs)
    for group, numbers in zip(groups, touching, strict=True):
        for number in numbers:
            room[number] += len(group)
    chosen = [0] * len(groups)

    def place(index: int, placed: int, weight: int) -> None:
        if index == len(groups):
            total[placed] += weight
            for mass, mines in zip(masses, chosen, strict=True):
                if mines:
                    mass[placed] += weight * mines
            return
        size, numbers = len(groups[index]), touching[index]
        for number in numbers:
            room[number] -= size
        low = max(0, *(needs[number] - room[number] for number in numbers))
        high = min(size, *(needs[number] for number in numbers))
        for mines in range(low, high + 1):
            chosen[index] = mines
            for number in numbers:
                needs[number] -= mines
            place(index + 1, placed + mines, weight * comb(size, mines))
            for number in numbers:
                needs[number] += mines
        for number in numbers:
            room[number] += size

    place(0, 0, 1)
    return total, masses
