"""Making foreign text safe: in one line of a message, and in a file."""


def shorten(value: object, limit: int = 80) -> str:
    """Return ``repr(value)`` cut to about ``limit`` characters, in one printable line.

    Long strings are cut before ``repr``, so that a 10 MB action costs nothing.
    """
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]!a}... ({len(value)} characters)"
    shown = ascii(value)
    return shown if len(shown) <= limit + 20 else f"{shown[:limit]}..."


def storable(text: str) -> str:
    """Return text with a question mark for each lone surrogate, which no file can hold.

    Of a subclass, whose methods may be anything, the plain text is taken.
    """
    text = str.__str__(text)
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
