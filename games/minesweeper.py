"""Minesweeper: find the mines of a 9 x 9 board from the numbers of its open cells.

Observation: a header (size, mines, flags in use, extra lives, step), then one line per row of
             marks separated by blanks: ``?`` unknown, ``F`` flag, ``0``-``8`` open, ``X`` mine.
Actions:     ``uncover (row,column)`` | ``flag (row,column)`` | ``unflag (row,column)``.
Reward:      standing after minus standing before, where the standing is correct flags / mines.
Score:       the final standing, 0 to 1; on a win (mines - exploded mines) / mines.
Ends:        on a win, or on a mine without an extra life left.
Phases:      exploration has two extra lives; evaluation has none.
Source:      S3Gym paper (arXiv 2608.31100), Minesweeper; games.md section 2.

The standing is never shown: it would say which flags are right. No reaction depends on a flag
being right, except the win itself: flags are refused by their number alone.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.games._minesweeper_board import CELLS, SIZE, count_neighbours, flood, move_mine, show
from s3gym.games._spec import InvalidAction, StandardSpec, on_invalid, plain, refusal
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

MINES = (10, 20)
"""Least and greatest number of mines, both phases; uniform."""
EXTRA_LIVES = {Phase.EXPLORATION: 2, Phase.EVALUATION: 0}
MAX_STEPS = 64
UNCOVER, FLAG, UNFLAG = VERBS = ("uncover", "flag", "unflag")
UNKNOWN, FLAGGED, MINE, DIGITS = "?", "F", "X", "012345678"

EXPECTED = f"{UNCOVER} (row,column), {FLAG} (row,column) or {UNFLAG} (row,column)"
MAX_ACTION = 200
CELL = r"([0-9]{1,3})[ \t]*(?:,[ \t]*|[ \t])([0-9]{1,3})"
ACTION = re.compile(
    rf"({UNCOVER}|{FLAG}|{UNFLAG})[ \t]*(?:\([ \t]*{CELL}[ \t]*\)|{CELL})", re.IGNORECASE
)


class MinesweeperOptions(Options):
    """Switches of minesweeper."""

    first_safe: bool = Field(
        default=False,
        description="a mine under the first uncovered cell moves to a mine-free cell",
    )
    win_with_lost_lives: Literal["reduced", "full"] = Field(
        default="reduced",
        description="score of a win after explosions: (mines - exploded) / mines, or 1",
    )
    invalid_action: InvalidAction = Field(
        default="noop", description="a refused action is a lost step, or ends a strict episode"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A board and what was done to it; cells are numbered row by row, (0,0) is cell 0.

    Attributes:
        mines: Cells of all mines; hidden.
        numbers: Mines around each cell, the cell itself not counted; hidden until opened.
        lives: Extra lives left.
        spare: Which mine-free cell, in order, takes the mine of the first uncovered cell;
            ``None`` when that cell is not, or no longer, protected.
        opened: Safe cells that are open.
        flags: Flagged cells, kept as they were when a mine ended the game.
        exploded: Cells where a mine was uncovered.
        lost: Whether a mine ended the game.
    """

    mines: frozenset[int]
    numbers: tuple[int, ...]
    lives: int
    spare: int | None = None
    opened: frozenset[int] = frozenset()
    flags: frozenset[int] = frozenset()
    exploded: frozenset[int] = frozenset()
    lost: bool = False


def is_won(state: State) -> bool:
    """Return whether all safe cells are open, or the flags are just the unexploded mines."""
    if state.lost:
        return False
    cleared = len(state.opened) == CELLS - len(state.mines)
    return cleared or (bool(state.flags) and state.flags == state.mines - state.exploded)


@dataclass(frozen=True, slots=True, kw_only=True)
class Minesweeper:
    """The rules, for one number of extra lives.

    Attributes:
        extra_lives: Mines that may be uncovered without ending the game.
        first_safe: Whether the first uncovered cell is protected.
    """

    extra_lives: int
    first_safe: bool = False

    def start(self, seeds: EpisodeSeeds) -> State:
        layout = seeds.stream("layout")
        n_mines = layout.between(*MINES)
        mines = frozenset(layout.sample(range(CELLS), n_mines))
        spare = seeds.stream("first safe").below(CELLS - n_mines) if self.first_safe else None
        return State(
            mines=mines, numbers=count_neighbours(mines), lives=self.extra_lives, spare=spare
        )

    def observe(self, state: State, clock: Clock) -> str:
        marks = [UNKNOWN] * CELLS
        for cell in state.opened:
            marks[cell] = DIGITS[state.numbers[cell]]
        for cell in state.flags:
            marks[cell] = FLAGGED
        for cell in state.mines if state.lost else state.exploded:
            marks[cell] = MINE
        rows = (" ".join(marks[start : start + SIZE]) for start in range(0, CELLS, SIZE))
        return "\n".join(
            (
                f"Rows: {SIZE}, columns: {SIZE}, mines: {len(state.mines)}, "
                f"flags in use: {len(state.flags)}, extra lives left: {state.lives}, "
                f"step {clock.step} of {clock.max_steps}",
                "Current Game State:",
                *rows,
            )
        )

    def apply(self, state: State, action: str) -> Transition[State]:
        verb, cell = read_action(action)
        if verb == UNCOVER:
            return _uncover(state, cell)
        return _flag(state, cell) if verb == FLAG else _unflag(state, cell)


def read_action(action: str) -> tuple[str, int]:
    """Return the verb in lower case and the number of the cell.

    Grammar: a verb in any case, then two numbers of one to three ASCII digits, separated by a
    comma or blanks, with or without parentheses around them; blanks and tabs are free.

    Raises:
        InvalidActionError: The action is malformed or names a cell off the board.
    """
    found = ACTION.fullmatch(plain(action, EXPECTED, MAX_ACTION))
    if found is None:
        raise refusal(action, EXPECTED)
    verb, *numbers = (group for group in found.groups() if group is not None)
    row, column = map(int, numbers)
    if row >= SIZE or column >= SIZE:
        raise InvalidActionError(
            f"expected a row and a column in 0..{SIZE - 1}, got ({row},{column})"
        )
    return verb.lower(), row * SIZE + column


def _refuse_unless_unknown(state: State, verb: str, cell: int) -> None:
    if cell in state.flags:
        found = "flagged"
    elif cell in state.opened or cell in state.exploded:
        found = "open"
    else:
        return
    raise InvalidActionError(f"expected an unknown cell to {verb}, {show(cell)} is {found}")


def _uncover(state: State, cell: int) -> Transition[State]:
    _refuse_unless_unknown(state, UNCOVER, cell)
    mines, numbers = state.mines, state.numbers
    if state.spare is not None and cell in mines:
        mines = move_mine(mines, cell, state.spare)
        numbers = count_neighbours(mines)
    if cell not in mines:
        found = flood(cell, numbers, state.opened | state.flags | state.exploded)
        after = replace(
            state, mines=mines, numbers=numbers, spare=None, opened=state.opened | found
        )
        plural = "cell" if len(found) == 1 else "cells"
        return _finish(after, f"Uncovered {show(cell)}: {len(found)} {plural} opened.")
    lost = not state.lives
    after = replace(
        state, exploded=state.exploded | {cell}, lives=max(0, state.lives - 1), lost=lost
    )
    left = "no extra life was left" if lost else f"extra lives left: {after.lives}"
    return _finish(after, f"Uncovered {show(cell)}: a mine exploded, {left}.")


def _flag(state: State, cell: int) -> Transition[State]:
    _refuse_unless_unknown(state, FLAG, cell)
    if len(state.flags) == len(state.mines):
        raise InvalidActionError(f"expected a free flag, all {len(state.mines)} are in use")
    return _finish(replace(state, flags=state.flags | {cell}), f"Flagged {show(cell)}.")


def _unflag(state: State, cell: int) -> Transition[State]:
    if cell not in state.flags:
        raise InvalidActionError(f"expected a flagged cell to {UNFLAG}, {show(cell)} has no flag")
    after = replace(state, flags=state.flags - {cell})
    return _finish(after, f"Took the flag off {show(cell)}.")


def _finish(state: State, feedback: str) -> Transition[State]:
    won = is_won(state)
    if won:
        feedback += " The board is solved."
    return Transition(state=state, feedback=feedback, terminated=won or state.lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class MinesweeperVerifier:
    """What a standing is worth; the rules never call it.

    Attributes:
        full_wins: Whether a win counts 1 whatever exploded before it.
    """

    full_wins: bool = False

    def points(self, state: State) -> int:
        """Return the standing in mines: correct flags, or what a win counts."""
        if is_won(state):
            return len(state.mines) - (0 if self.full_wins else len(state.exploded))
        return len(state.flags & state.mines)

    def reward(self, before: State, action: str, after: State) -> float:
        return (self.points(after) - self.points(before)) / len(after.mines)

    def score(self, rewards: Sequence[float], final: State) -> float:
        return self.points(final) / len(final.mines)


def rules_text(options: MinesweeperOptions, phase: Phase) -> str:
    """Return the rules of the phase's setup."""
    lives = EXTRA_LIVES[phase]
    strict = on_invalid(options.invalid_action, phase) == "end"
    first = (
        "The first cell that you uncover is safe: a mine there is moved elsewhere. "
        if options.first_safe
        else "The first cell that you uncover may be a mine. "
    )
    explosion = (
        f"Uncovering a mine costs one of your {lives} extra lives; without one left it ends the "
        "game."
        if lives
        else "Uncovering a mine ends the game."
    )
    won = "1" if options.win_with_lost_lives == "full" else "(mines - exploded mines) / mines"
    return (
        f"Minesweeper on {SIZE} rows and {SIZE} columns. A cell is (row,column), zero-based, row "
        f"0 on top. {MINES[0]} to {MINES[1]} mines lie under different cells; the state shows how "
        "many.\n"
        f"Marks: {UNKNOWN} unknown, {FLAGGED} flag, 0 to 8 an open cell and the number of mines "
        f"among its up to 8 neighbours, {MINE} a mine.\n"
        f"Actions:\n"
        f"- {UNCOVER} (row,column): open an unknown cell. A cell with number 0 opens all its "
        "unknown neighbours too, and so on; flagged cells stay closed.\n"
        f"- {FLAG} (row,column): put a flag on an unknown cell; at most as many flags as mines.\n"
        f"- {UNFLAG} (row,column): take a flag off.\n"
        f"{first}{explosion}\n"
        "You win, and the game ends, when all cells without a mine are open, or when the flags "
        "stand on exactly the mines that have not exploded.\n"
        "Your standing is the number of flags on mines divided by the number of mines; on a win it "
        f"is {won}. The reward of an action is the change of your standing, so a flag on a mine "
        "gives 1 / mines and a wrong flag 0; your score is the standing at the end.\n"
        f"Any other action {'ends the game' if strict else 'does nothing and uses up the step'}. "
        f"The game ends after {MAX_STEPS} steps at the latest."
    )


def make_setup(options: MinesweeperOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: only the number of extra lives differs."""
    return Setup(
        game=Minesweeper(extra_lives=EXTRA_LIVES[phase], first_safe=options.first_safe),
        verifier=MinesweeperVerifier(full_wins=options.win_with_lost_lives == "full"),
        max_steps=MAX_STEPS,
        on_invalid=on_invalid(options.invalid_action, phase),
        reward_range=(-1.0 / MINES[0], 1.0),
        score_range=(0.0, 1.0),
    )


SPEC = StandardSpec(
    name="minesweeper",
    version=1,
    options=MinesweeperOptions,
    anchors=Anchors(random=0.063, reference=0.63, ceiling=1.0),
    rules_text=rules_text,
    make_setup=make_setup,
)
