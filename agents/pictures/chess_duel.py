"""Draws an observation of chess_duel: the board from White's side.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from s3gym.agents.reading.chess_duel import EMPTY, SIDE, View, parse

CELL = 44
MARGIN = 26
TITLE = 26
LIGHT, DARK, CHECK = "#f0e2c8", "#b58d6a", "#e07a5f"
GLYPHS = {"K": "♚", "Q": "♛", "R": "♜", "B": "♝", "N": "♞", "P": "♟"}
STYLE = (
    "text{font-family:sans-serif;text-anchor:middle}"
    ".title{font-size:14px;text-anchor:start;fill:#333}"
    ".axis{font-size:11px;fill:#777}"
    ".piece{font-size:36px;stroke-width:1;stroke:#222}"
    ".white{fill:#fff}.black{fill:#222}"
)


def render_svg(text: str) -> str:
    """Return a picture of the observation; the king is marked when White is in check.

    Raises:
        ValueError: The text is no chess_duel observation.
    """
    view = parse(text)
    width = 2 * MARGIN + SIDE * CELL
    height = TITLE + width
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="{TITLE - 6}">Step {view.step} of {view.max_steps}: '
        f"{view.status}</text>",
    ]
    for square in range(SIDE * SIDE):
        parts.extend(_square(view, square))
    for index in range(SIDE):
        middle = MARGIN + index * CELL + CELL // 2
        parts.append(f'<text class="axis" x="{middle}" y="{height - 8}">{"abcdefgh"[index]}</text>')
        parts.append(
            f'<text class="axis" x="{MARGIN // 2}" y="{TITLE + middle + 4}">{SIDE - index}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _square(view: View, square: int) -> list[str]:
    row, column = divmod(square, SIDE)
    x, y = MARGIN + column * CELL, TITLE + MARGIN + row * CELL
    piece = view.board[square]
    colour = DARK if (row + column) % 2 else LIGHT
    if piece == "K" and "in check" in view.status:
        colour = CHECK
    parts = [f'<rect x="{x}" y="{y}" width="{CELL}" height="{CELL}" fill="{colour}"/>']
    if piece != EMPTY:
        side = "white" if piece.isupper() else "black"
        parts.append(
            f'<text class="piece {side}" x="{x + CELL // 2}" y="{y + CELL - 10}">'
            f"{GLYPHS[piece.upper()]}</text>"
        )
    return parts
