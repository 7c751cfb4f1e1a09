"""Environments made elsewhere, as pure rules.

An environment is an object that changes; rules are functions of a state. So a state holds the
episode's seed and actions, and a live environment serves the state that it stands at; any other
state gets a new environment that plays its actions again. That is right only for an environment
that gives the same answers to the same seed and actions.

Many environments draw from Python's and NumPy's global generators. Those are exchanged for the
episode's own while an environment runs, and put back afterwards, so that episodes played side by
side do not disturb one another. Generators of other libraries, clocks, threads and networks are
beyond reach.
"""

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import fsum
from typing import Any, Protocol

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.prompts import BASE_INSTRUCTION
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

SEED_LIMIT = 2**31


@dataclass(frozen=True, slots=True, kw_only=True)
class Happened:
    """What an action did in an environment; the reward is the verifier's."""

    text: str
    feedback: str
    reward: float
    terminated: bool


class Driver(Protocol):
    """Knows how one kind of environment is handled."""

    def open(self, seed: int) -> tuple[Any, str]:
        """Return a new environment at its start, and what can be seen."""
        ...

    def read(self, action: str) -> Any:
        """Return the environment's own form of an action.

        Raises:
            InvalidActionError: It is none.
        """
        ...

    def step(self, environment: Any, action: Any) -> Happened:
        """Do an action."""
        ...


class Live:
    """An environment and the point of an episode that it stands at."""

    def __init__(self, driver: Driver, seed: int) -> None:
        self._generators = Generators(seed)
        self.actions: tuple[str, ...] = ()
        self.driver = driver
        with self._generators.in_place():
            self._environment, self.opening = driver.open(seed)

    def step(self, action: str) -> Happened:
        """Do an action."""
        read = self.driver.read(action)
        self.actions = (*self.actions, action)
        with self._generators.in_place():
            return self.driver.step(self._environment, read)

    def __deepcopy__(self, memo: object) -> "Live":
        return self  # it serves the states that it stands at, whoever holds them


class Generators:
    """The global generators of one episode."""

    def __init__(self, seed: int) -> None:
        self._python = random.Random(seed).getstate()
        self._seed = seed
        self._numpy: Any = None

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put this episode's generators in the place of the process's."""
        numpy: Any = sys.modules.get("numpy")
        before = random.getstate()
        random.setstate(self._python)
        before_numpy = None
        if numpy is not None:
            before_numpy = numpy.random.get_state()
            own = self._numpy
            numpy.random.set_state(own or numpy.random.RandomState(self._seed).get_state())
        try:
            yield
        finally:
            self._python = random.getstate()
            random.setstate(before)
            if numpy is not None:
                self._numpy = numpy.random.get_state()
                numpy.random.set_state(before_numpy)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideState:
    """An episode's seed and actions, what can be seen, and what the verifier was told."""

    seed: int
    actions: tuple[str, ...] = ()
    text: str
    rewards: tuple[float, ...] = ()
    live: Live = field(compare=False, repr=False)


class OutsideRules:
    """The rules of an environment made elsewhere."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def start(self, seeds: EpisodeSeeds) -> OutsideState:
        """Open an environment with the episode's seed."""
        seed = seeds.stream("environment").below(SEED_LIMIT)
        live = Live(self._driver, seed)
        return OutsideState(seed=seed, text=live.opening, live=live)

    def observe(self, state: OutsideState, clock: Clock) -> str:
        """Return what the environment shows."""
        return "\n".join(line.rstrip() for line in state.text.rstrip().split("\n"))

    def apply(self, state: OutsideState, action: str) -> Transition[OutsideState]:
        """Do an action in the environment that stands at this state."""
        self._driver.read(action)  # a refused action leaves the environment as it is
        live = state.live
        if live.actions != state.actions:
            live = Live(self._driver, state.seed)
            for earlier in state.actions:
                live.step(earlier)
        happened = live.step(action)
        after = OutsideState(
            seed=state.seed,
            actions=live.actions,
            text=happened.text,
            rewards=(*state.rewards, happened.reward),
            live=live,
        )
        return Transition(
            state=after, feedback=happened.feedback.rstrip(), terminated=happened.terminated
        )


class OutsideVerifier:
    """Passes on the environment's own rewards; the score is their sum."""

    def reward(self, before: OutsideState, action: str, after: OutsideState) -> float:
        """Return the environment's reward of the action."""
        return after.rewards[-1]

    def score(self, rewards: Sequence[float], final: OutsideState) -> float:
        """Return the sum."""
        return fsum(rewards)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSpec:
    """The ``GameSpec`` of an environment made elsewhere; the same in both phases."""

    name: str
    version: int
    rules_text: str
    driver: Driver
    max_steps: int
    reward_range: tuple[float, float]
    score_range: tuple[float, float]
    anchors: Anchors
    options: type[Options] = Options

    def instruction(self, options: Options, phase: Phase) -> str:
        """Return the system text."""
        return BASE_INSTRUCTION

    def rules(self, options: Options, phase: Phase) -> str:
        """Return the rules text."""
        return self.rules_text

    def setup(self, options: Options, phase: Phase) -> Setup[OutsideState]:
        """Return the game."""
        return Setup(
            game=OutsideRules(self.driver),
            verifier=OutsideVerifier(),
            max_steps=self.max_steps,
            on_invalid="end" if phase is Phase.EVALUATION else "noop",
            reward_range=self.reward_range,
            score_range=self.score_range,
        )


def anchors_of(given: Mapping[str, float] | None, score_range: tuple[float, float]) -> Anchors:
    """Return levels; where none were given, the ends of the score's range."""
    low, high = score_range
    levels = {"random": low, "reference": high, "ceiling": high, **(given or {})}
    return Anchors(**levels)


Describe = Callable[[Any, Any], str]
"""From an environment and its observation to a text."""
