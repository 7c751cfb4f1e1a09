"""The operations that change a list of insights, and the only code that carries them out."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from s3gym.errors import ResponseFormatError
from s3gym.memory._outcomes import Digest, groups, overall_mean
from s3gym.text import shorten

MAX_OPERATIONS = 20
MAX_CHARACTERS = 400
FIRST_VOTES = 2
Verb = Literal["add", "edit", "agree", "disagree", "remove"]


class Operation(BaseModel):
    """One change of the list. ``id`` names an insight; ``text`` goes with add and edit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    verb: Verb
    id: int | None = None
    text: Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_CHARACTERS)] = ""


class Operations(BaseModel):
    """What a proposer answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    operations: Annotated[tuple[Operation, ...], Field(max_length=MAX_OPERATIONS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Insight:
    """One rule.

    Attributes:
        id: One-based, never used twice.
        votes: Starts at 2; one more per agreement, one less per disagreement; hidden at 0.
        sources: Ids of the episodes that brought, changed or voted on it, sorted.
        hidden: True once it was removed.
    """

    id: int
    text: str
    votes: int = FIRST_VOTES
    sources: tuple[str, ...] = ()
    hidden: bool = False

    def plain(self) -> dict[str, Any]:
        """Return the insight as JSON-safe values."""
        return asdict(self) | {"sources": list(self.sources)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One operation as it was carried out, or why it was not."""

    version: int
    verb: str
    id: int | None
    text: str
    refused: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Book:
    """One version of the list; immutable."""

    version: int = 0
    insights: tuple[Insight, ...] = ()
    changes: tuple[Change, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def shown(self) -> list[Insight]:
        """The insights in force, most votes first, older ones first among equals."""
        kept = [insight for insight in self.insights if not insight.hidden]
        return sorted(kept, key=lambda insight: (-insight.votes, insight.id))


def apply_operations(
    book: Book, operations: Sequence[Operation], sources: Sequence[str], max_insights: int
) -> Book:
    """Return the next version of a list.

    An operation that cannot be carried out is refused and logged, the others go on. Adding a text
    that the list has is an agreement. A full list makes room by hiding its least voted insight
    when that has fewer votes than a new one starts with; else the addition is refused.
    """
    version = book.version + 1
    insights = {insight.id: insight for insight in book.insights}
    changes: list[Change] = []
    for operation in operations:
        refused = _carry_out(insights, operation, sources, max_insights)
        changes.append(
            Change(
                version=version,
                verb=operation.verb,
                id=operation.id,
                text=operation.text,
                refused=refused,
            )
        )
    return replace(
        book,
        version=version,
        insights=tuple(insights.values()),
        changes=(*book.changes, *changes),
    )


def _carry_out(
    insights: dict[int, Insight], operation: Operation, sources: Sequence[str], max_insights: int
) -> str:
    """Change ``insights``; return why an operation was refused, else an empty string."""
    text = " ".join(operation.text.split())
    if operation.verb == "add":
        return _add(insights, text, sources, max_insights)
    found = insights.get(operation.id or 0)
    if found is None or found.hidden:
        return f"no insight in force has the id {operation.id!r}"
    known = tuple(sorted({*found.sources, *sources}))
    if operation.verb == "edit":
        if not text:
            return "an edit needs a text"
        for other in insights.values():
            if other.text == text and other.id != found.id and not other.hidden:
                return f"insight {other.id} says so already"
        insights[found.id] = replace(found, text=text, sources=known)
    elif operation.verb == "remove":
        insights[found.id] = replace(found, hidden=True, sources=known)
    else:
        votes = found.votes + (1 if operation.verb == "agree" else -1)
        insights[found.id] = replace(found, votes=votes, sources=known, hidden=votes <= 0)
    return ""


def _add(insights: dict[int, Insight], text: str, sources: Sequence[str], max_insights: int) -> str:
    if not text:
        return "an addition needs a text"
    live = [insight for insight in insights.values() if not insight.hidden]
    for insight in live:
        if insight.text == text:
            known = tuple(sorted({*insight.sources, *sources}))
            insights[insight.id] = replace(insight, votes=insight.votes + 1, sources=known)
            return ""
    if len(live) >= max_insights:
        least = min(live, key=lambda insight: (insight.votes, insight.id), default=None)
        if least is None or least.votes >= FIRST_VOTES:
            return f"the list is full: {max_insights} insights"
        insights[least.id] = replace(least, hidden=True)
    new = len(insights) + 1
    insights[new] = Insight(id=new, text=text, sources=tuple(sorted(sources)))
    return ""


def read_operations(reply: str) -> tuple[Operation, ...]:
    """Return the operations in a model's reply: its outermost JSON object.

    The first 20 count, and a text is cut at 400 characters: one word too many does not void what
    the model was paid for.

    Raises:
        ResponseFormatError: There is none, or it has another shape.
    """
    start, stop = reply.find("{"), reply.rfind("}")
    try:
        found = json.loads(reply[start : stop + 1] if 0 <= start < stop else "")
        if isinstance(found, dict) and isinstance(found.get("operations"), list):
            found["operations"] = [_cut(item) for item in found["operations"][:MAX_OPERATIONS]]
        return Operations.model_validate(found).operations
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ResponseFormatError(f"expected operations, got {where}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise ResponseFormatError(f"expected a JSON object, got {shorten(reply)}") from None


def _cut(operation: Any) -> Any:
    if isinstance(operation, dict) and isinstance(operation.get("text"), str):
        return operation | {"text": operation["text"].strip()[:MAX_CHARACTERS]}
    return operation


def rule_operations(
    book: Book, before: Sequence[Digest], fresh: Sequence[Digest]
) -> list[Operation]:
    """Return operations without a model: one insight per strategy (else per usual action).

    An insight says how episodes of its group went. A new episode rewords it, and agrees when it
    lies on the same side of the overall mean as the group did before, else disagrees.
    """
    operations: list[Operation] = []
    known = {group.label: group for group in groups(before)}
    now = {group.label: group for group in groups([*before, *fresh])}
    middle = overall_mean(before)
    for item in fresh:
        if item.outcome is None:
            continue
        group, earlier = now[item.label], known.get(item.label)
        held = next((i for i in book.shown if i.text.startswith(f"{item.label} (")), None)
        if held is None:
            operations.append(Operation(verb="add", text=group.line()[:MAX_CHARACTERS]))
            continue
        text = group.line()[:MAX_CHARACTERS]
        operations.append(Operation(verb="edit", id=held.id, text=text))
        if earlier is not None:
            same = (earlier.mean >= middle) == (item.outcome >= middle)
            operations.append(Operation(verb="agree" if same else "disagree", id=held.id))
    return operations
