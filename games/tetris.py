"""Tetris: placing blocks, one at a time, so that full rows disappear.

Observation: the board, ``*`` filled and ``.`` empty, row 0 on top; then the block to place now
             in all four rotations, each under its angle; then the number of blocks placed.
Actions:     ``COLUMN ANGLE``, for example ``4 90``: the one-based column of the leftmost cell
             of the turned block, and its clockwise angle (0, 90, 180 or 270).
Reward:      rows that the action removed, 0 to 4 points; one point per row.
Score:       the sum of the rewards: rows removed in the episode.
Ends:        when a block meets a filled cell at the top of the board; the runner truncates
             after ``HORIZON`` steps.
Phases:      exploration is 10 wide and 10 high, evaluation 8 wide and 8 high.
Source:      S3Gym paper (arXiv 2608.31100), Tetris; games.md section 4 for what it leaves open.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import Field

from s3gym.contracts import game as contract
from s3gym.contracts.game import Anchors, Clock, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.games._spec import InvalidAction, StandardSpec, on_invalid, refusal
from s3gym.games._tetris_blocks import ANGLES, NAMES, Rotation, panel, rotations
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

HORIZON = 64
FILLED, EMPTY = "*", "."
POINTS_PER_ROW = 1
CELLS_PER_BLOCK = 4
MAX_HEIGHT = 4
MAX_ACTION = 100
ACTION = re.compile(r"[ \t]*([+-]?[0-9]+)[ \t]+([+-]?[0-9]+)[ \t]*°?[ \t]*")
SYNTAX = "COLUMN ANGLE, for example '4 90'"
Side = Annotated[int, Field(ge=4, le=30)]
BadColumn = Literal["noop", "clamp"]


class Options(contract.Options):
    """Switches of Tetris."""

    bad_column: BadColumn = Field(
        default="noop",
        description="a column that does not fit: refuse the action, or use the nearest that fits",
    )
    invalid_action: InvalidAction = Field(
        default="noop",
        description="what a refused action does: nothing, or it ends a strict episode",
    )
    exploration_width: Side = Field(default=10, description="columns of exploration boards")
    exploration_height: Side = Field(default=10, description="rows of exploration boards")
    evaluation_width: Side = Field(default=8, description="columns of evaluation boards")
    evaluation_height: Side = Field(default=8, description="rows of evaluation boards")

    def size(self, phase: Phase) -> tuple[int, int]:
        """Return width and height of a phase's board."""
        if phase is Phase.EVALUATION:
            return self.evaluation_width, self.evaluation_height
        return self.exploration_width, self.exploration_height


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A board and the blocks of the episode.

    Attributes:
        rows: One mask per row, row 0 on top; bit 0 is the leftmost column.
        blocks: Names of all blocks of the episode, in order; drawn before the first step.
        placed: Blocks placed so far, so also the index of the block to place now.
        cleared: Rows removed so far.
    """

    rows: tuple[int, ...]
    blocks: str
    placed: int = 0
    cleared: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tetris:
    """The rules, for one size of board."""

    width: int
    height: int
    bad_column: BadColumn = "noop"

    def start(self, seeds: EpisodeSeeds) -> State:
        stream = seeds.stream("blocks")
        blocks = "".join(stream.pick(NAMES) for _ in range(HORIZON))
        return State(rows=(0,) * self.height, blocks=blocks)

    def observe(self, state: State, clock: Clock) -> str:
        lines = ["Current Game State:"]
        lines += [_row_text(mask, self.width) for mask in state.rows]
        lines.append("Next Block:")
        lines.append(
            panel(state.blocks[state.placed]) if state.placed < len(state.blocks) else "none"
        )
        lines.append(f"Blocks placed: {state.placed}")
        return "\n".join(lines)

    def apply(self, state: State, action: str) -> Transition[State]:
        if state.placed >= len(state.blocks):
            raise InvalidActionError("there is no block left to place")
        column, block = self._read(action, state.blocks[state.placed])
        masks = [mask << (column - 1) for mask in block.masks]
        if not _fits(state.rows, masks, 0):
            return Transition(
                state=state,
                feedback="The block meets filled cells at the top of the board: the game is over.",
                terminated=True,
            )
        top = 0
        while _fits(state.rows, masks, top + 1):
            top += 1
        rows, cleared = self._fixed(state.rows, masks, top)
        return Transition(
            state=replace(
                state, rows=rows, placed=state.placed + 1, cleared=state.cleared + cleared
            ),
            feedback=_feedback(column, block.angle, cleared),
        )

    def _read(self, action: str, name: str) -> tuple[int, Rotation]:
        """Return the column and the turned block that an action names."""
        match = ACTION.fullmatch(action) if len(action) <= MAX_ACTION else None
        if match is None:
            raise refusal(action, SYNTAX)
        column, angle = int(match[1]), int(match[2])
        if angle not in ANGLES:
            raise refusal(match[2], f"an angle of {', '.join(map(str, ANGLES))}")
        block = rotations(name)[angle]
        last = self.width - block.width + 1
        if self.bad_column == "clamp":
            column = min(max(column, 1), last)
        if not 1 <= column <= last:
            raise refusal(match[1], f"a column of 1 to {last} for this block at angle {angle}")
        return column, block

    def _fixed(
        self, rows: tuple[int, ...], masks: Sequence[int], top: int
    ) -> tuple[tuple[int, ...], int]:
        """Return the board with the block in place, and how many full rows disappeared."""
        board = list(rows)
        for offset, mask in enumerate(masks, top):
            board[offset] |= mask
        full = (1 << self.width) - 1
        kept = [row for row in board if row != full]
        cleared = self.height - len(kept)
        return (0,) * cleared + tuple(kept), cleared


@dataclass(frozen=True, slots=True, kw_only=True)
class TetrisVerifier:
    """One point per removed row; the rules never call it."""

    def reward(self, before: State, action: str, after: State) -> float:
        return float(POINTS_PER_ROW * (after.cleared - before.cleared))

    def score(self, rewards: Sequence[float], final: State) -> float:
        return float(sum(rewards))


def rules(options: Options, phase: Phase) -> str:
    """Return the rules text of a phase's board."""
    width, height = options.size(phase)
    bad_column = (
        "a column that does not fit is refused"
        if options.bad_column == "noop"
        else "a column that does not fit is replaced by the nearest one that does"
    )
    refused = (
        "A refused action ends the game."
        if on_invalid(options.invalid_action, phase) == "end"
        else "A refused action changes nothing but uses up a step."
    )
    return "\n".join(
        (
            f"Tetris on a board {width} columns wide and {height} rows high. "
            f"{FILLED} is a filled cell, {EMPTY} an empty one; the top row comes first.",
            f"Each step you place one block, shown in its four rotations (clockwise). There are "
            f"{len(NAMES)} kinds of block, all equally likely.",
            f"Action: {SYNTAX}. COLUMN counts from 1 at the left and names the leftmost cell of "
            f"the turned block; ANGLE is one of {', '.join(map(str, ANGLES))}. The whole block "
            f"must lie on the board: {bad_column}.",
            "The block enters at the top row and falls straight down until it rests on the floor "
            "or on a filled cell. It cannot slide sideways under an overhang.",
            f"Every full row disappears, the rows above move down, and you get {POINTS_PER_ROW} "
            "point per row.",
            "If the block meets a filled cell where it enters, nothing is placed and the game is "
            "over.",
            f"{refused} The game lasts at most {HORIZON} steps.",
        )
    )


def setup(options: Options, phase: Phase) -> Setup[State]:
    """Return a phase's version of the game."""
    width, height = options.size(phase)
    return Setup(
        game=Tetris(width=width, height=height, bad_column=options.bad_column),
        verifier=TetrisVerifier(),
        max_steps=HORIZON,
        on_invalid=on_invalid(options.invalid_action, phase),
        reward_range=(0.0, float(POINTS_PER_ROW * MAX_HEIGHT)),
        score_range=(0.0, float(POINTS_PER_ROW * (HORIZON * CELLS_PER_BLOCK // width))),
    )


def _fits(rows: tuple[int, ...], masks: Sequence[int], top: int) -> bool:
    """Return whether a block with its top row at ``top`` meets neither floor nor filled cell."""
    if top + len(masks) > len(rows):
        return False
    return not any(rows[row] & mask for row, mask in enumerate(masks, top))


@lru_cache(maxsize=8192)
def _row_text(mask: int, width: int) -> str:
    return "".join(FILLED if mask >> column & 1 else EMPTY for column in range(width))


def _feedback(column: int, angle: int, cleared: int) -> str:
    placed = f"Placed the block at column {column}, angle {angle}."
    if not cleared:
        return placed
    return f"{placed} {cleared} full row{'s' if cleared > 1 else ''} disappeared."


SPEC = StandardSpec(
    name="tetris",
    version=1,
    options=Options,
    anchors=Anchors(random=0.016, reference=26.5, ceiling=32.0),
    rules_text=rules,
    make_setup=setup,
)
