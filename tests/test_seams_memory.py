"""A memory that misbehaves fails its own study with one clear line."""

from pathlib import Path
from typing import Any

import pytest
from bad_parts import BadMemory
from studies import drawing, plan, run_plans

from s3gym.contracts.memory import MemorySnapshot
from s3gym.memory.none import NoMemory
from s3gym.records import Recollection, Turn
from s3gym.schedule import Schedule
from s3gym.store.store import Store


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


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Recollection(text="x", sources=(7,)), "returned 7 as sources"),  # type: ignore[arg-type]
        (Recollection(text="x", tokens=-1), "recalled -1 as tokens"),
        (Recollection(text="x", dropped=None), "recalled None as dropped"),  # type: ignore[arg-type]
        (Recollection(text="x", steps=(1,)), "as steps: expected Step"),  # type: ignore[arg-type]
        (Recollection(text="x" * 20_000_001), "returned 20000001 characters as recollection"),
    ],
)
async def test_a_memory_that_recalls_odd_values_fails_its_study(
    tmp_path: Path, answer: Recollection, says: str
) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=lambda: BadMemory(answer=answer))])
    (reason,) = outcome.failed.values()
    assert says in reason


@pytest.mark.parametrize("name", ["isolated", "recall_each", "describe"])
async def test_an_attribute_of_a_memory_that_raises_fails_its_study(
    tmp_path: Path, name: str
) -> None:
    class Raising(NoMemory):
        pass

    setattr(Raising, name, property(lambda self: 1 // 0))
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Raising), plan()])
    assert list(outcome.failed) == ["trust/drawing/Raising/r0"]
    assert "memory 'Raising' raised ZeroDivisionError" in next(iter(outcome.failed.values()))


async def test_a_recollection_with_a_lone_surrogate_is_kept_without_it(tmp_path: Path) -> None:
    memory = lambda: BadMemory(answer=Recollection(text="\ud800 x", sources=("\ud800",)))  # noqa: E731
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=memory)])
    assert outcome.failed == {}


@pytest.mark.parametrize("lacks", ["recall_each", "recall", "freeze"])
async def test_a_memory_without_a_method_fails_its_study(tmp_path: Path, lacks: str) -> None:
    class Lacking(BadMemory):
        pass

    setattr(Lacking, lacks, None)
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Lacking)])
    assert list(outcome.failed) == ["trust/drawing/Lacking/r0"]
    with Store.open(tmp_path / "a.db") as store:
        assert store.ledger.status("trust/drawing/Lacking/r0") == "failed"


@pytest.mark.parametrize("snapshot", ["a text", MemorySnapshot(text="x", state={"a": object()})])
async def test_a_memory_that_describes_nonsense_fails_its_study(
    tmp_path: Path, snapshot: Any
) -> None:
    class Describing(BadMemory):
        def describe(self) -> Any:
            return snapshot

    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Describing)])
    assert list(outcome.failed) == ["trust/drawing/Describing/r0"]


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
