"""Draws an observation of chess (latent rules): the newest frame, and each piece's way to it.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from itertools import pairwise

from s3gym.agents.reading.chess import View, parse

CELL = 28
MARGIN = 30
TITLE = 26
FARTHEST_LINE = 4
GOLDEN_ANGLE = 137
STYLE = (
    "text{font-family:sans-serif;text-anchor:middle}"
    ".title{font-size:14px;text-anchor:start;fill:#333}"
    ".axis{font-size:10px;fill:#777}"
    ".piece{font-size:17px;font-weight:bold}"
)


def render_svg(text: str) -> str:
    """Return a picture of the observation.

    Earlier cells of a piece are dots, the older the fainter; a line joins two cells in a row
    unless the piece jumped over the border.

    Raises:
        ValueError: The text is no chess observation.
    """
    view = parse(text)
    width = 2 * MARGIN + view.columns * CELL
    height = TITLE + 2 * MARGIN + view.rows * CELL
    newest = view.first_frame + len(view.frames) - 1
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f"<style>{STYLE}</style>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        f'<text class="title" x="{MARGIN}" y="{TITLE - 4}">Frame {newest}: {view.n_pieces} pieces, '
        f"{view.made} of {view.predictions} predictions made</text>",
        *_grid(view),
    ]
    for label in view.labels:
        parts.extend(_piece(view, label))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _middle(cell: tuple[int, int]) -> tuple[int, int]:
    """Return x and y of a cell's middle, in pixels."""
    row, column = cell
    return MARGIN + column * CELL + CELL // 2, TITLE + MARGIN + row * CELL + CELL // 2


def _grid(view: View) -> list[str]:
    right, bottom = MARGIN + view.columns * CELL, TITLE + MARGIN + view.rows * CELL
    lines = [f"M{MARGIN} {TITLE + MARGIN + row * CELL}H{right}" for row in range(view.rows + 1)]
    lines += [
        f"M{MARGIN + column * CELL} {TITLE + MARGIN}V{bottom}" for column in range(view.columns + 1)
    ]
    parts = [f'<path d="{"".join(lines)}" stroke="#ddd" fill="none"/>']
    for row in range(view.rows):
        y = _middle((row, 0))[1]
        parts.append(f'<text class="axis" x="{MARGIN - 12}" y="{y + 4}">{row}</text>')
    for column in range(view.columns):
        x = _middle((0, column))[0]
        parts.append(f'<text class="axis" x="{x}" y="{TITLE + MARGIN - 8}">{column}</text>')
    return parts


def _piece(view: View, label: str) -> list[str]:
    colour = f"hsl({(ord(label.upper()) - ord('A')) * GOLDEN_ANGLE % 360},70%,38%)"
    cells = view.history(label)
    parts = [f'<g fill="{colour}" stroke="{colour}">']
    for age, (old, new) in enumerate(pairwise(cells), start=1):
        faint = f"{age / (2 * len(cells)):.2f}"
        (x, y), (to_x, to_y) = _middle(old), _middle(new)
        parts.append(f'<circle cx="{x}" cy="{y}" r="3" stroke="none" opacity="{faint}"/>')
        if max(abs(old[0] - new[0]), abs(old[1] - new[1])) <= FARTHEST_LINE:
            parts.append(f'<path d="M{x} {y}L{to_x} {to_y}" stroke-width="1.5" opacity="{faint}"/>')
    x, y = _middle(cells[-1])
    parts.append(f'<text class="piece" stroke="none" x="{x}" y="{y + 6}">{label}</text></g>')
    return parts
