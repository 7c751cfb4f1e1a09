"""``check_agent``: good agents of every shape pass, and every kind of broken one is named."""

import time
from typing import Any

import anyio
import pytest
from test_conformance_game import load

from s3gym.contracts.agent import Agent, Answer
from s3gym.errors import ConfigError
from s3gym.games import GAMES
from s3gym.records import Decision, Episode, Phase, Turn
from s3gym.seeds import Stream
from s3gym.testing import CanaryGame, ConformanceError, SampleEpisode, check_agent
from s3gym.testing.canary import random_action


class Doors(Agent):
    async def act(self, turn: Turn) -> Answer:
        return (random_action(turn.observation.text, Stream(turn.seed)), 1.0)


async def findings(agent: object, **options: Any) -> str:
    with pytest.raises(ConformanceError) as caught:
        await check_agent(agent, **options)
    return str(caught.value)


async def one_answer(answer: object) -> str:
    async def act(turn: Turn) -> Any:
        return answer

    return await findings(act)


async def reply(turn: Turn) -> str:
    return "I go left.\nAnswer: left, Score: 1"


def plain(turn: Turn) -> Decision:
    return Decision(action="left", self_score=None, note="why not")


@pytest.mark.parametrize("agent", [Doors, Doors(), lambda: Doors(), reply, plain])
async def test_every_shape_of_agent_passes(agent: object) -> None:
    await check_agent(agent)


def of_a_prompt(prompt: str) -> dict[str, object]:
    return {"action": "left" if prompt.strip() else "right", "self_score": 1}


async def test_an_app_is_checked_as_a_study_would_run_it() -> None:
    await check_agent(of_a_prompt)
    await check_agent("strategist", game=load(GAMES["snake"]))


@pytest.mark.parametrize("name", sorted(GAMES))
async def test_an_agent_may_be_checked_on_any_game(name: str) -> None:
    async def stop(turn: Turn) -> tuple[str, float]:
        return ("END", 0.0)

    await check_agent(stop, game=load(GAMES[name]))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (("left", float("nan")), "finite"),
        (("left", float("inf")), "finite"),
        (("left", "high"), "finite"),
        (("left", 1.0, 2.0), "expected a Decision, a string or a pair"),
        (None, "expected a Decision, a string or a pair"),
        (7, "expected a Decision, a string or a pair"),
        (("a" * 200_000, 1.0), "at most"),
        ("left", "no_action in the reply that ends 'left'"),
        ("Answer: left", "no_score"),
    ],
)
async def test_a_nonsense_answer_is_found(answer: object, said: str) -> None:
    assert said in await one_answer(answer)


async def test_an_agent_that_raises_is_found_with_its_error_and_place() -> None:
    async def act(turn: Turn) -> Answer:
        if turn.index == 2:
            raise KeyError("missing")
        return ("left", 1.0)

    said = await findings(act)
    assert "KeyError" in said
    assert "exploration, step 2" in said


async def test_an_agent_that_cannot_be_made_is_found() -> None:
    class Unready(Doors):
        def __init__(self) -> None:
            raise OSError("no model here")

    assert "no model here" in await findings(Unready)


async def test_an_agent_that_hangs_is_found() -> None:
    async def act(turn: Turn) -> Answer:
        await anyio.sleep_forever()
        return ("left", 1.0)

    assert "did not answer act within 0.05 s" in await findings(act, seconds=0.05)


async def test_an_agent_that_blocks_the_loop_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s3gym.testing.agent.LOOP_SECONDS", 0.02)

    async def act(turn: Turn) -> Answer:
        time.sleep(0.05)
        return ("left", 1.0)

    assert "blocked the event loop" in await findings(act)


async def test_an_agent_that_writes_to_its_turn_is_found() -> None:
    async def act(turn: Turn) -> Answer:
        object.__setattr__(turn, "rules", "mine")
        return ("left", 1.0)

    assert "a turn is never changed" in await findings(act)


async def test_an_agent_that_fails_only_in_evaluation_is_found() -> None:
    async def act(turn: Turn) -> Answer:
        return ("left", 1.0 if turn.phase is Phase.EXPLORATION else float("nan"))

    assert "evaluation, step 0" in await findings(act)


class Learner(Doors):
    """Owns its memory."""

    def __init__(self, fork: object = None, known: tuple[str, ...] = ()) -> None:
        self.known, self._fork = known, fork

    async def fork(self) -> Agent:
        return self._fork or Learner(known=self.known)  # type: ignore[return-value]  # on purpose

    async def learn(self, episode: Episode) -> None:
        self.known = (*self.known, episode.id)


async def test_an_agent_with_its_own_memory_learns_and_forks() -> None:
    learner = Learner()
    await check_agent(learner)
    assert learner.known == ("sample/x001",)


async def test_a_fork_that_cannot_act_is_found() -> None:
    assert "fork returns an agent" in await findings(Learner(fork="a copy"))


async def test_a_fork_that_answers_nonsense_is_found() -> None:
    class Mad(Doors):
        async def act(self, turn: Turn) -> Answer:
            return ("left", float("nan"))

    assert "finite" in await findings(Learner(fork=Mad()))


async def test_what_is_no_agent_at_all_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError):
        await check_agent(3)


def test_a_sample_episode_shows_trail_and_feedback_but_no_reward() -> None:
    sample = SampleEpisode(CanaryGame(), Phase.EVALUATION)
    sample.play(Decision(action="left", self_score=2.0))
    turn = sample.turn()
    assert turn.index == 1
    assert turn.observation.feedback == "You opened the left door."
    assert "90210.5" not in repr(turn)
    sample.play(Decision(action="up"))
    assert sample.observation.done
