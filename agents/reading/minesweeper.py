"""Reading and writing the observation text of minesweeper.

Grammar, numbers in decimal ASCII digits::

    Rows: R, columns: C, mines: M, flags in use: F, extra lives left: L, step S of T
    Current Game State:
    R lines of C marks separated by one blank; a mark is ? F X or 0 to 8
"""

import re
from dataclasses import dataclass
from functools import lru_cache

TITLE = "Current Game State:"
UNKNOWN, FLAGGED, MINE = "?", "F", "X"
HEADER = re.compile(
    r"Rows: ([0-9]{1,4}), columns: ([0-9]{1,4}), mines: ([0-9]{1,4}), flags in use: ([0-9]{1,4}), "
    r"extra lives left: ([0-9]{1,4}), step ([0-9]{1,4}) of ([0-9]{1,4})"
)
ROW = re.compile(r"[?FX0-8](?: [?FX0-8])*")


@dataclass(frozen=True, slots=True, kw_only=True)
class MinesweeperView:
    """What an observation of minesweeper says.

    Attributes:
        mines: Number of mines under the board, exploded ones included.
        flags: Flags in use; after a loss more than the marks show, as mines hide them.
        lives: Extra lives left.
        step: One-based number of the step about to be played.
        max_steps: Step cap.
        marks: One mark per cell, row by row.
        columns: Cells of a row.
    """

    mines: int
    flags: int
    lives: int
    step: int
    max_steps: int
    marks: str
    columns: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.marks) // self.columns

    def cells(self, *marks: str) -> list[int]:
        """Return the cells with one of the marks, in reading order; (0,0) is cell 0."""
        return [cell for cell, mark in enumerate(self.marks) if mark in marks]

    def neighbours(self, cell: int) -> tuple[int, ...]:
        """Return the up to 8 cells around a cell, in reading order."""
        return neighbours(self.rows, self.columns)[cell]

    def name(self, cell: int) -> str:
        """Return a cell as actions write it: ``(row,column)``."""
        return f"({cell // self.columns},{cell % self.columns})"

    @property
    def remaining(self) -> int:
        """Mines that have not exploded."""
        return self.mines - self.marks.count(MINE)

    @property
    def still_safe(self) -> int:
        """Cells without a mine that are not open yet."""
        closed = self.marks.count(UNKNOWN) + self.marks.count(FLAGGED)
        return closed - self.remaining

    def render(self) -> str:
        """Return the observation text."""
        starts = range(0, len(self.marks), self.columns)
        header = (
            f"Rows: {self.rows}, columns: {self.columns}, mines: {self.mines}, "
            f"flags in use: {self.flags}, extra lives left: {self.lives}, "
            f"step {self.step} of {self.max_steps}"
        )
        rows = (" ".join(self.marks[start : start + self.columns]) for start in starts)
        return "\n".join((header, TITLE, *rows))


@lru_cache(maxsize=8)
def neighbours(rows: int, columns: int) -> tuple[tuple[int, ...], ...]:
    """Return the neighbours of every cell of a board."""
    return tuple(
        tuple(
            r * columns + c
            for r in range(max(0, row - 1), min(rows, row + 2))
            for c in range(max(0, column - 1), min(columns, column + 2))
            if (r, c) != (row, column)
        )
        for row in range(rows)
        for column in range(columns)
    )


def read(text: str) -> MinesweeperView:
    """Return what the observation text says.

    Raises:
        ValueError: The text does not follow the grammar.
    """
    lines = text.split("\n")
    header = HEADER.fullmatch(lines[0])
    if header is None or lines[1:2] != [TITLE]:
        raise ValueError("expected the header of a minesweeper observation")
    rows, columns, mines, flags, lives, step, max_steps = map(int, header.groups())
    body = lines[2:]
    if not columns or len(body) != rows or not rows:
        raise ValueError(f"expected {rows} rows of {columns} marks, got {len(body)} lines")
    for line in body:
        if len(line) != 2 * columns - 1 or not ROW.fullmatch(line):
            raise ValueError(f"expected {columns} marks separated by blanks, got {line[:80]!a}")
    view = MinesweeperView(
        mines=mines,
        flags=flags,
        lives=lives,
        step=step,
        max_steps=max_steps,
        marks="".join(line[::2] for line in body),
        columns=columns,
    )
    if view.render() != text:
        raise ValueError("expected a consistent minesweeper observation")
    return view
