"""Showing foreign text as text: what a model wrote never becomes markup, colour or layout."""

import re
from unicodedata import category

UNUSUAL = re.compile(r"[^\n\t -~]")


def visible(text: str, limit: int | None = None) -> str:
    """Return text with every invisible or steering character made visible.

    Control characters (ESC among them), marks that change the direction of writing, other
    format characters and lone surrogates become their code, as in ``u{1b}`` after a backslash.
    Line ends and tabs stay. HTML is not touched: the page's templates escape it.

    Args:
        text: Anything that an agent, a model, a game or a memory wrote.
        limit: Most characters to show; what is left out is counted.
    """
    cut = ""
    if limit is not None and len(text) > limit:
        text, cut = text[:limit], f"… ({len(text)} characters in all)"
    return UNUSUAL.sub(_shown, text) + cut


def _shown(found: re.Match[str]) -> str:
    character = found.group()
    code = ord(character)
    if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co"):
        return f"\\u{{{code:x}}}"
    return character


def one_line(text: str, limit: int = 200) -> str:
    """Return ``visible`` text in one line."""
    return visible(text, limit).replace("\n", "\u23ce").replace("\t", " ")
