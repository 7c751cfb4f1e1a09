"""Stopping a run kindly: what is under way is finished and kept, nothing new is begun."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from s3gym.errors import BudgetExhaustedError


class HaltedError(BudgetExhaustedError):
    """The user asked the run to stop; it stops resumably, as at the end of a budget."""


class CutOffError(HaltedError):
    """The user asked again; what was under way was cut off, and is played again on resume."""


class Halt:
    """The user's wish to stop.

    Attributes:
        asked: Whether it was uttered; may be set from a signal handler.
    """

    def __init__(self) -> None:
        self.asked = False


_halt: ContextVar[Halt | None] = ContextVar("s3gym_halt", default=None)


@contextmanager
def haltable() -> Iterator[Halt]:
    """Let the runs that are started inside be stopped by what is yielded."""
    halt = Halt()
    token = _halt.set(halt)
    try:
        yield halt
    finally:
        _halt.reset(token)


def check_halt() -> None:
    """Check, before a step or a model call is begun, that the run shall go on.

    Raises:
        HaltedError: The user asked it to stop.
    """
    halt = _halt.get()
    if halt is not None and halt.asked:
        raise HaltedError("stopped on request")
