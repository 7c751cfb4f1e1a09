"""Breaking off a plug-in that never gives the event loop back.

Only the command line does this, because it owns the process's signals: the watching thread
sends a signal to the main thread, whose handler raises inside the plug-in.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from s3gym.errors import BlockedError
from s3gym.watchdog import crossed

SIGNAL = signal.SIGUSR1


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
