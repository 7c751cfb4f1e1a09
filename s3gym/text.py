"""Showing foreign text safely in one line of a message."""


def shorten(value: object, limit: int = 80) -> str:
    """Return ``repr(value)`` cut to about ``limit`` characters, in one printable line.

    Long strings are cut before ``repr``, so that a 10 MB action costs nothing.
    """
    if isinstance(value, str) and len(value) > limit:
        return f"{value[:limit]!a}... ({len(value)} characters)"
    shown = ascii(value)
    return shown if len(shown) <= limit + 20 else f"{shown[:limit]}..."
