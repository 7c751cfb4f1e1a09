"""No memory: the control arm.

Keeps nothing, recalls nothing, calls nothing. Every other memory's prompt equals this one's
until its first episode is recorded.
"""

from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.records import Cue, Episode, Recollection


class NothingRecalled:
    """A reader that recalls nothing."""

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    async def recall(self, cue: Cue) -> Recollection:
        return Recollection()

    def describe(self) -> MemorySnapshot:
        """Return an empty snapshot."""
        return MemorySnapshot(text="")


class NoMemory(NothingRecalled):
    """Forgets every episode."""

    async def record(self, episode: Episode) -> None:
        return None

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        return None

    def freeze(self) -> MemoryReader:
        return NothingRecalled()
