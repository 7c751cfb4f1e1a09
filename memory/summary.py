"""Summary memory: tips to retain, to avoid and to try next (the paper's memory pathway).

Written once per consolidation, by a chat model or by the built-in rules, which need none. The
paper writes its tips at step 0 of an episode; the content is the same, and here every version is
kept with what it was made from. A summary that fails or comes back empty keeps the version before
it; the failure is recorded.

Source: S3Gym paper, summary layout; the wording is ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, get_args

from s3gym import calls
from s3gym.contracts.chat import ChatModel, TokenCounter
from s3gym.contracts.memory import MemoryCall, MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import ConfigError, ModelError, ResponseFormatError
from s3gym.memory._outcomes import Digest, digest
from s3gym.memory._tips import Tips, read_tips, rule_tips
from s3gym.memory.fitting import fit_blocks
from s3gym.memory.history import HistoryMemory, direct
from s3gym.records import Cue, Episode, Message, Observation, Recollection
from s3gym.text import shorten
from s3gym.tokens import counter_named, token_counter

Mode = Literal["history", "rolling"]
RULES = "rules"
MAX_BEFORE = 20_000

INSTRUCTION = (
    "You have played earlier episodes of a game and rated each of your own actions. Write down "
    "what you want to remember when you play it again. The self-scores are your own estimates "
    "and may be wrong: trust what the environment showed more than what you expected."
)
REQUEST = (
    "Reply with one JSON object and nothing else. It has three lists of short, self-contained "
    "sentences, at most 12 each:\n"
    '{"retain": ["what worked and should be kept"], "avoid": ["what failed and why"], '
    '"next": ["what to test or do differently in the next episode"]}'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One summary.

    Attributes:
        number: One-based; 0 is the empty version before the first.
        sources: Ids of the episodes behind it, sorted.
        before: The text that was summarised.
        author: Name of the model, or ``rules``.
        repairs: What was needed to read the reply.
    """

    number: int = 0
    tips: Tips = field(default_factory=Tips)
    sources: tuple[str, ...] = ()
    before: str = ""
    author: str = RULES
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A summary that did not come about; the version before it stayed.

    Attributes:
        after: Number of the version that was kept.
        episode: Id of the newest episode that should have been summarised.
        reason: Why it failed.
    """

    after: int
    episode: str
    reason: str


@dataclass(frozen=True, slots=True)
class SummaryView:
    """One version of the tips."""

    version: Version
    failures: tuple[Failure, ...]
    mode: Mode
    counter: TokenCounter

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    async def recall(self, cue: Cue) -> Recollection:
        lines = self.version.tips.lines()
        fitted = fit_blocks([f"{line}\n" for line in lines], cue.max_tokens, self.counter)
        kept = lines[: fitted.blocks]
        while kept and not kept[-1].startswith("- "):
            kept = kept[:-1]
        if not kept:
            return Recollection(dropped=self.version.tips.count)
        if len(kept) < fitted.blocks:
            fitted = fit_blocks([f"{line}\n" for line in kept], cue.max_tokens, self.counter)
        shown = sum(line.startswith("- ") for line in kept)
        return Recollection(
            text=fitted.text,
            tokens=fitted.tokens,
            sources=self.version.sources,
            dropped=self.version.tips.count - shown,
        )

    def describe(self) -> MemorySnapshot:
        """Return the current tips and, in the state, where they came from.

        The text that was summarised stands there up to 20,000 characters, else its SHA-256 alone:
        the object keeps it whole, and a study's store has it in the prompt of the call.
        """
        current = self.version
        return MemorySnapshot(
            text="\n".join(current.tips.lines()),
            sources=current.sources,
            state={
                "backend": "summary",
                "mode": self.mode,
                "counter": self.counter.name,
                **_plain(current),
                "failures": [
                    {"after": item.after, "episode": item.episode, "reason": item.reason}
                    for item in self.failures
                ],
            },
        )


def _plain(version: Version) -> dict[str, Any]:
    short = len(version.before) <= MAX_BEFORE
    return {
        "version": version.number,
        "author": version.author,
        "before": version.before if short else None,
        "before_sha256": sha256(version.before.encode()).hexdigest(),
        "tips": version.tips.model_dump(mode="json"),
        "repairs": list(version.repairs),
    }


class SummaryMemory:
    """Recalls the tips of its newest version.

    Args:
        chat: Writes the tips, through ``s3gym.calls``. Without one the built-in rules do: they
            group episodes by the strategy that the agent's notes name (``strategy: NAME``), else
            by its usual action, and rank the groups by the sum of self-scores of their episodes.
        mode: ``"history"``: each version is written from the rules and the history, cut like
            ``HistoryMemory`` cuts it (the paper). ``"rolling"``: from the rules, the version
            before it and the episodes since.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.
        max_reply_tokens: Most new tokens of a summary.

    Raises:
        ConfigError: There is no such mode.
    """

    def __init__(
        self,
        chat: ChatModel | None = None,
        mode: Mode = "history",
        counter: TokenCounter | None = None,
        max_reply_tokens: int = 4_000,
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigError(f"expected mode 'history' or 'rolling', got {mode!r}")
        self._chat = chat
        self._mode: Mode = mode
        self._counter = counter or token_counter()
        self._max_reply_tokens = max_reply_tokens
        self._history = HistoryMemory(counter=self._counter)
        self._digests: list[Digest] = []
        self._pending: list[Episode] = []
        self._versions: list[Version] = []
        self._failures: list[Failure] = []

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    @property
    def versions(self) -> tuple[Version, ...]:
        """Every version so far, oldest first."""
        return tuple(self._versions)

    @property
    def failures(self) -> tuple[Failure, ...]:
        """Every summary that did not come about, oldest first."""
        return tuple(self._failures)

    async def recall(self, cue: Cue) -> Recollection:
        return await self._view().recall(cue)

    async def record(self, episode: Episode) -> None:
        if self._chat is not None and self._mode == "history":
            await self._history.record(episode)
        self._digests.append(digest(episode))
        self._pending.append(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        if not self._pending:
            return
        if self._chat is None:
            self._add_by_rules()
            return
        game = self._pending[-1].game
        try:
            version = await self._written(self._chat, game, rules, max_tokens)
        except (ModelError, ResponseFormatError, TimeoutError) as error:
            self._failures.append(
                Failure(
                    after=self._current.number,
                    episode=self._pending[-1].id,
                    reason=f"{type(error).__name__}: {shorten(str(error), 300)}",
                )
            )
            return
        self._versions.append(version)
        self._pending.clear()

    def freeze(self) -> MemoryReader:
        return self._view()

    def describe(self) -> MemorySnapshot:
        """Return the current tips and where they came from."""
        return self._view().describe()

    async def aclose(self) -> None:
        """Nothing is held: the chat model belongs to its owner."""

    @property
    def _current(self) -> Version:
        return self._versions[-1] if self._versions else Version()

    def _view(self) -> SummaryView:
        return SummaryView(self._current, self.failures, self._mode, self._counter)

    def _add_by_rules(self) -> None:
        self._versions.append(
            Version(
                number=self._current.number + 1,
                tips=rule_tips(self._digests),
                sources=tuple(sorted(item.id for item in self._digests)),
                before="\n".join(item.line() for item in self._digests),
            )
        )
        self._pending.clear()

    async def _written(self, chat: ChatModel, game: str, rules: str, max_tokens: int) -> Version:
        before, sources = await self._material(game, rules, max_tokens)
        if not before:
            raise ResponseFormatError(f"no experience fits into {max_tokens} tokens: nothing asked")
        reply = await calls.complete(
            chat,
            summary_messages(rules, before),
            purpose="memory",
            layout=f"summary-{self._mode}",
            max_tokens=self._max_reply_tokens,
        )
        tips, repairs = read_tips(reply.text)
        return Version(
            number=self._current.number + 1,
            tips=tips,
            sources=sources,
            before=before,
            author=chat.name,
            repairs=repairs,
        )

    async def _material(
        self, game: str, rules: str, max_tokens: int
    ) -> tuple[str, tuple[str, ...]]:
        """Return what a summary is written from, and the ids of the episodes behind it."""
        cue = Cue(game=game, rules=rules, observation=Observation(text=""), max_tokens=max_tokens)
        if self._mode == "history":
            whole = await self._history.recall(cue)
            return whole.text, whole.sources
        fresh = direct(self._pending, max_tokens, self._counter)
        if not fresh.text:
            return "", ()
        sources = sorted({*self._current.sources, *fresh.sources})
        return rolling_experience(self._current.tips, fresh.text), tuple(sources)


def rolling_experience(tips: Tips, fresh: str) -> str:
    """Return what a rolling summary is written from: the tips so far and the new episodes."""
    so_far = "\n".join(tips.lines()) or "none yet"
    return f"Your tips so far:\n{so_far}\n\nNew episodes:\n{fresh}"


def summary_messages(rules: str, experience: str) -> Sequence[Message]:
    """Return the prompt that asks for tips."""
    return [
        Message("system", INSTRUCTION),
        Message("user", f"Rules:\n{rules}\n\nExperience:\n{experience}\n\n{REQUEST}"),
    ]


def history_prompt(call: MemoryCall) -> Sequence[Message] | None:
    """Make the prompt of ``mode="history"`` again, for an audit."""
    counter = counter_named(call.counter)
    if call.backend != "summary" or counter is None:
        return None
    experience = direct(call.episodes, call.max_tokens, counter).text
    return summary_messages(call.rules, experience)


def rolling_prompt(call: MemoryCall) -> Sequence[Message] | None:
    """Make the prompt of ``mode="rolling"`` again, for an audit."""
    counter = counter_named(call.counter)
    if call.backend != "summary" or counter is None:
        return None
    state = call.before
    waiting = {call.episodes[-1].id} | {
        failure["episode"]
        for failure in state.get("failures", ())
        if failure["after"] == state["version"]
    }
    fresh = direct(
        [episode for episode in call.episodes if episode.id in waiting], call.max_tokens, counter
    )
    tips = Tips.model_validate(state.get("tips", {}))
    return summary_messages(call.rules, rolling_experience(tips, fresh.text))
