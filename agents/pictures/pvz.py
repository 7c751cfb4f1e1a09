"""Draws an observation of pvz: the lanes with their plants, zombies and hit points.

Reads the observation text alone, so that a viewer never shows what the agent did not see.
"""

from collections.abc import Iterator
from html import escape

from s3gym.agents.reading.pvz import PvzView, Unit, read

CELL_WIDTH, CELL_HEIGHT = 92, 64
MARGIN = 30
PLANT_RADIUS = 15
ZOMBIE_WIDTH, ZOMBIE_HEIGHT = 17, 26
SHOWN_ZOMBIES = 6
PLANT_COLOURS = {
    "X": "#f2c14e",
    "W": "#5fad56",
    "S": "#2e7d5b",
    "J": "#a9714b",
    "H": "#f78154",
    "F": "#d7263d",
}
ZOMBIE_COLOURS = {"N": "#7d8ca3", "R": "#8f6f9f", "B": "#4d5a73", "I": "#a23b52"}
GRASS = ("#dff0d0", "#d2e8be")
FONT = 'font-family="sans-serif"'


def render_svg(text: str) -> str:
    """Return a picture of the observation.

    A zombie's number is its hit points; where more stand in a cell than fit, the number of
    those left out is written.

    Raises:
        ValueError: The text is no pvz observation.
    """
    view = read(text)
    width = view.columns * CELL_WIDTH + 2 * MARGIN
    height = view.rows * CELL_HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        _label(MARGIN, MARGIN - 10, 13, "#555", _title(view), "start"),
    ]
    for row in range(view.rows):
        y = MARGIN + row * CELL_HEIGHT
        parts.append(_label(MARGIN // 2, y + CELL_HEIGHT // 2 + 4, 12, "#555", str(row)))
        for column in range(view.columns):
            parts.extend(_cell(view, row, column))
    for column in range(view.columns):
        x = MARGIN + column * CELL_WIDTH + CELL_WIDTH // 2
        parts.append(_label(x, height - MARGIN + 18, 12, "#555", str(column)))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _title(view: PvzView) -> str:
    if view.lost:
        head = f"Lost in turn {view.turn} of {view.max_turns}"
    elif view.turn > view.max_turns:
        head = f"All {view.max_turns} turns survived"
    else:
        head = f"Turn {view.turn} of {view.max_turns}"
    return f"{head}, sun {view.sun}"


def _label(x: int, y: int, size: int, colour: str, text: str, anchor: str = "middle") -> str:
    return (
        f'<text x="{x}" y="{y}" {FONT} font-size="{size}" fill="{colour}" '
        f'text-anchor="{anchor}">{escape(text)}</text>'
    )


def _cell(view: PvzView, row: int, column: int) -> Iterator[str]:
    x, y = MARGIN + column * CELL_WIDTH, MARGIN + row * CELL_HEIGHT
    yield (
        f'<rect x="{x}" y="{y}" width="{CELL_WIDTH}" height="{CELL_HEIGHT}" '
        f'fill="{GRASS[(row + column) % 2]}" stroke="#fff"/>'
    )
    for plant in view.plants:
        if plant.cell == (row, column):
            yield from _plant(plant, x + PLANT_RADIUS + 3, y + CELL_HEIGHT // 2)
    zombies = [zombie for zombie in view.zombies if zombie.cell == (row, column)]
    for index, zombie in enumerate(zombies[:SHOWN_ZOMBIES]):
        left = x + 2 * PLANT_RADIUS + 6 + index % 3 * (ZOMBIE_WIDTH + 1)
        yield from _zombie(zombie, left, y + 4 + index // 3 * (ZOMBIE_HEIGHT + 2))
    if len(zombies) > SHOWN_ZOMBIES:
        more = f"+{len(zombies) - SHOWN_ZOMBIES}"
        yield _label(x + PLANT_RADIUS + 3, y + CELL_HEIGHT - 4, 10, "#333", more)


def _plant(plant: Unit, x: int, y: int) -> Iterator[str]:
    yield f'<circle cx="{x}" cy="{y}" r="{PLANT_RADIUS}" fill="{PLANT_COLOURS[plant.letter]}"/>'
    yield _label(x, y + 1, 13, "#fff", plant.letter)
    if plant.hp is not None:
        yield _label(x, y + 12, 9, "#fff", str(plant.hp))


def _zombie(zombie: Unit, x: int, y: int) -> Iterator[str]:
    yield (
        f'<rect x="{x}" y="{y}" width="{ZOMBIE_WIDTH}" height="{ZOMBIE_HEIGHT}" rx="4" '
        f'fill="{ZOMBIE_COLOURS[zombie.letter]}"/>'
    )
    middle = x + ZOMBIE_WIDTH // 2
    yield _label(middle, y + 12, 11, "#fff", zombie.letter)
    if zombie.hp is not None:
        yield _label(middle, y + 22, 9, "#fff", str(zombie.hp))
