"""Draws an observation of tetris: the board, and the block to place at its four angles.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from collections.abc import Iterator
from html import escape

from s3gym.agents.reading.tetris import ANGLES, FILLED, Rows, TetrisView, read

CELL = 24
SMALL = 14
MARGIN = 28
PANEL = 6 * SMALL + MARGIN
PANEL_ROW = 6 * SMALL
FONT = 'font-family="sans-serif" font-size="12" fill="#555"'


def render_svg(text: str) -> str:
    """Return a picture of the observation.

    Raises:
        ValueError: The text is no tetris observation.
    """
    view = read(text)
    board_width, board_height = view.width * CELL, view.height * CELL
    width = board_width + PANEL + 2 * MARGIN
    height = max(board_height, len(ANGLES) * PANEL_ROW) + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_board(view),
        *_panel(view, 2 * MARGIN + board_width),
        _label(MARGIN, MARGIN + board_height + 18, f"Blocks placed: {view.placed}"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _label(x: int, y: int, text: str, anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}" {FONT}>{escape(text)}</text>'


def _board(view: TetrisView) -> Iterator[str]:
    for column in range(view.width):
        x = MARGIN + column * CELL + CELL // 2
        yield _label(x, MARGIN - 8, str(column + 1), "middle")
    for row, line in enumerate(view.rows):
        for column, mark in enumerate(line):
            colour = "#456990" if mark == FILLED else "#f2f2f2"
            x, y = MARGIN + column * CELL, MARGIN + row * CELL
            yield _square(x, y, CELL, colour)


def _panel(view: TetrisView, left: int) -> Iterator[str]:
    if not view.block:
        yield _label(left, MARGIN + 12, "no block left")
    for index, (angle, rows) in enumerate(zip(ANGLES, view.block, strict=False)):
        top = MARGIN + index * PANEL_ROW
        yield _label(left, top + 12, f"{angle}°")
        yield from _block(rows, left + 2 * SMALL + SMALL // 2, top)


def _block(rows: Rows, left: int, top: int) -> Iterator[str]:
    for row, line in enumerate(rows):
        for column, mark in enumerate(line):
            if mark == "#":
                yield _square(left + column * SMALL, top + row * SMALL, SMALL, "#ef767a")


def _square(x: int, y: int, side: int, colour: str) -> str:
    return f'<rect x="{x}" y="{y}" width="{side}" height="{side}" fill="{colour}" stroke="#fff"/>'
