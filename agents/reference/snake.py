"""A careful player of snake: looks ahead over its own moves and keeps a way to its tail.

Sees the text alone: where the next apple will appear is unknown to it. Boards are bit masks
(bit = row * width + column), so that a position costs microseconds.

Source: games.md 5.G (depth-6 look-ahead, 10 per apple, earlier is better).
"""

from dataclasses import dataclass

from s3gym.agents.reading.snake import (
    APPLE,
    BODY,
    DIRECTIONS,
    HEAD,
    OBSTACLE,
    WALL,
    SnakeView,
    read,
    trace,
)
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream

WORDS = tuple(DIRECTIONS)
"""In an order in which the opposite of a direction has the same index but for its lowest bit."""
DEPTH = 6
PER_APPLE = 10.0
PER_STEP = 0.5
"""What an apple loses for each step that it is eaten later."""
NO_WAY_TO_TAIL = -40.0
STUCK = -100.0


@dataclass(frozen=True, slots=True)
class _Board:
    """What stays the same while looking ahead.

    Attributes:
        solid: Walls and obstacles.
        left: Steps until the episode ends.
    """

    width: int
    solid: int
    left: int

    @property
    def shifts(self) -> tuple[int, int, int, int]:
        """Change of a bit's place per direction, in the order of ``WORDS``."""
        return (-1, 1, -self.width, self.width)

    def search(
        self, body: tuple[int, ...], taken: int, apples: int, heading: int, depth: int = 0
    ) -> tuple[float, int]:
        """Return the value of the best line and the index of its first direction."""
        if depth == min(DEPTH, self.left):
            return self._leaf(body, taken, apples, depth), heading
        best, choice = STUCK + depth, heading
        head, blocked = body[-1], self.solid | taken
        for index, shift in enumerate(self.shifts):
            target = 1 << (head + shift)
            if blocked & target or index == heading ^ 1:
                continue
            if apples & target:
                gain = PER_APPLE - PER_STEP * depth
                after, now = (*body, head + shift), taken | target
            else:
                gain = 0.0
                after, now = (*body[1:], head + shift), taken & ~(1 << body[0]) | target
            found = gain + self.search(after, now, apples & ~target, index, depth + 1)[0]
            if found > best:
                best, choice = found, index
        return best, choice

    def _leaf(self, body: tuple[int, ...], taken: int, apples: int, depth: int) -> float:
        """Value a position by the way to the nearest apple and to the own tail."""
        if depth == self.left:
            return 0.0
        width, tail = self.width, 1 << body[0]
        free = ~(self.solid | taken)
        reach, steps, nearest, to_tail = 1 << body[-1], 0, 0, len(body) == 1
        while not (nearest and to_tail):
            near = reach << 1 | reach >> 1 | reach << width | reach >> width
            steps += 1
            to_tail = to_tail or bool(near & tail)
            grown = reach | near & free
            if grown == reach:
                break
            if not nearest and grown & apples:
                nearest = steps
            reach = grown
        value = 0.0 if to_tail else NO_WAY_TO_TAIL
        if nearest and depth + nearest <= self.left:
            value += max(0.0, PER_APPLE / 2 - PER_STEP * (depth + nearest) / 2)
        return value


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the first move of the best line; the self-score is exact."""
    view = read(turn.observation.text)
    width = len(view.rows[0])
    body = tuple(row * width + column for row, column in trace(turn))
    board = _Board(
        width=width, solid=_mask(view, WALL, OBSTACLE), left=view.max_steps - view.step + 1
    )
    apples = _mask(view, APPLE)
    heading = WORDS.index(view.direction)
    _, index = board.search(body, _mask(view, BODY, HEAD), apples, heading)
    word = WORDS[index]
    eats = view.mark(view.target(word)) == APPLE
    return Move(action=word, self_score=float(eats))


def _mask(view: SnakeView, *marks: str) -> int:
    width = len(view.rows[0])
    return sum(1 << (row * width + column) for row, column in view.cells(*marks))
