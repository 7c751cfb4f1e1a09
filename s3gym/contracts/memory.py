"""What a memory promises: record and consolidate while exploring, recall whenever asked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from s3gym.records import Cue, Episode, Message, Recollection

RecallEach = Literal["episode", "step"]


class MemoryReader(Protocol):
    """What evaluation is handed: it can read and nothing else.

    ``recall`` writes nothing, answers at most ``cue.max_tokens`` tokens, and makes no model
    call except the embedding of a query.
    """

    @property
    def recall_each(self) -> RecallEach:
        """Whether ``recall`` is called once per episode or before every step."""
        ...

    async def recall(self, cue: Cue) -> Recollection:
        """Return what is worth knowing now; an empty recollection is a legal answer."""
        ...


class Memory(MemoryReader, Protocol):
    """A reader that exploration may also write to.

    Before the first ``record`` every memory recalls nothing and calls nothing. What was recalled
    is never written back. Optional: ``async aclose()``, ``describe() -> MemorySnapshot`` and
    ``isolated = False`` for stores outside the process, whose isolation cannot be proven.
    """

    async def record(self, episode: Episode) -> None:
        """Keep a finished exploration episode."""
        ...

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        """Digest what was recorded; called after each ``record``.

        A memory's own model calls happen here, through ``s3gym.calls.complete``.

        Args:
            rules: Rules of the exploration setup.
            max_tokens: Budget of a later recollection, in tokens.
        """
        ...

    def freeze(self) -> MemoryReader:
        """Return a cheap view that later writes do not change."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySnapshot:
    """One version of a memory, for people and for the store.

    Attributes:
        text: What the memory holds, readable.
        sources: Ids of the exploration episodes behind it, sorted.
        state: JSON-safe details of the backend.
    """

    text: str
    sources: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCall:
    """What stands on the learner's side behind the model call of one consolidation.

    Attributes:
        rules: Rules of the newest episode.
        episodes: Exploration episodes so far, oldest first; the newest was just recorded.
        before: State of the version before; empty before the first.
        backend: What the version that was made calls itself in its state.
        counter: Name of the token counter in that state.
        max_tokens: What ``consolidate`` was told.
    """

    rules: str
    episodes: tuple[Episode, ...]
    before: Mapping[str, Any]
    backend: str
    counter: str
    max_tokens: int


CallRenderer = Callable[[MemoryCall], Sequence[Message] | None]
"""Makes the prompt of a memory's call again; ``None`` when it cannot tell what was asked."""
MemoryFactory = Callable[[], Memory]
