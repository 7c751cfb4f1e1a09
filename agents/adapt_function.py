"""Adapter of functions: of a turn or of a prompt, async or plain (run in a worker thread)."""

import inspect
from collections.abc import Callable
from typing import Any

import anyio.to_thread

from s3gym.agents.adapted import Said, decision_of
from s3gym.contracts.agent import Answer
from s3gym.errors import ConfigError
from s3gym.records import Layout, Turn
from s3gym.text import shorten


class FunctionApp:
    """Plays with a function.

    Args:
        function: Takes a ``Turn``; or the whole prompt, where its argument is annotated ``str``.
        name: For ids and reports.
        layout: Order of the prompt.
        isolated: False when it keeps something between its calls.

    Raises:
        ConfigError: It does not take one argument.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        name: str | None = None,
        layout: Layout = "paper",
        isolated: bool = True,
    ) -> None:
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self.isolated = self.stateless = isolated
        self._function, self._layout = function, layout
        self._takes_text = takes_text(function)
        self._waits = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            type(function).__call__
        )

    async def act(self, turn: Turn) -> Answer:
        given: object = turn
        if self._takes_text:
            given = "\n\n".join(message.content for message in turn.messages(self._layout))
        if self._waits:
            answer = await self._function(given)
        else:
            answer = await _in_thread(self._function, given)
            answer = await answer if inspect.isawaitable(answer) else answer
        if isinstance(answer, (str, tuple)):
            return answer
        return decision_of(Said(output=answer))


async def _in_thread(function: Callable[..., Any], given: object) -> Any:
    # In a list: trio refuses a call in a thread that gives back something to await.
    (answer,) = await anyio.to_thread.run_sync(lambda: [function(given)], abandon_on_cancel=True)
    return answer


def takes_text(function: Callable[..., Any]) -> bool:
    """Return whether a function takes a prompt rather than a turn.

    Raises:
        ConfigError: It does not take one argument.
    """
    try:
        given = inspect.signature(function)
        given.bind(object())
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{shorten(function)}: expected a function of one argument, a Turn or a prompt: {error}"
        ) from error
    return next(iter(given.parameters.values())).annotation in (str, "str")


def prompted(function: Callable[..., Any]) -> bool:
    """Return whether the first argument of a function is annotated ``str``."""
    parameters = list(inspect.signature(function).parameters.values())
    return bool(parameters) and parameters[0].annotation in (str, "str")
