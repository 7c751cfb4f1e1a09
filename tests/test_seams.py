"""An agent that misbehaves fails its own study with one clear line; the sweep goes on."""

import sys
import time
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from bad_parts import Drastic, Unspeakable
from studies import drawing, plan, run_plans

from s3gym.answered import decide
from s3gym.errors import PluginError
from s3gym.memory.none import NoMemory
from s3gym.records import Decision, Turn, Usage
from s3gym.schedule import Schedule
from s3gym.store.store import Store

HASTY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=2, act_seconds=0.05)


async def raises(turn: Turn) -> Any:
    raise KeyError("missing")


async def nonsense(turn: Turn) -> Any:
    return 42


async def hangs(turn: Turn) -> Any:
    await anyio.sleep(60)


async def not_a_number(turn: Turn) -> Any:
    return "cheat", float("nan")


async def infinite(turn: Turn) -> Any:
    return "cheat", float("inf")


async def words_as_score(turn: Turn) -> Any:
    return "cheat", "high"


async def huge_action(turn: Turn) -> Any:
    return "x" * 10_000_000, 0.0


async def huge_note(turn: Turn) -> Any:
    return Decision(action="cheat", note="x" * 10_000_000)


async def number_as_action(turn: Turn) -> Any:
    return Decision(action=7)  # type: ignore[arg-type] # what a careless agent does


async def odd_status(turn: Turn) -> Any:
    return Decision(action="cheat", status="fine")  # type: ignore[arg-type] # as above


class Touchy(int):
    """A number that raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not touch")

    __ge__ = __le__ = __eq__
    __hash__ = int.__hash__


class TouchyText(str):
    """Text that raises when it is compared."""

    __eq__ = Touchy.__eq__
    __hash__ = str.__hash__


class Masked:
    """Raises when it is asked what it is."""

    @property  # type: ignore[misc] # it cannot be set
    def __class__(self) -> Any:
        raise RuntimeError("do not look")


async def masked(turn: Turn) -> Any:
    return Masked()


async def touchy_status(turn: Turn) -> Any:
    return Decision(action="cheat", status=TouchyText("ok"))  # type: ignore[arg-type] # as above


async def touchy_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=Touchy(1)))


class FailsToStart:
    def __init__(self) -> None:
        raise RuntimeError("no licence")

    async def act(self, turn: Turn) -> Any:
        return "cheat", 0.0


async def huge_score(turn: Turn) -> Any:
    return "cheat", 10**400


async def absurd_score(turn: Turn) -> Any:
    return "cheat", 1e308


async def absurd_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=1, input_tokens=2**62))


async def no_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=None)  # type: ignore[arg-type] # as above


async def odd_repairs(turn: Turn) -> Any:
    return Decision(action="cheat", repairs=(7,))  # type: ignore[arg-type] # as above


async def negative_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=-1))


async def raises_unspeakable(turn: Turn) -> Any:
    raise Unspeakable


async def returns_unspeakable(turn: Turn) -> Any:
    return Unspeakable()


async def exits(turn: Turn) -> Any:
    sys.exit(3)


async def drastic(turn: Turn) -> Any:
    raise Drastic


async def closes(turn: Turn) -> Any:
    raise GeneratorExit


def exits_in_a_thread(turn: Turn) -> Any:
    sys.exit(3)


def hangs_in_a_thread(turn: Turn) -> Any:
    Event().wait(30)


class ExitsAtStart:
    def __init__(self) -> None:
        sys.exit(3)

    async def act(self, turn: Turn) -> Any:
        return "cheat", 0.0


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (huge_score, "returned the self-score 1000"),
        (no_usage, "returned None as usage"),
        (negative_usage, "as usage: expected a Usage with counts from 0 on"),
        (odd_repairs, "returned 7 as repairs"),
        (raises_unspeakable, "raised Unspeakable in act (step 0): a Unspeakable that cannot be"),
        (returns_unspeakable, "returned a Unspeakable that cannot be shown: expected"),
        (exits, "raised SystemExit in act (step 0)"),
        (drastic, "raised Drastic in act (step 0)"),
        (closes, "raised GeneratorExit in act (step 0)"),
        (masked, "raised RuntimeError in what it gave: 'do not look'"),
        (touchy_status, "raised RuntimeError in what it gave: 'do not touch'"),
        (touchy_usage, "as usage: expected a Usage with counts from 0 on"),
        (exits_in_a_thread, "raised SystemExit in act (step 0)"),
        (hangs_in_a_thread, "did not answer act (step 0) within 0.05 s"),
        (ExitsAtStart, "raised SystemExit in its construction"),
        (raises, "agent 'raises' raised KeyError in act (step 0)"),
        (nonsense, "returned 42: expected a Decision, a string or a pair"),
        (hangs, "did not answer act (step 0) within 0.05 s"),
        (not_a_number, "returned the self-score nan: expected a finite number or None"),
        (absurd_score, "self-score 1e+308: expected a finite number or None, from -1e+15 to 1e+15"),
        (absurd_usage, "as usage: expected a Usage with counts from 0 on"),
        (infinite, "returned the self-score inf"),
        (words_as_score, "returned the self-score 'high'"),
        (huge_action, "returned 10000000 characters as action: expected at most 100000"),
        (huge_note, "returned 10000000 characters as note"),
        (number_as_action, "returned 7 as action: expected a string"),
        (odd_status, "returned the status 'fine'"),
        (FailsToStart, "agent 'FailsToStart' raised RuntimeError in its construction"),
    ],
)
async def test_a_bad_agent_fails_its_study_and_no_other(
    tmp_path: Path, agent: Any, says: str
) -> None:
    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent, schedule=HASTY), plan(schedule=HASTY)])
    assert list(outcome.failed) == [f"trust/{agent.__name__}/history/r0"]
    assert says in outcome.failed[f"trust/{agent.__name__}/history/r0"]
    assert "\n" not in next(iter(outcome.failed.values()))
    with Store.open(path) as store:
        assert store.ledger.status("trust/drawing/history/r0") == "done"
        assert store.ledger.status(next(iter(outcome.failed))) == "failed"


async def test_an_agent_that_blocks_the_loop_is_named_and_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def blocks(turn: Turn) -> Any:
        if turn.index == 2:
            time.sleep(0.4)
        return "cheat", 0.0

    # No memory: a vocabulary that is loaded at the first count would hold the loop as well.
    plans = [plan(agent=blocks, memory=NoMemory), plan(memory=NoMemory)]
    outcome = await run_plans(tmp_path / "a.db", plans, block_seconds=0.1)
    assert list(outcome.failed) == ["trust/blocks/none/r0"]
    assert "blocked the event loop" in outcome.failed["trust/blocks/none/r0"]
    assert "agent 'blocks' blocks the event loop" in caplog.text


async def test_a_plain_function_runs_in_a_thread_and_may_block(tmp_path: Path) -> None:
    def slow(turn: Turn) -> Any:
        if turn.index == 2:
            Event().wait(0.6)
        return "cheat", 0.0

    outcome = await run_plans(
        tmp_path / "a.db", [plan(agent=slow, memory=NoMemory)], block_seconds=0.5
    )
    assert outcome.failed == {}


async def test_a_part_that_cannot_be_closed_spoils_nothing(tmp_path: Path) -> None:
    class Sticky:
        async def act(self, turn: Turn) -> Any:
            return await drawing(turn)

        async def aclose(self) -> None:
            raise RuntimeError("stuck")

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=Sticky)])
    assert outcome.failed == {}
    with Store.open(tmp_path / "a.db") as store:
        assert store.ledger.status("trust/Sticky/history/r0") == "done"


def test_a_string_goes_through_the_response_contract() -> None:
    decision = decide("agent", "thinking\nAnswer: cheat, Score: 3")
    assert (decision.action, decision.self_score, decision.status) == ("cheat", 3.0, "ok")


def test_a_lone_surrogate_is_replaced() -> None:
    assert decide("agent", ("\ud800 cheat", 1)).action == "? cheat"


def test_end_is_recognised_in_any_case() -> None:
    assert decide("agent", (" end ", 1)).status == "end"
    assert decide("agent", Decision(action="END")).status == "end"


def test_a_truth_value_of_numpy_is_a_number() -> None:
    import numpy as np

    assert decide("agent", ("cheat", np.float32(0.5))).self_score == 0.5
    with pytest.raises(PluginError):
        decide("agent", ("cheat", "0.5"))


async def test_a_plug_in_that_was_broken_off_once_is_not_blamed_later(tmp_path: Path) -> None:
    first = True

    async def blocks_and_raises(turn: Turn) -> Any:
        nonlocal first
        if first:
            first = False
            time.sleep(0.4)
            raise RuntimeError("broken off")
        return "cheat", 0.0

    plans = [plan(agent=blocks_and_raises, memory=NoMemory, repeat=repeat) for repeat in (0, 1)]
    outcome = await run_plans(tmp_path / "a.db", plans, block_seconds=0.1, at_most=1)
    (reason,) = outcome.failed.values()  # of whichever study came first
    assert "raised RuntimeError" in reason


async def test_an_act_that_gives_nothing_to_await_says_what_it_should_be(tmp_path: Path) -> None:
    class Plain:
        def act(self, turn: Turn) -> Any:
            return "cheat", 0.0

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=Plain)])
    (reason,) = outcome.failed.values()
    assert "gave nothing to await in act (step 0): expected 'async def'" in reason
