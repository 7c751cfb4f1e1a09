"""Every built-in memory keeps the contract, and the check finds memories that do not."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from s3gym.catalog import find_memory
from s3gym.contracts.chat import Reply
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.memory import MEMORIES
from s3gym.memory.adapters import from_functions
from s3gym.memory.filtered import filtered
from s3gym.memory.history import HistoryMemory
from s3gym.memory.insights import InsightsMemory
from s3gym.memory.layered import layered
from s3gym.memory.summary import SummaryMemory
from s3gym.memory.vector import VectorMemory
from s3gym.records import Cue, Episode, Recollection
from s3gym.testing import ConformanceError, check_memory
from s3gym.testing.fakes import Request, ScriptedChat


def tips(request: Request) -> Reply:
    return Reply(text=json.dumps({"retain": [f"{len(request.text)} characters were read"]}))


def proposal(request: Request) -> Reply:
    add = {"verb": "add", "text": f"{len(request.text)} characters were read"}
    return Reply(text=json.dumps({"operations": [add]}))


VARIANTS: dict[str, Callable[[], Any]] = {
    **{name: find_memory(name).make for name in sorted(MEMORIES)},
    "head": lambda: HistoryMemory(cut="head"),
    "whole": lambda: HistoryMemory(cut="whole"),
    "best": lambda: HistoryMemory(order="best"),
    "best whole": lambda: HistoryMemory(cut="whole", order="best"),
    "model summary": lambda: SummaryMemory(ScriptedChat(tips)),
    "rolling summary": lambda: SummaryMemory(ScriptedChat(tips), mode="rolling"),
    "model insights": lambda: InsightsMemory(ScriptedChat(proposal), max_insights=2),
    "vector steps": lambda: VectorMemory(items="step", recall="outcome", k=3),
    "vector episodes": lambda: VectorMemory(items="episode", recall="contrast"),
    "vector mmr": lambda: VectorMemory(recall="mmr", max_distance=2, recall_each="episode"),
    "layered": layered([SummaryMemory, VectorMemory, HistoryMemory], [100, 0.3, 1.0]),
    "last": filtered(SummaryMemory, last_n=2),
    "best half": filtered(HistoryMemory, best_fraction=0.5),
    "good": filtered(VectorMemory, min_self_score=0.2),
}


@pytest.mark.parametrize("name", VARIANTS)
async def test_a_built_in_memory_keeps_the_contract(name: str) -> None:
    await check_memory(VARIANTS[name])


async def test_a_memory_of_two_functions_keeps_what_it_can_promise() -> None:
    kept: list[Episode] = []

    async def recall(cue: Cue) -> str:
        return "\n".join(f"{episode.id} at {cue.observation.text!r}" for episode in kept)

    await check_memory(from_functions(kept.append, recall))


class Broken:
    """A correct memory to break on purpose."""

    recall_each: RecallEach = "episode"
    shared: list[str] = []  # noqa: RUF012 - shared on purpose

    def __init__(self) -> None:
        self.ids: list[str] = []

    async def recall(self, cue: Cue) -> Recollection:
        return answer(self.ids, cue)

    async def record(self, episode: Episode) -> None:
        self.ids.append(episode.id)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        return None

    def freeze(self) -> MemoryReader:
        return View(list(self.ids))


class View:
    recall_each: RecallEach = "episode"

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    async def recall(self, cue: Cue) -> Recollection:
        return answer(self.ids, cue)


def answer(ids: list[str], cue: Cue) -> Recollection:
    if not ids or cue.max_tokens < 40:
        return Recollection()
    return Recollection(text=f"{len(ids)} episodes", tokens=3, sources=tuple(sorted(ids)))


class Eager(Broken):
    async def recall(self, cue: Cue) -> Recollection:
        return await super().recall(cue) if self.ids else Recollection(text="hello", tokens=1)


class Verbose(Broken):
    async def recall(self, cue: Cue) -> Recollection:
        return Recollection(text="word " * 50, tokens=0) if self.ids else Recollection()


class Close(Broken):
    """Takes a token more than it may, which only a budget just below its size shows."""

    async def recall(self, cue: Cue) -> Recollection:
        fits = self.ids and cue.max_tokens >= 99
        return Recollection(text=" ".join(["word"] * 100)) if fits else Recollection()


class Thawed(Broken):
    def freeze(self) -> MemoryReader:
        return View(self.ids)


class Writable(Broken):
    def freeze(self) -> MemoryReader:
        return self


class Counting(Broken):
    asked = 0

    async def recall(self, cue: Cue) -> Recollection:
        self.asked += 1
        found = answer(self.ids, cue)
        return Recollection(text=f"{self.asked}", tokens=1) if found.text else found


class Invented(Broken):
    async def recall(self, cue: Cue) -> Recollection:
        found = answer(self.ids, cue)
        return Recollection(text=found.text, tokens=found.tokens, sources=("e007.1",))


class Mixing(Broken):
    async def record(self, episode: Episode) -> None:
        self.shared.append(episode.id)
        self.ids = list(self.shared)


class Dictionary(Broken):
    async def recall(self, cue: Cue) -> Recollection:
        return {"text": "no"}  # type: ignore[return-value]  # the test is about it


class Unsafe(Broken):
    def describe(self) -> MemorySnapshot:
        return MemorySnapshot(text="", state={"ids": {1, 2}})


class Raising(Broken):
    async def record(self, episode: Episode) -> None:
        raise KeyError(episode.id)


async def test_the_correct_memory_passes() -> None:
    await check_memory(Broken)


@pytest.mark.parametrize(
    ("memory", "promise"),
    [
        (Eager, "before the first record"),
        (Verbose, "at most max_tokens"),
        (Close, "at most max_tokens"),
        (Thawed, "later writes do not change"),
        (Writable, "can only read"),
        (Counting, "the same episodes give the same"),
        (Invented, "sources of a recollection"),
        (Mixing, "recorded episodes"),
        (Dictionary, "is a Recollection"),
        (Unsafe, "JSON-safe"),
        (Raising, "raise nothing"),
    ],
)
async def test_a_broken_promise_is_found(memory: Any, promise: str) -> None:
    with pytest.raises(ConformanceError, match=promise):
        await check_memory(memory)
