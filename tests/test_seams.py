"""A plug-in that misbehaves fails its own study with one clear line; the sweep goes on."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import drawing, plan, run_plans

from s3gym.errors import PluginError
from s3gym.records import Cue, Decision, Recollection, Turn
from s3gym.schedule import Schedule
from s3gym.seams import decide
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


class FailsToStart:
    def __init__(self) -> None:
        raise RuntimeError("no licence")

    async def act(self, turn: Turn) -> Any:
        return "cheat", 0.0


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (raises, "agent 'raises' raised KeyError in act (step 0)"),
        (nonsense, "returned 42: expected a Decision, a string or a pair"),
        (hangs, "did not answer act (step 0) within 0.05 s"),
        (not_a_number, "returned the self-score nan: expected a finite number or None"),
        (infinite, "returned the self-score inf"),
        (words_as_score, "returned the self-score 'high'"),
        (huge_action, "returned a action of 10000000 characters: expected at most 100000"),
        (huge_note, "returned a note of 10000000 characters"),
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

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=blocks), plan()], block_seconds=0.1)
    assert list(outcome.failed) == ["trust/blocks/history/r0"]
    assert "blocked the event loop" in outcome.failed["trust/blocks/history/r0"]
    assert "agent 'blocks' blocks the event loop" in caplog.text


async def test_a_plain_function_runs_in_a_thread_and_may_block(tmp_path: Path) -> None:
    def slow(turn: Turn) -> Any:
        if turn.index == 2:
            time.sleep(0.05)
        return "cheat", 0.0

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=slow)], block_seconds=0.03)
    assert outcome.failed == {}


class BadMemory:
    recall_each = "episode"

    def __init__(self, **faults: Any) -> None:
        self._faults = faults

    def _do(self, what: str) -> Any:
        if what in self._faults:
            raise self._faults[what]

    async def record(self, episode: Any) -> None:
        self._do("record")

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        self._do("consolidate")

    async def recall(self, cue: Cue) -> Any:
        self._do("recall")
        return self._faults.get("answer", Recollection())

    def freeze(self) -> Any:
        self._do("freeze")
        return self


@pytest.mark.parametrize("what", ["record", "consolidate", "recall", "freeze"])
async def test_a_bad_memory_fails_its_study(tmp_path: Path, what: str) -> None:
    outcome = await run_plans(
        tmp_path / "a.db", [plan(memory=lambda: BadMemory(**{what: RuntimeError("broken")}))]
    )
    (reason,) = outcome.failed.values()
    assert f"raised RuntimeError in {what}: 'broken'" in reason


async def test_a_memory_that_recalls_nonsense_fails_its_study(tmp_path: Path) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=lambda: BadMemory(answer="a text"))])
    (reason,) = outcome.failed.values()
    assert "recalled 'a text': expected a Recollection" in reason


async def test_a_memory_over_budget_is_cut_at_a_line_end(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    seen: list[str] = []

    async def agent(turn: Turn) -> Any:
        seen.append(turn.recollection.text)
        return await drawing(turn)

    small = Schedule(
        exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, memory_tokens=20
    )
    await run_plans(
        tmp_path / "a.db",
        [plan(agent=agent, memory=lambda: BadMemory(answer=Recollection(text=text)),
              schedule=small)],
    )  # fmt: skip
    assert seen[0]
    assert text.startswith(seen[0] + "\n")


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
