"""Names the plug-in that blocks the event loop.

A thread looks whether the loop still beats. When it does not, the thread reads the stack of the
loop's thread, finds which seam is being crossed, says so in the log, and the seam fails that
study as soon as the plug-in gives the loop back.
"""

import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import FrameType

import anyio

log = logging.getLogger("s3gym")
BEATS_PER_LIMIT = 8
SEAMS = ("guarded", "called", "ruled")
"""Functions of ``s3gym.seams`` that call a plug-in, whose name is their ``label``."""


def crossed(frame: FrameType) -> str | None:
    """Return the label of the plug-in that a frame calls, or ``None`` when it calls none."""
    if frame.f_globals.get("__name__") != "s3gym.seams" or frame.f_code.co_name not in SEAMS:
        return None
    return str(frame.f_locals.get("label"))


class Watchdog:
    """Watches one event loop.

    Attributes:
        blocked: Labels of the plug-ins that blocked the loop and were not asked about yet.
    """

    def __init__(self, seconds: float, interrupt: Callable[[str], None] | None = None) -> None:
        self.blocked: set[str] = set()
        self._seconds = seconds
        self._interrupt = interrupt
        self._beat = time.monotonic()
        self._stop = threading.Event()
        self._loop_thread = threading.get_ident()

    async def beat(self) -> None:
        """Show that the loop runs, until cancelled."""
        while True:
            self._beat = time.monotonic()
            await anyio.sleep(self._seconds / BEATS_PER_LIMIT)

    def watch(self) -> None:
        """Look at the beat until stopped; runs in its own thread."""
        named: str | None = None
        while not self._stop.wait(self._seconds / BEATS_PER_LIMIT):
            silent = time.monotonic() - self._beat
            if silent < self._seconds:
                named = None
                continue
            label = self._who()
            if label is None:
                continue
            self.blocked.add(label)
            if named != label:
                log.error("%s blocks the event loop since %.1f s", label, silent)
                named = label
            if self._interrupt is not None:
                self._interrupt(label)

    def stop(self) -> None:
        """End the watching thread."""
        self._stop.set()

    def _who(self) -> str | None:
        frame: FrameType | None = sys._current_frames().get(self._loop_thread)
        while frame is not None:
            label = crossed(frame)
            if label is not None:
                # Not the one that came after: the loop has just not beaten again yet.
                entered = frame.f_locals.get("entered", 0.0)
                return label if time.monotonic() - entered >= self._seconds else None
            frame = frame.f_back
        return None


_watching: ContextVar[Watchdog | None] = ContextVar("s3gym_watchdog", default=None)


def is_watched() -> bool:
    """Return whether this is a task of a run, which nobody but the run and asyncio holds."""
    return _watching.get() is not None


def has_blocked(label: str) -> bool:
    """Return whether a plug-in blocked the running loop since it was last asked about."""
    watchdog = _watching.get()
    if watchdog is None or label not in watchdog.blocked:
        return False
    watchdog.blocked.discard(label)
    return True


@asynccontextmanager
async def watching(
    seconds: float, interrupt: Callable[[str], None] | None = None
) -> AsyncIterator[None]:
    """Watch the running loop while the body runs.

    Args:
        seconds: How long a plug-in may hold the loop.
        interrupt: Called from the watching thread with the label of a blocking plug-in.
    """
    watchdog = Watchdog(seconds, interrupt)
    token = _watching.set(watchdog)
    thread = threading.Thread(target=watchdog.watch, name="s3gym-watchdog", daemon=True)
    thread.start()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(watchdog.beat)
            yield
            group.cancel_scope.cancel()
    finally:
        _watching.reset(token)
        watchdog.stop()
        thread.join()
