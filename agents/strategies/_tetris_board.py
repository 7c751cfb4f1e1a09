"""Where a block may be placed in Tetris and what that does: boards as one integer each.

Bit ``row * width + column`` of a board is set where a cell is filled; row 0 is on top, so a
shift by ``width`` moves everything down by one row. Follows the printed rules alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from s3gym.agents.reading.tetris import ANGLES, FILLED, Rows, TetrisView

BLOCK_FILLED = "#"
DANGER_ROWS = 4
PER_HEIGHT, PER_HOLE, PER_BUMP, PER_DANGER, PER_ROW = -0.51, -0.9, -0.18, -1.0, 0.76
"""What a board's features are worth (games.md 4.G)."""


class Pose(NamedTuple):
    """A block at one angle and column, in the board's top rows."""

    column: int
    angle: int
    bits: int
    height: int


class Placed(NamedTuple):
    """What a placement gives: the board after full rows disappeared, and how many did."""

    pose: Pose
    board: int
    cleared: int


@dataclass(frozen=True, slots=True)
class Size:
    """Columns and rows of a board."""

    width: int
    height: int


def board_of(view: TetrisView) -> tuple[int, Size]:
    """Return the board that a text shows, and its size."""
    cells = "".join(view.rows)
    bits = int(cells[::-1].replace(FILLED, "1").replace(".", "0"), 2)
    return bits, Size(view.width, view.height)


@lru_cache(maxsize=256)
def poses(block: tuple[Rows, ...], size: Size) -> tuple[Pose, ...]:
    """Return every angle and column of a block on an empty board, left to right per angle.

    Angles that give the same shape as an earlier one are left out.
    """
    found = []
    for number, rows in enumerate(block):
        if rows in block[:number] or len(rows) > size.height:
            continue
        bits = sum(
            1 << row * size.width + column
            for row, line in enumerate(rows)
            for column, cell in enumerate(line)
            if cell == BLOCK_FILLED
        )
        for column in range(size.width - len(rows[0]) + 1):
            found.append(Pose(column + 1, ANGLES[number], bits << column, len(rows)))
    return tuple(found)


def placements(board: int, block: tuple[Rows, ...], size: Size) -> Iterator[Placed]:
    """Yield every placement of a block that does not end the game."""
    free = free_rows(board, size)
    for pose in poses(block, size):
        if not board & pose.bits:
            yield Placed(pose, *drop(board, pose, size, free))


def free_rows(board: int, size: Size) -> int:
    """Return the number of empty rows on top."""
    if not board:
        return size.height
    return ((board & -board).bit_length() - 1) // size.width


def drop(board: int, pose: Pose, size: Size, free: int) -> tuple[int, int]:
    """Let a block fall that fits in the top rows; return the board and the rows removed.

    Args:
        board: The board without the block.
        pose: The block.
        size: Of the board.
        free: Empty rows on top, through which the block falls at once.
    """
    width = size.width
    top = max(free - pose.height, 0)
    lowest = size.height - pose.height
    bits = pose.bits << top * width
    while top < lowest and not board & bits << width:
        bits <<= width
        top += 1
    return without_full_rows(board | bits, top, pose.height, width)


def without_full_rows(board: int, top: int, height: int, width: int) -> tuple[int, int]:
    """Remove the full ones of ``height`` rows from ``top`` on; return board and number."""
    full = (1 << width) - 1
    cleared = 0
    for shift in range(top * width, (top + height) * width, width):
        if board >> shift & full == full:
            above = board & (1 << shift) - 1
            below = board >> shift + width
            board = below << shift + width | above << width
            cleared += 1
    return board, cleared


@lru_cache(maxsize=64)
def _masks(size: Size) -> tuple[int, int, int, tuple[int, ...]]:
    """Return the whole board, it without its last column, its low rows, and shifts down."""
    width, height = size.width, size.height
    whole = (1 << width * height) - 1
    inner = sum(((1 << width - 1) - 1) << row * width for row in range(height))
    top_rows = (1 << DANGER_ROWS * width) - 1
    shifts = tuple(width << power for power in range((height - 1).bit_length()))
    return whole, inner, top_rows, shifts


def worth(board: int, cleared: int, size: Size) -> float:
    """Return how good a board is to have; higher is better.

    Low columns, few holes, an even surface and removed rows are good; each cell of column
    height above all but the top ``DANGER_ROWS`` rows costs 1 more.

    Source: games.md 4.G for the weights.
    """
    whole, inner, top_rows, shifts = _masks(size)
    under = board
    for shift in shifts:
        under |= under << shift
    under &= whole
    heights = under.bit_count()
    holes = heights - board.bit_count()
    bumps = ((under ^ under >> 1) & inner).bit_count()
    danger = (under & top_rows).bit_count()
    return (
        PER_HEIGHT * heights
        + PER_HOLE * holes
        + PER_BUMP * bumps
        + PER_DANGER * danger
        + PER_ROW * cleared
    )


def best_worth(board: int, block: tuple[Rows, ...], size: Size, default: float) -> float:
    """Return the worth of the best placement of a block, ``default`` when there is none.

    Equals the greatest ``worth`` over ``placements``; written out, for it runs a thousand
    times per move of the reference player.
    """
    width = size.width
    whole, inner, top_rows, shifts = _masks(size)
    free = free_rows(board, size)
    best = default
    per_height = PER_HEIGHT + PER_HOLE
    for _, _, bits, height in poses(block, size):
        if board & bits:
            continue
        top, lowest = max(free - height, 0), size.height - height
        bits <<= top * width
        while top < lowest and not board & bits << width:
            bits <<= width
            top += 1
        after, cleared = without_full_rows(board | bits, top, height, width)
        under = after
        for shift in shifts:
            under |= under << shift
        under &= whole
        value = (
            per_height * under.bit_count()
            - PER_HOLE * after.bit_count()
            + PER_BUMP * ((under ^ under >> 1) & inner).bit_count()
            + PER_DANGER * (under & top_rows).bit_count()
            + PER_ROW * cleared
        )
        best = max(best, value)
    return best


def cleared_by(view: TetrisView, column: int, angle: int) -> int:
    """Return the rows that an action will remove; 0 for one that is refused or ends the game."""
    board, size = board_of(view)
    rows = view.block[ANGLES.index(angle)] if view.block else ()
    for pose in poses((rows,), size) if rows else ():
        if pose.column == column and not board & pose.bits:
            return drop(board, pose, size, free_rows(board, size))[1]
    return 0
