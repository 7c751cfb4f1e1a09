"""Layered memory: several memories one above the other, each with a budget of its own.

``layered([SummaryMemory, HistoryMemory], [2_000, 0.9])``
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.memory import (
    Memory,
    MemoryFactory,
    MemoryReader,
    MemorySnapshot,
    RecallEach,
)
from s3gym.errors import ConfigError
from s3gym.memory.fitting import joined_tokens
from s3gym.records import Cue, Episode, Recollection
from s3gym.tokens import token_counter

BETWEEN = "\n\n"
Budget = int | float


def share(budget: Budget, max_tokens: int) -> int:
    """Return a part's budget: whole tokens as they are, a float as a share of the cue's."""
    return int(budget * max_tokens) if isinstance(budget, float) else min(budget, max_tokens)


async def recall_parts(
    parts: Sequence[MemoryReader], budgets: Sequence[Budget], cue: Cue, counter: TokenCounter
) -> Recollection:
    """Recall part after part, in order; nothing of a part is shown that does not fit."""
    texts: list[str] = []
    found: list[Recollection] = []
    before = tokens = left_out = 0
    for part, budget in zip(parts, budgets, strict=True):
        room = min(share(budget, cue.max_tokens), cue.max_tokens - before)
        item = await part.recall(_within(cue, max(room, 0)))
        if not item.text:
            left_out += item.dropped
            continue
        size = item.tokens or counter.count(item.text)
        if size > room:
            left_out += item.dropped + max(len(item.steps), 1)
            continue
        texts.append(item.text)
        found.append(item)
        tokens = before + size
        before += joined_tokens(item.text, size, BETWEEN, counter)
    return Recollection(
        text=BETWEEN.join(texts),
        tokens=tokens,
        sources=tuple(sorted({source for item in found for source in item.sources})),
        dropped=sum(item.dropped for item in found) + left_out,
        steps=tuple(step for item in found for step in item.steps),
    )


def _is_budget(budget: object) -> bool:
    if isinstance(budget, float):
        return 0 <= budget <= 1
    return isinstance(budget, int) and not isinstance(budget, bool) and budget >= 0


def _within(cue: Cue, max_tokens: int) -> Cue:
    return Cue(
        game=cue.game,
        rules=cue.rules,
        observation=cue.observation,
        trail=cue.trail,
        max_tokens=max_tokens,
    )


def _each(parts: Sequence[MemoryReader]) -> RecallEach:
    return "step" if any(part.recall_each == "step" for part in parts) else "episode"


@dataclass(frozen=True, slots=True)
class LayeredView:
    """Frozen views of all parts."""

    parts: tuple[MemoryReader, ...]
    budgets: tuple[Budget, ...]
    counter: TokenCounter

    @property
    def recall_each(self) -> RecallEach:
        """Before every step if any part wants that."""
        return _each(self.parts)

    async def recall(self, cue: Cue) -> Recollection:
        return await recall_parts(self.parts, self.budgets, cue, self.counter)


class Layered:
    """Asks its parts in order; their texts are joined by a blank line.

    Args:
        parts: Memories that nobody else uses.
        budgets: One per part, for what it recalls: an ``int`` in tokens, or a ``float`` in [0, 1]
            as a share of the cue's budget. The whole never exceeds the cue's budget: a later part
            gets what earlier ones left. What a part digests is not bound by it.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.

    Raises:
        ConfigError: There is no part, or the budgets do not fit the parts.
    """

    def __init__(
        self,
        parts: Sequence[Memory],
        budgets: Sequence[Budget],
        counter: TokenCounter | None = None,
    ) -> None:
        if not parts or len(parts) != len(budgets):
            raise ConfigError(
                f"expected one budget per part, got {len(parts)} parts and {len(budgets)} budgets"
            )
        for budget in budgets:
            if not _is_budget(budget):
                raise ConfigError(
                    f"expected budgets in tokens (int) or as shares in 0..1 (float), got {budget!r}"
                )
        self._parts = tuple(parts)
        self._budgets = tuple(budgets)
        self._counter = counter or token_counter()
        self.isolated = all(getattr(part, "isolated", True) for part in parts)

    @property
    def recall_each(self) -> RecallEach:
        """Before every step if any part wants that."""
        return _each(self._parts)

    async def recall(self, cue: Cue) -> Recollection:
        return await recall_parts(self._parts, self._budgets, cue, self._counter)

    async def record(self, episode: Episode) -> None:
        for part in self._parts:
            await part.record(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        for part in self._parts:
            await part.consolidate(rules, max_tokens)

    def freeze(self) -> MemoryReader:
        views = tuple(part.freeze() for part in self._parts)
        return LayeredView(views, self._budgets, self._counter)

    def describe(self) -> MemorySnapshot:
        """Return what the parts hold, in order."""
        found = [part.describe() for part in self._parts if hasattr(part, "describe")]
        return MemorySnapshot(
            text=BETWEEN.join(item.text for item in found if item.text),
            sources=tuple(sorted({source for item in found for source in item.sources})),
            state={
                "backend": "layered",
                "budgets": list(self._budgets),
                "parts": [dict(item.state) for item in found],
            },
        )

    async def aclose(self) -> None:
        """Close every part that can be closed."""
        for part in self._parts:
            close = getattr(part, "aclose", None)
            if close is not None:
                await close()


def layered(
    parts: Sequence[MemoryFactory],
    budgets: Sequence[Budget],
    counter: TokenCounter | None = None,
) -> Callable[[], Layered]:
    """Return a factory of layered memories, for ``memory=``.

    Args:
        parts: Classes or factories, in the order in which they are shown.
        budgets: See ``Layered``.
        counter: See ``Layered``.

    Raises:
        ConfigError: See ``Layered``.
    """

    def make() -> Layered:
        return Layered([part() for part in parts], budgets, counter)

    for part in parts:
        if not callable(part):
            raise ConfigError(f"expected classes or factories of memories, got {part!r}")
    make.__name__ = "layered"
    make()
    return make
