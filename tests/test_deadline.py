"""A plug-in's deadline counts its own time and not that of the services it waits for."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import plan, run_plans

from s3gym import calls, seams
from s3gym.agents.model import ModelAgent
from s3gym.deadline import deadline, service_time
from s3gym.errors import ModelError, PluginError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Turn
from s3gym.schedule import Schedule
from s3gym.seams import guarded
from s3gym.store.file import open_reader
from s3gym.testing.fakes import ScriptedChat

SHORT = Schedule(
    exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, max_steps=1, act_seconds=0.05
)


async def test_own_time_runs_out() -> None:
    with deadline(0.01) as scope:
        await anyio.sleep(1)
    assert scope.cancelled_caught


async def test_time_with_a_service_does_not_count() -> None:
    with deadline(0.03) as scope:
        with service_time():
            await anyio.sleep(0.05)
        await anyio.sleep(0.001)
    assert not scope.cancelled_caught


async def test_own_time_before_and_after_a_service_adds_up() -> None:
    with deadline(0.04) as scope:
        await anyio.sleep(0.03)
        with service_time():
            await anyio.sleep(0.02)
        await anyio.sleep(0.03)
    assert scope.cancelled_caught


async def test_a_plug_in_that_blocks_past_its_deadline_has_not_answered_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(seams, "LATE_SECONDS", 0.0)

    async def act() -> str:
        time.sleep(0.03)
        return "left"

    assert await guarded("agent 'mine'", "act", act, 60) == "left"
    with pytest.raises(PluginError, match=r"agent 'mine' did not answer act within 0\.01 s"):
        await guarded("agent 'mine'", "act", act, 0.01)


async def test_calls_side_by_side_stop_the_clock_until_the_last_is_back() -> None:
    async def call(seconds: float) -> None:
        with service_time():
            await anyio.sleep(seconds)

    with deadline(0.03) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(call, 0.02)
            group.start_soon(call, 0.05)
        await anyio.sleep(0.001)
    assert not scope.cancelled_caught


async def test_without_a_deadline_nothing_is_stopped() -> None:
    with service_time():
        await anyio.sleep(0)


class SlowChat(ScriptedChat):
    """Takes longer to answer than an agent may take to act."""

    async def complete(self, *messages: Any, **settings: Any) -> Any:
        await anyio.sleep(0.06)
        return await super().complete(*messages, **settings)


async def test_a_slow_model_is_no_slow_agent(tmp_path: Path) -> None:
    chat = SlowChat(lambda request: "Answer: cheat, Score: 3")
    outcome = await run_plans(tmp_path / "a.db", [plan("trust", ModelAgent(chat), schedule=SHORT)])
    assert not outcome.failed
    assert not outcome.invalid


async def test_an_outage_longer_than_an_agent_may_act_is_an_outage(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda request: ModelError("down", retryable=True, status=503))
    settings = LimitSettings(first_wait=0.01, longest_wait=0.02, deadline_seconds=0.1)
    outcome = await run_plans(
        tmp_path / "a.db",
        [plan("trust", ModelAgent(chat), schedule=SHORT)],
        Meter(Limits(settings)),
    )
    assert not outcome.failed
    assert outcome.paused or outcome.invalid


async def test_an_agent_that_hangs_beside_its_model_still_fails(tmp_path: Path) -> None:
    chat = ScriptedChat(lambda request: "Answer: cheat, Score: 3")

    async def hangs(turn: Turn) -> str:
        await calls.complete(chat, turn.messages(), purpose="act", max_tokens=5)
        await anyio.sleep(5)
        return "never"

    outcome = await run_plans(tmp_path / "a.db", [plan("trust", hangs, schedule=SHORT)])
    [reason] = outcome.failed.values()
    assert "did not answer act (step 0) within 0.05 s" in reason


@pytest.mark.parametrize("seconds", [0.0, 0.01])
async def test_a_service_call_leaves_the_time_that_was_left(seconds: float) -> None:
    with deadline(60) as scope:
        before = scope.deadline - anyio.current_time()
        with service_time():
            await anyio.sleep(seconds)
        after = scope.deadline - anyio.current_time()
    assert after == pytest.approx(before, abs=0.005)


async def test_an_episode_beyond_its_deadline_is_taken_up_and_never_scored(tmp_path: Path) -> None:
    def plans(seconds: float | None) -> Any:
        changes = {"max_steps": 4, "episode_seconds": seconds, "act_seconds": 60.0}
        schedule = Schedule(**SHORT.model_dump() | changes)
        chat = SlowChat(lambda request: "Answer: cheat, Score: 3")
        return [plan("trust", ModelAgent(chat), schedule=schedule)]

    await run_plans(tmp_path / "whole.db", plans(None))
    outcome = await run_plans(tmp_path / "a.db", plans(0.1))
    assert outcome.paused
    assert outcome.invalid
    assert not scores(tmp_path / "a.db")
    for _ in range(4):
        outcome = await run_plans(tmp_path / "a.db", plans(0.1))
    assert not outcome.paused
    assert not outcome.invalid
    assert scores(tmp_path / "a.db") == scores(tmp_path / "whole.db")


def scores(store: Path) -> list[Any]:
    db = open_reader(store)
    try:
        return db.execute("SELECT episode, score, hash FROM scores ORDER BY episode").fetchall()
    finally:
        db.close()
