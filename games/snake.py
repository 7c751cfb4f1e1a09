"""Snake: eat apples on a small walled board without hitting anything.

Observation: the board, one mark per cell; the current direction; the step about to be played.
Actions:     ``LEFT`` | ``RIGHT`` | ``UP`` | ``DOWN``, any case.
Reward:      1 for a step that eats an apple, else 0, in game points.
Score:       apples eaten, in game points (0 to 32 on the default board).
Ends:        when the snake fills every free cell; in evaluation also at the first collision or
             refused action; the runner truncates after ``MAX_STEPS`` steps.
Phases:      in exploration collisions and refused actions do nothing; in evaluation they end
             the episode. Board, apples and obstacles are drawn alike.
Source:      S3Gym paper (arXiv 2608.31100), Snake; games.md section 5.

Cells are (row, column), zero-based, row 0 on top; the outermost ring is wall.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import ConfigError
from s3gym.games import _grid
from s3gym.games._grid import Cell, connected, moved, neighbours
from s3gym.games._spec import StandardSpec, plain, refusal
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, Stream

MAX_STEPS = 64
WALL, HEAD, BODY, APPLE, OBSTACLE, EMPTY = "#", "H", "S", "A", "X", "."
DIRECTIONS: Mapping[str, Cell] = {
    "LEFT": _grid.LEFT,
    "RIGHT": _grid.RIGHT,
    "UP": _grid.UP,
    "DOWN": _grid.DOWN,
}
OPPOSITE: Mapping[str, str] = {"LEFT": "RIGHT", "RIGHT": "LEFT", "UP": "DOWN", "DOWN": "UP"}
FIRST_DIRECTION = "UP"
EXPECTED = "LEFT, RIGHT, UP or DOWN"
FEWEST_WAYS = 2
"""Free neighbours that every free cell has at the start, so that no apple is a death trap."""
MAX_LAYOUTS = 20_000
LEAST_LAYOUT_SHARE = 0.01

Side = Annotated[int, Field(ge=5, le=32)]


class SnakeOptions(Options):
    """Switches of snake."""

    width: Side = Field(default=8, description="columns, the two of the wall included")
    height: Side = Field(default=8, description="rows, the two of the wall included")
    apples: Annotated[int, Field(ge=1, le=99)] = Field(default=3, description="apples on the board")
    obstacles: Annotated[int, Field(ge=0, le=99)] = Field(
        default=3, description="obstacles on the board"
    )
    tail_cell_free: bool = Field(
        default=False, description="whether the head may enter the cell that the tail leaves"
    )
    reversal: Literal["illegal", "ignored"] = Field(
        default="illegal",
        description="the opposite direction is refused, or the snake goes straight on",
    )

    @model_validator(mode="after")
    def _a_board_is_possible(self) -> Self:
        share = _layout_share(self.width, self.height, self.obstacles)
        if share < LEAST_LAYOUT_SHARE:
            raise ValueError(
                f"{self.obstacles} obstacles do not fit on a {self.width}x{self.height} board "
                f"without dead ends; lower obstacles or raise width and height"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One position.

    Attributes:
        body: Cells of the snake from tail to head.
        drawn: Apples drawn so far; the counter of the next draw.
        seeds: Where later apples come from; hidden.
    """

    body: tuple[Cell, ...]
    direction: str
    apples: frozenset[Cell]
    obstacles: frozenset[Cell]
    drawn: int
    seeds: EpisodeSeeds

    @property
    def head(self) -> Cell:
        """Cell of the head."""
        return self.body[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Snake:
    """The rules, for one board and one treatment of collisions.

    Attributes:
        collision_ends: Whether a blocked move ends the episode; else it does nothing.
    """

    width: int = 8
    height: int = 8
    n_apples: int = 3
    n_obstacles: int = 3
    tail_cell_free: bool = False
    reversal_ignored: bool = False
    collision_ends: bool = False

    def start(self, seeds: EpisodeSeeds) -> State:
        draw = seeds.stream("obstacles")
        for _ in range(MAX_LAYOUTS):
            obstacles = _layout(self.width, self.height, self.n_obstacles, draw)
            if obstacles is not None:
                break
        else:
            raise ConfigError(
                f"no board of {self.width}x{self.height} with {self.n_obstacles} obstacles found"
            )
        state = State(
            body=(_start(self.width, self.height),),
            direction=FIRST_DIRECTION,
            apples=frozenset(),
            obstacles=obstacles,
            drawn=0,
            seeds=seeds,
        )
        return self._with_apples(state)

    def observe(self, state: State, clock: Clock) -> str:
        wall = WALL * self.width
        inner = WALL + EMPTY * (self.width - 2) + WALL
        rows = [list(wall), *(list(inner) for _ in range(self.height - 2)), list(wall)]
        for mark, cells in (
            (APPLE, state.apples),
            (OBSTACLE, state.obstacles),
            (BODY, state.body),
            (HEAD, (state.head,)),
        ):
            for row, column in cells:
                rows[row][column] = mark
        lines = ["Current Game State:", *map("".join, rows)]
        lines.append(f"Current direction: {state.direction}")
        lines.append(f"Step {clock.step} of {clock.max_steps}")
        return "\n".join(lines)

    def apply(self, state: State, action: str) -> Transition[State]:
        word = plain(action, EXPECTED).upper()
        if word not in DIRECTIONS:
            raise refusal(action, EXPECTED)
        if word == OPPOSITE[state.direction]:
            if not self.reversal_ignored:
                legal = ", ".join(each for each in DIRECTIONS if each != word)
                raise refusal(action, f"{legal} (no reversal while heading {state.direction})")
            word = state.direction
        target = moved(state.head, DIRECTIONS[word])
        obstacle = self._what_blocks(state, target)
        if obstacle:
            effect = "the game is over" if self.collision_ends else "nothing moves"
            return Transition(
                state=state,
                feedback=f"{word} is blocked by {obstacle}: {effect}.",
                terminated=self.collision_ends,
            )
        return self._advanced(state, word, target)

    def _what_blocks(self, state: State, target: Cell) -> str:
        """Name what lies on a cell, or return an empty string."""
        if not self._inside(target):
            return "the wall"
        if target in state.obstacles:
            return "an obstacle"
        leaves = self.tail_cell_free and target == state.body[0]
        return "the snake itself" if target in state.body and not leaves else ""

    def _advanced(self, state: State, word: str, target: Cell) -> Transition[State]:
        if target not in state.apples:
            body = (*state.body[1:], target)
            after = replace(state, body=body, direction=word)
            return Transition(state=after, feedback=f"The snake moved {word}.")
        after = replace(
            state,
            body=(*state.body, target),
            direction=word,
            apples=state.apples - {target},
        )
        full = len(after.body) == n_free_cells(self.width, self.height, self.n_obstacles)
        return Transition(
            state=self._with_apples(after),
            feedback=f"The snake moved {word} and ate an apple."
            + (" It fills the whole board." if full else ""),
            terminated=full,
        )

    def _inside(self, cell: Cell) -> bool:
        return 0 < cell[0] < self.height - 1 and 0 < cell[1] < self.width - 1

    def _with_apples(self, state: State) -> State:
        """Draw apples, uniformly over the empty cells, until there are enough of them."""
        apples, drawn = set(state.apples), state.drawn
        taken = state.obstacles.union(state.body)
        empty = [cell for cell in _playable(self.width, self.height) if cell not in taken]
        while len(apples) < min(self.n_apples, len(empty)):
            choices = [cell for cell in empty if cell not in apples]
            apples.add(state.seeds.stream("apple", drawn).pick(choices))
            drawn += 1
        return replace(state, apples=frozenset(apples), drawn=drawn)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnakeVerifier:
    """An apple is worth 1; the rules never call it."""

    def reward(self, before: State, action: str, after: State) -> float:
        return float(len(after.body) - len(before.body))

    def score(self, rewards: Sequence[float], final: State) -> float:
        return float(sum(rewards))


def n_free_cells(width: int, height: int, n_obstacles: int) -> int:
    """Return how many cells the snake can ever fill."""
    return (width - 2) * (height - 2) - n_obstacles


def _start(width: int, height: int) -> Cell:
    return (height // 2, width // 2 - 1)


@cache
def _playable(width: int, height: int) -> tuple[Cell, ...]:
    return tuple((row, column) for row in range(1, height - 1) for column in range(1, width - 1))


@cache
def _obstacle_cells(width: int, height: int) -> tuple[Cell, ...]:
    """Return the cells outside the 3x3 block around the start."""
    row, column = _start(width, height)
    return tuple(
        cell
        for cell in _playable(width, height)
        if max(abs(cell[0] - row), abs(cell[1] - column)) > 1
    )


def _layout(width: int, height: int, n_obstacles: int, draw: Stream) -> frozenset[Cell] | None:
    """Draw obstacles; ``None`` when they leave a dead end or cut the board in two."""
    obstacles = frozenset(draw.sample(_obstacle_cells(width, height), n_obstacles))
    free = set(_playable(width, height)) - obstacles
    if any(len(list(neighbours(cell, free))) < FEWEST_WAYS for cell in free):
        return None
    return obstacles if connected(free) else None


@cache
def _layout_share(width: int, height: int, n_obstacles: int) -> float:
    """Estimate, by fixed draws, how often random obstacles make a legal board."""
    if n_obstacles > len(_obstacle_cells(width, height)):
        return 0.0
    draw, enough, most = Stream(0), 4, 300
    found = 0
    for tried in range(1, most + 1):
        found += _layout(width, height, n_obstacles, draw) is not None
        if found == enough:
            return found / tried
    return found / most


def rules_text(options: SnakeOptions, phase: Phase) -> str:
    """Return the rules of the phase's board."""
    strict = phase is Phase.EVALUATION
    tail = (
        "The cell that the tail leaves in the same step may be entered."
        if options.tail_cell_free
        else "The tail's cell counts as occupied too."
    )
    ignored = options.reversal == "ignored"
    back = "lets it go straight on" if ignored else "is no legal action"
    refused = (
        "A blocked move or any other answer ends the game at once."
        if strict
        else "A blocked move or any other answer changes nothing but uses up the step."
    )
    most = n_free_cells(options.width, options.height, options.obstacles)
    return (
        f"Snake on a board of {options.height} rows and {options.width} columns, wall included. "
        f"Marks: {WALL} wall, {HEAD} head, {BODY} body, {APPLE} apple, {OBSTACLE} obstacle, "
        f"{EMPTY} empty. The snake starts with length 1, heading {FIRST_DIRECTION}.\n"
        f"Action: one word, {EXPECTED}, in any case and nothing else. The head moves one cell that "
        f"way. The opposite of the current direction {back}, even at length 1.\n"
        "On an apple the snake grows by one cell: its tail stays where it is. Otherwise the tail "
        "follows. A new apple then appears on a random empty cell, so that up to "
        f"{options.apples} lie on the board.\n"
        f"A move into the wall, an obstacle or the snake is blocked. {tail} {refused}\n"
        "The reward of an action is 1 if it eats an apple, else 0; your score is the number of "
        f"apples eaten. The game ends after {MAX_STEPS} steps, or when the snake fills all {most} "
        "free cells."
    )


def make_setup(options: SnakeOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: only what a collision or a refused action does differs."""
    strict = phase is Phase.EVALUATION
    most = n_free_cells(options.width, options.height, options.obstacles) - 1
    return Setup(
        game=Snake(
            width=options.width,
            height=options.height,
            n_apples=options.apples,
            n_obstacles=options.obstacles,
            tail_cell_free=options.tail_cell_free,
            reversal_ignored=options.reversal == "ignored",
            collision_ends=strict,
        ),
        verifier=SnakeVerifier(),
        max_steps=MAX_STEPS,
        on_invalid="end" if strict else "noop",
        reward_range=(0.0, 1.0),
        score_range=(0.0, float(min(most, MAX_STEPS))),
    )


SPEC = StandardSpec(
    name="snake",
    version=1,
    options=SnakeOptions,
    anchors=Anchors(random=0.20, reference=22.1, ceiling=32.0),
    rules_text=rules_text,
    make_setup=make_setup,
)
