"""Nothing of the verifier reaches the learner; each proof fails when it is broken."""

import logging
import sqlite3
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import TINY, drawing, learner_rows, plan, run_plans, verifier_rows

from s3gym.agents.model import ModelAgent
from s3gym.contracts.game import NoVerifier, Setup
from s3gym.contracts.memory import MemoryReader
from s3gym.errors import PluginError
from s3gym.games import GAMES
from s3gym.games.trust import SPEC as TRUST
from s3gym.memory.history import HistoryMemory
from s3gym.records import Decision, Episode, Phase, Turn
from s3gym.seeds import SeedPlan, derive
from s3gym.store import file
from s3gym.store.schema import VERIFIER_NAMES
from s3gym.testing import CANARY, CanaryGame
from s3gym.testing.fakes import ScriptedChat

SECRET_TYPES = ("little pink", "cheater", "copycat", "grudger", "detective", "copykitten",
                "stubborn")  # fmt: skip


class Noise:
    """A verifier whose values have nothing to do with the game."""

    def reward(self, before: Any, action: str, after: Any) -> float:
        return derive("noise", repr(before), action) % 1_000 / 7

    def score(self, rewards: Any, final: Any) -> float:
        return -float(sum(rewards))


class WithVerifier:
    """A game's specification with another verifier."""

    def __init__(self, inner: Any, verifier: Any) -> None:
        self._inner, self._verifier = inner, verifier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def setup(self, options: Any, phase: Phase) -> Setup[Any]:
        return replace(self._inner.setup(options, phase), verifier=self._verifier)


def model_agent() -> ModelAgent:
    def answer(request: Any) -> str:
        digit = int(sha256(request.text.encode()).hexdigest(), 16)
        words = ("collaborate", "cheat", "UP", "LEFT", "left", "right", "flag (1,2)", "3 90", "0 1",
                 "X 0 0", "A:(1,2)")  # fmt: skip
        return f"Answer: {words[digit % len(words)]}, Score: {digit % 5 - 1}"

    return ModelAgent(ScriptedChat(answer))


@pytest.mark.parametrize("name", sorted(GAMES))
@pytest.mark.parametrize("verifier", [NoVerifier(), Noise()], ids=["removed", "noise"])
def test_another_verifier_changes_no_learner_side_row(
    tmp_path: Path, name: str, verifier: Any
) -> None:
    from s3gym.catalog import find_game

    game = find_game(name)
    one = plan(game, agent=model_agent)
    other = plan(WithVerifier(game, verifier), agent=model_agent)
    anyio.run(run_plans, tmp_path / "a.db", [one])
    anyio.run(run_plans, tmp_path / "b.db", [other])
    assert learner_rows(tmp_path / "a.db") == learner_rows(tmp_path / "b.db")
    assert len(learner_rows(tmp_path / "a.db")["messages"]) > 10


def text_of(rows: Any) -> str:
    return repr(rows)


async def test_the_canary_reward_appears_nowhere_on_the_learners_side(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    shown: list[str] = []

    async def agent(turn: Turn) -> Decision:
        shown.append(repr(turn))
        shown.extend(message.content for message in turn.messages())
        return Decision(action="left" if turn.index % 3 else "neither", self_score=0.5)

    path = tmp_path / "a.db"
    await run_plans(path, [plan(CanaryGame(), agent=agent)])
    assert {row[2] for row in verifier_rows(path)["verdicts"]} == {CANARY, 0.0}
    for number in ("90210.5", "9.02105e", f"{CANARY * 2:g}"):
        assert number not in text_of(learner_rows(path))
        assert number not in "".join(shown)
        assert number not in caplog.text


class Loud:
    """A verifier whose exception shouts the reward."""

    def reward(self, before: Any, action: str, after: Any) -> float:
        raise ValueError(f"the reward is {CANARY}")

    def score(self, rewards: Any, final: Any) -> float:
        return 0.0


class NotFinite(Loud):
    def reward(self, before: Any, action: str, after: Any) -> Any:
        return f"{CANARY}"


@pytest.mark.parametrize("verifier", [Loud(), NotFinite()])
async def test_a_verifier_that_fails_tells_nobody_its_reward(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verifier: Any
) -> None:
    caplog.set_level(logging.DEBUG)
    game = WithVerifier(CanaryGame(), verifier)

    async def agent(turn: Turn) -> tuple[str, float]:
        return "left", 0.0

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(game, agent=agent)])
    assert list(outcome.failed) == ["canary/agent/history/r0"]
    for text in (repr(outcome), caplog.text, text_of(learner_rows(path))):
        assert "90210.5" not in text


async def test_the_error_of_a_verifier_has_no_cause_that_shows_the_reward() -> None:
    from s3gym.seams import ruled

    with pytest.raises(PluginError) as caught:
        ruled("canary", "reward", lambda: Loud().reward(None, "left", None))
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_evaluation_is_handed_a_view_that_cannot_write() -> None:
    for memory in (HistoryMemory(),):
        view: MemoryReader = memory.freeze()
        assert not hasattr(view, "record")
        assert not hasattr(view, "consolidate")


async def test_writing_after_the_freeze_does_not_reach_the_view(tmp_path: Path) -> None:
    texts: dict[str, str] = {}

    async def agent(turn: Turn) -> Decision:
        texts[turn.episode.rpartition("/")[2]] = turn.recollection.text
        await anyio.sleep(0.001)
        return await drawing(turn)

    await run_plans(tmp_path / "a.db", [plan(agent=agent)])
    assert texts["e001.1"] == texts["x002"]
    assert texts["e000.1"] == texts["e000.2"] == ""


@pytest.mark.parametrize("table", sorted(VERIFIER_NAMES))
async def test_a_learners_connection_cannot_read_the_verifiers_tables(
    tmp_path: Path, table: str
) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])
    learner = file.open_learner(path)
    for question in (
        f"SELECT * FROM {table}",
        f"SELECT count(*) FROM {table}",
        f"SELECT 1 FROM steps WHERE EXISTS (SELECT 1 FROM {table})",
    ):
        with pytest.raises(sqlite3.DatabaseError, match=r"prohibited|not authorized"):
            learner.execute(question)
    with pytest.raises(sqlite3.DatabaseError):
        learner.execute("ATTACH DATABASE ? AS other", (str(path),))
    assert learner.execute("SELECT count(*) FROM steps").fetchone()[0] > 0
    learner.close()


async def test_no_seed_of_a_game_and_no_opponent_is_shown(tmp_path: Path) -> None:
    root = 2**62 + 987_654_321
    seeds = SeedPlan(root=root, salt="s")
    secrets = {str(root), hex(root)[2:]}
    for phase in Phase:
        for index in range(3):
            drawn = seeds.episode("trust", 0, phase, index)
            secrets |= {str(drawn), hex(drawn)[2:]}
    secrets |= {str(seeds.world("trust", 0)), *SECRET_TYPES}
    shown: list[str] = []

    async def agent(turn: Turn) -> Decision:
        shown.append(repr(turn))
        shown.extend(message.content for message in turn.messages())
        return await drawing(turn)

    path = tmp_path / "a.db"
    await run_plans(path, [plan(TRUST, agent=agent, seed=root)])
    rows = learner_rows(path)
    del rows["studies"]  # its options name the switch `detective`, which is public
    text = "".join(shown) + text_of(rows)
    assert not [secret for secret in secrets if secret in text]
    assert str(seeds.episode("trust", 0, Phase.EXPLORATION, 0)) in text_of(verifier_rows(path))


async def test_what_was_recalled_is_never_recorded(tmp_path: Path) -> None:
    recorded: list[Episode] = []

    class Parrot(HistoryMemory):
        async def record(self, episode: Episode) -> None:
            recorded.append(episode)
            await super().record(episode)

    await run_plans(tmp_path / "a.db", [plan(memory=Parrot, schedule=TINY)])
    assert len(recorded) == 2
    assert "Episode 1" not in "".join(
        step.observation.text + step.decision.raw for episode in recorded for step in episode.steps
    )
