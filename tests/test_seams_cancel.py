"""Whose will a cancellation is, and what a plug-in makes of it."""

import asyncio  # noqa: TID251 - what a second Ctrl-C ends
from asyncio import CancelledError  # noqa: TID251 - what a careless agent raises
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from bad_parts import Drastic
from studies import plan, run_plans

from s3gym.errors import ModelError, PluginError
from s3gym.records import Phase, Turn
from s3gym.seams import guarded
from s3gym.store.store import Store


async def test_a_cancellation_that_nobody_asked_for_fails_its_study(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        if anyio.get_cancelled_exc_class() is not CancelledError:
            raise Drastic  # trio's cannot be made by hand
        raise CancelledError

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=agent), plan()])
    assert list(outcome.failed) == ["trust/agent/history/r0"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio only scopes cancel
async def test_a_task_that_asyncio_cancels_is_no_mistake_of_its_plug_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.ensure_future(guarded("agent 'mine'", "act", anyio.sleep_forever, 60))
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(CancelledError):
        await task
    assert not caplog.records


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio only scopes cancel
@pytest.mark.parametrize("waits", [True, False], ids=["and waits", "and answers"])
@pytest.mark.parametrize("phase", Phase)
async def test_an_agent_that_cancels_its_task_fails_its_study_and_no_other(
    tmp_path: Path, phase: Phase, waits: bool
) -> None:
    async def agent(turn: Turn) -> Any:
        task = asyncio.current_task()
        if turn.phase is phase and task is not None:
            task.cancel()
            if waits:
                await anyio.sleep(1)
        return "cheat", 0.0

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent), plan()])
    assert list(outcome.failed) == ["trust/agent/history/r0"]
    assert "cancel" in outcome.failed["trust/agent/history/r0"].lower()
    with Store.open(path) as store:
        assert store.ledger.status("trust/agent/history/r0") == "failed"
        assert store.ledger.status("trust/drawing/history/r0") == "done"


async def test_a_mistake_beside_a_cancellation_is_its_plug_ins() -> None:
    async def stumbles() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("x")

    async def act() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(stumbles)
            await anyio.sleep_forever()

    with anyio.move_on_after(0.01), pytest.raises(PluginError, match="agent 'mine' raised"):
        await guarded("agent 'mine'", "act", act, 60)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # closed by hand, in the midst of a loop
async def test_a_coroutine_that_is_closed_is_no_mistake_of_its_plug_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = guarded("agent 'mine'", "act", anyio.sleep_forever, 60)
    waiting.send(None)
    waiting.close()
    assert not caplog.records


async def test_an_outage_inside_an_agents_own_task_group_is_an_outage(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        raise ExceptionGroup("side by side", [ModelError("down", retryable=True)])

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=agent)])
    assert outcome.paused == ("trust/agent/history/r0",)


async def careless(turn: Turn) -> Any:
    anyio.CancelScope().__enter__()  # as in a generator that is not read to its end
    return "cheat", 0.0


LEFT_OPEN = "agent 'careless' left a cancel scope open in act (step 0)"


async def test_a_scope_that_is_left_open_fails_its_study(tmp_path: Path) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(agent=careless)])
    (reason,) = outcome.failed.values()
    assert LEFT_OPEN in reason


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_a_scope_that_is_left_open_fails_no_other_study(tmp_path: Path) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(agent=careless), plan("snake")])
    assert LEFT_OPEN in outcome.failed["trust/careless/history/r0"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_on_asyncio_it_ends_all_studies_and_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(PluginError) as told:
        await run_plans(tmp_path / "a.db", [plan(agent=careless), plan("snake")])
    assert LEFT_OPEN in str(told.value)
