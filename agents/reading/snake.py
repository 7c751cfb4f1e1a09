"""Reading snake's observation text.

Grammar, line by line::

    Current Game State:
    <H lines of W marks>        # wall, H head, S body, A apple, X obstacle, . empty
    Current direction: <word>   LEFT, RIGHT, UP or DOWN
    Step <t> of <T>             the step about to be played, from 1

Cells are (row, column), zero-based, row 0 on top. One text does not show in which order the
body lies; the way that the head came does (``trace``).
"""

import re
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from s3gym.records import Turn

Cell = tuple[int, int]
HEADER = "Current Game State:"
WALL, HEAD, BODY, APPLE, OBSTACLE, EMPTY = "#", "H", "S", "A", "X", "."
DIRECTIONS: Mapping[str, Cell] = {
    "LEFT": (0, -1),
    "RIGHT": (0, 1),
    "UP": (-1, 0),
    "DOWN": (1, 0),
}
OPPOSITE: Mapping[str, str] = {"LEFT": "RIGHT", "RIGHT": "LEFT", "UP": "DOWN", "DOWN": "UP"}
ROW = re.compile(r"[#HSAX.]+")
FOOT = re.compile(
    r"Current direction: (LEFT|RIGHT|UP|DOWN)\nStep ([0-9]{1,9}) of ([0-9]{1,9})",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnakeView:
    """What one text shows.

    Attributes:
        rows: The board, row 0 on top, one mark per cell.
        head: Cell of the head.
        step: One-based step about to be played; the last one once the episode is over.
        max_steps: Steps of the episode.
    """

    rows: tuple[str, ...]
    head: Cell
    direction: str
    step: int
    max_steps: int

    @property
    def length(self) -> int:
        """Cells of the snake."""
        return 1 + sum(row.count(BODY) for row in self.rows)

    def mark(self, cell: Cell) -> str:
        """Return the mark of a cell."""
        return self.rows[cell[0]][cell[1]]

    def cells(self, *marks: str) -> tuple[Cell, ...]:
        """Return the cells that show one of the marks, row by row."""
        return tuple(
            (row, column)
            for row, line in enumerate(self.rows)
            for column, mark in enumerate(line)
            if mark in marks
        )

    def target(self, word: str) -> Cell:
        """Return the cell that the head would enter."""
        return neighbour(self.head, word)

    def open_moves(self) -> tuple[str, ...]:
        """Return the words that neither reverse nor hit anything."""
        return tuple(
            word
            for word in DIRECTIONS
            if word != OPPOSITE[self.direction] and self.mark(self.target(word)) in (EMPTY, APPLE)
        )

    def render(self) -> str:
        """Return the text that this was read from."""
        foot = f"Current direction: {self.direction}\nStep {self.step} of {self.max_steps}"
        return "\n".join((HEADER, *self.rows, foot))


@lru_cache(maxsize=2048)
def read(text: str) -> SnakeView:
    """Read an observation.

    Raises:
        ValueError: The text breaks the grammar.
    """
    header, *rows, direction, clock = text.split("\n") if text.count("\n") > 2 else [""] * 3
    foot = FOOT.fullmatch(f"{direction}\n{clock}")
    heads = [(row, line.find(HEAD)) for row, line in enumerate(rows) if HEAD in line]
    if (
        header != HEADER
        or foot is None
        or any(len(row) != len(rows[0]) or not ROW.fullmatch(row) for row in rows)
        or sum(row.count(HEAD) for row in rows) != 1
    ):
        raise ValueError("expected the observation text of snake")
    view = SnakeView(
        rows=tuple(rows),
        head=heads[0],
        direction=foot[1],
        step=int(foot[2]),
        max_steps=int(foot[3]),
    )
    if view.render() != text:
        raise ValueError("expected a consistent observation text of snake")
    return view


def neighbour(cell: Cell, word: str) -> Cell:
    """Return the cell next to one, in a direction."""
    row, column = DIRECTIONS[word]
    return (cell[0] + row, cell[1] + column)


def trace(turn: Turn) -> tuple[Cell, ...]:
    """Return the body from tail to head, in the order in which the head came.

    Where the trail does not reach back far enough, the cells of unknown order come first.
    """
    view = read(turn.observation.text)
    way = [view.head]
    for step in reversed(turn.trail):
        if len(way) == view.length:
            break
        head = read(step.observation.text).head
        if head != way[-1]:
            way.append(head)
    known = tuple(reversed(way))
    unknown = tuple(cell for cell in view.cells(BODY) if cell not in known)
    return unknown + known


def distances(start: Cell, free: Collection[Cell]) -> dict[Cell, int]:
    """Return the steps from a cell to every cell that free cells lead to."""
    found, queue = {start: 0}, deque([start])
    while queue:
        cell = queue.popleft()
        for word in DIRECTIONS:
            other = neighbour(cell, word)
            if other in free and other not in found:
                found[other] = found[cell] + 1
                queue.append(other)
    return found


def touches(cell: Cell, cells: Iterable[Cell]) -> bool:
    """Return whether a cell is one of the cells or lies beside one."""
    row, column = cell
    return any(abs(row - other[0]) + abs(column - other[1]) <= 1 for other in cells)
