"""Draws an observation of nullify: one tile per unit, numbers and operators in two colours.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from collections.abc import Iterator
from html import escape

from s3gym.agents.reading.nullify import Operator, Unit, read, show

COLUMNS = 4
TILE_WIDTH, TILE_HEIGHT = 150, 62
GAP = 10
MARGIN = 16
NUMBER_FILL, OPERATOR_FILL = "#dbe9f6", "#fbe3c8"
FONT = 'font-family="sans-serif"'


def render_svg(text: str) -> str:
    """Return a picture of the observation.

    Raises:
        ValueError: The text is no nullify observation.
    """
    units = read(text).units
    n_rows = max(1, -(-len(units) // COLUMNS))
    width = COLUMNS * (TILE_WIDTH + GAP) - GAP + 2 * MARGIN
    height = n_rows * (TILE_HEIGHT + GAP) - GAP + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    if not units:
        parts.append(_label(width // 2, height // 2 + 6, 18, "middle", "the board is empty"))
    for index, unit in enumerate(units):
        parts.extend(_tile(index, unit))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _label(x: int, y: int, size: int, anchor: str, text: str) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="#333" {FONT}>'
        f"{escape(text, quote=False)}</text>"
    )


def _tile(index: int, unit: Unit) -> Iterator[str]:
    row, column = divmod(index, COLUMNS)
    x, y = MARGIN + column * (TILE_WIDTH + GAP), MARGIN + row * (TILE_HEIGHT + GAP)
    colour = OPERATOR_FILL if isinstance(unit, Operator) else NUMBER_FILL
    yield (
        f'<rect x="{x}" y="{y}" width="{TILE_WIDTH}" height="{TILE_HEIGHT}" rx="8" '
        f'fill="{colour}"/>'
    )
    shown = show(unit)
    size = 20 if len(shown) <= 10 else 14
    yield _label(x + 10, y + 18, 11, "start", str(index))
    yield _label(x + TILE_WIDTH // 2, y + TILE_HEIGHT // 2 + 10, size, "middle", shown)
