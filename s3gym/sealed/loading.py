"""Loading agents and memories in the child, by the names that the parent gives."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

from s3gym.agents.answers import AnswerScore, JsonContract
from s3gym.catalog import find_agent, find_memory, model_part
from s3gym.contracts.agent import Forkable
from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.parts import AgentPart, MemoryPart, owns_memory
from s3gym.records import Message
from s3gym.seams import plugin_boundary

Reference = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ParentsChat:
    """Stands for a chat model that the parent holds, with its key.

    Attributes:
        name: Its name there.
        endpoint: Its endpoint there.
    """

    name: str
    endpoint: str = ""

    def with_schema(self, schema: type) -> Self:
        """Return this: the parent's chat model is held to the schema already."""
        return self

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Refuse: only a study's broker reaches the parent."""
        raise ModelError(
            f"{self.name} is held by the parent; call it through s3gym.calls", retryable=False
        )


def extend_path(path: Sequence[str]) -> None:
    """Let modules be found where the parent finds them."""
    for entry in path:
        if entry not in sys.path:
            sys.path.append(entry)


def load_agent(reference: Reference) -> AgentPart:
    """Return the agent that a reference names.

    Raises:
        ConfigError: There is none, or importing it failed.
    """
    if "chat" not in reference:
        return find_agent(reference["where"], reference["name"])
    return model_part(
        ParentsChat(reference["chat"], reference["endpoint"]),
        origin=reference["where"],
        name=reference["name"],
        layout=reference["layout"],
        contract=JsonContract() if reference["contract"] == "json" else AnswerScore(),
        reask=reference["reask"],
    )


def load_memory(reference: Reference) -> MemoryPart:
    """Return the memory that a reference names.

    Raises:
        ConfigError: There is none, or importing it failed.
    """
    part = find_memory(reference["where"], reference["name"])
    chat = reference.get("chat")
    return part.written_by(None if chat is None else ParentsChat(chat))


def looks(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the parent needs to know of agents and memories before a study starts."""
    return {
        "agents": [_agent_looks(load_agent(reference)) for reference in message["agents"]],
        "memories": [_memory_looks(load_memory(reference)) for reference in message["memories"]],
    }


def owner_of(part: AgentPart) -> Forkable | None:
    """Return the agent that owns its memory for the one study of this process, if it does."""
    if part.forkable is not None or part.makes_forkable is False:
        return part.forkable
    with plugin_boundary(f"agent {part.name!r}", "its construction"):
        made: object = part.make()
    return cast(Forkable, made) if owns_memory(made) else None


def _agent_looks(part: AgentPart) -> dict[str, Any]:
    return {
        "stateless": part.stateless,
        "serial": part.serial,
        "isolated": part.isolated,
        "forkable": owner_of(part) is not None,
        "learns": part.learn is not None,
    }


def _memory_looks(part: MemoryPart) -> dict[str, Any]:
    with plugin_boundary(f"memory {part.name!r}", "its construction"):
        memory = part.make()
    return {
        "own": part.own,
        "writes": part.make_with is not None,
        "recall_each": memory.recall_each,
        "isolated": bool(getattr(memory, "isolated", True)),
        "describes": hasattr(memory, "describe"),
    }
