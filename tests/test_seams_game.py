"""A game that misbehaves fails its own study, and tells nothing of a reward."""

import time
from pathlib import Path
from typing import Any

import pytest
from bad_parts import BadGame, Drastic, OddText, Unspeakable
from studies import plan, run_plans

from s3gym.errors import InvalidActionError, StoreError
from s3gym.memory.none import NoMemory
from s3gym.records import Cue, Decision, Recollection, Turn
from s3gym.schedule import Schedule
from s3gym.store.store import Store


@pytest.mark.parametrize(
    "what", ["instruction", "rules", "setup", "start", "observe", "apply", "reward", "score"]
)
@pytest.mark.parametrize(
    "answer",
    [
        object(),
        10**400,
        ValueError("4711"),
        StoreError("4711"),
        SystemExit("4711"),
        GeneratorExit("4711"),
        Drastic(),
    ],
    ids=lambda answer: type(answer).__name__,
)
async def test_a_bad_game_fails_its_study_and_no_other(
    tmp_path: Path, what: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if what == "start" and not isinstance(answer, BaseException):
        pytest.skip("a state may be anything")
    game = BadGame(what, answer)
    outcome = await run_plans(tmp_path / "a.db", [plan(game), plan("snake")])
    assert list(outcome.failed) == ["trust/drawing/history/r0"]
    assert "4711" not in repr(outcome) + caplog.text


async def test_a_refusal_that_cannot_be_told_is_a_mistake_of_the_game(tmp_path: Path) -> None:
    game = BadGame("apply", InvalidActionError(Unspeakable()))
    outcome = await run_plans(tmp_path / "a.db", [plan(game), plan("snake")])
    assert list(outcome.failed) == ["trust/drawing/history/r0"]
    assert "raised RuntimeError in refusal" in next(iter(outcome.failed.values()))


async def test_a_refusal_outside_apply_is_a_mistake_of_the_game(tmp_path: Path) -> None:
    game = BadGame("observe", InvalidActionError("no"))
    outcome = await run_plans(tmp_path / "a.db", [plan(game)])
    assert "raised InvalidActionError in observe" in next(iter(outcome.failed.values()))


async def test_a_game_that_blocks_the_loop_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken: list[str] = []
    game = BadGame("", None)
    game._do = lambda what, usual: time.sleep(0.5 * (what == "rules")) or usual  # type: ignore[method-assign, func-returns-value] # blocks
    once = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
    plans = [plan(game, schedule=once)]
    await run_plans(tmp_path / "a.db", plans, block_seconds=0.1, interrupt=broken.append)
    assert "game 'trust'" in broken


async def test_texts_that_tell_lies_are_kept_as_plain_text(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        return Decision(action="cheat", note=OddText("a \ud800"))

    class Memory(NoMemory):
        async def recall(self, cue: Cue) -> Recollection:
            return Recollection(text=OddText("b"), sources=(OddText("c"),))

    path = tmp_path / "a.db"
    game = BadGame("observe", OddText("board"))
    outcome = await run_plans(path, [plan(game, agent=agent, memory=Memory), plan()])
    assert outcome.failed == {}
    with Store.open(path) as store:
        notes = store.connection.execute("SELECT DISTINCT note FROM steps").fetchall()
    assert ("a ?",) in notes
