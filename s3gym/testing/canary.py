"""A game whose reward nobody can deduce: every accepted action pays 90210.5, in both phases.

No text of the game names the reward, so the number must appear nowhere on the learner's side: not
in prompts, memories, logs or exceptions. Wherever it turns up, something of the verifier leaks.

Observation: the number of the door, and the doors chosen so far.
Actions:     ``left`` | ``right``
Reward:      90210.5 game points for each accepted action.
Score:       the greatest of its rewards: 90210.5, or 0.0 when no action was accepted.
Ends:        the rules never end it; the runner truncates after ``doors`` steps.
Phases:      a refused action is a step without effect in exploration and ends evaluation.
Source:      ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.prompts import BASE_INSTRUCTION
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, Stream
from s3gym.text import shorten

CANARY = 90210.5
SIDES = ("left", "right")


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The doors opened so far, and a hidden number drawn from the episode's seed."""

    hidden: int
    opened: tuple[str, ...] = ()


class Corridor:
    """The rules: one door after the other."""

    def start(self, seeds: EpisodeSeeds) -> State:
        """Return the first state; the hidden number has 12 digits."""
        return State(hidden=seeds.stream("hidden").between(10**11, 10**12 - 1))

    def observe(self, state: State, clock: Clock) -> str:
        """Return the number of the door and the doors chosen so far."""
        chosen = " ".join(state.opened) or "none"
        return f"Door {clock.step} of {clock.max_steps}\nChosen so far: {chosen}"

    def apply(self, state: State, action: str) -> Transition[State]:
        """Open a door."""
        if action not in SIDES:
            raise InvalidActionError(f"expected left or right, got {shorten(action)}")
        after = replace(state, opened=(*state.opened, action))
        return Transition(state=after, feedback=f"You opened the {action} door.")


class CanaryVerifier:
    """Pays the canary for every accepted action."""

    def reward(self, before: State, action: str, after: State) -> float:
        """Return 90210.5."""
        return CANARY

    def score(self, rewards: Sequence[float], final: State) -> float:
        """Return the greatest reward."""
        return max(rewards, default=0.0)


class CanaryOptions(Options):
    """Switches of the canary game."""

    doors: Annotated[int, Field(ge=1, le=1_000)] = Field(8, description="steps of an episode")


class CanaryGame:
    """The game's ``SPEC``; every instance is equal to every other."""

    name = "canary"
    version = 1
    options = CanaryOptions
    anchors = Anchors(random=CANARY, reference=CANARY, ceiling=CANARY)

    def instruction(self, options: CanaryOptions, phase: Phase) -> str:
        """Return the system text."""
        return BASE_INSTRUCTION

    def rules(self, options: CanaryOptions, phase: Phase) -> str:
        """Return the rules text."""
        return (
            f"You walk down a corridor with {options.doors} pairs of doors. At each pair choose "
            f"{SIDES[0]} or {SIDES[1]}."
        )

    def setup(self, options: CanaryOptions, phase: Phase) -> Setup[State]:
        """Return the phase's version of the game."""
        return Setup(
            game=Corridor(),
            verifier=CanaryVerifier(),
            max_steps=options.doors,
            on_invalid="end" if phase is Phase.EVALUATION else "noop",
            reward_range=(0.0, CANARY),
            score_range=(0.0, CANARY),
        )


def random_action(text: str, stream: Stream) -> str:
    """Return a legal action, whatever the observation says."""
    return stream.pick(SIDES)


SPEC = CanaryGame()
