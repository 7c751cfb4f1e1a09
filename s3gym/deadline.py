"""A plug-in's deadline, which stands still while a service is waited for.

A plug-in answers for its own time. How long a model call waits for its turn, for a rate or for a
service that is down is up to the limits, which have deadlines of their own.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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


@contextmanager
def deadline(seconds: float) -> Iterator[anyio.CancelScope]:
    """Cancel the body after its own time, in seconds; the scope says whether that happened."""
    with anyio.move_on_after(seconds) as scope:
        token = _running.set(Deadline(scope))
        try:
            yield scope
        finally:
            _running.reset(token)


@contextmanager
def service_time() -> Iterator[None]:
    """Stop the deadline that runs, if one does, while a service is waited for."""
    running = _running.get()
    if running is None:
        yield
        return
    running.stop()
    try:
        yield
    finally:
        running.go()
