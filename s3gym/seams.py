"""Where foreign code is called: the only broad handlers of s3gym.

A plug-in that raises, hangs or returns nonsense fails its own study with one clear
``PluginError``; the traceback goes to the log. What a game or verifier raises is reported by type
alone, because its message could hold what the agent must not see.
"""

import inspect
import logging
import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from numbers import Real
from typing import Any, TypeVar

import anyio

from s3gym.deadline import deadline
from s3gym.errors import (
    BlockedError,
    BudgetExhaustedError,
    InvalidActionError,
    PluginError,
    ProtocolBreachError,
    S3GymError,
    ServiceError,
    StoreError,
    first_of,
)
from s3gym.text import shorten
from s3gym.watchdog import has_blocked, is_watched

T = TypeVar("T")
log = logging.getLogger("s3gym")
CLOSE_SECONDS = 5.0
LATE_SECONDS = 1.0
"""How late an answer may come, in seconds: no scope stops a plug-in that never waits, and the
machine may have been busy with something else."""
OURS = (ServiceError, BudgetExhaustedError, StoreError, ProtocolBreachError, PluginError)


async def guarded(label: str, what: str, call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await a plug-in within its deadline, which leaves out the time of its model calls.

    Args:
        label: Names the plug-in, for example ``agent 'mine'``.
        what: What it was asked to do.
        call: Makes the awaitable; what it raises at once counts too.
        seconds: Deadline.

    Raises:
        PluginError: It raised, missed its deadline or blocked the event loop.
        ServiceError: The outside world failed it.
    """
    entered = time.monotonic()  # noqa: F841 - read by the watchdog
    try:
        with deadline(seconds) as scope:
            try:
                with plugin_boundary(label, what):
                    given = call()
                    if not inspect.isawaitable(given):
                        raise PluginError(
                            f"{label} gave nothing to await in {what}: expected 'async def'"
                        )
                    answer = await given
            finally:
                blocked = has_blocked(label)  # asked even after an error, so that no trace is left
            if blocked:
                raise PluginError(
                    f"{label} blocked the event loop in {what}; await instead, or make it a plain "
                    f"function, which runs in a thread"
                )
            if anyio.current_time() <= scope.deadline + LATE_SECONDS:
                return answer
    except RuntimeError as error:  # the deadline's own scope is not the innermost any more
        raise PluginError(
            f"{label} left a cancel scope open in {what}: close a generator that is not read to "
            f"its end"
        ) from error
    raise PluginError(f"{label} did not answer {what} within {seconds:g} s")


def called(label: str, what: str, call: Callable[[], T]) -> T:
    """Call a plain method of a plug-in; what it raises becomes a ``PluginError``."""
    entered = time.monotonic()  # noqa: F841 - read by the watchdog
    with plugin_boundary(label, what):
        return call()


def ruled(name: str, what: str, call: Callable[[], T]) -> T:
    """Call a game or a verifier; its mistakes become a ``PluginError`` without details.

    Rules refuse an action by ``InvalidActionError`` from ``apply``, which passes through.
    """
    label = f"game {name!r}"
    entered = time.monotonic()  # noqa: F841 - read by the watchdog
    try:
        return call()
    except (KeyboardInterrupt, BlockedError):
        raise
    except BaseException as error:
        if what == "apply" and isinstance(error, InvalidActionError):
            raise
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "unknown"
        # Not log.exception: a traceback shows the message, which could hold a reward.
        log.error(  # noqa: TRY400
            "%s raised %s in %s at %s", label, type(error).__name__, what, line
        )
        raise PluginError(f"{label} raised {type(error).__name__} in {what} (at {line})") from None


class plugin_boundary:  # a class, though used as a function: one is made for each step
    """Run an agent's or memory's code; what it raises becomes a ``PluginError``.

    ``SystemExit`` and a cancellation that nobody asked for are the plug-in's doing, too.
    """

    __slots__ = ("_label", "_what")

    def __init__(self, label: str, what: str) -> None:
        self._label, self._what = label, what

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or isinstance(error, OURS):
            return
        blamed = _blamed(self._label, self._what, error)
        if blamed is not None:
            raise blamed from error


def _blamed(label: str, what: str, error: BaseException) -> BaseException | None:
    """Return what to raise for a plug-in's error; ``None`` where it is to go on as it is."""
    if isinstance(error, BaseExceptionGroup) and not isinstance(error, Exception):
        wanted, rest = error.split(_passes)
        if rest is None:
            return None
        stop = wanted and wanted.subgroup(KeyboardInterrupt)
        if stop:
            return stop
        error = rest
    elif not isinstance(error, Exception) and (_is_closed(error) or _passes(error)):
        return None
    ours, others = _split(error)
    if ours is not None and others is None:
        inner: BaseException = first_of(ours)
        return inner
    log.error("%s raised in %s", label, what, exc_info=error)
    return PluginError(f"{label} raised {type(error).__name__} in {what}: {shown(error)}")


def _passes(error: BaseException) -> bool:
    """Return whether an exception is the runner's or the user's will, not a plug-in's mistake."""
    if isinstance(error, anyio.get_cancelled_exc_class()):
        return anyio.current_effective_deadline() == -math.inf or _ended_by_asyncio()
    return isinstance(error, KeyboardInterrupt)


def _is_closed(error: BaseException) -> bool:
    """Return whether a coroutine that waits is closed: then it is raised in the waiting frame."""
    where = error.__traceback__
    return isinstance(error, GeneratorExit) and where is not None and where.tb_next is None


def _ended_by_asyncio() -> bool:
    """Return whether asyncio itself cancels this task, without a scope, as a run's end does.

    A second Ctrl-C ends the event loop, and that cancels every task that is left. A task of a run
    that is cancelled alone was cancelled by its own plug-in.
    """
    asyncio = sys.modules.get("asyncio")  # not imported: on trio it may never be
    if asyncio is None:
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:  # another kind of loop runs
        return False
    if task is None or not task.cancelling():
        return False
    return not is_watched() or all(one.cancelling() for one in asyncio.all_tasks())


@contextmanager
def uncancelled() -> Iterator[None]:
    """Run what plug-ins take part in; a cancellation that one of them left behind is its mistake.

    Without this, the task group that the task belongs to would end as if all were well.

    Raises:
        PluginError: Nobody else cancelled it.
    """
    try:
        yield
    except anyio.get_cancelled_exc_class() as error:
        if _passes(error):
            raise
        raise PluginError("a plug-in cancelled the task that it runs in") from error


def _split(error: BaseException) -> tuple[Any, Any]:
    """Return (our errors, all others) of a group, as of calls that an agent made side by side."""
    return error.split(OURS) if isinstance(error, BaseExceptionGroup) else (None, error)


def shown(value: object, limit: int = 300) -> str:
    """Return a foreign value's text in one line; raises nothing whatever the value does."""
    try:
        return shorten(str(value) if isinstance(value, BaseException) else value, limit)
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - the value's own code failed
        return f"a {type(value).__name__} that cannot be shown"


def finite(number: object) -> float | None:
    """Return a foreign number as a float; ``None`` when it is none or has no finite float."""
    try:
        value = float(number) if isinstance(number, Real) else math.nan
    except KeyboardInterrupt:
        raise
    except BaseException:  # noqa: BLE001 - such as the integer 10**400
        return None
    return value if math.isfinite(value) else None


async def close_part(part: object) -> None:
    """Call ``aclose`` of an agent or memory, if it has one, even while being cancelled.

    What was played is recorded by then: a part that cannot be closed spoils nothing.
    """
    with anyio.move_on_after(CLOSE_SECONDS, shield=True), suppress(S3GymError):
        with plugin_boundary(type(part).__name__, "aclose"):
            close = getattr(part, "aclose", None)
            answer = None if close is None else close()
            if inspect.isawaitable(answer):
                await answer
