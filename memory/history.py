"""History memory: earlier episodes word for word, cut to a budget (the paper's direct layout).

Bytes of a recollection, documented in ``docs/explanation/memory-layouts.md``: per episode a line
``Episode N``, per step the pair ``Env: <feedback and observation>`` and
``LLM: Answer: <ACTION>, Score: <SELF-SCORE>``, then ``Env: <last outcome>``; one blank line
between episodes, no line end after the last line.

Text is rendered and counted once, when its episode is recorded. A block of text ends with a line
end and the next one starts with a letter, where no tokenizer of tiktoken joins the two: so the
counts of blocks add up exactly, and a recall costs one search and one join.

Source: S3Gym paper, direct layout; cuts other than ``tail`` are ours.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import ConfigError
from s3gym.memory._outcomes import Digest, digest, mean_self_score
from s3gym.memory.fitting import bare_tokens
from s3gym.prompts import closing_line, step_lines
from s3gym.records import Cue, Episode, Recollection, Step
from s3gym.tokens import token_counter

Cut = Literal["tail", "head", "whole"]
Order = Literal["time", "best"]
LINE_END, EPISODE_END = "\n", "\n\n"


@dataclass(frozen=True, slots=True)
class _Shelf:
    """Append-only: what was recorded, rendered and counted once. Views share it.

    One entry per step in ``steps``, ``texts`` (without the closing line end), ``ends`` (that line
    end) and ``totals`` (tokens up to and with the step and its line end); one per episode in the
    others.
    """

    steps: list[Step] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    ordinals: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    digests: list[Digest] = field(default_factory=list)

    def add(self, episode: Episode, counter: TokenCounter) -> None:
        if not episode.steps:
            return
        start, last = len(self.steps), len(episode.steps) - 1
        total = self.totals[-1] if self.totals else 0
        for position, step in enumerate(episode.steps):
            lines = [f"Episode {episode.ordinal}"] if position == 0 else []
            lines += step_lines(step)
            if position == last:
                lines.append(closing_line(step))
            text, end = "\n".join(lines), EPISODE_END if position == last else LINE_END
            total += counter.count(text + end)
            self.texts.append(text)
            self.ends.append(end)
            self.totals.append(total)
            self.steps.append(step)
        self.ids.append(episode.id)
        self.ordinals.append(episode.ordinal)
        self.means.append(mean_self_score(episode))
        self.digests.append(digest(episode))
        self.starts.append(start)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Consecutive steps of the shelf, ``start`` included, ``stop`` not."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class HistoryView:
    """The first episodes of a shelf; later ones are invisible to it.

    Attributes:
        n_episodes: How many episodes the view sees.
        n_steps: How many steps the view sees.
    """

    shelf: _Shelf
    n_episodes: int
    n_steps: int
    cut: Cut
    order: Order
    counter: TokenCounter
    _recalled: dict[int, Recollection] = field(default_factory=dict, repr=False, compare=False)

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    async def recall(self, cue: Cue) -> Recollection:
        known = self._recalled.get(cue.max_tokens)  # the episodes of a checkpoint ask the same
        if known is None:
            known = self._recalled[cue.max_tokens] = self.fitted(cue.max_tokens)
        return known

    def fitted(self, max_tokens: int) -> Recollection:
        """Return what fits into a budget."""
        pieces = self._fitting(max_tokens) if max_tokens > 0 else []
        if not pieces:
            return Recollection(dropped=self.n_steps)
        shelf = self.shelf
        kept = [index for piece in pieces for index in range(piece.start, piece.stop)]
        sources: set[str] = set()
        for piece in pieces:
            first, last = self._episode_of(piece.start), self._episode_of(piece.stop - 1)
            sources.update(shelf.ids[first : last + 1])
        return Recollection(
            text=self._text(pieces),
            tokens=self._tokens(pieces),
            sources=tuple(sorted(sources)),
            dropped=self.n_steps - len(kept),
            steps=tuple([shelf.steps[index] for index in kept]),
        )

    def describe(self) -> MemorySnapshot:
        """Return one line per episode: the steps word for word are in the store's episodes."""
        shelf, whole = self.shelf, [_Piece(0, self.n_steps)] if self.n_steps else []
        return MemorySnapshot(
            text="\n".join(item.line() for item in shelf.digests[: self.n_episodes]),
            sources=tuple(sorted(shelf.ids[: self.n_episodes])),
            state={
                "backend": "history",
                "cut": self.cut,
                "order": self.order,
                "counter": self.counter.name,
                "episodes": self.n_episodes,
                "steps": self.n_steps,
                "tokens": self._tokens(whole),
            },
        )

    def _episode_of(self, step: int) -> int:
        return bisect_right(self.shelf.starts, step, hi=self.n_episodes) - 1

    def _stop(self, episode: int) -> int:
        return self.n_steps if episode + 1 == self.n_episodes else self.shelf.starts[episode + 1]

    def _fitting(self, max_tokens: int) -> list[_Piece]:
        if not self.n_steps:
            return []
        if self.order == "best":
            return self._best(max_tokens)
        if self.cut == "tail":
            return self._longest(0, self.n_steps, [], max_tokens)
        return self._newest(max_tokens)

    def _longest(
        self, start: int, stop: int, before: list[_Piece], max_tokens: int
    ) -> list[_Piece]:
        """Return ``before`` and as many steps from ``start`` on as fit."""
        room = max_tokens - sum(self._span(piece.start, piece.stop) for piece in before)
        base = self.shelf.totals[start - 1] if start else 0
        end = min(bisect_right(self.shelf.totals, base + room, hi=stop) + 1, stop)
        while end > start:
            pieces = [*before, _Piece(start, end)]
            if self._tokens(pieces) <= max_tokens:
                return pieces
            end -= 1
        return before

    def _newest(self, max_tokens: int) -> list[_Piece]:
        """Return the last steps, or the last whole episodes, that fit."""
        total = self.shelf.totals[self.n_steps - 1]
        start = max(bisect_left(self.shelf.totals, total - max_tokens, hi=self.n_steps) - 1, 0)
        while start < self.n_steps:
            if self.cut == "whole":
                episode = bisect_left(self.shelf.starts, start, hi=self.n_episodes)
                if episode == self.n_episodes:
                    return []
                start = self.shelf.starts[episode]
            pieces = [_Piece(start, self.n_steps)]
            if self._tokens(pieces) <= max_tokens:
                return pieces
            start += 1
        return []

    def _best(self, max_tokens: int) -> list[_Piece]:
        """Return whole episodes, the best self-scored first; ``tail`` cuts the last of them."""
        means, shelf = self.shelf.means, self.shelf
        pieces: list[_Piece] = []
        used = 0
        for episode in sorted(range(self.n_episodes), key=lambda index: (-means[index], index)):
            start, stop = shelf.starts[episode], self._stop(episode)
            trimmed = self._span(start, stop - 1) + self._alone(stop - 1)
            if used + trimmed <= max_tokens:
                pieces.append(_Piece(start, stop))
                used += self._span(start, stop)
            elif self.cut == "tail":
                return self._longest(start, stop, pieces, max_tokens)
        return pieces

    def _span(self, start: int, stop: int) -> int:
        """Return the tokens of steps ``start`` to ``stop``, the last line end included."""
        totals = self.shelf.totals
        return totals[stop - 1] - (totals[start - 1] if start else 0) if stop > start else 0

    def _header(self, piece: _Piece) -> str:
        """Return the line that stands in for a header that was cut off."""
        step = self.shelf.steps[piece.start]
        episode = self._episode_of(piece.start)
        if piece.start == self.shelf.starts[episode]:
            return ""
        return f"Episode {self.shelf.ordinals[episode]}, from step {step.index + 1}\n"

    def _tokens(self, pieces: Sequence[_Piece]) -> int:
        if not pieces:
            return 0
        last = pieces[-1].stop - 1
        total = sum(self._span(piece.start, piece.stop) for piece in pieces)
        total += sum(self.counter.count(header) for header in map(self._header, pieces) if header)
        return total - self._span(last, last + 1) + self._alone(last)

    def _alone(self, step: int) -> int:
        """Return the tokens of a step's text without its line end; counts its last line."""
        shelf = self.shelf
        joined = self._span(step, step + 1)
        return bare_tokens(shelf.texts[step], joined, shelf.ends[step], self.counter)

    def _text(self, pieces: Sequence[_Piece]) -> str:
        return "".join(self._parts(pieces))

    def _parts(self, pieces: Sequence[_Piece]) -> Iterable[str]:
        shelf = self.shelf
        for piece in pieces:
            yield self._header(piece)
            for index in range(piece.start, piece.stop):
                yield shelf.texts[index]
                if piece is not pieces[-1] or index + 1 < piece.stop:
                    yield shelf.ends[index]


class HistoryMemory:
    """Keeps every step word for word and recalls as many as the cue's budget allows.

    The current episode and prompt are never cut; they are no business of a memory.

    Args:
        cut: What goes when the budget is full: ``"tail"`` the newest steps of the earlier
            episodes (the paper), ``"head"`` the oldest steps, ``"whole"`` whole episodes, the
            oldest first.
        order: ``"time"``: oldest first. ``"best"``: the budget is filled with episodes in order
            of their mean self-score, best first; the one that no longer fits is cut at its end
            (``cut="tail"``) or passed over (``cut="whole"``).
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.

    Raises:
        ConfigError: A cut or order has no such name, or the two exclude each other.
    """

    def __init__(
        self, cut: Cut = "tail", order: Order = "time", counter: TokenCounter | None = None
    ) -> None:
        if cut not in get_args(Cut):
            raise ConfigError(f"expected cut 'tail', 'head' or 'whole', got {cut!r}")
        if order not in get_args(Order):
            raise ConfigError(f"expected order 'time' or 'best', got {order!r}")
        if order == "best" and cut == "head":
            raise ConfigError("order='best' drops the worst: expected cut 'tail' or 'whole'")
        self._cut: Cut = cut
        self._order: Order = order
        self._counter = counter or token_counter()
        self._shelf = _Shelf()

    @property
    def recall_each(self) -> RecallEach:
        """Once per episode."""
        return "episode"

    async def recall(self, cue: Cue) -> Recollection:
        return await self._view().recall(cue)

    async def record(self, episode: Episode) -> None:
        self._shelf.add(episode, self._counter)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        return None

    def freeze(self) -> MemoryReader:
        return self._view()

    def describe(self) -> MemorySnapshot:
        """Return one line per episode."""
        return self._view().describe()

    def _view(self) -> HistoryView:
        shelf = self._shelf
        return HistoryView(
            shelf, len(shelf.ids), len(shelf.steps), self._cut, self._order, self._counter
        )


def direct(episodes: Iterable[Episode], max_tokens: int, counter: TokenCounter) -> Recollection:
    """Return episodes in the paper's direct layout, cut at their tail."""
    shelf = _Shelf()
    for episode in episodes:
        shelf.add(episode, counter)
    view = HistoryView(shelf, len(shelf.ids), len(shelf.steps), "tail", "time", counter)
    return view.fitted(max_tokens)
