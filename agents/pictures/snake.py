"""A picture of snake's observation text."""

from s3gym.agents.pictures._svg import FAINT, PAPER, circle, element, picture, rect, text
from s3gym.agents.reading.snake import (
    APPLE,
    BODY,
    DIRECTIONS,
    HEAD,
    OBSTACLE,
    WALL,
    Cell,
    SnakeView,
    read,
)

CELL, MARGIN, FOOT = 28, 12, 26
FLOOR, BRICK, STONE = "#e4e8dd", "#8a93a0", "#4b5563"
SKIN, FACE, FRUIT, LEAF = "#4f9d69", "#2f6f47", "#d64545", "#3b7a35"


def render_svg(observation: str) -> str:
    """Return an SVG of the board; it can show nothing that the text does not.

    Raises:
        ValueError: The text is no observation of snake.
    """
    view = read(observation)
    columns, rows = len(view.rows[0]), len(view.rows)
    width = columns * CELL + 2 * MARGIN
    height = rows * CELL + 2 * MARGIN + FOOT
    words = f"length {view.length}, step {view.step}/{view.max_steps}"
    parts = [_cell(view, (row, column)) for row in range(rows) for column in range(columns)]
    parts.append(text(MARGIN, height - MARGIN, words, 11, fill=FAINT))
    return picture(width, height, f"Snake: {words}, heading {view.direction}", parts)


def _cell(view: SnakeView, cell: Cell) -> str:
    x, y = MARGIN + cell[1] * CELL, MARGIN + cell[0] * CELL
    middle_x, middle_y = x + CELL / 2, y + CELL / 2
    mark = view.mark(cell)
    if mark == WALL:
        return rect(x, y, CELL, CELL, BRICK, stroke=PAPER)
    floor = rect(x, y, CELL, CELL, FLOOR, stroke=PAPER)
    if mark == OBSTACLE:
        return floor + rect(x + 4, y + 4, CELL - 8, CELL - 8, STONE, rx=3)
    if mark == APPLE:
        leaf = rect(middle_x, y + 3, 5, 4, LEAF, rx=2)
        return floor + circle(middle_x, middle_y + 1, CELL * 0.32, FRUIT) + leaf
    if mark == BODY:
        return floor + rect(x + 2, y + 2, CELL - 4, CELL - 4, SKIN, rx=6)
    return floor + _head(view.direction, middle_x, middle_y) if mark == HEAD else floor


def _head(direction: str, x: float, y: float) -> str:
    """Draw the head as an arrow on a disc, so that its direction can be seen."""
    down, right = DIRECTIONS[direction]
    reach, side = CELL * 0.3, CELL * 0.2
    tip = (x + right * reach, y + down * reach)
    left_wing = (x - right * side + down * side, y - down * side + right * side)
    right_wing = (x - right * side - down * side, y - down * side - right * side)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in (tip, left_wing, right_wing))
    arrow = element("polygon", points=points, fill=PAPER)
    return circle(x, y, CELL * 0.46, FACE) + arrow
