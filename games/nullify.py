"""Nullify: combine numbers and operators in pairs until nothing is left.

Observation: the units left, one line ``index: content`` each, indices from 0.
Actions:     two indices separated by blanks or one comma: ``0 3``.
Reward:      1 game point for the action that empties the board, otherwise 0.
Score:       1 when the board is empty at the end, otherwise 0, in game points.
Ends:        when the board is empty, or no legal pair is left.
Phases:      exploration builds boards in 3 to 7 steps, evaluation in 5 to 10.
Source:      S3Gym paper (arXiv 2608.31100), Nullify; games.md section 3.

Every board can be won (``_nullify_boards``). Values are double precision and never rounded; they
are shown with 12 significant digits.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from pydantic import Field

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.games._nullify_boards import construct, deal
from s3gym.games._nullify_units import DIGITS, LARGEST, ZERO, Unit, combine, show
from s3gym.games._spec import InvalidAction, StandardSpec, on_invalid, plain, refusal
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

CONSTRUCTION_STEPS = {Phase.EXPLORATION: (3, 7), Phase.EVALUATION: (5, 10)}
"""Least and greatest number of construction steps; uniform."""
MAX_STEPS = 50
TITLE = "Current game board:"
EMPTY = "(empty)"

EXPECTED = "two different indices separated by a blank, for example 0 1"
MAX_ACTION = 200
ACTION = re.compile(r"([0-9]{1,3})[ \t]*(?:,[ \t]*|[ \t])([0-9]{1,3})")


class NullifyOptions(Options):
    """Switches of nullify."""

    zero_result_vanishes: bool = Field(
        default=True,
        description="an operator's result of zero leaves nothing; otherwise it leaves the unit +0",
    )
    dead_state_ends: bool = Field(
        default=True,
        description="a board without a legal pair ends the game; otherwise play goes on to the cap",
    )
    invalid_action: InvalidAction = Field(
        default="noop", description="a refused action is a lost step, or ends a strict episode"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The units left, in the order of their indices; nothing is hidden."""

    units: tuple[Unit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Nullify:
    """The rules, for one range of construction steps.

    Attributes:
        steps: Least and greatest number of construction steps.
        zero_vanishes: Whether an operator's result of zero leaves nothing.
        dead_ends: Whether a board without a legal pair ends the game.
    """

    steps: tuple[int, int]
    zero_vanishes: bool = True
    dead_ends: bool = True

    def start(self, seeds: EpisodeSeeds) -> State:
        built = construct(seeds, self.steps)
        return State(units=tuple(built[index] for index in deal(seeds, len(built))))

    def observe(self, state: State, clock: Clock) -> str:
        lines = [f"{index}: {show(unit)}" for index, unit in enumerate(state.units)]
        return "\n".join([TITLE, *(lines or [EMPTY])])

    def apply(self, state: State, action: str) -> Transition[State]:
        low, high = read_action(action, len(state.units))
        one, two = state.units[low], state.units[high]
        result = combine(one, two, self.zero_vanishes)
        if result is None:
            raise InvalidActionError(
                f"expected a legal pair, {show(one)} and {show(two)} cannot be combined"
            )
        left = (*state.units[:low], *state.units[low + 1 : high], *state.units[high + 1 :])
        after = State(units=(*left, *result))
        gone = f"into {show(result[0])}" if result else "and both vanished"
        feedback = f"Combined {show(one)} and {show(two)} {gone}."
        if not after.units:
            feedback += " The board is empty."
            return Transition(state=after, feedback=feedback, terminated=True)
        dead = self.is_dead(after)
        if dead:
            feedback += " No legal pair is left."
        return Transition(state=after, feedback=feedback, terminated=dead and self.dead_ends)

    def is_dead(self, state: State) -> bool:
        """Return whether units are left but no two of them can be combined."""
        pairs = combinations(state.units, 2)
        return bool(state.units) and all(
            combine(one, two, self.zero_vanishes) is None for one, two in pairs
        )


def read_action(action: str, n_units: int) -> tuple[int, int]:
    """Return the two indices, the lower one first.

    Grammar: two numbers of one to three ASCII digits, separated by blanks, tabs or one comma.

    Raises:
        InvalidActionError: The action is malformed, or an index is off the board or repeated.
    """
    found = ACTION.fullmatch(plain(action, EXPECTED, MAX_ACTION))
    if found is None:
        raise refusal(action, EXPECTED)
    low, high = sorted(map(int, found.groups()))
    if low == high:
        raise InvalidActionError(f"expected {EXPECTED}, got {low} twice")
    if high >= n_units:
        raise InvalidActionError(f"expected indices in 0..{n_units - 1}, got {high}")
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class NullifyVerifier:
    """An empty board is worth a point; the rules never call it."""

    def reward(self, before: State, action: str, after: State) -> float:
        return 1.0 if before.units and not after.units else 0.0

    def score(self, rewards: Sequence[float], final: State) -> float:
        return 0.0 if final.units else 1.0


def rules_text(options: NullifyOptions, phase: Phase) -> str:
    """Return the rules; the number of construction steps is not part of them."""
    strict = on_invalid(options.invalid_action, phase) == "end"
    zero = "leaves nothing" if options.zero_result_vanishes else "leaves the number +0"
    dead = (
        "It is lost, and ends, when no legal pair is left. "
        if options.dead_state_ends
        else "A board without a legal pair is lost; play goes on to the last step. "
    )
    return (
        "Nullify. The board holds units, one per line as index: content. Combine them two at a "
        "time until none is left.\n"
        "Units:\n"
        "- a number, shown with its sign: +5, -0.25\n"
        "- *k or /k: multiplies or divides a number by k\n"
        "- sqrt: the non-negative root of a number that is not negative\n"
        "- square, reciprocal: x*x, 1/x\n"
        "- floor, ceil: the next integer below or above\n"
        f"Two numbers are replaced by their sum; if the sum is zero (to within {ZERO:f} of the "
        "larger of the two, or of 1) both vanish. A number and an operator are replaced by the "
        f"operator's result; a result of zero (to within {ZERO:f}) {zero}. Two operators cannot be "
        "combined, nor a number with an operator that it does not allow, nor anything whose "
        f"result exceeds {LARGEST:,.0f} in size. A new number goes to the end of the list and the "
        "others move up, so indices change.\n"
        f"Numbers are shown with at most {DIGITS} significant digits, tiny ones with an exponent "
        "(+1.5e-05), and kept exactly.\n"
        "Action: two different indices separated by a blank, for example 0 1; their order does "
        "not matter.\n"
        "You win, and the game ends, when the board is empty. "
        f"{dead}"
        f"Any other action {'ends the game' if strict else 'does nothing and uses up the step'}. "
        f"The game ends after {MAX_STEPS} steps at the latest.\n"
        "The reward is 1 for the action that empties the board and 0 for every other; your score "
        "is 1 for an empty board and 0 otherwise. Every board can be won."
    )


def make_setup(options: NullifyOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: only the number of construction steps differs."""
    return Setup(
        game=Nullify(
            steps=CONSTRUCTION_STEPS[phase],
            zero_vanishes=options.zero_result_vanishes,
            dead_ends=options.dead_state_ends,
        ),
        verifier=NullifyVerifier(),
        max_steps=MAX_STEPS,
        on_invalid=on_invalid(options.invalid_action, phase),
        reward_range=(0.0, 1.0),
        score_range=(0.0, 1.0),
    )


SPEC = StandardSpec(
    name="nullify",
    version=1,
    options=NullifyOptions,
    anchors=Anchors(random=0.014, reference=0.84, ceiling=1.0),
    rules_text=rules_text,
    make_setup=make_setup,
)
