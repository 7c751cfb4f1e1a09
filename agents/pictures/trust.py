"""A picture of trust's observation text."""

from s3gym.agents.pictures._svg import FAINT, PAPER, picture, rect, text
from s3gym.agents.reading.trust import CHEAT, COLLABORATE, Round, read

CELL, MARGIN, LABEL, TOP = 42, 14, 92, 54
COLOURS = {COLLABORATE: "#2f7d8c", CHEAT: "#c2562e"}
LETTERS = {COLLABORATE: "C", CHEAT: "D"}
ROWS = ("you", "opponent", "payoff")
EMPTY = "#dfe3e0"


def render_svg(observation: str) -> str:
    """Return an SVG of the rounds played; it can show nothing that the text does not.

    Raises:
        ValueError: The text is no observation of trust.
    """
    view = read(observation)
    columns = max(view.max_steps, len(view.rounds))
    width = 2 * MARGIN + LABEL + columns * CELL
    height = TOP + len(ROWS) * CELL + 2 * MARGIN + 8
    total = sum(each.payoff for each in view.rounds)
    words = f"round {view.step} of {view.max_steps}, sum of payoffs {total}"
    parts = [text(MARGIN, MARGIN + 12, f"Trust: {words}", 14)]
    for row, name in enumerate(ROWS):
        parts.append(text(MARGIN, TOP + row * CELL + CELL * 0.6, name, 13))
    for column in range(columns):
        x = MARGIN + LABEL + column * CELL
        parts.append(
            text(x + CELL / 2, TOP - 6, str(column + 1), 11, fill=FAINT, text_anchor="middle")
        )
        played = view.rounds[column] if column < len(view.rounds) else None
        parts.append(_column(x, played))
    legend = "C collaborate, D cheat"
    parts.append(text(MARGIN + LABEL, height - MARGIN, legend, 11, fill=FAINT))
    return picture(width, height, f"Trust: {words}", parts)


def _column(x: float, played: Round | None) -> str:
    moves = (played.own, played.other) if played else ("", "")
    drawn = "".join(_move(x, TOP + row * CELL, move) for row, move in enumerate(moves))
    if not played:
        return drawn
    shown = f"{played.payoff:+d}" if played.payoff else "0"
    base = TOP + 2 * CELL + CELL * 0.6
    return drawn + text(x + CELL / 2, base, shown, 15, text_anchor="middle")


def _move(x: float, y: float, move: str) -> str:
    """Draw one move; an empty word is a round that has not been played."""
    box = rect(x + 2, y + 2, CELL - 4, CELL - 4, COLOURS.get(move, EMPTY), rx=6)
    if not move:
        return box
    middle, base = x + CELL / 2, y + CELL * 0.62
    return box + text(middle, base, LETTERS[move], 16, fill=PAPER, text_anchor="middle")
