"""Environments in and games out, with stand-ins for the libraries."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import TINY

from s3gym import Study, Turn
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.contracts.game import Clock
from s3gym.environments.table import Table
from s3gym.errors import InvalidActionError, StoreError
from s3gym.games._outside import Generators, OutsideRules
from s3gym.games.gym_game import GymGame
from s3gym.games.textarena_game import TextArenaGame
from s3gym.records import Phase
from s3gym.replies import parse_reply
from s3gym.seeds import EpisodeSeeds, Stream
from s3gym.testing import check_game

CLOCK = Clock(step=1, max_steps=9)
SEEDS = EpisodeSeeds(episode=4, game="dice")


class Dice:
    """Draws from both global generators, as it must not; the highest face wins."""

    made = 0

    def __init__(self) -> None:
        type(self).made += 1

    def reset(self, seed: int) -> tuple[list[int], dict[str, Any]]:
        random.setstate(random.Random(seed).getstate())
        self.faces: list[int] = []
        return self.faces, {}

    def step(self, n_dice: int) -> tuple[list[int], float, bool, bool, dict[str, Any]]:
        rolled = [random.randrange(6) + int(np.random.randint(6)) for _ in range(n_dice)]
        self.faces = [*self.faces, *rolled]
        return self.faces, float(max(rolled)), len(self.faces) >= 6, False, {}


class Guess:
    """Speaks TextArena's form: messages of a kind, a reward at the end."""

    def reset(self, num_players: int, seed: int) -> None:
        assert num_players == 1
        random.setstate(random.Random(seed).getstate())
        self.goal = random.randrange(4)
        self.said = [(-1, "Guess a number below 4.", Kind("PROMPT"))]
        self.won = False

    def get_observation(self) -> tuple[int, Any]:
        said, self.said = self.said, []
        return 0, said

    def step(self, action: str) -> tuple[bool, dict[str, Any]]:
        self.won = f"[{self.goal}]" in action
        self.said = [(0, action, Kind("PLAYER_ACTION")), (-1, "No.  \nAgain.", Kind("GAME"))]
        return self.won, {}

    def close(self) -> tuple[dict[int, int], dict[str, Any]]:
        return {0: 1}, {}


class Kind:
    def __init__(self, name: str) -> None:
        self.name = name


DICE = GymGame(
    "dice",
    Dice,
    rules="Roll one die or two.",
    actions={"ONE": 1, "TWO": 2},
    max_steps=9,
    reward_range=(0, 10),
    score_range=(0, 60),
)
GUESS = TextArenaGame("guess", Guess, rules="Guess.", max_steps=6, score_range=(0, 1))


def test_an_environment_from_elsewhere_keeps_the_contract_of_a_game() -> None:
    check_game(DICE, actions=lambda text, stream: stream.pick(("ONE", "two ")))
    check_game(GUESS, actions=lambda text, stream: f"I say [{stream.below(4)}]")


def test_an_earlier_state_plays_on_as_if_nothing_had_happened() -> None:
    rules = OutsideRules(DICE.driver)
    start = rules.start(SEEDS)
    one = rules.apply(start, "TWO").state
    further = rules.apply(one, "ONE").state
    again = rules.apply(rules.apply(start, "TWO").state, "ONE").state
    assert again == further
    assert rules.observe(again, CLOCK) == rules.observe(further, CLOCK)


def test_an_episode_played_straight_on_makes_one_environment() -> None:
    rules = OutsideRules(DICE.driver)
    before = Dice.made
    state = rules.start(SEEDS)
    for _ in range(5):
        state = rules.apply(state, "ONE").state
    assert Dice.made == before + 1


def test_a_refused_action_changes_nothing() -> None:
    rules = OutsideRules(DICE.driver)
    state = rules.start(SEEDS)
    with pytest.raises(InvalidActionError, match="expected ONE, TWO, got 'THREE'"):
        rules.apply(state, "THREE")
    assert rules.apply(state, "ONE").state.actions == ("ONE",)


def test_episodes_side_by_side_do_not_disturb_one_another() -> None:
    def faces(disturb: bool) -> str:
        rules = OutsideRules(DICE.driver)
        state, other = rules.start(SEEDS), rules.start(EpisodeSeeds(episode=8, game="dice"))
        for _ in range(4):
            if disturb:
                other = rules.apply(other, "ONE").state
                random.randrange(9)
            state = rules.apply(state, "ONE").state
        return state.text

    assert faces(disturb=True) == faces(disturb=False)


def test_the_global_generators_are_put_back() -> None:
    python, numpy = random.getstate(), np.random.get_state()
    with Generators(3).in_place():
        random.randrange(9)
        np.random.randint(9)
    assert random.getstate() == python
    assert all(np.array_equal(a, b) for a, b in zip(np.random.get_state(), numpy, strict=True))


def test_the_players_own_words_are_not_said_back_to_it() -> None:
    rules = OutsideRules(GUESS.driver)
    state = rules.start(SEEDS)
    assert rules.observe(state, CLOCK) == "Guess a number below 4."
    assert rules.observe(rules.apply(state, "[9]").state, CLOCK) == "No.\nAgain."


@pytest.mark.parametrize("game", [DICE, GUESS], ids=lambda game: str(game.name))
async def test_a_study_of_an_environment_passes_its_audit(game: Any, tmp_path: Path) -> None:
    async def player(turn: Turn) -> tuple[str, float]:
        stream = Stream(turn.seed)
        word = stream.pick(("ONE", "TWO")) if turn.game == "dice" else f"[{stream.below(4)}]"
        return word, 1.0

    store = tmp_path / "a.db"
    study = Study(
        game=game, agent=player, memory="history", schedule=TINY, seed=1, repeats=2, store=store
    )
    assert (await study.run()).outcome.failed == {}
    audit = audit_store(store, lambda name: game)
    assert audit.level() != "fail", audit.findings
    assert audit.looked_at["replay"] == 16


# Games out


def test_a_table_plays_an_episode_as_a_study_does() -> None:
    table = Table("trust")
    opening = table.start(5)
    assert opening == Table("trust").start(5)
    rewards = []
    while not table.observation.done:
        _, verdict = table.step("collaborate")
        rewards.append(verdict.reward)
    assert (len(rewards), table.total) == (table.max_steps, sum(rewards))
    spec = find_game("trust")
    setup = spec.setup(spec.options(), Phase.EXPLORATION)
    assert setup.score_range[0] <= table.score <= setup.score_range[1]
    with pytest.raises(StoreError, match="over"):
        table.step("collaborate")


def test_end_and_replies_are_read_at_a_table() -> None:
    table = Table("trust", phase=Phase.EVALUATION, max_steps=3)
    table.start(1)
    observation, verdict = table.step(parse_reply("I do not know"))
    assert "No action was found" in observation.feedback
    assert not verdict.legal
    table.start(1)
    observation, verdict = table.step("end")
    assert (observation.done, verdict.terminated) == (True, True)


def test_exploration_and_evaluation_never_share_an_episode() -> None:
    lenient, strict = Table("snake"), Table("snake", phase=Phase.EVALUATION)
    openings = {lenient.start(seed).text for seed in range(30)}
    assert len(openings) > 10
    assert not openings & {strict.start(seed).text for seed in range(30)}
