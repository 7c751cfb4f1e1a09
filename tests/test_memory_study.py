"""Memories inside a study: what a failure, a death or nonsense of theirs leaves behind."""

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import drawing, learner_rows, plan, run_plans

from s3gym.audit import audit_store
from s3gym.catalog import find_game, memory_prompts
from s3gym.contracts.memory import MemorySnapshot
from s3gym.errors import MemoryFailure, ModelError
from s3gym.memory.adapters import from_functions
from s3gym.memory.filtered import filtered
from s3gym.memory.insights import InsightsMemory
from s3gym.memory.layered import layered
from s3gym.memory.summary import SummaryMemory
from s3gym.plans import StudyPlan
from s3gym.records import Cue, Decision, Episode, Recollection, Turn
from s3gym.report import build_report, load_store
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.testing.fakes import Request, Scripted, ScriptedChat

FOUR = Schedule(exploration_episodes=4, evaluate_every=1, evaluation_episodes=1)


def written(kind: str, answer: Callable[[int, Request], Scripted]) -> tuple[Any, ScriptedChat]:
    """Return a factory of memories that a model writes, and the model."""
    chat = ScriptedChat(lambda asked: answer(len(chat.requests), asked))

    def make() -> Any:
        if kind == "insights":
            return InsightsMemory(chat)
        return SummaryMemory(chat, mode="rolling" if kind == "rolling" else "history")

    make.__name__ = kind
    return make, chat


def reply(number: int, asked: Request) -> str:
    said = f"what {len(asked.text)} characters taught"
    return json.dumps(
        {"operations": [{"verb": "add", "text": said}]}
        if "operations" in asked.text
        else {"retain": [said]}
    )


@pytest.mark.parametrize("kind", ["history", "rolling", "insights"])
@pytest.mark.parametrize("failure", [ModelError("no", retryable=False), TimeoutError("late")])
async def test_a_memory_call_that_failed_stays_failed_when_its_study_is_resumed(
    tmp_path: Path, kind: str, failure: Exception
) -> None:
    path, stops = tmp_path / "a.db", [True]

    async def stopping(turn: Turn) -> Decision:
        if stops[0] and turn.episode.endswith("x004") and turn.index == 2:
            raise MemoryFailure("the outside world is gone")
        return await drawing(turn)

    make, chat = written(kind, lambda n, asked: failure if n == 2 else reply(n, asked))
    study = plan(agent=stopping, memory=make, schedule=FOUR)
    assert (await run_plans(path, [study])).paused
    assert len(chat.requests) == 3
    stops[0] = False
    make, chat = written(kind, reply)
    outcome = await run_plans(path, [plan(agent=stopping, memory=make, schedule=FOUR)])
    assert not outcome.paused
    assert len(chat.requests) == 1, "only the fourth version was still to be written"
    with closing(file.open_reader(path)) as db:
        states = [json.loads(row[0]) for row in db.execute("SELECT state FROM memory_versions")]
    assert len(states[-1]["failures"]) == 1
    assert audit_store(path, find_game).level() != "fail"

    whole = tmp_path / "whole.db"
    make, _ = written(kind, lambda n, asked: failure if n == 2 else reply(n, asked))
    await run_plans(whole, [plan(agent=stopping, memory=make, schedule=FOUR)])
    assert learner_rows(path) == learner_rows(whole)


async def test_an_outside_memory_that_is_not_reached_pauses_its_study_which_is_resumed(
    tmp_path: Path,
) -> None:
    kept: list[str] = []
    down = [True]

    def study() -> StudyPlan:
        kept.clear()

        def record(episode: Episode) -> None:
            if down[0] and len(kept) == 2:
                raise ConnectionRefusedError("nobody listens")
            kept.append(episode.id)

        make = from_functions(record, lambda cue: f"{len(kept)} episodes")
        return plan(agent=drawing, memory=make, schedule=FOUR)

    first = study()
    assert (await run_plans(tmp_path / "a.db", [first])).paused == (first.id,)
    down[0] = False
    outcome = await run_plans(tmp_path / "a.db", [study()])
    assert (outcome.paused, outcome.failed, outcome.invalid) == ((), {}, ())
    await run_plans(tmp_path / "whole.db", [study()])
    assert learner_rows(tmp_path / "a.db") == learner_rows(tmp_path / "whole.db")


class Odd:
    """Keeps the contract, except where a test makes it odd."""

    recall_each = "episode"
    recalled: Any = Recollection()
    described: Any = MemorySnapshot(text="")

    async def recall(self, cue: Cue) -> Any:
        return self.recalled

    async def record(self, episode: Episode) -> None:
        """Nothing."""

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        """Nothing."""

    def freeze(self) -> Any:
        return self

    def describe(self) -> Any:
        return self.described


@pytest.mark.parametrize(
    "odd",
    [
        {"recalled": "text"},
        {"recalled": Recollection(text="x", sources=(1,))},  # type: ignore[arg-type]
        {"recalled": Recollection(text="x", dropped=None)},  # type: ignore[arg-type]
        {"recalled": Recollection(text="x", steps=None)},  # type: ignore[arg-type]
        {"described": None},
        {"described": MemorySnapshot(text="", state={"x": object()})},
        {"described": MemorySnapshot(text="", state={"x": float("nan")})},
        {"described": MemorySnapshot(text="", sources=(None,))},  # type: ignore[arg-type]
    ],
)
async def test_a_memory_that_answers_nonsense_fails_its_study_and_no_other(
    tmp_path: Path, odd: dict[str, Any]
) -> None:
    broken = type("Broken", (Odd,), odd)
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=broken), plan(memory=Odd)])
    assert list(outcome.failed) == ["trust/drawing/Broken/r0"]
    assert "memory 'Broken'" in next(iter(outcome.failed.values()))


async def test_text_that_no_file_can_hold_is_kept_with_question_marks(tmp_path: Path) -> None:
    half = "half an emoji: \ud83d"
    odd = {
        "recalled": Recollection(text=half),
        "described": MemorySnapshot(text=half, state={"also": half}),
    }
    make, _ = written("rolling", lambda n, asked: f"- {half}")
    path = tmp_path / "a.db"
    plans = [plan(memory=type("Broken", (Odd,), odd)), plan(memory=make)]
    outcome = await run_plans(path, plans)
    assert not outcome.failed
    with closing(file.open_reader(path)) as db:
        texts = [row[0] for row in db.execute("SELECT text FROM recollections")]
    assert "half an emoji: ?" in texts
    assert audit_store(path, find_game).level() != "fail"


async def audited_calls(path: Path, make: Any) -> tuple[int, list[str]]:
    """Run a study; return how many prompts an audit made again, and what it says of them."""
    await run_plans(path, [plan(memory=make, schedule=FOUR)])
    audit = audit_store(path, find_game, prompts=memory_prompts())
    said = [finding.message for finding in audit.findings if finding.check == "barrier"]
    return audit.looked_at["barrier"], said


@pytest.mark.parametrize("kind", ["history", "rolling", "insights"])
@pytest.mark.parametrize("failing", [(), (1,), (2, 3), (4,)])
async def test_an_audit_makes_the_prompts_of_a_memory_again(
    tmp_path: Path, kind: str, failing: tuple[int, ...]
) -> None:
    no = ModelError("no", retryable=False)
    make, _ = written(kind, lambda n, asked: no if n in failing else reply(n, asked))
    assert await audited_calls(tmp_path / "a.db", make) == (4, [])


@pytest.mark.parametrize("kind", ["history", "rolling", "insights"])
async def test_an_audit_finds_what_a_memory_told_its_model_beyond_what_was_seen(
    tmp_path: Path, kind: str
) -> None:
    make, _ = written(kind, reply)

    def leaking() -> Any:
        memory = make()
        record = memory.record

        async def told(episode: Episode) -> None:
            last = episode.steps[-1]
            leak = replace(last.outcome, feedback="the verifier gave 3.94")
            await record(replace(episode, steps=(*episode.steps[:-1], replace(last, outcome=leak))))

        memory.record = told
        return memory

    n, said = await audited_calls(tmp_path / "a.db", leaking)
    assert n == 4
    assert said == ["the prompt differs from what learner-side rows give"] * 4


async def test_prompts_of_a_memory_inside_another_are_named_as_not_checked(tmp_path: Path) -> None:
    make, _ = written("history", reply)
    n, said = await audited_calls(tmp_path / "a.db", layered([make], [100]))
    assert n == 0
    assert "4 prompts not checked" in said[0]


def late() -> SummaryMemory:
    return SummaryMemory(ScriptedChat(lambda asked: TimeoutError("late")))


def prose() -> InsightsMemory:
    return InsightsMemory(ScriptedChat(lambda asked: "You should try harder."))


@pytest.mark.parametrize(
    ("memory", "failures"),
    [
        (late, 4),
        (prose, 4),
        (layered([late, prose], [0.5, 0.5]), 8),
        (filtered(late, last_n=9), 4),
        (SummaryMemory, 0),
    ],
)
async def test_a_report_warns_of_a_memory_that_was_never_written(
    tmp_path: Path, memory: Any, failures: int
) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan(memory=memory, schedule=FOUR)])
    report = build_report([load_store(path)])
    assert report.studies[0].memory_failures == failures
    told = [line for line in report.warnings if "the memory could not be written" in line]
    assert len(told) == bool(failures)
    assert all(f"{failures} times" in line for line in told)
