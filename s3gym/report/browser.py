"""The episode browser: which episodes a page shows, and how much of each."""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from s3gym.report.records import ShownEpisode, ShownStep
from s3gym.report.schema import Report

Picture = Callable[[str], str | None]
"""Draws an observation text as SVG, or returns ``None`` when it cannot read it."""
Source = Callable[[str, str], ShownEpisode]
"""Reads an episode: (label of its store, id)."""

LEAST_BYTES = 6_000


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


def frames(
    episode: ShownEpisode, picture: Picture | None, render: Callable[[list[Frame]], str], limit: int
) -> str:
    """Return an episode as HTML of at most about ``limit`` bytes.

    What does not fit loses its pictures first, then its middle steps.

    Args:
        episode: What to show.
        picture: Draws its observations.
        render: Turns frames into HTML.
        limit: Bytes.
    """
    drawn = [Frame(step=step, image=_draw(step.observation, picture)) for step in episode.steps]
    text = render(drawn)
    if len(text) <= limit:
        return text
    if picture is not None:
        drawn = [Frame(step=frame.step, image=None) for frame in drawn]
        text = render(drawn)
    if len(text) <= limit or len(drawn) < 3:
        return text
    kept = max(2, int(len(drawn) * limit / len(text)))
    head, tail = drawn[: (kept + 1) // 2], drawn[len(drawn) - kept // 2 :]
    rest = len(drawn) - len(head) - len(tail)
    if rest > 0:
        tail[0] = Frame(step=tail[0].step, image=tail[0].image, skipped=rest)
        return render(head + tail)
    return text


def _draw(observation: str, picture: Picture | None) -> str | None:
    svg = picture(observation) if picture else None
    return None if svg is None else data_address(svg)


def chosen(report: Report) -> list[tuple[str, str, str, str]]:
    """Return (store, study, kind, episode id) of every pick; an episode is shown once."""
    found = []
    for row in report.picks:
        kinds: dict[str, list[str]] = {}
        for kind, episode in row.episodes.items():
            kinds.setdefault(episode, []).append(kind)
        found += [(row.store, row.study, " and ".join(kinds[e]), e) for e in kinds]
    return found


def share(report: Report, max_bytes: int) -> int:
    """Return how many bytes each shown episode may take."""
    return max(LEAST_BYTES, max_bytes // max(1, len(chosen(report))))


def picture_of(pictures: Mapping[str, Picture] | None, study: str) -> Picture | None:
    """Return the function that draws the game of a study."""
    return (pictures or {}).get(study.split("/", 1)[0])
