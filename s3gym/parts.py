"""What a study is put together from, in one form whatever the user passed."""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from queue import Queue
from threading import Thread
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel

from s3gym.contracts.agent import ActFunction, Agent, Answer, Forkable
from s3gym.contracts.chat import ChatModel
from s3gym.contracts.memory import Memory
from s3gym.errors import ConfigError, PluginError
from s3gym.records import Episode, Turn
from s3gym.sft import AnswerFormat
from s3gym.sft.build import Prompt
from s3gym.text import shorten


class FunctionAgent:
    """An agent made of a function: an async one is awaited, a plain one runs in a thread.

    What a plain one gives to await, as a lambda or a decorator round an async one does, is awaited.
    """

    stateless = True

    def __init__(self, function: Callable[[Turn], Any]) -> None:
        self._function = function
        self._waits = is_async(function)

    async def act(self, turn: Turn) -> Answer:
        """Return what the function answers."""
        if self._waits:
            return await cast(ActFunction, self._function)(turn)
        answer = await _in_thread(self._function, turn)
        return cast(Answer, await answer if inspect.isawaitable(answer) else answer)


async def _in_thread(function: Callable[[Turn], Any], turn: Turn) -> Any:
    """Call a function in a thread that is left behind when its deadline passes.

    A daemon, unlike anyio's own workers: a function that never returns must hold up neither the
    run nor the end of the process.
    """
    done = anyio.Event()
    loop = anyio.lowlevel.current_token()
    context = copy_context()
    answers: Queue[Any] = Queue()
    errors: Queue[BaseException] = Queue()

    def work() -> None:
        try:
            answers.put(context.run(function, turn))
        except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
            errors.put(error)
        with suppress(RuntimeError):  # the loop is gone: nobody waits any more
            anyio.from_thread.run_sync(done.set, token=loop)

    Thread(target=work, name="s3gym-function", daemon=True).start()
    await done.wait()
    if not errors.empty():
        raise errors.get()
    return answers.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class Teaching:
    """How training examples are made of an agent's own turns.

    Attributes:
        name: Names prompt and form for the store, so that an audit can make the examples again;
            empty where only the agent itself can.
        prompt: The agent's own way to make the messages of a turn.
        form: The response contract that these messages teach.
    """

    name: str
    prompt: Prompt
    form: AnswerFormat


Teachings = Mapping[str, Teaching]
"""From the name that stands in a store to how these examples are made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPart:
    """An agent with its name.

    Attributes:
        make: Makes the agent of one episode, or returns the one that serves all.
        stateless: Every decision depends on its turn alone.
        serial: Plays one episode at a time.
        forkable: The agent that owns its memory, if one instance was given.
        makes_forkable: Whether ``make`` makes agents that own their memory; ``None`` when only
            making one can tell.
        learn: How an agent takes in an episode that owns its memory and cannot be forked.
        isolated: False when what it learns in one episode may reach another behind our back.
        shared: One instance serves all episodes.
        origin: Where it was loaded from, when it is not built in.
        chat: The chat model that it plays with; memories that write use it too.
        outside: It is another program, which plays over MCP.
        with_chat: Makes the same agent play with another chat model; what a training study needs.
        teaching: How training examples are made of its turns.
        knows: Names of the games that it can play; ``None`` where that is every game.
    """

    name: str
    make: Callable[[], Agent]
    stateless: bool = False
    serial: bool = False
    forkable: Forkable | None = None
    makes_forkable: bool | None = False
    learn: Callable[[Episode], Awaitable[None]] | None = None
    isolated: bool = True
    shared: bool = False
    origin: str = ""
    chat: ChatModel | None = None
    outside: bool = False
    with_chat: Callable[[ChatModel], Agent] | None = None
    teaching: Teaching | None = None
    knows: frozenset[str] | None = None
    claims: list[str] = field(default_factory=list, compare=False, repr=False)

    def claim(self, study: str) -> None:
        """Take the one instance for a study, because its forks cannot stand in for it.

        Raises:
            PluginError: Another study has it.
        """
        if self.claims and self.claims != [study]:
            raise PluginError(
                f"agent {self.name!r}: one instance with a memory of its own cannot serve several "
                f"studies, because its forks cannot fork and learn; pass a class or a factory"
            )
        self.claims[:] = [study]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A memory with its name; ``make`` returns a new, empty one.

    Attributes:
        own: True for the agent's own memory, in place of ours.
        trains: True for the training pathway: experience goes into weights, nothing is recalled.
        isolated: False when a frozen view of it may change behind our back.
        make_with: Makes one that writes with a chat model, for memories that can.
        chat: The chat model that it writes with.
    """

    name: str
    make: Callable[[], Memory]
    own: bool = False
    trains: bool = False
    isolated: bool = True
    origin: str = ""
    make_with: Callable[[ChatModel], Memory] | None = None
    chat: ChatModel | None = None

    def written_by(self, chat: ChatModel | None) -> "MemoryPart":
        """Return the memory as a chat model writes it, if there is one and it can."""
        if chat is None or self.make_with is None:
            return self
        make_with = self.make_with
        return replace(self, make=lambda: make_with(chat), chat=chat)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether calling it gives something to await."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004 - looks at how it is written
    )


def required_arguments(function: Callable[..., Any]) -> int:
    """Return how many arguments must be given; raises ``ConfigError`` when none can tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{shorten(function)}: its arguments cannot be read ({error})") from error
    return sum(
        parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        for parameter in parameters
    )


def agent_part(agent: object, name: str | None = None, origin: str = "") -> AgentPart:
    """Return the agent in one form.

    Args:
        agent: An agent class, a factory, an instance with ``act``, one with ``fork`` and
            ``learn``, or a function of a turn (async, or plain and run in a thread).
        name: Name in ids and reports; by default the class's or function's own.
        origin: Where it was loaded from.

    Raises:
        ConfigError: It is none of these.
    """
    label = name or part_name(agent)
    if not isinstance(agent, type) and (hasattr(agent, "act") or owns_memory(agent)):
        return _instance_part(agent, label, origin)
    if not callable(agent):
        raise ConfigError(
            f"agent {label!r}: expected a class, a factory, an instance with act() or a function "
            f"of a turn, got {shorten(agent)}"
        )
    if not isinstance(agent, type) and required_arguments(agent) == 1:
        function = FunctionAgent(agent)
        return AgentPart(
            name=label, make=lambda: function, stateless=True, shared=True, origin=origin
        )
    if required_arguments(agent):
        raise ConfigError(
            f"agent {label!r}: a class or factory is called without arguments, but this one "
            f"needs {required_arguments(agent)}; pass a lambda that gives them"
        )
    factory = cast(Callable[[], Agent], agent)
    return AgentPart(
        name=label,
        make=factory,
        makes_forkable=owns_memory(agent) if isinstance(agent, type) else None,
        isolated=bool(getattr(agent, "isolated", True)),
        stateless=bool(getattr(agent, "stateless", False)),
        serial=bool(getattr(agent, "serial", False)),
        origin=origin,
        knows=_known_games(agent, label),
    )


def _known_games(agent: object, label: str) -> frozenset[str] | None:
    names = getattr(agent, "knows", None)
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Collection):
        raise ConfigError(
            f"agent {label!r}: expected a set of names of games as knows, got {shorten(names)}"
        )
    return frozenset(names)


def owns_memory(agent: object) -> bool:
    """Return whether an agent, or a class of agents, can be forked and can learn."""
    return hasattr(agent, "fork") and hasattr(agent, "learn")


def _instance_part(agent: object, label: str, origin: str) -> AgentPart:
    instance = cast(Any, agent)
    serial = bool(getattr(agent, "serial", False))
    isolated = bool(getattr(agent, "isolated", True))
    if owns_memory(agent):
        return AgentPart(
            name=label,
            make=lambda: cast(Agent, instance),
            serial=serial,
            forkable=cast(Forkable, agent),
            isolated=isolated,
            origin=origin,
            knows=_known_games(agent, label),
        )
    learns = hasattr(agent, "learn")  # and cannot be forked: every episode is played by itself
    return AgentPart(
        name=label,
        make=lambda: cast(Agent, instance),
        stateless=bool(getattr(agent, "stateless", not learns)),
        shared=True,
        serial=serial or learns,
        learn=instance.learn if learns else None,
        isolated=isolated and not learns,
        origin=origin,
        knows=_known_games(agent, label),
    )


def memory_part(memory: object, name: str | None = None, origin: str = "") -> MemoryPart:
    """Return the memory in one form.

    Args:
        memory: A class or factory; each call makes a new, empty memory.
        name: Name in ids and reports; by default the class's or function's own.
        origin: Where it was loaded from.

    Raises:
        ConfigError: It is an instance, or needs arguments.
    """
    label = name or part_name(memory)
    if not callable(memory):
        raise ConfigError(
            f"memory {label!r}: expected a class or a factory, because every study starts with an "
            f"empty one; got {shorten(memory)}"
        )
    if needed := required_arguments(memory):
        raise ConfigError(
            f"memory {label!r}: a class or factory is called without arguments, but this one "
            f"needs {needed}; pass a lambda that gives them"
        )
    return MemoryPart(
        name=label,
        make=cast(Callable[[], Memory], memory),
        isolated=bool(getattr(memory, "isolated", True)),
        origin=origin,
    )


def part_name(part: object) -> str:
    """Return a name for ids: lower-case letters, digits, ``_``, ``-`` and ``.`` only."""
    raw = getattr(part, "name", None) or getattr(part, "__name__", None) or type(part).__name__
    return fit_for_ids(str(raw))


def fit_for_ids(name: str) -> str:
    """Return a name with ``-`` for every character that ids do not have."""
    text = "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in name)
    return text.strip("-") or "unnamed"
