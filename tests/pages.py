"""Reading Markdown pages: fenced blocks, headings and links."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<info>[^`\n]*)$")
NOT_RUN = re.compile(r"^ *<!-- not run: .+ -->$")
TITLE = re.compile(r'title="([^"]+)"')
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block of a page.

    Attributes:
        language: First word after the opening fence.
        title: File that the block is saved as, for later blocks to import; often empty.
        line: Line of the page that the first line of ``text`` stands on, from 1.
        skipped: A line ``<!-- not run: reason -->`` stands before it.
    """

    language: str
    title: str
    text: str
    line: int
    skipped: bool


def pages() -> list[Path]:
    """Return every page that people read."""
    tops = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [page for page in tops if page.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page, in order."""
    opening: re.Match[str] | None = None
    first, inside, before = 0, list[str](), ""
    for number, line in enumerate(text.split("\n"), start=1):
        fence = FENCE.match(line)
        if opening is None:
            if fence:
                opening, first, inside = fence, number + 1, []
            elif line.strip():
                before = line
        elif fence and fence["ticks"].startswith(opening["ticks"]) and not fence["info"].strip():
            title = TITLE.search(opening["info"])
            yield Block(
                language=(opening["info"].split() or [""])[0],
                title=title[1] if title else "",
                text=dedent("\n".join(inside) + "\n"),
                line=first,
                skipped=bool(NOT_RUN.match(before)),
            )
            opening, before = None, ""
        else:
            inside.append(line)
    if opening is not None:
        raise ValueError(f"the block that starts in line {first - 1} has no end")


def prose(text: str) -> str:
    """Return a page without its fenced blocks and code spans."""
    kept: list[str] = []
    ticks = ""
    for line in text.split("\n"):
        fence = FENCE.match(line)
        if not ticks and fence:
            ticks = fence["ticks"]
        elif ticks:
            if fence and fence["ticks"].startswith(ticks):
                ticks = ""
        else:
            kept.append(re.sub(r"`[^`]*`", "code", line))
    return "\n".join(kept)


def links(text: str) -> list[str]:
    """Return the targets of a page's links, without those to other sites."""
    return [target for target in LINK.findall(prose(text)) if "://" not in target]


def anchors(text: str) -> set[str]:
    """Return the anchors of a page's headings, as code hosts make them."""
    found = (re.sub(r"[^\w\- ]", "", title.lower()) for title in HEADING.findall(text))
    return {title.replace(" ", "-") for title in found}
