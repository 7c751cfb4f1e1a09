"""``check_game``: good games pass, and every kind of broken game is named."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from s3gym.contracts.game import Clock, GameSpec, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.games import GAMES
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds
from s3gym.testing import CANARY, CanaryGame, ConformanceError, check_game
from s3gym.testing.canary import CanaryOptions, CanaryVerifier, Corridor, State, random_action


def load(where: str) -> GameSpec:
    module, _, attribute = where.partition(":")
    spec: GameSpec = getattr(pytest.importorskip(module), attribute)
    return spec


def findings(spec: GameSpec) -> str:
    with pytest.raises(ConformanceError) as caught:
        check_game(spec, actions=random_action, episodes=2)
    return str(caught.value)


@dataclass
class Broken(CanaryGame):
    """The canary game with one part replaced."""

    rules_of_play: Any = field(default_factory=Corridor)
    verifier: Any = field(default_factory=CanaryVerifier)
    changes: dict[str, Any] = field(default_factory=dict)

    def setup(self, options: CanaryOptions, phase: Phase) -> Setup[State]:
        setup = super().setup(options, phase)
        return replace(setup, game=self.rules_of_play, verifier=self.verifier, **self.changes)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_every_built_in_game_keeps_the_contract(name: str) -> None:
    check_game(load(GAMES[name]), episodes=2)


def test_the_canary_game_keeps_the_contract_with_guessed_and_with_given_actions() -> None:
    check_game(CanaryGame())
    check_game(CanaryGame(), actions=random_action, seed=5)


def test_trailing_blanks_are_found_and_placed() -> None:
    class Untidy(Corridor):
        def observe(self, state: State, clock: Clock) -> str:
            return super().observe(state, clock) + "  \nend"

    said = findings(Broken(rules_of_play=Untidy()))
    assert "observation has no blanks at the end of a line (exploration, episode 0" in said


def test_an_observation_that_depends_on_more_than_its_arguments_is_found() -> None:
    class Counting(Corridor):
        calls = 0

        def observe(self, state: State, clock: Clock) -> str:
            self.calls += 1
            return f"{super().observe(state, clock)}, seen {self.calls} times"

    said = findings(Broken(rules_of_play=Counting()))
    assert "same seeds and actions give the same texts" in said
    assert "a state never changes" in said


def test_randomness_of_the_process_is_found() -> None:
    class Shaky(Corridor):
        def start(self, seeds: EpisodeSeeds) -> State:
            return State(hidden=random.randint(0, 9))  # noqa: TID251 - what must be found

    assert "process-wide generator" in findings(Broken(rules_of_play=Shaky()))


@pytest.mark.parametrize("error", [KeyError, ValueError, IndexError, RecursionError])
def test_any_other_error_than_invalid_action_is_found(error: type[Exception]) -> None:
    class Careless(Corridor):
        def apply(self, state: State, action: str) -> Transition[State]:
            if action not in ("left", "right"):
                raise error(action)
            return super().apply(state, action)

    said = findings(Broken(rules_of_play=Careless()))
    assert "raise nothing but InvalidActionError" in said
    assert error.__name__ in said


def test_a_refusal_that_repeats_a_huge_action_is_found() -> None:
    class Parrot(Corridor):
        def apply(self, state: State, action: str) -> Transition[State]:
            if action not in ("left", "right"):
                raise InvalidActionError(action)
            return super().apply(state, action)

    assert "a refusal is one short printable line" in findings(Broken(rules_of_play=Parrot()))


@pytest.mark.parametrize("text", ["Your reward was high.", f"You found {CANARY}.", "Score: 3"])
def test_feedback_that_tells_the_reward_is_found(text: str) -> None:
    class Chatty(Corridor):
        def apply(self, state: State, action: str) -> Transition[State]:
            return replace(super().apply(state, action), feedback=text)

    assert "texts hold no reward and no score" in findings(Broken(rules_of_play=Chatty()))


def test_a_verifier_whose_work_can_be_seen_is_found() -> None:
    paid: list[float] = []

    class Greedy(CanaryVerifier):
        def reward(self, before: State, action: str, after: State) -> float:
            paid.append(CANARY)
            return CANARY

    class Peeking(Corridor):
        def observe(self, state: State, clock: Clock) -> str:
            return f"{super().observe(state, clock)} {'.' * len(paid)}end"

    said = findings(Broken(rules_of_play=Peeking(), verifier=Greedy()))
    assert "the verifier changes nothing that can be seen" in said


@pytest.mark.parametrize(
    ("rewards", "promise"),
    [
        ([float("nan")], "a reward is a finite number"),
        ([-1.0], "a reward is in reward_range"),
        ([1e9], "a reward is in reward_range"),
        ([0.0, 1.0], "a verifier is pure"),
    ],
)
def test_a_verifier_out_of_bounds_is_found(rewards: Sequence[float], promise: str) -> None:
    class Odd(CanaryVerifier):
        calls = 0

        def reward(self, before: State, action: str, after: State) -> float:
            self.calls += 1
            return rewards[self.calls % len(rewards)]

    assert promise in findings(Broken(verifier=Odd()))


def test_a_verifier_that_raises_is_found() -> None:
    class Failing(CanaryVerifier):
        def score(self, rewards: Sequence[float], final: State) -> float:
            raise ZeroDivisionError

    said = findings(Broken(verifier=Failing()))
    assert "a verifier raises nothing" in said
    assert "ZeroDivisionError" in said


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({"max_steps": 0}, "max_steps is at least 1"),
        ({"on_invalid": "ignore"}, "on_invalid is 'noop' or 'end'"),
        ({"reward_range": (1.0, 0.0)}, "reward_range is (least, greatest)"),
        ({"score_range": (0.0, float("inf"))}, "score_range is (least, greatest)"),
        ({"score_range": (0.0, 1.0)}, "a score is in score_range"),
    ],
)
def test_a_setup_with_wrong_values_is_found(changes: dict[str, Any], promise: str) -> None:
    assert promise in findings(Broken(changes=changes))


def test_a_game_that_accepts_nothing_is_found() -> None:
    class Closed(Corridor):
        def apply(self, state: State, action: str) -> Transition[State]:
            raise InvalidActionError("the corridor is closed")

    assert "an action is accepted now and then" in findings(Broken(rules_of_play=Closed()))


def test_something_that_is_no_game_is_found() -> None:
    said = findings(object())  # type: ignore[arg-type]  # on purpose
    assert "AttributeError" in said


def test_rules_that_teach_the_response_contract_are_found() -> None:
    class Teaching(CanaryGame):
        def rules(self, options: CanaryOptions, phase: Phase) -> str:
            return "End with Answer: left, Score: 1"

    assert "the response contract is left to the prompt" in findings(Teaching())


def test_one_error_lists_every_broken_promise_once() -> None:
    class Untidy(Corridor):
        def observe(self, state: State, clock: Clock) -> str:
            return "blank \nline"

    with pytest.raises(ConformanceError) as caught:
        check_game(Broken(rules_of_play=Untidy(), changes={"score_range": (2.0, 1.0)}))
    promises = [finding.promise for finding in caught.value.findings]
    assert len(promises) == len(set(promises)) >= 2
    assert max(finding.times for finding in caught.value.findings) > 5
