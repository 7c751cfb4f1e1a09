"""Vector memory: what was lived through in situations like the current one.

One item per step, per episode, or both. A step is embedded by the text of its observation, an
episode by the mean of its steps; the query is the text of the current observation. The current
episode is no part of the memory, and a step that the prompt shows already is never recalled.

Vectors are made at consolidation. They are deterministic, so a resumed study makes them again;
``KeptEmbedder`` keeps those that cost money.

Source: ours; the paper has no such pathway.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import ConfigError
from s3gym.memory._embedders import (
    Embedder,
    HashingEmbedder,
    OpenAIEmbedder,
    Vectors,
    WordllamaEmbedder,
    unit_vectors,
)
from s3gym.memory._indexes import ChromaIndex, Index, Matrix, NumpyIndex
from s3gym.memory._items import NEUTRAL, Item, episode_item, qualities, step_item
from s3gym.memory._kept import KeptEmbedder
from s3gym.memory._outcomes import Digest, digest
from s3gym.memory.fitting import joined_tokens
from s3gym.records import Cue, Episode, Recollection
from s3gym.tokens import token_counter

__all__ = [
    "ChromaIndex",
    "Embedder",
    "HashingEmbedder",
    "Index",
    "KeptEmbedder",
    "NumpyIndex",
    "OpenAIEmbedder",
    "VectorMemory",
    "VectorView",
    "WordllamaEmbedder",
]

Items = Literal["step", "episode", "both"]
Recall = Literal["similarity", "outcome", "contrast", "mmr"]
BALANCE = 0.5
BETWEEN = "\n\n"
WENT_WELL = "Similar situations that went well:"
WENT_BADLY = "Similar situations that went badly:"
NOBODY_KNOWS = "Similar situations that went neither well nor badly, as far as is known:"


@dataclass(frozen=True, slots=True)
class _Shelf:
    """What a memory and its views share; rows are added and never change.

    ``sizes`` holds the tokens of each item's text, alone and with what stands between items.
    """

    embedder: Embedder
    index: Index
    counter: TokenCounter
    matrix: Matrix
    items: list[Item]
    sizes: list[tuple[int, int]]
    digests: list[Digest]
    k: int
    recall: Recall
    max_distance: float
    recall_each: RecallEach

    def add(self, vectors: Vectors, items: Sequence[Item]) -> None:
        """Append items; each text is counted here, once."""
        for item in items:
            alone = self.counter.count(item.text)
            joined = joined_tokens(item.text, alone, BETWEEN, self.counter)
            self.sizes.append((alone, joined))
        self.matrix.add(vectors)
        self.items.extend(items)


@dataclass(frozen=True, slots=True)
class _Near:
    """One candidate."""

    row: int
    similarity: float
    item: Item


class VectorView:
    """The first items of a shelf, with their qualities at that time."""

    def __init__(self, shelf: _Shelf, qualities: NDArray[np.float64]) -> None:
        self._shelf = shelf
        self._qualities = qualities
        self._n_episodes = len(shelf.digests)

    @property
    def recall_each(self) -> RecallEach:
        """As the memory was told."""
        return self._shelf.recall_each

    async def recall(self, cue: Cue) -> Recollection:
        shelf = self._shelf
        if not len(self._qualities) or cue.max_tokens < 1:
            return Recollection()
        texts = [cue.observation.text]
        query = (await unit_vectors(shelf.embedder, texts, shelf.matrix.dimensions))[0]
        if not query.any():
            return Recollection()
        chosen = await self._chosen(query, cue)
        return self._rendered(chosen, cue.max_tokens)

    def describe(self) -> MemorySnapshot:
        """Return one line per episode; the state says how the memory is set up."""
        shelf, count = self._shelf, len(self._qualities)
        kept = shelf.digests[: self._n_episodes]
        return MemorySnapshot(
            text="\n".join(item.line() for item in kept),
            sources=tuple(sorted(item.id for item in kept)),
            state={
                "backend": "vector",
                "items": count,
                "embedder": shelf.embedder.name,
                "dimensions": shelf.matrix.dimensions,
                "index": shelf.index.name,
                "incidents": list(shelf.index.incidents),
                "recall": shelf.recall,
                "k": shelf.k,
                "max_distance": shelf.max_distance,
                "counter": shelf.counter.name,
            },
        )

    async def _chosen(self, query: Vectors, cue: Cue) -> list[tuple[str, list[_Near]]]:
        """Return the items to recall, in order, under headings (empty: no heading)."""
        shelf, k = self._shelf, self._shelf.k
        if shelf.recall == "contrast":
            return await self._contrast(query, cue)
        pool = await self._pool(query, cue, 1 if shelf.recall == "similarity" else 4)
        if shelf.recall == "outcome":
            # Below 0 a product would praise what went badly.
            pool.sort(
                key=lambda near: (
                    -max(near.similarity, 0.0) * self._qualities[near.row],
                    -near.similarity,
                    near.row,
                )
            )
        if shelf.recall == "mmr":
            return [("", self._diverse(pool))]
        return [("", pool[:k])]

    async def _pool(self, query: Vectors, cue: Cue, factor: int) -> list[_Near]:
        """Return at least ``factor * k`` different candidates, nearest first, if there are."""
        shelf, limit = self._shelf, len(self._qualities)
        wanted = factor * shelf.k
        size = min(2 * wanted, limit)
        while True:
            found = await shelf.index.search(shelf.matrix, query, size, limit)
            pool = self._different(found.rows, found.similarities, cue)
            far = found.similarities and 1 - found.similarities[-1] > shelf.max_distance
            if len(pool) >= wanted or size >= limit or far or not found.rows:
                return pool
            size = min(2 * size, limit)

    def _different(
        self, rows: Sequence[int], similarities: Sequence[float], cue: Cue
    ) -> list[_Near]:
        shelf, seen = self._shelf, set[tuple[str, ...]]()
        pool: list[_Near] = []
        for row, similarity in zip(rows, similarities, strict=True):
            item = shelf.items[row]
            shown = item.kind == "step" and item.steps[0] in cue.trail
            if 1 - similarity > shelf.max_distance or shown or item.same in seen:
                continue
            seen.add(item.same)
            pool.append(_Near(row, similarity, item))
        return pool

    async def _contrast(self, query: Vectors, cue: Cue) -> list[tuple[str, list[_Near]]]:
        n_bad = self._shelf.k // 2
        n_good = self._shelf.k - n_bad
        factor = 2
        while True:
            pool = await self._pool(query, cue, factor)
            good = [near for near in pool if self._qualities[near.row] > NEUTRAL]
            bad = [near for near in pool if self._qualities[near.row] < NEUTRAL]
            enough = len(good) >= n_good and len(bad) >= n_bad
            if enough or len(pool) < factor * self._shelf.k:
                break
            factor *= 4
        good, bad = good[:n_good], bad[:n_bad]
        between = [near for near in pool if self._qualities[near.row] == NEUTRAL]
        room = self._shelf.k - len(good) - len(bad)
        return [(WENT_WELL, good), (WENT_BADLY, bad), (NOBODY_KNOWS, between[:room])]

    def _diverse(self, pool: list[_Near]) -> list[_Near]:
        """Return items that are near the query and unlike one another (maximal marginal)."""
        vectors = self._shelf.matrix.first(len(self._qualities))
        chosen: list[_Near] = []
        closest = np.full(len(pool), -1.0)
        rest = list(range(len(pool)))
        while rest and len(chosen) < self._shelf.k:
            gains = [
                BALANCE * pool[i].similarity - (1 - BALANCE) * (closest[i] if chosen else 0.0)
                for i in rest
            ]
            best = rest.pop(int(np.argmax(np.round(gains, 6))))
            chosen.append(pool[best])
            rows = [near.row for near in pool]
            closest = np.maximum(closest, vectors[rows] @ vectors[pool[best].row])
        return chosen

    def _rendered(self, sections: list[tuple[str, list[_Near]]], max_tokens: int) -> Recollection:
        counter = self._shelf.counter
        blocks: list[str] = []
        items: list[Item] = []
        before = tokens = offered = 0
        for heading, nears in sections:
            waiting = f"{heading}\n" if heading else ""
            offered += len(nears)
            for near in nears:
                alone, joined = self._shelf.sizes[near.row]
                start = before + (counter.count(waiting) if waiting else 0)
                if start + alone > max_tokens:
                    continue
                blocks.append(f"{waiting}{near.item.text}")
                items.append(near.item)
                tokens, before, waiting = start + alone, start + joined, ""
        whole = [item for item in items if item.kind == "episode"]
        return Recollection(
            text=BETWEEN.join(blocks),
            tokens=tokens,
            sources=tuple(sorted({item.episode for item in items})),
            dropped=offered - len(items),
            steps=tuple(step for item in whole or items for step in item.steps),
        )


class VectorMemory:
    """Recalls the items nearest to the current observation.

    ``Recollection.steps`` holds the first and last step of each recalled episode; where only
    steps were recalled, those.

    Args:
        embedder: Default ``HashingEmbedder()``.
        index: Default ``NumpyIndex()``; one per memory.
        items: One item per ``"step"``, per ``"episode"``, or ``"both"``.
        k: Most items of a recollection.
        recall: ``"similarity"``: the nearest. ``"outcome"``: by similarity times how well the item
            went. ``"contrast"``: half of the items from those that went well, half from those that
            went badly, nearest first; those in the middle, and those that were never judged, take
            the places that are left. ``"mmr"``: near the query and unlike one another.
            ``"outcome"`` and ``"mmr"`` choose among the nearest items, at least ``4 * k`` of them.
        max_distance: Greatest cosine distance of a recalled item, in [0, 2].
        recall_each: Recall before every ``"step"`` or once per ``"episode"``.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.

    How well an item went is a rank in [0, 1] by self-scores alone, see ``qualities``.

    Raises:
        ConfigError: An option has no such value.
    """

    def __init__(
        self,
        embedder: Embedder | None = None,
        index: Index | None = None,
        *,
        items: Items = "both",
        k: int = 6,
        recall: Recall = "similarity",
        max_distance: float = 0.8,
        recall_each: RecallEach = "step",
        counter: TokenCounter | None = None,
    ) -> None:
        _check("items", items, get_args(Items))
        _check("recall", recall, get_args(Recall))
        _check("recall_each", recall_each, get_args(RecallEach))
        if not isinstance(k, int) or k < 1 or not 0 <= max_distance <= 2:
            raise ConfigError(
                f"expected k of at least 1 and max_distance in 0..2, got {k!r} and {max_distance!r}"
            )
        self._kinds: Items = items
        self._shelf = _Shelf(
            embedder=embedder or HashingEmbedder(),
            index=index or NumpyIndex(),
            counter=counter or token_counter(),
            matrix=Matrix(),
            items=[],
            sizes=[],
            digests=[],
            k=k,
            recall=recall,
            max_distance=max_distance,
            recall_each=recall_each,
        )
        self._pending: list[Episode] = []
        self._view = VectorView(self._shelf, np.zeros(0))

    @property
    def recall_each(self) -> RecallEach:
        """As the memory was told."""
        return self._shelf.recall_each

    async def recall(self, cue: Cue) -> Recollection:
        return await self._view.recall(cue)

    async def record(self, episode: Episode) -> None:
        if episode.steps:
            self._pending.append(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        shelf = self._shelf
        while self._pending:
            episode = self._pending[0]
            texts = [step.observation.text for step in episode.steps]
            vectors = await unit_vectors(shelf.embedder, texts, shelf.matrix.dimensions)
            if self._kinds != "episode":
                shelf.add(vectors, [step_item(episode, step) for step in episode.steps])
            if self._kinds != "step":
                shelf.add(_mean(vectors), [episode_item(episode)])
            shelf.digests.append(digest(episode))
            del self._pending[0]
            self._view = VectorView(shelf, qualities(shelf.items))
        if len(shelf.matrix):
            await shelf.index.sync(shelf.matrix)

    def freeze(self) -> MemoryReader:
        return self._view

    def describe(self) -> MemorySnapshot:
        """Return what is kept and how it is set up."""
        return self._view.describe()

    async def aclose(self) -> None:
        """Let go of the index's files and of the embedder's client."""
        await self._shelf.index.aclose()
        close = getattr(self._shelf.embedder, "aclose", None)
        if close is not None:
            await close()


def _mean(vectors: Vectors) -> Vectors:
    """Return the direction of the mean of unit vectors, as one row."""
    total = vectors.astype(np.float64).sum(axis=0, keepdims=True)
    length = float(np.linalg.norm(total))
    return np.asarray(total / length if length else total, dtype=np.float32)


def _check(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise ConfigError(f"expected {name} {' or '.join(map(repr, known))}, got {value!r}")
