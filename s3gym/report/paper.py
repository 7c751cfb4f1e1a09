"""The paper's published figures, to put beside one's own."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from s3gym.report.schema import Report

PATHWAYS = ("history", "summary")
CAVEATS = (
    "The paper has one run per cell and three evaluation episodes per checkpoint, so how sure a "
    "difference between its rows is, is not known.",
    "The paper shipped no code: boards, seeds and prompts differ; levels are close at best.",
    "Chess: the paper's scores are multiples of 1/225, as if 15 units a step were scored; here "
    "the 22 pieces count, so the levels cannot be compared.",
    "Trust: the paper's scores hold quarter points that no printed payoff gives; here every "
    "payoff is a whole number.",
    "Compare AUC+ within a game only: games have scales of their own.",
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
