"""The report as one self-contained page: no network, no script needed, light and dark, printable.

Everything that an agent, a model, a game or a memory wrote is data: each value passes
``visible`` and the templates' escaping, pictures are ``img`` elements that cannot run anything,
and the page's security policy admits one script by its hash.
"""

import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from s3gym.report import browser, charts, words
from s3gym.report.browser import Frame, Picture, Source
from s3gym.report.build import answers, name_of
from s3gym.report.paper import CAVEATS, PaperRow, PaperTable
from s3gym.report.records import ShownEpisode, StudyRecord
from s3gym.report.safe import visible
from s3gym.report.schema import ArmRow, ComparisonRow, Report, TrainingRow
from s3gym.report.trained import machine_of, progress

EPISODE_BYTES = 6_000_000
STUDY_BYTES = 20_000_000
SHOWN_CHARACTERS = 1500


@cache
def _file(name: str) -> str:
    return (files("s3gym.report") / name).read_text(encoding="utf-8")


def _shown(value: Any) -> Any:
    """Make text visible before it is escaped; markup of our own passes."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=DictLoader(
            {name: _file(name) for name in ("page.html", "episode.html", "study.html")}
        ),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.globals.update(
        number=words.number,
        percent=words.percent,
        count=words.count,
        probability=words.probability,
        interval=words.interval,
        spread=words.spread,
        change=words.change,
        missing=words.MISSING,
        command=_command,
        shorten=lambda text: visible(text, SHOWN_CHARACTERS),
    )
    return environment


def to_html(
    report: Report,
    *,
    episode: Source | None = None,
    pictures: Mapping[str, Picture] | None = None,
    paper: Sequence[PaperRow] = (),
    beside: Sequence[PaperTable] = (),
    audit: str = "",
    links: Mapping[tuple[str, str], str] | None = None,
    episode_bytes: int = EPISODE_BYTES,
) -> str:
    """Return the page.

    Args:
        report: What to say.
        episode: Reads an episode, (label of its store, id); no episode browser without it.
        pictures: Game -> function that draws an observation text as SVG.
        paper: Published rows to put beside the user's, see ``paper_rows``.
        beside: The paper's further tables with the user's lines, see ``paper_beside``.
        audit: What an audit of the store found, in a sentence.
        links: (label of the store, study) -> address of a page with all its episodes.
        episode_bytes: About how much the episodes may take of the page.
    """
    studies = _studies(report, episode, pictures, episode_bytes) if episode else []
    if links:
        studies = [entry | {"link": links.get(entry["key"], "")} for entry in studies]
    games = sorted({row.game for row in report.arms})
    page = _environment().get_template("page.html")
    return page.render(
        report=report,
        title=", ".join(games) or "no study",
        **_frame(),
        n_steps=sum(row.n_exploration_steps for row in report.studies),
        sections=_sections(report, bool(studies)),
        answers=answers(report.arms, report.comparisons, report.judging, report.transfer),
        panels=_panels(report),
        judging_panels=[
            {"title": name_of(row), "svg": charts.self_judging(row)}
            for row in report.judging
            if not row.memory and row.cells
        ],
        difference=_difference(report.comparisons),
        training=_training(report),
        studies=studies,
        paper=paper,
        beside=beside,
        caveats=CAVEATS,
        audit=audit,
    )


def _frame() -> dict[str, Any]:
    """Return what every page brings along: style, script and the policy that admits it."""
    script = Markup(_file("page.js"))  # ours
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return {
        "policy": f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        "style": Markup(_file("page.css") + charts.STYLE),  # ours
        "script": script,
    }


def _command(value: object) -> str:
    """Return a recorded command line as it can be typed."""
    return shlex.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def study_page(
    study: StudyRecord, episode: Source, pictures: Mapping[str, Picture] | None = None
) -> str:
    """Return a page with all finished episodes of a study, exploration first.

    Args:
        study: Which one.
        episode: Reads an episode, (label of its store, id).
        pictures: Game -> function that draws an observation text as SVG.
    """
    rows = [(row, "exploration") for row in study.exploration]
    rows += [(row, f"evaluation at {row.place}") for row in study.evaluation]
    picks = [browser.Pick(study.store, study.id, kind, row.id) for row, kind in rows]
    return (
        _environment()
        .get_template("study.html")
        .render(
            name=f"{study.id} [{study.store}]" if study.store else study.id,
            episodes=_rendered(picks, episode, pictures, STUDY_BYTES),
            **_frame(),
        )
    )


def _sections(report: Report, episodes: bool) -> list[tuple[str, str]]:
    found = [("curves", "Learning curves"), ("gains", "Gain by experience"), ("scores", "Scores")]
    found.append(("training", "Training"))
    found += [("judging", "Self-judging"), ("stages", "Where does it break?")]
    found += [("health", "Replies, memory and cost"), ("episodes", "Episodes")]
    found.append(("run", "How to check it"))
    absent = {
        "gains": not report.comparisons,
        "training": not report.transfer,
        "stages": not report.stages,
        "episodes": not episodes,
    }
    return [(anchor, name) for anchor, name in found if not absent.get(anchor)]


def _panels(report: Report) -> list[dict[str, Any]]:
    """Return the learning-curve figures, one per game and agent, with their legends."""
    groups: dict[str, list[ArmRow]] = {}
    for arm in report.arms:
        groups.setdefault(name_of(arm), []).append(arm)
    colours = charts.colours_of(report.arms)
    panels = []
    for title, arms in groups.items():
        levels = list(report.anchors.get(arms[0].game, {}).items())
        svg = charts.curves(arms, [colours[arm.memory] for arm in arms], levels)
        legend: list[tuple[str, Markup, str]] = [
            (arm.memory, _key(colours[arm.memory]), f"{len(arm.repeats)} repeats") for arm in arms
        ]
        legend += [(name, Markup(), words.number(level)) for name, level in levels]
        panels.append({"title": title, "svg": svg, "legend": legend})
    return panels


def _training(report: Report) -> list[dict[str, Any]]:
    """Return per arm that trains: its row, what its updates came to, its figures and studies."""
    found = []
    for arm in report.transfer:
        rows: list[TrainingRow] = [
            row
            for row in report.training
            if (row.game, row.agent, row.memory, row.store)
            == (arm.game, arm.agent, arm.memory, arm.store)
        ]
        figures = []
        if any(cell.losses for row in rows for cell in row.updates):
            figures.append(("Loss", charts.losses(rows)))
        if any(cell.contract is not None for row in rows for cell in row.updates):
            figures.append(("Replies inside the contract", charts.in_contract(rows)))
        found.append(
            {
                "arm": arm,
                "name": name_of(arm),
                "progress": progress(report, arm),
                "figures": figures,
                "studies": [{"row": row, "machine": machine_of(report, row)} for row in rows],
            }
        )
    return found


def _key(colour: int) -> Markup:
    return Markup(  # our own numbers
        f'<svg viewBox="0 0 14 14" aria-hidden="true" class="chart c{colour}">'
        f"{charts.mark(colour, 7, 7)}</svg>"
    )


def _difference(rows: Sequence[ComparisonRow]) -> Any:
    reaches = {
        game: charts.reach_of(row for row in rows if row.game == game)
        for game in {row.game for row in rows}
    }
    return lambda row: charts.difference(row, reaches[row.game])


def _studies(
    report: Report, episode: Source, pictures: Mapping[str, Picture] | None, limit: int
) -> list[dict[str, Any]]:
    """Return the episode browser: study -> rendered episodes."""
    picks = browser.chosen(report)
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for pick, entry in zip(picks, _rendered(picks, episode, pictures, limit), strict=True):
        found.setdefault(pick[:2], []).append(entry)
    return [
        {
            "key": (store, study),
            "name": f"{study} [{store}]" if store else study,
            "episodes": episodes,
            "link": "",
        }
        for (store, study), episodes in found.items()
    ]


def _rendered(
    picks: Sequence[browser.Pick],
    episode: Source,
    pictures: Mapping[str, Picture] | None,
    limit: int,
) -> list[dict[str, Any]]:
    template = _environment().get_template("episode.html")

    def render(shown: ShownEpisode, frames: list[Frame]) -> str:
        return template.render(frames=frames, closing=shown.closing)

    shown = [
        browser.Shown(
            episode(pick.store, pick.episode),
            browser.picture_of(pictures, pick.study),
            pick.kind.startswith("best"),
        )
        for pick in picks
    ]
    return [
        {
            "kind": pick.kind,
            "id": pick.episode.removeprefix(f"{pick.study}/"),
            "score": one.episode.score,
            "n_steps": len(one.episode.steps),
            "html": Markup(html),  # rendered and escaped by our template
        }
        for pick, one, html in zip(picks, shown, browser.fitted(shown, limit, render), strict=True)
    ]
