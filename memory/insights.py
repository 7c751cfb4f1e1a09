"""Insights memory: a bounded list of rules that only explicit operations change.

Episodes are shown once, with the list as it stands; the answer is a list of operations (add, edit,
agree, disagree, remove), by a chat model or by the built-in rules. Nothing is deleted: what is
removed stays, hidden, with its votes and the episodes behind it.

Source: ours; the paper has no such pathway.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from s3gym.memory._fitting import fit_blocks
from s3gym.memory._outcomes import Digest, digest, groups, overall_mean
from s3gym.memory.history import HistoryMemory

from s3gym import calls
from s3gym.contracts.chat import ChatModel, TokenCounter
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import ConfigError, ModelError, ResponseFormatError
from s3gym.records import Cue, Episode, Message, Observation, Recollection
from s3gym.text import shorten
from s3gym.tokens import token_counter

MAX_OPERATIONS = 20
MAX_CHARACTERS = 400
FIRST_VOTES = 2
Verb = Literal["add", "edit", "agree", "disagree", "remove"]

INSTRUCTION = (
    "You keep a short list of insights about a game that you play again and again. You are shown "
    "the list and new episodes, in which you rated your own actions; those ratings are your own "
    "estimates and may be wrong. Change the list by operations only."
)
REQUEST = (
    'Reply with one JSON object and nothing else: {"operations": [...]}, at most 20 of:\n'
    '{"verb": "add", "text": "a new insight, one sentence"}\n'
    '{"verb": "edit", "id": 3, "text": "the better wording"}\n'
    '{"verb": "agree", "id": 3}   when the episodes confirm an insight\n'
    '{"verb": "disagree", "id": 3}   when they speak against it\n'
    '{"verb": "remove", "id": 3}   when it is wrong or says what another one says'
)


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


@dataclass(frozen=True, slots=True)
class InsightsView:
    """One version of the list."""

    book: Book
    counter: TokenCounter

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    async def recall(self, cue: Cue) -> Recollection:
        shown = self.book.shown
        fitted = fit_blocks(
            [f"- {insight.text}\n" for insight in shown], cue.max_tokens, self.counter
        )
        kept = shown[: fitted.blocks]
        return Recollection(
            text=fitted.text,
            tokens=fitted.tokens,
            sources=tuple(sorted({source for insight in kept for source in insight.sources})),
            dropped=fitted.dropped,
        )

    def describe(self) -> MemorySnapshot:
        """Return the list with votes; the state holds hidden insights and every change."""
        book = self.book
        return MemorySnapshot(
            text="\n".join(f"- {item.text} [{item.votes} votes]" for item in book.shown),
            sources=tuple(sorted({source for item in book.insights for source in item.sources})),
            state={
                "backend": "insights",
                "counter": self.counter.name,
                "version": book.version,
                "insights": [_plain(item) for item in book.insights],
                "changes": [_plain(item) for item in book.changes],
                "failures": list(book.failures),
            },
        )


def _plain(item: Insight | Change) -> dict[str, Any]:
    found = {name: getattr(item, name) for name in type(item).__slots__}
    return {
        name: list(value) if isinstance(value, tuple) else value for name, value in found.items()
    }


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

    Raises:
        ResponseFormatError: There is none, or it has another shape.
    """
    start, stop = reply.find("{"), reply.rfind("}")
    try:
        found = json.loads(reply[start : stop + 1] if 0 <= start < stop else "")
        return Operations.model_validate(found).operations
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ResponseFormatError(f"expected operations, got {where}: {first['msg']}") from None
    except (ValueError, RecursionError):
        raise ResponseFormatError(f"expected a JSON object, got {shorten(reply)}") from None


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


@dataclass(slots=True)
class _Heard:
    """What was recorded: digests of all episodes, and the episodes that wait."""

    digests: list[Digest] = field(default_factory=list)
    pending: list[Episode] = field(default_factory=list)


class InsightsMemory:
    """Recalls its list, most votes first.

    Args:
        chat: Proposes operations, through ``s3gym.calls``; without one the built-in rules do.
        max_insights: Most insights in force at one time.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.
        max_reply_tokens: Most new tokens of a proposal.

    Raises:
        ConfigError: ``max_insights`` is below 1.
    """

    def __init__(
        self,
        chat: ChatModel | None = None,
        max_insights: int = 20,
        counter: TokenCounter | None = None,
        max_reply_tokens: int = 4_000,
    ) -> None:
        if max_insights < 1:
            raise ConfigError(f"expected max_insights of at least 1, got {max_insights!r}")
        self._chat = chat
        self._max_insights = max_insights
        self._counter = counter or token_counter()
        self._max_reply_tokens = max_reply_tokens
        self._heard = _Heard()
        self._book = Book()

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    @property
    def book(self) -> Book:
        """The current version of the list."""
        return self._book

    async def recall(self, cue: Cue) -> Recollection:
        return await InsightsView(self._book, self._counter).recall(cue)

    async def record(self, episode: Episode) -> None:
        self._heard.pending.append(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        pending = self._heard.pending
        if not pending:
            return
        fresh = [digest(episode) for episode in pending]
        sources = sorted(episode.id for episode in pending)
        if self._chat is None:
            operations: Sequence[Operation] = rule_operations(
                self._book, self._heard.digests, fresh
            )
        else:
            try:
                operations = await self._proposed(self._chat, rules, max_tokens)
            except (ModelError, ResponseFormatError, TimeoutError) as error:
                reason = f"{sources[-1]}: {type(error).__name__}: {shorten(str(error), 300)}"
                self._book = replace(self._book, failures=(*self._book.failures, reason))
                return
        self._book = apply_operations(self._book, operations, sources, self._max_insights)
        self._heard.digests += fresh
        pending.clear()

    def freeze(self) -> MemoryReader:
        return InsightsView(self._book, self._counter)

    def describe(self) -> MemorySnapshot:
        """Return the list with votes; the state holds hidden insights and every change."""
        return InsightsView(self._book, self._counter).describe()

    async def _proposed(
        self, chat: ChatModel, rules: str, max_tokens: int
    ) -> tuple[Operation, ...]:
        recent = HistoryMemory(counter=self._counter)
        for episode in self._heard.pending:
            await recent.record(episode)
        cue = Cue(
            game=self._heard.pending[-1].game,
            rules=rules,
            observation=Observation(text=""),
            max_tokens=max_tokens,
        )
        fresh = await recent.recall(cue)
        if not fresh.text:
            raise ResponseFormatError(f"no experience fits into {max_tokens} tokens: nothing asked")
        reply = await calls.complete(
            chat,
            insight_messages(rules, self._book, fresh.text),
            purpose="memory",
            layout="insights",
            max_tokens=self._max_reply_tokens,
        )
        return read_operations(reply.text)


def insight_messages(rules: str, book: Book, experience: str) -> list[Message]:
    """Return the prompt that asks for operations."""
    held = "\n".join(f"{item.id}. [{item.votes} votes] {item.text}" for item in book.shown)
    return [
        Message("system", INSTRUCTION),
        Message(
            "user",
            f"Rules:\n{rules}\n\nInsights so far:\n{held or 'none yet'}\n\n"
            f"New episodes:\n{experience}\n\n{REQUEST}",
        ),
    ]
