"""The seven blocks of Tetris in their four rotations, as bit masks and as text.

A row mask has bit c set where column c is filled; bit 0 is the leftmost column.
"""

from dataclasses import dataclass
from functools import cache

SHAPES: dict[str, str] = {
    "I": "####",
    "O": "##/##",
    "S": ".##/##.",
    "Z": "##./.##",
    "J": "#../###",
    "L": "..#/###",
    "T": ".#./###",
}
"""Name -> the block at angle 0; rows top to bottom, separated by a slash."""

NAMES: tuple[str, ...] = tuple(SHAPES)
ANGLES: tuple[int, ...] = (0, 90, 180, 270)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """One block at one angle, in its tight bounding box.

    Attributes:
        angle: Clockwise, in degrees.
        rows: The rows as text, top to bottom, ``#`` filled and ``.`` empty.
        masks: The rows as masks, top to bottom.
        width: Columns of the bounding box.
        height: Rows of the bounding box.
    """

    angle: int
    rows: tuple[str, ...]
    masks: tuple[int, ...]
    width: int
    height: int


def turned(rows: tuple[str, ...]) -> tuple[str, ...]:
    """Return rows of text turned clockwise by 90 degrees."""
    return tuple("".join(column) for column in zip(*rows[::-1], strict=True))


def mask_of(row: str, filled: str = "#") -> int:
    """Return the mask of a row of text."""
    return sum(1 << column for column, cell in enumerate(row) if cell == filled)


@cache
def rotations(name: str) -> dict[int, Rotation]:
    """Return a block's rotations by angle."""
    rows = tuple(SHAPES[name].split("/"))
    result = {}
    for angle in ANGLES:
        result[angle] = Rotation(
            angle=angle,
            rows=rows,
            masks=tuple(mask_of(row) for row in rows),
            width=len(rows[0]),
            height=len(rows),
        )
        rows = turned(rows)
    return result


@cache
def panel(name: str) -> str:
    """Return the text that shows a block: each rotation under its angle."""
    return "\n".join(
        "\n".join((f"angle {rotation.angle}:", *rotation.rows))
        for rotation in rotations(name).values()
    )
