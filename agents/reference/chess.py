"""Reference player of chess (latent rules): weighs every rule of the catalogue for each piece.

It knows the families, not which letter belongs to which. From the text of the first seven frames
it keeps the explanations that fit and predicts what they agree on. Never a learner.

Source: games.md, section 1.J.
"""

from functools import lru_cache

from s3gym.agents.reading.chess import Cell, read, write_action
from s3gym.agents.strategies.playbook import Move
from s3gym.games._chess_solver import solve
from s3gym.records import Turn
from s3gym.seeds import Stream


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the prediction for the next frame; every piece without an answer is left out."""
    first = turn.trail[0].observation if turn.trail else turn.observation
    futures = _futures(first.text)
    made = read(turn.observation.text).made - read(first.text).made
    cells = {label: future[made] for label, future in futures if made < len(future)}
    n_pieces = read(turn.observation.text).n_pieces
    return Move(action=write_action(cells), self_score=len(cells) / n_pieces)


@lru_cache(maxsize=16)
def _futures(text: str) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
    """Return label -> cells of the frames after those shown, by letter."""
    view = read(text)
    solved = solve({label: view.history(label) for label in view.labels})
    return tuple((label, solved[label]) for label in view.labels if label in solved)
