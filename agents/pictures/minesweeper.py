"""Draws an observation of minesweeper: the board with its numbers, flags and shown mines.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from collections.abc import Iterator
from html import escape

from s3gym.agents.reading.minesweeper import FLAGGED, MINE, UNKNOWN, MinesweeperView, read

CELL = 32
MARGIN = 30
CLOSED, OPEN, EXPLODED = "#b8c4ce", "#f4f4f0", "#f3c4c0"
NUMBER_COLOURS = {
    "1": "#2457b8",
    "2": "#2e7d32",
    "3": "#c62828",
    "4": "#4a2d8a",
    "5": "#8a3b12",
    "6": "#0b7a75",
    "7": "#222",
    "8": "#666",
}
FONT = 'font-family="sans-serif" text-anchor="middle"'


def render_svg(text: str) -> str:
    """Return a picture of the observation.

    Raises:
        ValueError: The text is no minesweeper observation.
    """
    view = read(text)
    width = view.columns * CELL + 2 * MARGIN
    height = view.rows * CELL + 2 * MARGIN + 20
    title = (
        f"Step {view.step} of {view.max_steps} · {view.mines} mines · {view.flags} flags · "
        f"extra lives: {view.lives}"
    )
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_axes(view),
        *(part for cell in range(len(view.marks)) for part in _cell(view, cell)),
        _label(width // 2, height - 16, 12, "#555", title),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _label(x: int, y: int, size: int, colour: str, text: str) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" {FONT}>'
        f"{escape(text, quote=False)}</text>"
    )


def _axes(view: MinesweeperView) -> Iterator[str]:
    for column in range(view.columns):
        yield _label(MARGIN + column * CELL + CELL // 2, MARGIN - 8, 11, "#888", str(column))
    for row in range(view.rows):
        yield _label(MARGIN // 2, MARGIN + row * CELL + CELL // 2 + 4, 11, "#888", str(row))


def _cell(view: MinesweeperView, cell: int) -> Iterator[str]:
    row, column = divmod(cell, view.columns)
    x, y = MARGIN + column * CELL, MARGIN + row * CELL
    mark = view.marks[cell]
    colour = {UNKNOWN: CLOSED, FLAGGED: CLOSED, MINE: EXPLODED}.get(mark, OPEN)
    yield (
        f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}" stroke="#fff" '
        'stroke-width="2"/>'
    )
    middle_x, middle_y = x + CELL // 2, y + CELL // 2
    if mark in NUMBER_COLOURS:
        yield _label(middle_x, middle_y + 6, 17, NUMBER_COLOURS[mark], mark)
    elif mark == MINE:
        yield f'<circle cx="{middle_x}" cy="{middle_y}" r="8" fill="#222"/>'
    elif mark == FLAGGED:
        yield (
            f'<path d="M{x + 12} {y + 25}V{y + 7}L{x + 24} {y + 12}L{x + 12} {y + 17}" '
            'fill="#d7263d" stroke="#333" stroke-width="1.5"/>'
        )
