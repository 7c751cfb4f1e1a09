"""Where foreign code is called: the only broad handlers of s3gym.

A plug-in that raises, hangs or returns nonsense fails its own study with one clear
``PluginError``; the traceback goes to the log. What a game or verifier raises is reported by type
alone, because its message could hold what the agent must not see.
"""

import inspect
import json
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import TypeVar

import anyio

from s3gym.contracts.memory import MemorySnapshot
from s3gym.deadline import deadline
from s3gym.errors import (
    ActionError,
    BudgetExhaustedError,
    PluginError,
    ProtocolBreachError,
    ServiceError,
    StoreError,
)
from s3gym.records import STATUSES, Decision, Recollection, Step
from s3gym.replies import is_end, parse_reply
from s3gym.text import shorten, storable
from s3gym.watchdog import Watchdog

T = TypeVar("T")
log = logging.getLogger("s3gym")
CLOSE_SECONDS = 5.0
MAX_TEXT = 100_000
"""Longest action or note of a decision, in characters."""
MAX_REPLY = 4_000_000
"""Longest raw reply, in characters."""
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
    with deadline(seconds) as scope:
        with plugin_boundary(label, what):
            answer = await call()
        if Watchdog.blocked.pop(label, None) is not None:
            raise PluginError(
                f"{label} blocked the event loop in {what}; await instead, or make it a plain "
                f"function, which runs in a thread"
            )
        return answer
    if scope.cancelled_caught:
        raise PluginError(f"{label} did not answer {what} within {seconds:g} s")
    raise ProtocolBreachError(f"{label}: left {what} without an answer")


@contextmanager
def plugin_boundary(label: str, what: str) -> Iterator[None]:
    """Run an agent's or memory's code; what it raises becomes a ``PluginError``."""
    try:
        yield
    except OURS:
        raise
    except Exception as error:
        log.exception("%s raised in %s", label, what)
        raise PluginError(
            f"{label} raised {type(error).__name__} in {what}: {shorten(str(error), 300)}"
        ) from error


@contextmanager
def game_boundary(name: str, what: str) -> Iterator[None]:
    """Run a game's or verifier's code; its mistakes become a ``PluginError`` without details.

    An ``ActionError`` passes through: it is how rules refuse an action.
    """
    try:
        yield
    except (ActionError, *OURS):
        raise
    except Exception as error:  # noqa: BLE001 - the seam of games and verifiers
        where = error.__traceback__
        while where is not None and where.tb_next is not None:
            where = where.tb_next
        line = f"{where.tb_frame.f_code.co_filename}:{where.tb_lineno}" if where else "unknown"
        # Not log.exception: a traceback shows the message, which could hold a reward.
        log.error(  # noqa: TRY400
            "game %r raised %s in %s at %s", name, type(error).__name__, what, line
        )
        raise PluginError(
            f"game {name!r} raised {type(error).__name__} in {what} (at {line})"
        ) from None


def decide(label: str, answer: object) -> Decision:
    """Turn what an agent answered into a decision.

    Raises:
        PluginError: It is neither a ``Decision`` nor a string nor a pair, or one of its values
            is not finite or absurdly long.
    """
    if isinstance(answer, Decision):
        decision = answer
    elif isinstance(answer, str):
        _check_text(label, "reply", answer, MAX_REPLY)
        decision = parse_reply(answer)
    elif isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str):
        decision = Decision(action=answer[0], self_score=answer[1])
    else:
        raise PluginError(
            f"{label} returned {shorten(answer)}: expected a Decision, a string or a pair "
            f"(action, self_score)"
        )
    return _checked(label, decision)


def _checked(label: str, decision: Decision) -> Decision:
    action = _check_text(label, "action", decision.action, MAX_TEXT)
    status = "end" if is_end(action) else decision.status
    if status not in STATUSES:
        raise PluginError(f"{label} returned the status {shorten(status)}: expected {STATUSES}")
    return Decision(
        action=action,
        self_score=_check_score(label, decision.self_score),
        note=_check_text(label, "note", decision.note, MAX_TEXT),
        status=status,
        raw=_check_text(label, "raw reply", decision.raw, MAX_REPLY),
        usage=decision.usage,
        repairs=decision.repairs,
    )


def _check_score(label: str, score: object) -> float | None:
    if score is None:
        return None
    if isinstance(score, Real) and math.isfinite(value := float(score)):
        return value + 0.0
    raise PluginError(
        f"{label} returned the self-score {shorten(score)}: expected a finite number or None"
    )


def _check_text(label: str, what: str, text: object, limit: int) -> str:
    if not isinstance(text, str):
        raise PluginError(f"{label} returned {shorten(text)} as {what}: expected a string")
    if len(text) > limit:
        raise PluginError(
            f"{label} returned a {what} of {len(text)} characters: expected at most {limit}"
        )
    return storable(text)


def check_recollection(label: str, answer: object) -> Recollection:
    """Return what a memory recalled, when it is a recollection that can be kept.

    Raises:
        PluginError: It is something else.
    """
    if not isinstance(answer, Recollection) or not isinstance(answer.text, str):
        raise PluginError(f"{label} recalled {shorten(answer)}: expected a Recollection")
    if type(answer.dropped) is not int or answer.dropped < 0:
        raise PluginError(f"{label} recalled dropped={shorten(answer.dropped)}: expected a count")
    if not isinstance(answer.steps, tuple) or not all(isinstance(s, Step) for s in answer.steps):
        raise PluginError(f"{label} recalled steps={shorten(answer.steps)}: expected Steps")
    sources = _check_sources(label, "recalled", answer.sources)
    return replace(answer, text=storable(answer.text), sources=sources)


def check_snapshot(label: str, answer: object) -> MemorySnapshot:
    """Return what a memory tells of itself, when it can be kept.

    Raises:
        PluginError: It is something else, or its state is not JSON.
    """
    if not isinstance(answer, MemorySnapshot) or not isinstance(answer.text, str):
        raise PluginError(f"{label} described {shorten(answer)}: expected a MemorySnapshot")
    try:
        text = json.dumps(dict(answer.state), allow_nan=False, ensure_ascii=False)
        state = json.loads(storable(text))
    except (TypeError, ValueError, RecursionError) as error:
        raise PluginError(f"{label} described a state that is not JSON: {error}") from error
    sources = _check_sources(label, "described", answer.sources)
    return MemorySnapshot(text=storable(answer.text), sources=sources, state=state)


def _check_sources(label: str, what: str, sources: object) -> tuple[str, ...]:
    if isinstance(sources, tuple) and all(isinstance(source, str) for source in sources):
        return tuple(map(storable, sources))
    raise PluginError(f"{label} {what} sources={shorten(sources)}: expected a tuple of ids")


def check_number(name: str, what: str, value: object) -> float:
    """Return a verifier's value when it is a finite number; the message never shows it.

    Raises:
        PluginError: It is not.
    """
    if isinstance(value, Real) and math.isfinite(number := float(value)):
        return number
    raise PluginError(f"game {name!r} returned something else than a finite number as {what}")


async def close_part(part: object) -> None:
    """Call ``aclose`` of an agent or memory, if it has one, even while being cancelled."""
    close = getattr(part, "aclose", None)
    if close is None:
        return
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        answer = close()
        if inspect.isawaitable(answer):
            await answer
