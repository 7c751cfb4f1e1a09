"""What agents and memories answered, checked value by value before it is kept or shown.

Knows nothing of games and verifiers. A wrong value is one clear ``PluginError``.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from s3gym.contracts.memory import MemorySnapshot
from s3gym.errors import PluginError
from s3gym.records import (
    MOST_COUNTED,
    MOST_POINTS,
    STATUSES,
    Decision,
    Recollection,
    Step,
    Usage,
    is_count,
)
from s3gym.replies import is_end, parse_reply
from s3gym.seams import finite, plugin_boundary, shown
from s3gym.text import storable

MAX_TEXT = 100_000
"""Longest action or note of a decision, in characters."""
MAX_REPLY = 4_000_000
"""Longest raw reply, in characters."""
MAX_MEMORY = 20_000_000
"""Longest text of a recollection or of a memory's version, in characters."""
NO_USAGE = Decision(action="").usage
KNOWN = {status: status for status in STATUSES}
ANSWER = "what it gave"
"""What a plug-in is said to have been asked for when its answer itself raises."""


def decide(label: str, answer: object) -> Decision:
    """Turn what an agent answered into a decision.

    Raises:
        PluginError: It is neither a ``Decision`` nor a string nor a pair, or one of its values
            is not finite or absurdly long, or raises when it is looked at.
    """
    with plugin_boundary(label, ANSWER):
        if isinstance(answer, Decision):
            decision = answer
        elif isinstance(answer, str):
            decision = parse_reply(_text(label, "reply", answer, MAX_REPLY))
        elif isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], str):
            decision = Decision(action=answer[0], self_score=answer[1])
        else:
            raise PluginError(
                f"{label} returned {shown(answer, 80)}: expected a Decision, a string or a pair "
                f"(action, self_score)"
            )
        return _checked(label, decision)


def _checked(label: str, decision: Decision) -> Decision:
    action = _text(label, "action", decision.action, MAX_TEXT)
    status = KNOWN.get("end" if is_end(action) else decision.status)
    if status is None:
        raise PluginError(
            f"{label} returned the status {shown(decision.status, 80)}: expected {STATUSES}"
        )
    return Decision(
        action=action,
        self_score=_score(label, decision.self_score),
        note=_text(label, "note", decision.note, MAX_TEXT),
        status=status,
        raw=_text(label, "raw reply", decision.raw, MAX_REPLY),
        usage=_usage(label, decision.usage),
        repairs=_texts(label, "repairs", decision.repairs),
    )


def _score(label: str, score: object) -> float | None:
    if score is None:
        return None
    value = finite(score)
    if value is None or abs(value) > MOST_POINTS:
        raise PluginError(
            f"{label} returned the self-score {shown(score, 80)}: expected a finite number or None"
            + ("" if value is None else f", from {-MOST_POINTS:g} to {MOST_POINTS:g}")
        )
    return value + 0.0


def _usage(label: str, usage: object) -> Usage:
    if usage is NO_USAGE:  # most agents without a model
        return NO_USAGE
    if not isinstance(usage, Usage) or not all(
        is_count(getattr(usage, name)) for name in Usage.__slots__
    ):
        raise PluginError(
            f"{label} returned {shown(usage, 80)} as usage: expected a Usage with counts "
            f"from 0 on, up to {MOST_COUNTED}"
        )
    # A step's row has no tokens without a call.
    return replace(usage, calls=1) if not usage.calls and usage != Usage() else usage


def _texts(label: str, what: str, values: object) -> tuple[str, ...]:
    if not isinstance(values, (tuple, list)):
        raise PluginError(
            f"{label} returned {shown(values, 80)} as {what}: expected a tuple of strings"
        )
    return tuple(_text(label, what, value, MAX_TEXT) for value in values)


def _text(label: str, what: str, text: object, limit: int) -> str:
    if not isinstance(text, str):
        raise PluginError(f"{label} returned {shown(text, 80)} as {what}: expected a string")
    length = str.__len__(text)
    if length > limit:
        raise PluginError(
            f"{label} returned {length} characters as {what}: expected at most {limit}"
        )
    return storable(text)


def check_reader(label: str, reader: object) -> None:
    """Check that a memory or its frozen view can be asked.

    Raises:
        PluginError: It has no ``recall``, or does not say how often to ask.
    """
    with plugin_boundary(label, ANSWER):
        each = getattr(reader, "recall_each", None)
        if each not in ("episode", "step") or not callable(getattr(reader, "recall", None)):
            raise PluginError(
                f"{label} gave {shown(reader, 80)}: expected recall() and recall_each, which is "
                f"'episode' or 'step'"
            )


def check_recollection(label: str, answer: object) -> Recollection:
    """Return what a memory recalled, when it is a sound recollection.

    Raises:
        PluginError: It is something else, or one of its values is.
    """
    with plugin_boundary(label, ANSWER):
        if not isinstance(answer, Recollection):
            raise PluginError(f"{label} recalled {shown(answer, 80)}: expected a Recollection")
        steps, tokens, dropped = answer.steps, answer.tokens, answer.dropped
        if not isinstance(steps, tuple) or not all(isinstance(step, Step) for step in steps):
            raise PluginError(f"{label} recalled {shown(steps, 80)} as steps: expected Step values")
        for what, count in (("tokens", tokens), ("dropped", dropped)):
            if not is_count(count):
                raise PluginError(
                    f"{label} recalled {shown(count, 80)} as {what}: expected a count"
                )
        return Recollection(
            text=_text(label, "recollection", answer.text, MAX_MEMORY),
            tokens=tokens,
            sources=_texts(label, "sources", answer.sources),
            dropped=dropped,
            steps=steps,
        )


def check_snapshot(label: str, answer: object) -> MemorySnapshot:
    """Return how a memory describes itself, when the store can keep it.

    Raises:
        PluginError: It is no ``MemorySnapshot``, or its state is not JSON-safe.
    """
    with plugin_boundary(label, "describe"):
        if not isinstance(answer, MemorySnapshot) or not isinstance(answer.state, Mapping):
            raise PluginError(f"{label} described {shown(answer, 80)}: expected a MemorySnapshot")
        return MemorySnapshot(
            text=_text(label, "description", answer.text, MAX_MEMORY),
            sources=_texts(label, "sources", answer.sources),
            state=as_json(dict(answer.state)),
        )


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as the store can keep them.

    Raises:
        TypeError: One is not JSON-safe.
        ValueError: A number is not finite.
    """
    text = json.dumps(values, allow_nan=False, ensure_ascii=False, sort_keys=True)
    found: dict[str, Any] = json.loads(storable(text))
    return found
