"""Agents and memories of a sealed run: named here, loaded in the child and nowhere else.

This process never imports what it seals, because importing is running.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from s3gym.agents.answers import AnswerScore, JsonContract
from s3gym.agents.model import ModelAgent
from s3gym.catalog import OWN
from s3gym.contracts.chat import ChatModel
from s3gym.contracts.memory import RecallEach
from s3gym.errors import ConfigError, ProtocolBreachError
from s3gym.parts import AgentPart, MemoryPart, part_name
from s3gym.plans import StudyPlan
from s3gym.proxy.server import keyless
from s3gym.sealed.process import SealedProcess, probe
from s3gym.sealed.proxies import DescribedMemory, SealedAgent, SealedForkable, SealedMemory
from s3gym.sealed.seal import Seal, private_files
from s3gym.store.store import Store
from s3gym.text import shorten
from s3gym.wire import WireError, decode

T = TypeVar("T")
PERSON = "human"
CONTRACTS = {AnswerScore: "line", JsonContract: "json"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedAgentPart(AgentPart):
    """An agent that only the child loads.

    Attributes:
        reference: What the child loads.
        model: The chat model as the agent uses it, held here.
    """

    reference: Mapping[str, Any]
    model: ChatModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedMemoryPart(MemoryPart):
    """A memory that only the child loads; the fields after ``reference`` say how it looks."""

    reference: Mapping[str, Any]
    recall_each: RecallEach
    describes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLooks:
    """What a study needs to know of an agent beforehand; see ``AgentPart``."""

    stateless: bool
    serial: bool
    isolated: bool
    forkable: bool
    learns: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryLooks:
    """What a study needs to know of a memory beforehand; see ``MemoryPart``."""

    own: bool
    writes: bool
    recall_each: RecallEach
    isolated: bool
    describes: bool


def sealed_parts(
    seal: Seal, agents: Sequence[object], memories: Sequence[object]
) -> tuple[list[AgentPart], list[MemoryPart]]:
    """Return agents and memories as a child process says that they are.

    Raises:
        ConfigError: One cannot be loaded there, or was given as an object that has no name.
    """
    found = [_reference("agent", agent) for agent in agents]
    kept = [_reference("memory", memory) for memory in memories]
    looks = probe(seal, {"do": "looks", "agents": found, "memories": kept})
    try:
        agent_looks = _listed(looks, "agents", AgentLooks, len(found))
        memory_looks = _listed(looks, "memories", MemoryLooks, len(kept))
    except WireError as error:
        raise ConfigError(f"the sealed process does not say what it loaded: {error}") from error
    return (
        [
            _agent_part(agent, reference, seen)
            for agent, reference, seen in zip(agents, found, agent_looks, strict=True)
        ],
        [_memory_part(reference, seen) for reference, seen in zip(kept, memory_looks, strict=True)],
    )


def _listed(looks: object, name: str, kind: type[T], count: int) -> list[T]:
    """Return what a child says of its parts; its word is foreign."""
    found = looks.get(name) if isinstance(looks, dict) else None
    if not isinstance(found, list) or len(found) != count:
        raise WireError(f"expected a list of {count} {name}, got {shorten(found)}")
    return [decode(kind, one) for one in found]


def _reference(kind: str, part: object) -> dict[str, Any]:
    """Return what the child needs to load a part, without importing it here."""
    if kind == "agent" and part == PERSON:
        raise ConfigError(f"agent {PERSON!r}: a sealed process has no terminal to ask a person at")
    if isinstance(part, str):
        module, colon, attribute = part.partition(":")
        name = attribute.replace(".", "-") if colon and module else part
        return {"where": part, "name": name}
    if isinstance(part, AgentPart) and part.chat is not None:
        return _model_reference(part)
    if isinstance(part, AgentPart | MemoryPart) and part.origin not in ("", "python"):
        return {"where": part.origin, "name": part.name}
    home = getattr(part, "__module__", None)
    qualified = getattr(part, "__qualname__", None)
    if not home or not qualified or home == "__main__" or "<" in qualified:
        raise ConfigError(
            f"a sealed {kind} is loaded in a process of its own, so it must have a name there: "
            f"give it as 'module:attribute', not as {shorten(part)}"
        )
    return {"where": f"{home}:{qualified}", "name": part_name(part)}


def _model_reference(part: AgentPart) -> dict[str, Any]:
    agent = part.make()
    if type(agent) is not ModelAgent or type(agent.contract) not in CONTRACTS:
        raise ConfigError(
            f"agent {part.name!r}: a sealed agent that plays with a chat model is a ModelAgent "
            f"with a contract of ours; give another one as 'module:attribute'"
        )
    return {
        "where": part.origin,
        "name": part.name,
        "chat": agent.model.name,
        "endpoint": str(getattr(agent.model, "endpoint", "")),
        "layout": agent.layout,
        "contract": CONTRACTS[type(agent.contract)],
        "reask": agent.reask,
    }


def _agent_part(agent: object, reference: Mapping[str, Any], looks: AgentLooks) -> SealedAgentPart:
    held = agent.make() if isinstance(agent, AgentPart) and agent.chat is not None else None
    return SealedAgentPart(
        name=reference["name"],
        make=_unsealed,
        stateless=looks.stateless,
        serial=looks.serial,
        forkable=_NotYet() if looks.forkable else None,
        learn=_NotYet().learn if looks.learns else None,
        isolated=looks.isolated,
        origin=_origin(reference),
        chat=agent.chat if isinstance(agent, AgentPart) else None,
        reference=reference,
        model=held.model if isinstance(held, ModelAgent) else None,
    )


def _memory_part(reference: Mapping[str, Any], looks: MemoryLooks) -> SealedMemoryPart:
    return SealedMemoryPart(
        name=reference["name"],
        make=_unsealed,
        own=reference["where"] == OWN,
        origin=_origin(reference),
        make_with=_unsealed if looks.writes else None,
        reference=reference,
        recall_each=looks.recall_each,
        isolated=looks.isolated,
        describes=looks.describes,
    )


def _origin(reference: Mapping[str, Any]) -> str:
    where: str = reference["where"]
    return where if ":" in where else ""


class _NotYet:
    """Stands for the child's forkable agent until a study has its child."""

    async def fork(self) -> NoReturn:
        """Refuse."""
        _unsealed()

    async def learn(self, episode: object) -> None:
        """Refuse."""
        _unsealed()


def _unsealed(*arguments: object) -> NoReturn:
    raise ProtocolBreachError("a sealed part was used before its study had a child process")


def reached(seal: Seal, url: str) -> Seal:
    """Return a seal whose child calls its models through a proxy, and has no key of its own."""
    return replace(seal, variables={**seal.variables, **keyless(url)})


def sealed_store(seal: Seal, path: Path) -> Store:
    """Return a new store that its owner alone may read.

    Raises:
        ConfigError: The sealed user could read or replace it.
        StoreError: It exists or cannot be written.
    """
    seal.guard(path)
    with private_files():
        return Store.create(path)


def sealed_plan(seal: Seal, plan: StudyPlan) -> StudyPlan:
    """Return a study's plan with proxies of a child process of its own; nothing is started."""
    agent, memory = plan.agent, plan.memory
    if not isinstance(agent, SealedAgentPart) or not isinstance(memory, SealedMemoryPart):
        raise ProtocolBreachError("a sealed study with a part that was loaded here")
    chats = {chat.name: chat for chat in (agent.model, memory.chat) if chat is not None}
    chat = None if memory.chat is None else memory.chat.name
    process = SealedProcess(
        seal,
        {"agent": agent.reference, "memory": {**memory.reference, "chat": chat}},
        chats,
    )
    label, memory_label = f"agent {agent.name!r}", f"memory {memory.name!r}"
    owner = SealedForkable(process, label)
    kind = DescribedMemory if memory.describes else SealedMemory
    return replace(
        plan,
        agent=replace(
            agent,
            make=lambda: SealedAgent(process, label),
            forkable=None if agent.forkable is None else owner,
            learn=None if agent.learn is None else owner.learn,
            claims=[],  # a process of its own serves one study alone
        ),
        memory=replace(
            memory,
            make=lambda: kind(process, memory_label, memory.recall_each, isolated=memory.isolated),
        ),
        settings=json.dumps(json.loads(plan.settings) | seal.settings, sort_keys=True),
    )
