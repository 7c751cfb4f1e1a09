"""From a name to a game, an agent or a memory: the built-in tables, entry points, or the user's.

A name is looked up in the folder's table, then among installed entry points
(``s3gym.games``, ``s3gym.agents``, ``s3gym.memories``), then read as ``module:attribute``.
Nothing that is named in a store is ever imported from here without the user naming it again.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import PurePath
from typing import Any, cast

from s3gym.agents import AGENTS, TRAINERS
from s3gym.agents.adapt import as_agent, is_app
from s3gym.agents.answers import AnswerScore, Contract, JsonContract
from s3gym.agents.chat_names import CHAT_FORMS, CHAT_PREFIXES, chat_model, is_chat_name
from s3gym.agents.model import ModelAgent
from s3gym.agents.pictures import PICTURES
from s3gym.contracts.chat import ChatModel
from s3gym.contracts.game import GameSpec
from s3gym.contracts.memory import CallRenderer, Memory
from s3gym.errors import ConfigError, UnknownNameError
from s3gym.games import GAMES
from s3gym.memory import MEMORIES, PROMPTS
from s3gym.parts import (
    AgentPart,
    MemoryPart,
    Teaching,
    Teachings,
    agent_part,
    memory_part,
    part_name,
)
from s3gym.records import LAYOUTS, Layout
from s3gym.sft.build import Prompt
from s3gym.text import shorten

NAME = re.compile(r"[\w.-]{1,100}")
OWN = "own"
"""Name of the memory that stands for the agent's own."""
TRAINING = "training"
"""Name that stands among memories for the training pathway: nothing is recalled."""
SPELLED: Mapping[str, Sequence[str]] = {"agent": CHAT_FORMS, "memory": (OWN, TRAINING)}
"""What may be given besides the names in a table, by kind."""
CONTRACTS: Mapping[type[Contract], str] = {AnswerScore: "line", JsonContract: "json"}


def load(where: str, kind: str) -> Any:
    """Return what ``module:attribute`` names.

    Raises:
        ConfigError: The module or the attribute is not there, or fails to import.
    """
    module_name, _, attribute = where.partition(":")
    absent = f"{kind} {where!r}: there is no module {module_name!r}"
    if "/" in module_name:
        raise ConfigError(absent + _meant(where, kind))
    try:
        found: Any = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise ConfigError(absent + _meant(where, kind)) from error
        raise ConfigError(f"{kind} {where!r}: {error}") from error
    except ConfigError:
        raise
    except Exception as error:  # the user's module may raise anything
        raise ConfigError(
            f"{kind} {where!r}: importing {module_name!r} raised {type(error).__name__}: "
            f"{shorten(str(error), 300)}"
        ) from error
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            raise ConfigError(
                f"{kind} {where!r}: the module {module_name!r} has no attribute {attribute!r}"
            ) from None
    return found


def _meant(where: str, kind: str) -> str:
    """Return a hint for a name whose module is not there: a chat model, or a path."""
    module_name, _, attribute = where.partition(":")
    near = get_close_matches(module_name.casefold(), CHAT_PREFIXES, n=1) if kind == "agent" else []
    if near:
        return f"; did you mean '{near[0]}:{attribute}'?"
    path = PurePath(module_name)
    if path.suffix == ".py" or len(path.parts) > 1:
        elsewhere = path.is_absolute() or ".." in path.parts
        dotted = path.stem if elsewhere else ".".join(path.with_suffix("").parts)
        return f"; name it as in an import: '{dotted}:{attribute}'"
    return ""


def names(kind: str) -> list[str]:
    """Return the known names of a kind (``game``, ``agent``, ...), sorted."""
    table, group = _tables()[kind]
    return sorted({*table, *(point.name for point in entry_points(group=group))})


def _tables() -> dict[str, tuple[Mapping[str, str], str]]:
    return {
        "game": (GAMES, "s3gym.games"),
        "agent": (AGENTS, "s3gym.agents"),
        "memory": (MEMORIES, "s3gym.memories"),
        "trainer": (TRAINERS, "s3gym.trainers"),
    }


def _find(kind: str, name: str) -> tuple[Any, str, str]:
    """Return (object, label, origin); the origin is empty for what is built in or installed."""
    table, group = _tables()[kind]
    if name in table:
        return load(table[name], kind), name, ""
    for point in entry_points(group=group):
        if point.name == name:
            return load(point.value, kind), name, ""
    if ":" in name and all(name.partition(":")[::2]):
        return load(name, kind), name.partition(":")[2].replace(".", "-"), name
    raise UnknownNameError(kind, name, [*names(kind), *SPELLED.get(kind, ())])


def find_game(game: str | GameSpec) -> GameSpec:
    """Return a game by name, or the game itself.

    Raises:
        UnknownNameError: No game has that name.
        ConfigError: What the name leads to is no game.
    """
    found, label = (game, "")
    if isinstance(game, str):
        found, label, _ = _find("game", game)
    if isinstance(found, type):
        raise ConfigError(
            f"game {label or shorten(found.__name__)}: expected a GameSpec, got a class; give an "
            f"instance of it"
        )
    needed = ("name", "version", "options", "anchors", "instruction", "rules", "setup")
    missing = [attribute for attribute in needed if not hasattr(found, attribute)]
    if missing:
        raise ConfigError(
            f"game {label or shorten(game)}: expected a GameSpec, but it has no "
            f"{', '.join(missing)}"
        )
    spec = cast(GameSpec, found)
    if not isinstance(spec.name, str) or not NAME.fullmatch(spec.name):
        raise ConfigError(
            f"game {label or shorten(game)}: expected a name of at most 100 letters, digits and "
            f"'_', '-' or '.', got {shorten(spec.name)}"
        )
    if not isinstance(spec.version, int):
        raise ConfigError(
            f"game {spec.name!r}: expected a whole number as version, got {shorten(spec.version)}"
        )
    return spec


def pictures(games: Iterable[str]) -> dict[str, Callable[[str], str]]:
    """Return the functions that draw the observations of games, where there are any."""
    return {game: load(PICTURES[game], "picture") for game in games if game in PICTURES}


def memory_prompts() -> dict[str, CallRenderer]:
    """Return the functions that make the prompts of built-in memories again, by layout."""
    return {layout: load(where, "prompt") for layout, where in sorted(PROMPTS.items())}


def find_agent(agent: object, name: str | None = None) -> AgentPart:
    """Return an agent by name, or whatever ``agent_part`` accepts, in one form."""
    if isinstance(agent, AgentPart):
        return agent
    if isinstance(agent, ModelAgent):
        return _with_model(agent_part(agent, name, origin="python"), agent)
    if not isinstance(agent, str):
        return agent_part(_adapted(agent), name, origin="python")
    if is_chat_name(agent):
        return model_part(chat_model(agent), origin=agent, name=name)
    found, label, origin = _find("agent", agent)
    if isinstance(found, ModelAgent):
        return _with_model(agent_part(found, name or label, origin), found)
    return agent_part(_adapted(found), name or label, origin)


def _adapted(agent: object) -> object:
    return as_agent(agent) if is_app(agent) else agent


def model_part(
    chat: ChatModel,
    *,
    origin: str,
    name: str | None = None,
    layout: Layout = "paper",
    contract: Contract | None = None,
    reask: int = 0,
) -> AgentPart:
    """Return the agent that plays with a chat model."""
    agent = ModelAgent(chat, contract, layout, reask)
    return _with_model(agent_part(agent, name or part_name(chat), origin), agent)


def _with_model(part: AgentPart, agent: ModelAgent) -> AgentPart:
    """Return the part of an agent that plays with a chat model."""
    contract = CONTRACTS.get(type(agent.contract), "")
    known = type(agent) is ModelAgent and contract
    teaching = Teaching(
        name=f"{contract} {agent.layout}" if known else "",
        prompt=agent.prompt,
        form=agent.contract,
    )
    return replace(part, chat=agent.chat, with_chat=agent.with_chat, teaching=teaching)


def teachings() -> Teachings:
    """Return how examples of built-in agents are made again, by the name in a store."""
    return {
        f"{name} {layout}": Teaching(
            name=f"{name} {layout}", prompt=_prompt(contract(), layout), form=contract()
        )
        for contract, name in ((AnswerScore, "line"), (JsonContract, "json"))
        for layout in LAYOUTS
    }


def _prompt(contract: Contract, layout: Layout) -> Prompt:
    return lambda turn: contract.teach(turn.messages(layout))


def find_memory(memory: object, name: str | None = None) -> MemoryPart:
    """Return a memory by name, or whatever ``memory_part`` accepts, in one form."""
    if isinstance(memory, MemoryPart):
        return memory
    if memory == OWN:
        inner = find_memory("none")
        return MemoryPart(name=OWN, make=inner.make, own=True)
    if memory == TRAINING:
        return MemoryPart(name=TRAINING, make=find_memory("none").make, trains=True)
    if not isinstance(memory, str):
        return memory_part(memory, name, origin="python")
    found, label, origin = _find("memory", memory)
    part = memory_part(found, name or label, origin)
    if "chat" in inspect.signature(found).parameters:
        part = replace(part, make_with=lambda chat: cast(Memory, found(chat=chat)))
    return part


def find_trainer(name: str) -> tuple[Any, str]:
    """Return (class or factory of a trainer, origin); the origin is empty for what is built in.

    Raises:
        UnknownNameError: No trainer has that name.
    """
    found, _, origin = _find("trainer", name)
    if not callable(found):
        raise ConfigError(f"trainer {name!r}: expected a class or a factory, got {shorten(found)}")
    return found, origin
