"""Plain strategies for snake. They know the printed rules and what the text shows.

A self-score is exact by the rules: 1 for a step onto an apple, else 0.
"""

from s3gym.agents.reading.snake import (
    APPLE,
    DIRECTIONS,
    EMPTY,
    Cell,
    SnakeView,
    distances,
    read,
    touches,
    trace,
)
from s3gym.agents.strategies.playbook import Chooser, Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream

FAR = 10_000
WORDS = tuple(DIRECTIONS)


def wander(turn: Turn, stream: Stream) -> Move:
    """Draw one of the moves that hit nothing."""
    view = read(turn.observation.text)
    return _move(view, stream.pick(view.open_moves() or WORDS))


def beeline(turn: Turn, stream: Stream) -> Move:
    """Head for the apple that is nearest as the crow flies, without a thought of the way out."""
    view = read(turn.observation.text)
    apples = view.cells(APPLE)

    def crow(word: str) -> int:
        row, column = view.target(word)
        return min((abs(row - a) + abs(column - b) for a, b in apples), default=0)

    moves = view.open_moves() or WORDS
    nearest = min(map(crow, moves))
    return _move(view, stream.pick([word for word in moves if crow(word) == nearest]))


def shortest_path(turn: Turn, stream: Stream) -> Move:
    """Take the shortest way to the nearest apple, by moves that keep the tail in reach."""
    view = read(turn.observation.text)
    moves = view.open_moves()
    if not moves:
        return _move(view, stream.pick(WORDS))
    body = trace(turn)
    ranks = {word: _rank(view, body, view.target(word)) for word in moves}
    best = min(ranks.values())
    return _move(view, stream.pick([word for word in moves if ranks[word] == best]))


def _rank(view: SnakeView, body: tuple[Cell, ...], target: Cell) -> tuple[bool, int]:
    """Rank a move: first by whether the tail stays in reach, then by the way to an apple."""
    apples = view.cells(APPLE)
    after = body if target in apples else body[1:]
    free = {*view.cells(EMPTY), *apples, *body} - set(after)
    reach = distances(target, free)
    lost = bool(after) and not any(touches(cell, after[:1]) for cell in reach)
    return (lost, min((reach[apple] for apple in apples if apple in reach), default=FAR))


def random_word(turn: Turn, stream: Stream) -> Move:
    """Draw one of the four words."""
    return _move(read(turn.observation.text), stream.pick(WORDS))


def outcome(text: str) -> float:
    """Return how many apples the snake has visibly eaten: its length less 1."""
    return float(read(text).length - 1)


def _move(view: SnakeView, word: str) -> Move:
    eats = word in view.open_moves() and view.mark(view.target(word)) == APPLE
    return Move(action=word, self_score=float(eats))


STRATEGIES: dict[str, Chooser] = {
    "beeline": beeline,
    "shortest-path": shortest_path,
    "wander": wander,
}
PLAYBOOK = Playbook(strategies=STRATEGIES, random=random_word, outcome=outcome)
