"""What a game promises: pure rules, and a verifier beside them that the rules never call."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

State = TypeVar("State")
Seen = TypeVar("Seen", contravariant=True)
OnInvalid = Literal["noop", "end"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What the runner tells a game about time.

    Attributes:
        step: One-based number of the step about to be played; once the episode is over, the
            number of the last step that was played.
        max_steps: Step cap of the episode.
    """

    step: int
    max_steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition(Generic[State]):
    """What an accepted action did.

    Attributes:
        state: The next state.
        feedback: Names only what can be seen; never a reward, a score or hidden state.
        terminated: True when the rules end the episode here.
    """

    state: State
    feedback: str = ""
    terminated: bool = False


class Game(Protocol[State]):
    """Pure rules: immutable state, no I/O, no generator, no knowledge of rewards."""

    def start(self, seeds: EpisodeSeeds) -> State:
        """Return the first state; all randomness comes from ``seeds``."""
        ...

    def observe(self, state: State, clock: Clock) -> str:
        """Return the observation text: a pure function of its arguments, no trailing blanks."""
        ...

    def apply(self, state: State, action: str) -> Transition[State]:
        """Return what an action does.

        Args:
            state: A state that has not terminated.
            action: Any text at all. ``END`` never reaches a game.

        Raises:
            InvalidActionError: The rules refuse the action; the runner then applies the
                setup's ``on_invalid`` policy and shows the error's message as feedback.
        """
        ...


class Verifier(Protocol[Seen]):
    """Values actions and episodes. In the same file as its game, never called by it."""

    def reward(self, before: Seen, action: str, after: Seen) -> float:
        """Return the reward of an accepted action, in game points.

        The runner gives refused actions and END a reward of 0.0 itself.
        """
        ...

    def score(self, rewards: Sequence[float], final: Seen) -> float:
        """Return the score of an episode, in game points."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup(Generic[State]):
    """One phase's version of a game.

    Attributes:
        max_steps: The game's own horizon; the schedule may lower it.
        on_invalid: What a refused action does: ``"noop"`` (the step is consumed) or ``"end"``.
        reward_range: Least and greatest possible reward of one action, in game points.
        score_range: Least and greatest possible score, in game points.
    """

    game: Game[State]
    verifier: Verifier[State]
    max_steps: int
    on_invalid: OnInvalid = "noop"
    reward_range: tuple[float, float]
    score_range: tuple[float, float]


class Options(BaseModel):
    """Base of every game's switches: nothing unknown, nothing mutable."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Mean evaluation scores under default options, in game points (games.md, table 8.A).

    Attributes:
        random: Of uniform random play.
        reference: Of the reference player.
        ceiling: The greatest possible score.
    """

    random: float
    reference: float
    ceiling: float


class GameSpec(Protocol):
    """What a game file offers: its ``SPEC``. Usually an instance of ``StandardSpec``."""

    @property
    def name(self) -> str:
        """Short lower-case name."""
        ...

    @property
    def version(self) -> int:
        """Raised whenever a rule, a text or a draw changes."""
        ...

    @property
    def options(self) -> type[Options]:
        """The switches of the game, all with defaults."""
        ...

    @property
    def anchors(self) -> Anchors:
        """Levels that place a score between random and reference play."""
        ...

    def instruction(self, options: Any, phase: Phase) -> str:
        """Return the system text, without the response contract."""
        ...

    def rules(self, options: Any, phase: Phase) -> str:
        """Return the rules text, built from the constants that the game uses."""
        ...

    def setup(self, options: Any, phase: Phase) -> Setup[Any]:
        """Return the phase's version of the game."""
        ...


def parse_options(spec: GameSpec, values: Mapping[str, Any]) -> Options:
    """Return validated options of a game; raises pydantic's ``ValidationError``."""
    return spec.options(**values)


def episode_rules(spec: GameSpec, options: Options, phase: Phase, max_steps: int) -> str:
    """Return the rules text of an episode with a step cap.

    The cap is named when it is below the game's own horizon, the one that its rules tell.
    """
    text = spec.rules(options, phase)
    if max_steps >= spec.setup(options, phase).max_steps:
        return text
    return f"{text}\nThis time everything ends after {max_steps} steps at the latest."


@dataclass(frozen=True, slots=True, kw_only=True)
class NoVerifier:
    """Knows nothing and pays nothing: used to prove that nothing leaks."""

    value: float = field(default=0.0)

    def reward(self, before: object, action: str, after: object) -> float:
        """Return the constant ``value``."""
        return self.value

    def score(self, rewards: Sequence[float], final: object) -> float:
        """Return the constant ``value``."""
        return self.value
