"""Cutting text to a token budget, at the start of a line.

A line end followed by a visible character is a place where tiktoken's tokenizers and our
estimate never join what stands on both sides. So the counts of such blocks add up exactly, and
text is counted block by block, each once.
"""

import re
from dataclasses import dataclass

from s3gym.contracts.chat import TokenCounter

BLOCK_STARTS = re.compile(r"(?<=\n)(?=\S)")
WINDOW = 4_000


@dataclass(frozen=True, slots=True)
class Fitted:
    """Text that fits.

    Attributes:
        text: Without line ends at its end.
        tokens: Its size.
        blocks: How many blocks were kept.
        dropped: How many were left out.
    """

    text: str
    tokens: int
    blocks: int
    dropped: int


def fit(text: str, max_tokens: int, counter: TokenCounter) -> Fitted:
    """Return the longest beginning that fits, cut at the start of a line."""
    return fit_blocks(
        BLOCK_STARTS.split(text.rstrip()) if text.rstrip() else [], max_tokens, counter
    )


def fit_blocks(blocks: list[str], max_tokens: int, counter: TokenCounter) -> Fitted:
    """Return the first blocks that fit.

    Args:
        blocks: Each starts with a visible character; all but the last end in a line end.
        max_tokens: Most tokens of the text.
        counter: Counts tokens.
    """
    before = tokens = kept = 0
    for block in blocks:
        bare = block.rstrip("\n")
        alone = counter.count(bare)
        if before + alone > max_tokens:
            break
        tokens, kept = before + alone, kept + 1
        before += counter.count(block) if block != bare else alone
    return Fitted("".join(blocks[:kept]).rstrip("\n"), tokens, kept, len(blocks) - kept)


def joined_tokens(text: str, tokens: int, separator: str, counter: TokenCounter) -> int:
    """Return the size of ``text + separator``, given the size of ``text``.

    Only the last block of the text is counted again.

    Args:
        text: What was counted before.
        tokens: Its size.
        separator: Line ends.
        counter: Counted the text.
    """
    last = last_block(text)
    return tokens - counter.count(last) + counter.count(last + separator)


def bare_tokens(text: str, joined: int, separator: str, counter: TokenCounter) -> int:
    """Return the size of ``text``, given that of ``text + separator``; see ``joined_tokens``."""
    last = last_block(text)
    return joined - counter.count(last + separator) + counter.count(last)


def last_block(text: str) -> str:
    """Return the end of a text, from the last line that starts with a visible character."""
    end = text[-WINDOW:]
    start = max((match.start() for match in BLOCK_STARTS.finditer(end)), default=-1)
    return end[start:] if start >= 0 else text
