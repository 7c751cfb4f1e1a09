"""What a study sees in place of the agent and the memory that sit in the child process."""

from collections.abc import Callable
from typing import Any, TypeVar

from s3gym.contracts.agent import Agent
from s3gym.contracts.memory import MemorySnapshot, RecallEach
from s3gym.errors import PluginError
from s3gym.records import Cue, Decision, Episode, Recollection, Turn
from s3gym.sealed.process import SealedProcess
from s3gym.sealed.turns import TurnWriter
from s3gym.wire import WireError, decode, encode

T = TypeVar("T")
LIVE = 0
"""The view that is the memory itself."""


class SealedAgent:
    """One agent of the child, by number; the child makes it at its first turn."""

    def __init__(self, process: SealedProcess, label: str) -> None:
        self._process, self._label = process, label
        self._number = process.number()
        self._turns = TurnWriter(process.shelf)

    @property
    def number(self) -> int:
        """Under which the child knows it."""
        return self._number

    async def act(self, turn: Turn) -> Decision:
        """Have the child's agent decide."""
        message = {"do": "act", "agent": self._number, "turn": self._turns.encode(turn)}
        answer = await self._process.ask(self._label, message)
        return _decoded(self._label, Decision, answer)

    async def aclose(self) -> None:
        """Have the child close its agent, unless that serves other episodes too."""
        await self._process.ask(self._label, {"do": "close", "agent": self._number})


class SealedForkable:
    """The child's agent that owns its memory."""

    def __init__(self, process: SealedProcess, label: str) -> None:
        self._process, self._label = process, label

    async def fork(self) -> Agent:
        """Have the child make a throw-away copy."""
        copy = SealedAgent(self._process, self._label)
        await self._process.ask(self._label, {"do": "fork", "agent": copy.number})
        return copy

    async def learn(self, episode: Episode) -> None:
        """Have the child's agent take in an episode."""
        await self._process.ask(self._label, {"do": "learn", "episode": encode(episode)})


class SealedView:
    """A frozen view in the child, by number."""

    def __init__(
        self, process: SealedProcess, label: str, number: int, recall_each: RecallEach
    ) -> None:
        self._process, self._label, self._number = process, label, number
        self.recall_each: RecallEach = recall_each

    async def recall(self, cue: Cue) -> Recollection:
        """Have the child's view recall."""
        message = {"do": "recall", "view": self._number, "cue": encode(cue)}
        answer = await self._process.ask(self._label, message)
        return _checked(self._label, self._process.shelf.decode, answer)


class SealedMemory(SealedView):
    """The child's memory; making it starts the child, closing it ends the child."""

    def __init__(
        self, process: SealedProcess, label: str, recall_each: RecallEach, *, isolated: bool
    ) -> None:
        super().__init__(process, label, LIVE, recall_each)
        self.isolated = isolated
        self._snapshot: Any = None
        process.start()

    async def record(self, episode: Episode) -> None:
        """Have the child's memory keep an episode."""
        self._process.shelf.add(episode)
        await self._process.ask(self._label, {"do": "record", "episode": encode(episode)})

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        """Have the child's memory digest, and keep its description."""
        message = {"do": "consolidate", "rules": rules, "max_tokens": max_tokens}
        self._snapshot = await self._process.ask(self._label, message)

    def freeze(self) -> SealedView:
        """Have the child freeze before it does anything that is asked later."""
        number = self._process.number()
        self._process.tell({"do": "freeze", "view": number})
        return SealedView(self._process, self._label, number, self.recall_each)

    async def aclose(self) -> None:
        """End the child."""
        await self._process.aclose(self._label)


class DescribedMemory(SealedMemory):
    """A memory that describes itself."""

    def describe(self) -> MemorySnapshot:
        """Return what the child's memory said after the last consolidation."""
        return _decoded(self._label, MemorySnapshot, self._snapshot)


def _decoded(label: str, kind: type[T], answer: Any) -> T:
    return _checked(label, lambda data: decode(kind, data), answer)


def _checked(label: str, read: Callable[[Any], T], answer: Any) -> T:
    try:
        return read(answer)
    except WireError as error:
        raise PluginError(f"{label}: its sealed process sent {error}") from error
