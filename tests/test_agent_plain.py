"""Agents that need no model: the random one, the person, the reference players."""

import anyio
import pytest

from s3gym.agents.human import HumanAgent, page
from s3gym.agents.random import RandomAgent
from s3gym.agents.reference import ReferenceAgent
from s3gym.agents.strategies import PLAYBOOKS, playbook_of
from s3gym.errors import ConfigError
from s3gym.records import Decision, Observation, Phase, Recollection, Turn

TRUST = "Current Game State:\nRound 1 of 10\nNo round has been played"


def turn(game: str = "trust", text: str = TRUST, **changes: object) -> Turn:
    values: dict[str, object] = {
        "episode": "e",
        "game": game,
        "phase": Phase.EVALUATION,
        "rules": "the rules",
        "instruction": "",
        "observation": Observation(text=text),
        "max_steps": 10,
    }
    return Turn(**{**values, **changes})  # type: ignore[arg-type] # fields of a Turn, by name


class Person:
    """Types what it was given; then its input is at an end."""

    def __init__(self, *typed: str) -> None:
        self.typed = iter(typed)
        self.prompts: list[str] = []
        self.shown: list[str] = []

    def read(self, prompt: str) -> str:
        self.prompts.append(prompt)
        try:
            return next(self.typed)
        except StopIteration:
            raise EOFError from None

    async def decide(self, now: Turn | None = None) -> Decision:
        decision = await HumanAgent(read=self.read, write=self.shown.append).act(now or turn())
        assert isinstance(decision, Decision)
        return decision


async def test_a_person_types_an_action_and_a_self_score() -> None:
    person = Person(" cheat ", " 1.5 ")
    assert await person.decide() == Decision(action="cheat", self_score=1.5)
    assert len(person.prompts) == 2
    assert TRUST in person.shown[0]


async def test_a_person_may_leave_the_self_score_out() -> None:
    assert await Person("cheat", "").decide() == Decision(
        action="cheat", self_score=None, status="no_score"
    )


@pytest.mark.parametrize("wrong", ["high", "1%", "1e999", "nan", "١"])
async def test_a_person_is_asked_again_for_a_number(wrong: str) -> None:
    person = Person("cheat", wrong, "-1")
    assert (await person.decide()).self_score == -1.0
    assert "number" in person.shown[-1]


@pytest.mark.parametrize("typed", [("END",), (" end ",), ()])
async def test_a_person_stops_by_end_or_by_the_end_of_input(typed: tuple[str, ...]) -> None:
    assert await Person(*typed).decide() == Decision(action="END", self_score=0.0, status="end")


async def test_the_end_of_input_at_the_self_score_leaves_it_out() -> None:
    assert (await Person("cheat").decide()).status == "no_score"


async def test_the_loop_goes_on_while_a_person_thinks() -> None:
    beats = 0

    def think(prompt: str) -> str:
        anyio.from_thread.run(beat.wait)
        return "1"

    beat = anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(HumanAgent(read=think, write=lambda text: None).act, turn())
        for _ in range(3):
            await anyio.sleep(0)
            beats += 1
        beat.set()
    assert beats == 3


def test_a_person_reads_rules_and_memories_once_and_feedback_always() -> None:
    first = page(turn(recollection=Recollection(text="cheat late")))
    assert first.index("the rules") < first.index("cheat late") < first.index(TRUST)
    later = page(turn(index=1, observation=Observation(text=TRUST, feedback="You cheated.")))
    assert "the rules" not in later
    assert later.startswith("You cheated.")


def test_a_person_plays_one_episode_at_a_time() -> None:
    assert HumanAgent.serial
    assert HumanAgent.stateless


def test_writing_to_the_terminal_ends_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    from s3gym.agents.human import write_to_terminal

    write_to_terminal("board")
    assert capsys.readouterr().out == "board\n"


@pytest.fixture(params=[RandomAgent, ReferenceAgent])
def agent(request: pytest.FixtureRequest) -> RandomAgent | ReferenceAgent:
    return RandomAgent() if request.param is RandomAgent else ReferenceAgent()


async def test_equal_turns_give_equal_answers(agent: RandomAgent | ReferenceAgent) -> None:
    answers = [await agent.act(turn(seed=seed)) for seed in (1, 2, 3)]
    assert answers == [await agent.act(turn(seed=seed)) for seed in (1, 2, 3)]


async def test_random_play_depends_on_the_seed_of_the_turn() -> None:
    answers = {await RandomAgent().act(turn(seed=seed)) for seed in range(20)}
    assert answers == {("collaborate", 0.5), ("cheat", 1.5)}


async def test_a_game_without_players_is_named(agent: RandomAgent | ReferenceAgent) -> None:
    with pytest.raises(ConfigError, match="'croquet'"):
        await agent.act(turn(game="croquet"))


@pytest.mark.parametrize("game", sorted(PLAYBOOKS))
def test_every_playbook_names_two_strategies_plainly(game: str) -> None:
    names = playbook_of(game).strategies
    assert len(names) >= 2
    assert all(name.replace("-", "").isalpha() and name == name.lower() for name in names)
