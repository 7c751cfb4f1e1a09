"""The paper's published figures, to put beside one's own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from s3gym.report import words
from s3gym.report.schema import Report

PATHWAYS = ("history", "summary")
EVERY = "all"
CAVEATS = (
    "The paper has one run per cell and three evaluation episodes per checkpoint, so how sure a "
    "difference between its rows is, is not known.",
    "The paper shipped no code: boards, seeds and prompts differ; levels are close at best.",
    "Chess: the paper's scores are multiples of 1/225, as if 15 units a step were scored; here "
    "the 22 pieces count, so the levels cannot be compared.",
    "Trust: the paper's scores hold quarter points that no printed payoff gives; here every "
    "payoff is a whole number.",
    "Compare AUC+ within a game only: games have scales of their own.",
    "NMAE: the paper scales by the extremes of a game, here by those of an agent in a game.",
    "Coupling: the gap columns of the paper's row for all games may be misread.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperRow:
    """One line of the comparison with the paper.

    Attributes:
        pathway: ``history`` or ``summary``.
        who: A model of the paper, or an agent of the report.
        published: True for the paper's own rows.
        repeats: Repeats behind the numbers; 1 in the paper.
    """

    game: str
    pathway: str
    who: str
    published: bool
    repeats: int
    avg: float | None
    max: float | None
    auc_plus: float | None


class PaperLine(NamedTuple):
    """One line of a table beside the paper's; ``who`` is an agent, or what the paper pooled."""

    game: str
    who: str
    cells: tuple[str, ...]
    published: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperTable:
    """A table of the paper with one's own lines above the published ones, game by game."""

    title: str
    columns: tuple[str, ...]
    lines: list[PaperLine]


@cache
def paper_tables() -> Mapping[str, Any]:
    """Return the paper's tables 4 to 7 and the figures of its text, as shipped."""
    text = (files("s3gym.data") / "paper_tables.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def paper_rows(report: Report) -> list[PaperRow]:
    """Return the report's arms with a pathway of the paper, each above the published rows.

    Games and memories that the paper does not have are left out. ``CAVEATS`` says what the
    comparison is worth.
    """
    tables = paper_tables()
    found = []
    for game in tables["games"]:
        for pathway in PATHWAYS:
            own = [arm for arm in report.arms if (arm.game, arm.memory) == (game, pathway)]
            if not own:
                continue
            found += [
                PaperRow(
                    game=game,
                    pathway=pathway,
                    who=arm.agent,
                    published=False,
                    repeats=len(arm.repeats),
                    avg=arm.metrics["avg"].mean,
                    max=arm.metrics["max"].mean,
                    auc_plus=arm.metrics["auc_plus"].mean,
                )
                for arm in own
            ]
            printed = tables["table4"][pathway]
            found += [
                PaperRow(
                    game=game,
                    pathway=pathway,
                    who=model,
                    published=True,
                    repeats=1,
                    avg=printed["avg"][model][game],
                    max=printed["max"][model][game],
                    auc_plus=printed["auc_plus"][model][game],
                )
                for model in tables["models"]
            ]
    return found


def paper_beside(report: Report) -> list[PaperTable]:
    """Return the paper's tables 5 to 7 with the report's own lines; games in common only."""
    found = [_judging(report), _coupling(report), _pathways(report)]
    return [table for table in found if table.lines]


def _judging(report: Report) -> PaperTable:
    scope = paper_tables()["table5_scope"]
    own = [
        PaperLine(
            row.game,
            _who(row.agent, row.store),
            (
                words.percent(row.judging.agreement),
                words.number(row.judging.nmae),
                words.percent(row.judging.over_confidence),
                words.percent(row.judging.under_confidence),
            ),
            published=False,
        )
        for row in report.judging
        if not row.memory
    ]
    published = {
        game: (
            words.percent(row["agreement"]),
            words.number(row["nmae"]),
            words.percent(row["over_confidence"]),
            words.percent(row["under_confidence"]),
        )
        for game, row in paper_tables()["table5_self_judging"].items()
    }
    return PaperTable(
        title="Self-judging (the paper's table 5)",
        columns=("agreement", "NMAE", "over", "under"),
        lines=_beside(own, published, f"{scope['runs']} runs"),
    )


def _coupling(report: Report) -> PaperTable:
    names = ("rho_agreement_gain", "rho_calibration_gain", "gap_agreement", "gap_calibration")
    own = [
        PaperLine(
            row.game or EVERY,
            f"{row.coupling.n_blocks} blocks",
            tuple(words.number(getattr(row.coupling, name), signed=True) for name in names),
            published=False,
        )
        for row in report.coupling
    ]
    published = {
        game: tuple(words.number(row[name], signed=True) for name in names)
        for game, row in paper_tables()["table6_coupling"].items()
    }
    return PaperTable(
        title="Judging and the gain after it (the paper's table 6)",
        columns=("rho(A, g)", "rho(\u2212E, g)", "gap by A", "gap by \u2212E"),
        lines=_beside(own, published, f"{paper_tables()['table5_scope']['runs']} runs"),
    )


def _pathways(report: Report) -> PaperTable:
    own = [
        PaperLine(
            row.game,
            _who(row.agent, row.store),
            (
                str(row.wins.n_pairs),
                str(row.wins.summary_wins),
                str(row.wins.history_wins),
                str(row.wins.ties),
                words.number(row.wins.mean_delta_naba, signed=True),
            ),
            published=False,
        )
        for row in report.pathways
    ]
    published = {
        game: (
            str(row["pairs"]),
            str(row["summary_wins"]),
            str(row["history_wins"]),
            str(row["ties"]),
            words.number(row["mean_delta_naba"], signed=True),
        )
        for game, row in paper_tables()["table7_summary_vs_history"].items()
    }
    return PaperTable(
        title="Summary against history (the paper's table 7)",
        columns=("pairs", "summary", "history", "ties", "mean ΔNABA"),
        lines=_beside(own, published, f"{len(paper_tables()['models'])} models"),
    )


def _who(agent: str, store: str) -> str:
    return f"{agent} [{store}]" if store else agent


def _beside(
    own: list[PaperLine], published: Mapping[str, tuple[str, ...]], who: str
) -> list[PaperLine]:
    """Return one's own lines, and the paper's after the last one of each game."""
    found = []
    for game in dict.fromkeys(line.game for line in own):
        if game in published:
            found += [line for line in own if line.game == game]
            found.append(PaperLine(game, who, published[game], published=True))
    return found if any(line.game != EVERY for line in found) else []
