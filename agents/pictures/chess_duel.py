"""A picture of a chess_duel observation: the board from White's side.

Reads the observation text alone, so that a viewer never shows what the agent did not see. The
king's square is marked when White is in check.
"""

from collections.abc import Iterator

from s3gym.agents.pictures._svg import FAINT, INK, picture, rect, text
from s3gym.agents.reading.chess_duel import EMPTY, IN_CHECK, SIDE, ChessDuelView, read

CELL = 44
MARGIN = 26
TITLE = 26
LIGHT, DARK, CHECK = "#f0e2c8", "#b58d6a", "#e07a5f"
GLYPHS = {"K": "♚", "Q": "♛", "R": "♜", "B": "♝", "N": "♞", "P": "♟"}
GLYPH_FONT = "'DejaVu Sans', 'Noto Sans Symbols 2', 'Segoe UI Symbol', sans-serif"


def render_svg(observation: str) -> str:
    """Return the picture of an observation.

    Raises:
        ValueError: The text is no chess_duel observation.
    """
    view = read(observation)
    title = f"Step {view.step} of {view.max_steps}: {view.status}"
    parts = [text(MARGIN, TITLE, title)]
    for square in range(SIDE * SIDE):
        parts.extend(_square(view, square))
    bottom = TITLE + MARGIN + SIDE * CELL
    for index in range(SIDE):
        middle = MARGIN + index * CELL + CELL // 2
        parts.append(
            text(middle, bottom + 16, "abcdefgh"[index], 11, fill=FAINT, text_anchor="middle")
        )
        parts.append(
            text(
                MARGIN // 2,
                TITLE + middle + 4,
                str(SIDE - index),
                11,
                fill=FAINT,
                text_anchor="middle",
            )
        )
    return picture(2 * MARGIN + SIDE * CELL, bottom + MARGIN, title, parts)


def _square(view: ChessDuelView, square: int) -> Iterator[str]:
    row, column = divmod(square, SIDE)
    x, y = MARGIN + column * CELL, TITLE + MARGIN + row * CELL
    piece = view.board[square]
    checked = piece == "K" and view.status == IN_CHECK
    yield rect(x, y, CELL, CELL, CHECK if checked else DARK if (row + column) % 2 else LIGHT)
    if piece != EMPTY:
        yield text(
            x + CELL // 2,
            y + CELL - 10,
            GLYPHS[piece.upper()],
            size=36,
            fill="#fff" if piece.isupper() else INK,
            stroke=INK,
            text_anchor="middle",
            font_family=GLYPH_FONT,
        )
