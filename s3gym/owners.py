"""Agents that own their memory: which one learns for a study, and the copies that play for it."""

from typing import cast

from s3gym.contracts.agent import Agent, Forkable
from s3gym.contracts.memory import MemorySnapshot
from s3gym.errors import PluginError
from s3gym.parts import AgentPart, owns_memory
from s3gym.seams import called, close_part, guarded, plugin_boundary
from s3gym.store.store import Store


async def own_agent(
    part: AgentPart, study: str, seconds: float, *, must_learn: bool
) -> Forkable | None:
    """Return the agent of one study alone that owns its memory, if it owns one.

    An instance serves several studies, so each gets a fork that learns in its place.

    Args:
        part: The agent.
        study: Id of the study.
        seconds: Deadline of a fork.
        must_learn: The study's memory is the agent's own.

    Raises:
        PluginError: It must learn and cannot, or it cannot serve another study.
    """
    label = f"agent {part.name!r}"
    if part.forkable is not None:
        own: object = await guarded(label, "fork", part.forkable.fork, seconds)
        if called(label, "fork", lambda: owns_memory(own)):
            return cast(Forkable, own)
        part.claim(study)
        return part.forkable
    if part.makes_forkable is not False:
        with plugin_boundary(label, "its construction"):
            own = part.make()
            owns = owns_memory(own)
        if owns:
            return cast(Forkable, own)
        await close_part(own)
    if must_learn and part.learn is None:
        raise PluginError(f"{label} has no memory of its own: no fork and learn")
    return None


async def forks_of(owner: Forkable | None, label: str, seconds: float, n: int) -> list[Agent]:
    """Return throw-away copies of an agent that owns its memory; empty for all others."""
    if owner is None:
        return []
    return [await guarded(label, "fork", owner.fork, seconds) for _ in range(n)]


async def fresh_copy(fork: Agent | None, label: str, seconds: float) -> Agent | None:
    """Return a copy of a fork, for one attempt at its episode, where a fork can be forked.

    An episode that is played again after a resume must not start from what its first attempt
    left in the agent.
    """
    if fork is None or not called(label, "fork", lambda: owns_memory(fork)):
        return fork
    copies = await forks_of(cast(Forkable, fork), label, seconds, 1)
    return copies[0]


def note_not_isolated(store: Store, study: str) -> None:
    """Keep that a study's memory is shared with the world, where only the made one could tell."""
    snapshot = MemorySnapshot(text="", state={"isolated": False})
    with store.transaction():
        store.ledger.add_memory_version(study, 0, snapshot)
