"""Filtered memory: another memory that gets only some of the episodes.

``filtered(HistoryMemory, best_fraction=0.5)``: by self-scores alone; no verifier is known here.
"""

from collections.abc import Callable
from math import ceil, isfinite

from s3gym.contracts.memory import (
    Memory,
    MemoryFactory,
    MemoryReader,
    MemorySnapshot,
    RecallEach,
)
from s3gym.errors import ConfigError
from s3gym.memory._outcomes import mean_self_score
from s3gym.records import Cue, Episode, Recollection


class Filtered:
    """Hands whole episodes on at consolidation, chosen anew each time.

    While the choice only grows, new episodes are handed on. When an episode leaves it, the inner
    memory is made again and given all that stay: an inner memory that asks a model then asks again.

    Args:
        make: Class or factory of the inner memory.
        last_n: Only the newest episodes.
        min_self_score: Of those, only episodes whose mean self-score is at least this, in game
            points; an episode without self-scores never is.
        best_fraction: Of those, the best share by mean self-score, in (0, 1], rounded up; older
            ones first among equals.

    Raises:
        ConfigError: No filter was given, or one is out of its range.
    """

    def __init__(
        self,
        make: MemoryFactory,
        *,
        last_n: int | None = None,
        min_self_score: float | None = None,
        best_fraction: float | None = None,
    ) -> None:
        if not callable(make):
            raise ConfigError(f"expected a class or factory of memories, got {make!r}")
        if last_n is None and min_self_score is None and best_fraction is None:
            raise ConfigError("expected last_n, min_self_score or best_fraction, got none of them")
        if last_n is not None and (not isinstance(last_n, int) or last_n < 1):
            raise ConfigError(f"expected last_n of at least 1, got {last_n!r}")
        for name, value in (("min_self_score", min_self_score), ("best_fraction", best_fraction)):
            if value is not None and (not isinstance(value, int | float) or not isfinite(value)):
                raise ConfigError(f"expected {name} as a finite number, got {value!r}")
        if best_fraction is not None and not 0 < best_fraction <= 1:
            raise ConfigError(f"expected best_fraction above 0 and up to 1, got {best_fraction!r}")
        self._make = make
        self._last_n = last_n
        self._min_self_score = min_self_score
        self._best_fraction = best_fraction
        self._episodes: list[Episode] = []
        self._given: list[str] = []
        self._inner = make()
        self._made = [self._inner]
        self._owes = False
        self.isolated = getattr(self._inner, "isolated", True)

    @property
    def recall_each(self) -> RecallEach:
        """As the inner memory wants it."""
        return self._inner.recall_each

    async def recall(self, cue: Cue) -> Recollection:
        return await self._inner.recall(cue)

    async def record(self, episode: Episode) -> None:
        self._episodes.append(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        chosen = self._chosen()
        ids = [episode.id for episode in chosen]
        if ids[: len(self._given)] == self._given:
            if self._owes:
                await self._inner.consolidate(rules, max_tokens)
            self._owes = False
            for episode in chosen[len(self._given) :]:
                await self._inner.record(episode)
                self._given.append(episode.id)
                self._owes = True
                await self._inner.consolidate(rules, max_tokens)
                self._owes = False
            return
        inner = self._make()
        self._made.append(inner)
        for episode in chosen:
            await inner.record(episode)
            await inner.consolidate(rules, max_tokens)
        self._inner, self._given, self._owes = inner, ids, False

    def freeze(self) -> MemoryReader:
        return self._inner.freeze()

    def describe(self) -> MemorySnapshot:
        """Return what the inner memory holds; the state names the filter."""
        found = _described(self._inner)
        return MemorySnapshot(
            text=found.text,
            sources=found.sources,
            state={
                "backend": "filtered",
                "last_n": self._last_n,
                "min_self_score": self._min_self_score,
                "best_fraction": self._best_fraction,
                "kept": list(self._given),
                "left_out": len(self._episodes) - len(self._given),
                "inner": dict(found.state),
            },
        )

    async def aclose(self) -> None:
        """Close every inner memory; frozen views may have read an older one until now."""
        for memory in self._made:
            await _close(memory)

    def _chosen(self) -> list[Episode]:
        chosen = self._episodes[-self._last_n :] if self._last_n else list(self._episodes)
        if self._min_self_score is not None:
            floor = self._min_self_score
            chosen = [episode for episode in chosen if mean_self_score(episode) >= floor]
        if self._best_fraction is not None:
            n = ceil(self._best_fraction * len(chosen))
            ranked = sorted(
                range(len(chosen)), key=lambda index: (-mean_self_score(chosen[index]), index)
            )
            chosen = [chosen[index] for index in sorted(ranked[:n])]
        return chosen


def filtered(
    make: MemoryFactory,
    *,
    last_n: int | None = None,
    min_self_score: float | None = None,
    best_fraction: float | None = None,
) -> Callable[[], Filtered]:
    """Return a factory of filtered memories, for ``memory=``. Arguments: see ``Filtered``.

    Raises:
        ConfigError: See ``Filtered``.
    """

    def build() -> Filtered:
        return Filtered(
            make, last_n=last_n, min_self_score=min_self_score, best_fraction=best_fraction
        )

    build.__name__ = "filtered"
    build()
    return build


def _described(memory: Memory) -> MemorySnapshot:
    describe = getattr(memory, "describe", None)
    found = describe() if describe is not None else None
    return found if isinstance(found, MemorySnapshot) else MemorySnapshot(text="")


async def _close(memory: object) -> None:
    close = getattr(memory, "aclose", None)
    if close is not None:
        await close()
