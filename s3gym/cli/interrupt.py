"""What the command line does with signals, because it owns the process's.

A plug-in that never gives the event loop back is broken off: the watching thread sends a signal
to the main thread, whose handler raises inside the plug-in. The first Ctrl-C stops a run kindly,
the second one at once.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from s3gym.errors import BlockedError
from s3gym.halt import haltable
from s3gym.watchdog import crossed

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


@contextmanager
def kindly_stopped() -> Iterator[None]:
    """Let the first Ctrl-C stop the runs inside between two calls, and the second one at once."""
    with haltable() as halt:

        def ask(number: int, frame: FrameType | None) -> None:
            halt.asked = True
            signal.signal(signal.SIGINT, signal.default_int_handler)
            os.write(2, STOPPING)  # a print could be what the signal came into

        before = signal.signal(signal.SIGINT, ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
