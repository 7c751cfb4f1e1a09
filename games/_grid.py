"""Cells of a grid: (row, column), zero-based, row 0 on top."""

from collections.abc import Collection, Iterator, Sequence

Cell = tuple[int, int]
UP, DOWN, LEFT, RIGHT = (-1, 0), (1, 0), (0, -1), (0, 1)
ORTHOGONAL: tuple[Cell, ...] = (UP, DOWN, LEFT, RIGHT)
SURROUNDING: tuple[Cell, ...] = tuple(
    (row, column) for row in (-1, 0, 1) for column in (-1, 0, 1) if (row, column) != (0, 0)
)


def moved(cell: Cell, step: Cell) -> Cell:
    """Return the cell one step away."""
    return (cell[0] + step[0], cell[1] + step[1])


def neighbours(
    cell: Cell, cells: Collection[Cell], steps: Sequence[Cell] = ORTHOGONAL
) -> Iterator[Cell]:
    """Yield the neighbours of a cell that lie in ``cells``."""
    for step in steps:
        other = moved(cell, step)
        if other in cells:
            yield other


def connected(cells: Collection[Cell]) -> bool:
    """Return whether every cell can be reached from every other by orthogonal steps."""
    if not cells:
        return True
    start = next(iter(cells))
    seen, frontier = {start}, [start]
    while frontier:
        for other in neighbours(frontier.pop(), cells):
            if other not in seen:
                seen.add(other)
                frontier.append(other)
    return len(seen) == len(cells)
