"""Reading tetris' observation text.

Grammar, line by line::

    Current Game State:
    <H lines of W marks>        * filled, . empty; row 0 on top
    Next Block:
    angle 0:                    then the rows of the block at that angle, # filled, . empty
    angle 90:                   (the same for each of the four angles, turned clockwise)
    angle 180:
    angle 270:
    Blocks placed: <n>

When no block is left, the single line ``none`` stands below ``Next Block:``.
"""

import re
from dataclasses import dataclass
from functools import lru_cache

HEADER, BLOCK_HEADER, NO_BLOCK = "Current Game State:", "Next Block:", "none"
FILLED, EMPTY = "*", "."
ANGLES = (0, 90, 180, 270)
CELLS_PER_BLOCK = 4
GRAMMAR = re.compile(
    r"Current Game State:\n(?P<board>[*.\n]+)\nNext Block:\n(?P<block>none|"
    r"angle 0:\n[#.\n]+\nangle 90:\n[#.\n]+\nangle 180:\n[#.\n]+\nangle 270:\n[#.\n]+)"
    r"\nBlocks placed: (?P<placed>[0-9]{1,9})"
)
ANGLE_LINE = re.compile(r"\n?angle [0-9]+:\n")

Rows = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TetrisView:
    """What one text shows.

    Attributes:
        rows: The board, row 0 on top, one mark per cell.
        block: The block to place at each of ``ANGLES``, as rows of text; empty when no block
            is left.
        placed: Blocks placed so far.
    """

    rows: Rows
    block: tuple[Rows, ...]
    placed: int

    @property
    def width(self) -> int:
        """Columns of the board."""
        return len(self.rows[0])

    @property
    def height(self) -> int:
        """Rows of the board."""
        return len(self.rows)

    @property
    def cleared(self) -> int:
        """Rows removed so far: every cell that was placed and is gone left in a full row."""
        filled = sum(row.count(FILLED) for row in self.rows)
        return (CELLS_PER_BLOCK * self.placed - filled) // self.width

    def render(self) -> str:
        """Return the text that this was read from."""
        lines = [HEADER, *self.rows, BLOCK_HEADER]
        for angle, rows in zip(ANGLES, self.block, strict=False):
            lines += [f"angle {angle}:", *rows]
        if not self.block:
            lines.append(NO_BLOCK)
        lines.append(f"Blocks placed: {self.placed}")
        return "\n".join(lines)


@lru_cache(maxsize=2048)
def read(text: str) -> TetrisView:
    """Read an observation.

    Raises:
        ValueError: The text breaks the grammar.
    """
    match = GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError("expected the observation text of tetris")
    shown = match["block"]
    panels = [] if shown == NO_BLOCK else ANGLE_LINE.split(shown)[1:]
    view = TetrisView(
        rows=tuple(match["board"].split("\n")),
        block=tuple(tuple(panel.split("\n")) for panel in panels),
        placed=int(match["placed"]),
    )
    for rows in (view.rows, *view.block):
        if not rows[0] or any(len(row) != len(rows[0]) for row in rows):
            raise ValueError("expected rows of equal length in the observation text of tetris")
    if view.render() != text:
        raise ValueError("expected a consistent observation text of tetris")
    return view
