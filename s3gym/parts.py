"""What a study is put together from, in one form whatever the user passed."""

import inspect
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, replace
from queue import Queue
from threading import Thread
from typing import Any, cast

import anyio
import anyio.from_thread
import anyio.lowlevel

from s3gym.contracts.agent import ActFunction, Agent, Answer, Forkable
from s3gym.contracts.chat import ChatModel
from s3gym.contracts.memory import Memory
from s3gym.errors import ConfigError
from s3gym.records import Turn
from s3gym.text import shorten


class FunctionAgent:
    """An agent made of a function: an async one is awaited, a plain one runs in a thread."""

    stateless = True

    def __init__(self, function: Callable[[Turn], Any]) -> None:
        self._function = function
        self._waits = is_async(function)

    async def act(self, turn: Turn) -> Answer:
        """Return what the function answers."""
        if self._waits:
            return await cast(ActFunction, self._function)(turn)
        return cast(Answer, await _in_thread(self._function, turn))


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
class AgentPart:
    """An agent with its name.

    Attributes:
        make: Makes the agent of one episode, or returns the one that serves all.
        stateless: Every decision depends on its turn alone.
        serial: Plays one episode at a time.
        forkable: The agent that owns its memory, if it does.
        shared: One instance serves all episodes.
        origin: Where it was loaded from, when it is not built in.
        chat: The chat model that it plays with; memories that write use it too.
    """

    name: str
    make: Callable[[], Agent]
    stateless: bool = False
    serial: bool = False
    forkable: Forkable | None = None
    shared: bool = False
    origin: str = ""
    chat: ChatModel | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPart:
    """A memory with its name; ``make`` returns a new, empty one.

    Attributes:
        own: True for the agent's own memory, in place of ours.
        make_with: Makes one that writes with a chat model, for memories that can.
        chat: The chat model that it writes with.
    """

    name: str
    make: Callable[[], Memory]
    own: bool = False
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
    if not isinstance(agent, type):
        if hasattr(agent, "fork") and hasattr(agent, "learn"):
            forkable = cast(Forkable, agent)
            return AgentPart(
                name=label,
                make=lambda: cast(Agent, agent),
                serial=bool(getattr(agent, "serial", False)),
                forkable=forkable,
                origin=origin,
            )
        if hasattr(agent, "act"):
            instance = cast(Agent, agent)
            return AgentPart(
                name=label,
                make=lambda: instance,
                stateless=bool(getattr(agent, "stateless", True)),
                shared=True,
                serial=bool(getattr(agent, "serial", False)),
                origin=origin,
            )
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
        stateless=bool(getattr(agent, "stateless", False)),
        serial=bool(getattr(agent, "serial", False)),
        origin=origin,
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
    return MemoryPart(name=label, make=cast(Callable[[], Memory], memory), origin=origin)


def part_name(part: object) -> str:
    """Return a name for ids: lower-case letters, digits, ``_``, ``-`` and ``.`` only."""
    raw = getattr(part, "name", None) or getattr(part, "__name__", None) or type(part).__name__
    text = "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in str(raw))
    return text.strip("-") or "unnamed"
