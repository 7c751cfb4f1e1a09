"""``check_memory``: does a memory keep the contract of ``s3gym.contracts.memory``?

It is fed odd and ordinary episodes and asked under budgets of every size; how useful its answers
are is not judged.
"""

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

import anyio

from s3gym.calls import Broker, Purpose, brokered
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.contracts.memory import Memory, MemoryReader, MemorySnapshot
from s3gym.parts import MemoryPart, memory_part
from s3gym.records import LAYOUTS, Cue, Episode, Message, Phase, Recollection, Turn
from s3gym.seams import guarded, plugin_boundary
from s3gym.testing.episodes import RULES, make_cue, make_episode
from s3gym.testing.findings import Findings
from s3gym.text import shorten
from s3gym.tokens import token_counter

T = TypeVar("T")
BUDGETS = (0, 1, 7, 60, 400, 100_000)
"""Budgets that a memory is asked under, in tokens."""
SPECIAL = "<|endoftext|> <|im_start|>system"
CROWD = 8

ANSWERS = "record, consolidate, freeze and recall answer in time and raise nothing"
EMPTY = "before the first record nothing is recalled and nothing is called"
FITS = "a recollection is a Recollection of at most max_tokens tokens"
SOURCES = "the sources of a recollection are recorded episodes, sorted"
FROZEN = "later writes do not change what a frozen view recalls"
READS = "a frozen view can only read"
EQUAL = "the same episodes give the same recollections, whatever was asked in between"
CROWDED = "recalls at the same time answer like one after the other"
SHOWN = "describe returns a MemorySnapshot with a JSON-safe state"
EACH = "recall_each is 'episode' or 'step'"


def check_episodes() -> list[Episode]:
    """Return the episodes that a memory is fed: ordinary ones and odd ones."""
    return [
        make_episode(1, n_steps=4, note="strategy: steady"),
        make_episode(2, texts=[SPECIAL, "", "  \n \t", "after"], self_scores=(None,)),
        make_episode(3, texts=["same"] * 5, actions=("a",), self_scores=(-1.0,)),
        make_episode(4, n_steps=1, note="strategy: bold", self_scores=(1e300,)),
        make_episode(5, texts=["x" * 5_000, "\u2028\u0085\r\n", "é漢字🙂", "end\n\n"]),
        make_episode(6, n_steps=6, actions=("END",), note=SPECIAL),
    ]


def check_cues(max_tokens: int = 100_000) -> list[Cue]:
    """Return what a memory is asked: known, new, empty and odd observations."""
    trail = make_episode(9).steps
    texts = ["episode 1, board 2", "same", "never seen", "", SPECIAL]
    return [make_cue(text, max_tokens=max_tokens) for text in texts] + [
        make_cue("episode 9, board 3", max_tokens=max_tokens, trail=trail)
    ]


async def check_memory(memory: object, *, seconds: float = 30.0) -> None:
    """Check a memory.

    A memory with ``isolated = False`` is not asked to prove that its frozen views stay as they
    are, nor that two instances agree.

    Args:
        memory: What ``memory=`` takes: a class or a factory without arguments. Each call must
            give a new, empty memory; one that asks a model should be given a scripted one.
        seconds: Deadline of one call, in seconds.

    Raises:
        ConfigError: It is no memory at all.
        ConformanceError: It breaks its contract; the error lists every broken promise.
    """
    check = _Check(memory_part(memory), seconds)
    await check.run()
    check.findings.raise_if_any()


class _Calls(Broker):
    """Counts model calls, and lets them through."""

    def __init__(self) -> None:
        self.count = 0

    async def complete(
        self,
        chat: ChatModel,
        messages: Sequence[Message],
        *,
        purpose: Purpose,
        layout: str,
        max_tokens: int,
        seed: int | None,
    ) -> Reply:
        self.count += 1
        return await chat.complete(messages, max_tokens=max_tokens, seed=seed)


class _Check:
    def __init__(self, part: MemoryPart, seconds: float) -> None:
        self.part, self.seconds = part, seconds
        self.label = f"memory {part.name!r}"
        self.findings = Findings(self.label)
        self.counter = token_counter()

    async def run(self) -> None:
        with self.findings.catching(ANSWERS):
            memory = self._made()
            isolated = getattr(memory, "isolated", True)
            self.findings.expect(
                memory.recall_each in ("episode", "step"), EACH, shorten(memory.recall_each)
            )
            await self._empty(memory)
            answers = await self._fed(memory, asked=True, isolated=isolated)
            await self._crowd(memory)
            await self._closed(memory)
            if isolated:
                await self._rebuilt(answers)

    def _made(self) -> Memory:
        with plugin_boundary(self.label, "being made"):
            return self.part.make()

    async def _empty(self, memory: Memory) -> None:
        """See that an unwritten memory leaves every prompt as it is without one."""
        self.findings.where = "before the first record"
        calls = _Calls()
        with brokered(calls):
            for reader in (memory, self._frozen(memory)):
                for cue in check_cues():
                    found = await self._recall(reader, cue, [])
                    same = all(
                        _turn(cue, found).messages(layout)
                        == _turn(cue, Recollection()).messages(layout)
                        for layout in LAYOUTS
                    )
                    self.findings.expect(same, EMPTY, shorten(found.text))
        self.findings.expect(not calls.count, EMPTY, f"{calls.count} model calls")

    async def _fed(
        self, memory: Memory, *, asked: bool, isolated: bool = True
    ) -> list[Recollection]:
        """Feed every episode; ask in between, unless told not to; return the last answers."""
        known: list[str] = []
        views: list[tuple[MemoryReader, list[Recollection]]] = []
        for episode in check_episodes():
            self.findings.where = f"episode {episode.ordinal}"
            await self._call("record", partial(memory.record, episode))
            await self._call("consolidate", lambda: memory.consolidate(RULES, 100_000))
            known.append(episode.id)
            if asked:
                view = self._frozen(memory)
                views.append((view, await self._answers(view, known)))
                await self._budgets(memory, known)
                self._described(memory)
        if isolated:
            for number, (view, before) in enumerate(views, start=1):
                self.findings.where = f"frozen after episode {number}"
                after = await self._answers(view, known)
                self.findings.expect(before == after, FROZEN, "it answers otherwise now")
        self.findings.where = "after all episodes"
        await self._call("consolidate", lambda: memory.consolidate(RULES, 100_000))
        return await self._answers(memory, known)

    async def _budgets(self, memory: Memory, known: Sequence[str]) -> None:
        for max_tokens in BUDGETS:
            for cue in check_cues(max_tokens):
                await self._recall(memory, cue, known)
        whole = await self._recall(memory, check_cues()[0], known)
        size = self.counter.count(whole.text)
        for max_tokens in sorted({size - 1, size // 2, size // 3} - {-1}):
            await self._recall(memory, check_cues(max_tokens)[0], known)

    async def _answers(self, reader: MemoryReader, known: Sequence[str]) -> list[Recollection]:
        return [await self._recall(reader, cue, known) for cue in check_cues()]

    async def _crowd(self, memory: Memory) -> None:
        self.findings.where = f"{CROWD} recalls at the same time"
        cue = check_cues()[0]
        alone = await self._call("recall", lambda: memory.recall(cue))
        together: list[Recollection] = []

        async def ask() -> None:
            together.append(await memory.recall(cue))

        async with anyio.create_task_group() as group:
            for _ in range(CROWD):
                group.start_soon(ask)
        equal = all(found == alone for found in together)
        self.findings.expect(equal, CROWDED, "the answers differ")

    async def _rebuilt(self, answers: list[Recollection]) -> None:
        memory = self._made()
        again = await self._fed(memory, asked=False)
        self.findings.where = "fed again"
        self.findings.expect(again == answers, EQUAL, "a second memory answers otherwise")
        await self._closed(memory)

    def _frozen(self, memory: Memory) -> MemoryReader:
        with plugin_boundary(self.label, "freeze"):
            view = memory.freeze()
        for verb in ("record", "consolidate"):
            self.findings.expect(not hasattr(view, verb), READS, f"it has {verb!r}")
        return view

    async def _recall(self, reader: MemoryReader, cue: Cue, known: Sequence[str]) -> Recollection:
        found = await self._call("recall", lambda: reader.recall(cue))
        if not isinstance(found, Recollection):
            self.findings.add(FITS, f"recall gave {shorten(found)}")
            return Recollection()
        size = self.counter.count(found.text)
        fits = max(size, found.tokens) <= cue.max_tokens and found.dropped >= 0
        detail = f"{size} tokens ({found.tokens} by itself) where {cue.max_tokens} were allowed"
        self.findings.expect(fits, FITS, detail)
        sources = list(found.sources)
        right = sources == sorted(set(sources) & set(known))
        self.findings.expect(right, SOURCES, lambda: shorten(sources))
        return found

    def _described(self, memory: Memory) -> None:
        describe = getattr(memory, "describe", None)
        if describe is None:
            return
        with self.findings.catching(SHOWN):
            found = describe()
            good = isinstance(found, MemorySnapshot) and json.dumps(
                dict(found.state), allow_nan=False
            )
            self.findings.expect(bool(good), SHOWN, lambda: shorten(found))

    async def _call(self, what: str, call: Callable[[], Awaitable[T]]) -> T:
        return await guarded(self.label, what, call, self.seconds)

    async def _closed(self, memory: Memory) -> None:
        close = getattr(memory, "aclose", None)
        if close is not None:
            await self._call("aclose", close)


def _turn(cue: Cue, recollection: Recollection) -> Turn:
    return Turn(
        episode="check",
        game=cue.game,
        phase=Phase.EVALUATION,
        rules=cue.rules,
        instruction="Play.",
        observation=cue.observation,
        trail=cue.trail,
        recollection=recollection,
        max_steps=10,
    )
