"""The reference player of Tetris: two blocks of foresight.

Each placement of the shown block is worth the best placement of the block that follows,
averaged over the seven kinds; only the placements that look best at once are followed up.

Source: games.md 4.G.
"""

from math import fsum

from s3gym.agents.reading.tetris import Rows, read
from s3gym.agents.strategies._tetris_board import (
    PER_ROW,
    Placed,
    Size,
    best_worth,
    board_of,
    placements,
    worth,
)
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream

KEPT = 8
DEAD = -1000.0
BLOCKS = ("####", "##/##", ".##/##.", "##./.##", "#../###", "..#/###", ".#./###")


def _turns(shape: str) -> tuple[Rows, ...]:
    """Return a block at all four angles."""
    rows = tuple(shape.split("/"))
    turns = []
    for _ in range(4):
        turns.append(rows)
        rows = tuple("".join(column) for column in zip(*rows[::-1], strict=True))
    return tuple(turns)


ALL_TURNS = tuple(map(_turns, BLOCKS))


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the move with the best expectation."""
    view = read(turn.observation.text)
    board, size = board_of(view)
    first = sorted(
        placements(board, view.block, size),
        key=lambda placed: -worth(placed.board, placed.cleared, size),
    )
    if not first:
        return Move(action="1 0", self_score=0.0)
    best = max(first[:KEPT], key=lambda placed: expectation(placed, size))
    return Move(action=f"{best.pose.column} {best.pose.angle}", self_score=float(best.cleared))


def expectation(placed: Placed, size: Size) -> float:
    """Return the mean worth, over the next block, of the best board two blocks ahead."""
    total = fsum(best_worth(placed.board, block, size, DEAD) for block in ALL_TURNS)
    return total / len(ALL_TURNS) + PER_ROW * placed.cleared
