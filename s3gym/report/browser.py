"""The episode browser: which episodes a page shows, and how much of each."""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from s3gym.report.records import ShownEpisode, ShownStep
from s3gym.report.schema import Report

Picture = Callable[[str], str | None]
"""Draws an observation text as SVG; ``None`` or ``ValueError`` says that it cannot read it."""
Source = Callable[[str, str], ShownEpisode]
"""Reads an episode: (label of its store, id)."""

LEAST_BYTES = 6_000


class Pick(NamedTuple):
    """An episode to show, and what it stands for (``best``, ``exploration``, ...)."""

    store: str
    study: str
    kind: str
    episode: str


class Shown(NamedTuple):
    """An episode, the function that draws it, and whether it comes first when room is short."""

    episode: ShownEpisode
    picture: Picture | None
    first: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One step on the page.

    Attributes:
        step: What was recorded.
        image: The observation drawn, as a ``data:`` address; ``None`` without a picture.
        skipped: Steps left out before this one.
    """

    step: ShownStep
    image: str | None
    skipped: int = 0


def data_address(svg: str) -> str:
    """Return SVG text as an address for ``img``: nothing in it can run or reach the page."""
    return "data:image/svg+xml;base64," + b64encode(svg.encode("utf-8", "replace")).decode()


def fitted(
    episodes: Sequence[Shown], limit: int, render: Callable[[ShownEpisode, list[Frame]], str]
) -> list[str]:
    """Return episodes as HTML of at most about ``limit`` bytes together.

    Every episode gets its text, without its middle steps where it is too long; then pictures are
    put in as long as they fit, for the best episodes first.

    Args:
        episodes: What to show.
        limit: Bytes for all of them.
        render: Turns an episode and its frames into HTML.
    """
    share = max(LEAST_BYTES, limit // max(1, len(episodes)))
    texts = [_text(shown.episode, share, render) for shown in episodes]
    left = limit - sum(map(len, texts))
    order = sorted(range(len(episodes)), key=lambda i: (not episodes[i].first, i))
    for index in order:
        shown = episodes[index]
        if left < LEAST_BYTES or shown.picture is None:
            continue
        steps = shown.episode.steps
        drawn = [Frame(step=step, image=_draw(step.observation, shown.picture)) for step in steps]
        text = render(shown.episode, drawn)
        if len(text) - len(texts[index]) <= left:
            left -= len(text) - len(texts[index])
            texts[index] = text
    return texts


def _text(
    episode: ShownEpisode, share: int, render: Callable[[ShownEpisode, list[Frame]], str]
) -> str:
    """Return an episode without pictures; too long a one loses its middle steps."""
    frames = [Frame(step=step, image=None) for step in episode.steps]
    text = render(episode, frames)
    kept = max(2, int(len(frames) * share / max(len(text), 1)))
    if len(text) <= share or len(frames) - kept < 1:
        return text
    head, tail = frames[: (kept + 1) // 2], frames[len(frames) - kept // 2 :]
    tail[0] = replace(tail[0], skipped=len(frames) - kept)
    return render(episode, head + tail)


def _draw(observation: str, picture: Picture | None) -> str | None:
    try:
        svg = picture(observation) if picture else None
    except ValueError:  # no observation of that game: the text itself is shown
        return None
    return None if svg is None else data_address(svg)


def chosen(report: Report) -> list[Pick]:
    """Return the episodes that the report picked; each is shown once."""
    found: list[Pick] = []
    for row in report.picks:
        kinds: dict[str, list[str]] = {}
        for kind, episode in row.episodes.items():
            kinds.setdefault(episode, []).append(kind)
        found += [Pick(row.store, row.study, " and ".join(kinds[e]), e) for e in kinds]
    return found


def picture_of(pictures: Mapping[str, Picture] | None, study: str) -> Picture | None:
    """Return the function that draws the game of a study."""
    return (pictures or {}).get(study.split("/", 1)[0])
