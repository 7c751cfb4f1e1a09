"""Plain strategies for chess (latent rules): extrapolate each piece from its own cells.

All of them know the rules text alone. Their self-score is the share of the pieces that the
strategy itself would have predicted rightly in the frames already shown, which anybody can check
by eye: honest, and independent of the verifier.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from s3gym.agents.reading.chess import Cell, ChessView, read, read_action, write_action
from s3gym.agents.strategies.playbook import Chooser, Move, Playbook
from s3gym.records import Step, Turn
from s3gym.seeds import Stream

LONGEST_PERIOD = 4
Predictor = Callable[[Sequence[Cell], int, int], Cell | None]


def stay(cells: Sequence[Cell], rows: int, columns: int) -> Cell | None:
    """Predict that the piece does not move."""
    return cells[-1]


def repeat_last(cells: Sequence[Cell], rows: int, columns: int) -> Cell | None:
    """Predict the last displacement once more, over the border if need be."""
    return _shifted(cells[-1], _displacements(cells, rows, columns)[-1], rows, columns)


def shortest_period(cells: Sequence[Cell], rows: int, columns: int) -> Cell | None:
    """Predict by the shortest period, at most 4, that all displacements keep; else nothing."""
    moved = _displacements(cells, rows, columns)
    for period in range(1, min(LONGEST_PERIOD, len(moved) - 1) + 1):
        if all(moved[k] == moved[k - period] for k in range(period, len(moved))):
            return _shifted(cells[-1], moved[-period], rows, columns)
    return None


def period_or_last(cells: Sequence[Cell], rows: int, columns: int) -> Cell | None:
    """Predict by the shortest period; without one, the last displacement once more."""
    return shortest_period(cells, rows, columns) or repeat_last(cells, rows, columns)


def _displacements(cells: Sequence[Cell], rows: int, columns: int) -> list[Cell]:
    """Return the displacements modulo the board."""
    return [((new[0] - old[0]) % rows, (new[1] - old[1]) % columns) for old, new in pairwise(cells)]


def _shifted(cell: Cell, by: Cell, rows: int, columns: int) -> Cell:
    return (cell[0] + by[0]) % rows, (cell[1] + by[1]) % columns


def _hindsight(view: ChessView, predictor: Predictor) -> float:
    """Return the share of pieces that the predictor gets right for the newest frame, [0, 1]."""
    right = 0
    for label in view.labels:
        cells = view.history(label)
        right += predictor(cells[:-1], view.rows, view.columns) == cells[-1]
    return right / view.n_pieces


def _from_window(predictor: Predictor) -> Chooser:
    """Return the strategy that predicts from the frames that the observation shows."""

    def choose(turn: Turn, stream: Stream) -> Move:
        view = read(turn.observation.text)
        cells = {
            label: cell
            for label in view.labels
            if (cell := predictor(view.history(label), view.rows, view.columns)) is not None
        }
        return Move(action=write_action(cells), self_score=_hindsight(view, predictor))

    return choose


def _from_start(predictor: Predictor) -> Chooser:
    """Return the strategy that goes on from an episode's first frames, whatever came since."""

    def choose(turn: Turn, stream: Stream) -> Move:
        now = read(turn.observation.text)
        view = read(turn.trail[0].observation.text) if turn.trail else now
        cells = {}
        for label in view.labels:
            ahead = list(view.history(label))
            for _ in range(now.made - view.made + 1):
                cell = predictor(ahead, view.rows, view.columns)
                if cell is None:
                    break
                ahead.append(cell)
            else:
                cells[label] = ahead[-1]
        return Move(action=write_action(cells), self_score=_hindsight(view, predictor))

    return choose


def choose_random(turn: Turn, stream: Stream) -> Move:
    """Predict a uniform random cell for each piece."""
    view = read(turn.observation.text)
    cells = {label: (stream.below(view.rows), stream.below(view.columns)) for label in view.labels}
    return Move(action=write_action(cells), self_score=1 / (view.rows * view.columns))


def visible_outcome(steps: Sequence[Step]) -> float:
    """Return the mean share of pieces that an episode's actions predicted rightly, [0, 1].

    Compares each action with the frame shown after it. Steps that were not played count as 0,
    as the rules say. An episode whose text cannot be read is worth 0.
    """
    total = 0.0
    predictions = 1
    for step in steps:
        try:
            view = read(step.outcome.text)
        except ValueError:
            continue
        predictions = view.predictions
        if view.first_frame == read(step.observation.text).first_frame:
            continue
        named = read_action(step.decision.action)
        right = sum(named.get(label.upper()) == view.frames[-1][label] for label in view.labels)
        total += right / view.n_pieces
    return total / predictions


def outcome(text: str) -> float:
    """Return 0.0 for every text.

    The last observation shows frames but not what was predicted, so it cannot tell how well an
    episode went. ``visible_outcome`` can, from the episode's steps.
    """
    return 0.0


PLAYBOOK = Playbook(
    strategies={
        "stay": _from_window(stay),
        "repeat-last": _from_window(repeat_last),
        "shortest-period": _from_start(shortest_period),
        "period-or-last": _from_window(period_or_last),
    },
    random=choose_random,
    outcome=outcome,
    outcome_of_steps=visible_outcome,
)
