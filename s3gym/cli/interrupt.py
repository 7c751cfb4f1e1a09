"""What the command line does with signals, because it owns the process's.

A plug-in that never gives the event loop back is broken off: the watching thread sends a signal
to the main thread, whose handler raises inside the plug-in. The first Ctrl-C stops a run kindly,
the second one cancels it.
"""

import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import NoReturn, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

from s3gym.errors import BlockedError
from s3gym.halt import CutOffError, Halt, HaltedError, haltable
from s3gym.watchdog import crossed

T = TypeVar("T")

SIGNAL = signal.SIGUSR1
STOPPING = (
    b"s3gym: stopping: calls and updates under way are finished and kept; Ctrl-C again cuts them\n"
)


@contextmanager
def interrupting() -> Iterator[Callable[[str], None]]:
    """Give a function that breaks off what the main thread does, by the label of its plug-in."""
    labels: list[str] = []
    main = threading.main_thread().ident

    def raise_in_plug_in(number: int, frame: FrameType | None) -> None:
        while frame is not None:
            if crossed(frame) is not None:
                raise BlockedError(f"{labels[-1]} blocked the event loop and was broken off")
            frame = frame.f_back

    def interrupt(label: str) -> None:
        labels.append(label)
        if main is not None:
            signal.pthread_kill(main, SIGNAL)

    before = signal.signal(SIGNAL, raise_in_plug_in)
    try:
        yield interrupt
    finally:
        signal.signal(SIGNAL, before)


class Stopping:
    """What Ctrl-C does to a run: the first lets it stop between two calls, the second cancels it.

    Only a third raises ``KeyboardInterrupt``, for a loop that no cancellation reaches: it comes
    into whatever that is at and makes other errors there.

    Attributes:
        broken: Whether that was done; what the run raises then says nothing.
    """

    def __init__(self, halt: Halt) -> None:
        self.broken = False
        self._halt = halt
        self._cancel: Callable[[], None] | None = None

    async def run(self, start: Callable[[], Awaitable[T]]) -> T:
        """Await a run.

        Raises:
            CutOffError: It was cancelled by the second Ctrl-C.
        """
        with anyio.CancelScope() as scope:
            loop = anyio.lowlevel.current_token()
            self._cancel = partial(anyio.from_thread.run_sync, scope.cancel, token=loop)
            try:
                return await start()
            except HaltedError:
                if not scope.cancel_called:
                    raise
            finally:
                self._cancel = None
        raise CutOffError("cut off on request")

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Handle the first signal."""
        self._halt.asked = True
        signal.signal(signal.SIGINT, self.cut)
        os.write(2, STOPPING)  # a print could be what the signal came into

    def cut(self, number: int, frame: FrameType | None) -> None:
        """Handle the second signal."""
        if self._cancel is None:
            self.break_off(number, frame)
        signal.signal(signal.SIGINT, self.break_off)
        # A thread of its own: here, in the midst of the loop's work, nobody may wait for the loop.
        threading.Thread(target=_unless_ended, args=(self._cancel,), daemon=True).start()

    def break_off(self, number: int, frame: FrameType | None) -> NoReturn:
        """Handle the third signal."""
        self.broken = True
        logging.getLogger("asyncio").disabled = True  # it would show what each task raised
        raise KeyboardInterrupt


def _unless_ended(cancel: Callable[[], None]) -> None:
    with suppress(anyio.RunFinishedError):
        cancel()


@contextmanager
def kindly_stopped() -> Iterator[Stopping]:
    """Handle Ctrl-C in the body by what is yielded."""
    with haltable() as halt:
        stopping = Stopping(halt)
        before = signal.signal(signal.SIGINT, stopping.ask)
        try:
            yield stopping
        finally:
            signal.signal(signal.SIGINT, before)
