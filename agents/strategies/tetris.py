"""Plain strategies for Tetris. They know the printed rules and what the text shows.

A self-score is exact by the rules: the rows that the placement will remove.
"""

from collections.abc import Callable

from s3gym.agents.reading.tetris import ANGLES, TetrisView, read
from s3gym.agents.strategies._tetris_board import (
    Placed,
    Size,
    board_of,
    cleared_by,
    free_rows,
    placements,
    worth,
)
from s3gym.agents.strategies.playbook import Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream


def lookahead(turn: Turn, stream: Stream) -> Move:
    """Try every placement and keep the board that is best to have."""
    return _best(turn, lambda placed, size: worth(placed.board, placed.cleared, size))


def lowest(turn: Turn, stream: Stream) -> Move:
    """Keep the stack as low as possible, holes or not; leftmost among equals."""
    return _best(turn, lambda placed, size: free_rows(placed.board, size))


def one_column(turn: Turn, stream: Stream) -> Move:
    """Drop every block at the left wall as it comes."""
    return _move(read(turn.observation.text), 1, 0)


def random_placement(turn: Turn, stream: Stream) -> Move:
    """Draw an angle and a column of the board, whether or not the block fits there."""
    view = read(turn.observation.text)
    return _move(view, stream.between(1, view.width), stream.pick(ANGLES))


def outcome(text: str) -> float:
    """Return how many rows have visibly been removed.

    The text shows the number of blocks placed and the cells that are still filled; each block
    has four cells, so the missing cells left in full rows.
    """
    return float(read(text).cleared)


def _best(turn: Turn, value: Callable[[Placed, Size], float]) -> Move:
    view = read(turn.observation.text)
    board, size = board_of(view)
    options = list(placements(board, view.block, size))
    if not options:
        return _move(view, 1, 0)
    best = max(options, key=lambda placed: value(placed, size))
    return Move(action=f"{best.pose.column} {best.pose.angle}", self_score=float(best.cleared))


def _move(view: TetrisView, column: int, angle: int) -> Move:
    return Move(action=f"{column} {angle}", self_score=float(cleared_by(view, column, angle)))


PLAYBOOK = Playbook(
    strategies={"lookahead": lookahead, "lowest": lowest, "one-column": one_column},
    random=random_placement,
    outcome=outcome,
)
