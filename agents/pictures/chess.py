"""A picture of a chess observation (latent rules): the newest frame, and each piece's way to it.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
Earlier cells of a piece are dots, the older the fainter; a line joins two cells in a row unless
the piece jumped over the border.
"""

from collections.abc import Iterator
from itertools import pairwise

from s3gym.agents.pictures._svg import FAINT, circle, element, picture, text
from s3gym.agents.reading.chess import Cell, ChessView, read

CELL = 28
MARGIN = 30
TITLE = 26
FARTHEST_LINE = 4
GOLDEN_ANGLE = 137
LINES = "#d5d9d3"


def render_svg(observation: str) -> str:
    """Return the picture of an observation.

    Raises:
        ValueError: The text is no chess observation.
    """
    view = read(observation)
    newest = view.first_frame + len(view.frames) - 1
    title = (
        f"Frame {newest}: {view.n_pieces} pieces, {view.made} of {view.predictions} "
        "predictions made"
    )
    parts = [text(MARGIN, TITLE, title), *_grid(view)]
    for label in view.labels:
        parts.extend(_piece(view, label))
    width = 2 * MARGIN + view.columns * CELL
    height = TITLE + 2 * MARGIN + view.rows * CELL
    return picture(width, height, title, parts)


def _middle(cell: Cell) -> tuple[int, int]:
    """Return x and y of a cell's middle, in pixels."""
    row, column = cell
    return MARGIN + column * CELL + CELL // 2, TITLE + MARGIN + row * CELL + CELL // 2


def _grid(view: ChessView) -> Iterator[str]:
    top, right, bottom = TITLE + MARGIN, MARGIN + view.columns * CELL, 0
    bottom = top + view.rows * CELL
    across = "".join(f"M{MARGIN} {top + row * CELL}H{right}" for row in range(view.rows + 1))
    down = "".join(f"M{MARGIN + x * CELL} {top}V{bottom}" for x in range(view.columns + 1))
    yield element("path", d=across + down, stroke=LINES, fill="none")
    for row in range(view.rows):
        yield text(
            MARGIN - 12, _middle((row, 0))[1] + 4, str(row), 10, fill=FAINT, text_anchor="middle"
        )
    for column in range(view.columns):
        yield text(
            _middle((0, column))[0], top - 6, str(column), 10, fill=FAINT, text_anchor="middle"
        )


def _piece(view: ChessView, label: str) -> Iterator[str]:
    colour = f"hsl({(ord(label.upper()) - ord('A')) * GOLDEN_ANGLE % 360},70%,38%)"
    cells = view.history(label)
    for age, (old, new) in enumerate(pairwise(cells), start=1):
        faint = age / (2 * len(cells))
        (x, y), (to_x, to_y) = _middle(old), _middle(new)
        yield circle(x, y, 3, colour, opacity=faint)
        if max(abs(old[0] - new[0]), abs(old[1] - new[1])) <= FARTHEST_LINE:
            way = f"M{x} {y}L{to_x} {to_y}"
            yield element("path", d=way, stroke=colour, stroke_width=1.5, opacity=faint)
    x, y = _middle(cells[-1])
    yield text(x, y + 6, label, size=17, fill=colour, font_weight="bold", text_anchor="middle")
