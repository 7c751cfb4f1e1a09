"""Building blocks of pictures: plain SVG text, everything escaped, no image library.

Every picture brings its own light background, so that it reads alike on light and dark pages.
"""

from collections.abc import Iterable
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

INK, FAINT, PAPER = "#1f2933", "#6b7785", "#f6f7f4"
FONT = "ui-monospace, 'DejaVu Sans Mono', Consolas, monospace"


def element(name: str, content: str = "", /, **attributes: object) -> str:
    """Return an element; underscores in attribute names become hyphens.

    Args:
        name: The tag.
        content: Finished SVG inside it; see ``text`` for foreign words.
        attributes: Floats are shown with at most two decimals.
    """
    shown = "".join(
        f" {key.replace('_', '-')}={_value(value)}" for key, value in attributes.items()
    )
    return f"<{name}{shown}>{content}</{name}>" if content else f"<{name}{shown}/>"


@lru_cache(maxsize=20_000)  # boards repeat their cells from step to step
def rect(x: float, y: float, width: float, height: float, fill: str, **more: object) -> str:
    """Return a rectangle."""
    return element("rect", x=x, y=y, width=width, height=height, fill=fill, **more)


def circle(x: float, y: float, radius: float, fill: str, **more: object) -> str:
    """Return a disc."""
    return element("circle", cx=x, cy=y, r=radius, fill=fill, **more)


def text(x: float, y: float, words: str, size: float = 13, **more: object) -> str:
    """Return a line of text, escaped; ``y`` is its base line."""
    style = {"font_size": size, "fill": INK} | more
    return element("text", escape(words), x=x, y=y, **style)


def picture(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """Return a whole picture, one element per line, with a title for screen readers."""
    lines = [
        element("title", escape(title)),
        rect(0, 0, width, height, PAPER, rx=8),
        *parts,
    ]
    body = "\n" + "\n".join(lines) + "\n"
    return (
        element(
            "svg",
            body,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {_number(width)} {_number(height)}",
            width=width,
            height=height,
            role="img",
            font_family=FONT,
        )
        + "\n"
    )


def _value(value: object) -> str:
    """Return an attribute's value in quotes."""
    if isinstance(value, float | int):
        return f'"{_number(value)}"'
    return quoteattr(str(value))


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
