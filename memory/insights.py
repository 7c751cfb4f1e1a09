"""Insights memory: a bounded list of rules that only explicit operations change.

Episodes are shown once, with the list as it stands; the answer is a list of operations (add, edit,
agree, disagree, remove), by a chat model or by the built-in rules. Nothing is deleted: what is
removed stays, hidden, with its votes and the episodes behind it.

Source: ours; the paper has no such pathway.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

from s3gym import calls
from s3gym.contracts.chat import ChatModel, TokenCounter
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import ConfigError, ModelError, ResponseFormatError
from s3gym.memory._operations import (
    Book,
    Operation,
    apply_operations,
    read_operations,
    rule_operations,
)
from s3gym.memory._outcomes import Digest, digest
from s3gym.memory.fitting import fit_blocks
from s3gym.memory.history import HistoryMemory
from s3gym.records import Cue, Episode, Message, Observation, Recollection
from s3gym.text import shorten
from s3gym.tokens import token_counter

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
        """Return the list with votes; the state holds hidden ones and the newest changes."""
        book = self.book
        return MemorySnapshot(
            text="\n".join(f"- {item.text} [{item.votes} votes]" for item in book.shown),
            sources=tuple(sorted({source for item in book.insights for source in item.sources})),
            state={
                "backend": "insights",
                "counter": self.counter.name,
                "version": book.version,
                "insights": [item.plain() for item in book.insights],
                "changes": [asdict(item) for item in book.changes if item.version == book.version],
                "failures": list(book.failures),
            },
        )


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
        if not isinstance(max_insights, int) or max_insights < 1:
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
        """Return the list with votes; the state holds hidden ones and the newest changes."""
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
