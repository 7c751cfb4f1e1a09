"""The board of minesweeper: neighbours, numbers, floods. Knows no flags, lives or scores."""

from collections.abc import Collection

SIZE = 9
CELLS = SIZE * SIZE


def _neighbours(cell: int) -> tuple[int, ...]:
    row, column = divmod(cell, SIZE)
    return tuple(
        r * SIZE + c
        for r in range(max(0, row - 1), min(SIZE, row + 2))
        for c in range(max(0, column - 1), min(SIZE, column + 2))
        if (r, c) != (row, column)
    )


NEIGHBOURS = tuple(map(_neighbours, range(CELLS)))
"""Cell -> its 3, 5 or 8 neighbours in reading order."""


def show(cell: int) -> str:
    """Return a cell as ``(row,column)``."""
    row, column = divmod(cell, SIZE)
    return f"({row},{column})"


def count_neighbours(mines: Collection[int]) -> tuple[int, ...]:
    """Return the number of mines around each cell, the cell itself not counted."""
    numbers = [0] * CELLS
    for mine in mines:
        for cell in NEIGHBOURS[mine]:
            numbers[cell] += 1
    return tuple(numbers)


def flood(start: int, numbers: tuple[int, ...], closed: Collection[int]) -> frozenset[int]:
    """Return the cells that open when a safe cell is uncovered, itself included.

    Args:
        start: The uncovered cell.
        numbers: Mines around each cell.
        closed: Cells that are not unknown; they neither open nor pass the flood on.
    """
    found, waiting = {start}, [start]
    while waiting:
        cell = waiting.pop()
        if numbers[cell] == 0:
            new = [near for near in NEIGHBOURS[cell] if near not in closed and near not in found]
            found.update(new)
            waiting.extend(new)
    return frozenset(found)


def move_mine(mines: frozenset[int], cell: int, spare: int) -> frozenset[int]:
    """Return the mines with the one at ``cell`` moved.

    Args:
        mines: All mines.
        cell: One of them.
        spare: Position of the new place among the mine-free cells in reading order.
    """
    free = [other for other in range(CELLS) if other not in mines]
    return mines - {cell} | {free[spare]}
