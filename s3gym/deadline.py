"""A plug-in's deadline, which stands still while a service is waited for.

A plug-in answers for its own time. How long a model call waits for its turn, for a rate or for a
service that is down is up to the limits, which have deadlines of their own.
"""

import math
from contextvars import ContextVar
from types import TracebackType

import anyio


class Deadline:
    """A running deadline.

    Attributes:
        scope: Cancelled when the time is up.
    """

    def __init__(self, scope: anyio.CancelScope) -> None:
        self.scope = scope
        self._waits = 0
        self._left = math.inf

    def stop(self) -> None:
        """Stop the clock; every stop needs a ``go``."""
        if not self._waits:
            self._left = self.scope.deadline - anyio.current_time()
            self.scope.deadline = math.inf
        self._waits += 1

    def go(self) -> None:
        """Let the clock run on, once every stop has its ``go``."""
        self._waits -= 1
        if not self._waits:
            self.scope.deadline = anyio.current_time() + self._left


_running: ContextVar[Deadline | None] = ContextVar("s3gym_deadline", default=None)


class deadline:  # a class, though used as a function: one is made for each step
    """Cancel the body after its own time, in seconds; the scope says whether that happened."""

    __slots__ = ("_scope", "_token")

    def __init__(self, seconds: float) -> None:
        self._scope = anyio.move_on_after(seconds)

    def __enter__(self) -> anyio.CancelScope:
        scope = self._scope.__enter__()
        self._token = _running.set(Deadline(scope))
        return scope

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        _running.reset(self._token)
        return self._scope.__exit__(kind, error, traceback)


class service_time:  # likewise
    """Stop the deadline that runs, if one does, while a service is waited for."""

    __slots__ = ("_running",)

    def __enter__(self) -> None:
        self._running = _running.get()
        if self._running is not None:
            self._running.stop()

    def __exit__(self, *raised: object) -> None:
        if self._running is not None:
            self._running.go()
