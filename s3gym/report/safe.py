"""Showing foreign text as text: what a model wrote never becomes markup, colour or layout."""

from unicodedata import category

KEPT = "\n\t"
PICTURES = {code: chr(0x2400 + code) for code in range(0x20)} | {0x7F: "\u2421"}


def visible(text: str, limit: int | None = None) -> str:
    """Return text with every invisible or steering character made visible.

    Control characters become their Unicode pictures (ESC is shown as one), marks that change
    the direction of writing, other format characters and lone surrogates become their code.
    Line ends and tabs stay. HTML is not touched: the page's templates escape it.

    Args:
        text: Anything that an agent, a model, a game or a memory wrote.
        limit: Most characters to show; what is left out is counted.
    """
    cut = ""
    if limit is not None and len(text) > limit:
        text, cut = text[:limit], f"… ({len(text)} characters in all)"
    if not text.isascii() or any(ord(c) < 0x20 or ord(c) == 0x7F for c in text):
        text = "".join(map(_shown, text))
    return text + cut


def _shown(character: str) -> str:
    if character in KEPT:
        return character
    code = ord(character)
    if code in PICTURES:
        return PICTURES[code]
    if category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp", "Co"):
        return f"\\u{{{code:x}}}"
    return character


def one_line(text: str, limit: int = 200) -> str:
    """Return ``visible`` text in one line."""
    return visible(text, limit).replace("\n", "\u23ce").replace("\t", " ")
