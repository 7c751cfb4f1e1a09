"""How many repeats a question needs, from the spread that a finished run showed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table
from rich.text import Text

from s3gym import metrics
from s3gym.report import words
from s3gym.report.safe import one_line
from s3gym.report.schema import Report

SHARES = (0.05, 0.1, 0.25, 0.5)
"""Effects asked for, as shares of the way from random play to the reference player."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerRow:
    """What the repeats of one comparison say about a next run.

    Attributes:
        n: Repeats behind the spread.
        sd: Standard deviation of the paired difference between repeats, in game points; from
            few repeats it is a rough guess itself.
        detectable: Least true difference found in 4 of 5 runs with as many repeats.
        needed: (effect in game points, share of the way or ``None``, repeats or ``None``).
    """

    game: str
    agent: str
    memory: str
    n: int
    sd: float
    detectable: float | None
    needed: tuple[tuple[float, float | None, int | None], ...]


def power_rows(report: Report) -> list[PowerRow]:
    """Return a row for every comparison of at least three repeats with some spread.

    Effects are shares of the way from random play to the reference player where those are
    known, else the difference that was seen.
    """
    rows = []
    for row in report.comparisons:
        spread = metrics.standard_deviation(row.differences)
        if row.low is None or not spread:
            continue
        effects = _effects(report.anchors.get(row.game), row.mean)
        rows.append(
            PowerRow(
                game=row.game,
                agent=row.agent,
                memory=row.memory,
                n=len(row.differences),
                sd=spread,
                detectable=row.detectable,
                needed=tuple(
                    (effect, share, metrics.repeats_needed(spread, effect))
                    for effect, share in effects
                ),
            )
        )
    return rows


def _effects(
    anchors: Mapping[str, float] | None, seen: float | None
) -> list[tuple[float, float | None]]:
    if anchors and anchors["reference"] > anchors["random"]:
        span = anchors["reference"] - anchors["random"]
        return [(share * span, share) for share in SHARES]
    return [(abs(seen), None)] if seen else []


def print_power(rows: Sequence[PowerRow], console: Console) -> None:
    """Print how many repeats find which effect in 4 of 5 runs."""
    if not rows:
        console.print(
            Text(
                "No comparison with memory none has three repeats and some spread: run a few first."
            )
        )
        return
    table = Table(
        title="Repeats that find an effect in 4 of 5 runs (95 % interval)",
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
    )
    for column in ("game", "agent", "memory"):
        table.add_column(column, overflow="fold")
    for column in ("seen", "sd", "effect", "of the way", "repeats"):
        table.add_column(column, justify="right")
    for row in rows:
        names = [one_line(name, 40) for name in (row.game, row.agent, row.memory)]
        for effect, share, repeats in row.needed:
            cells = [
                *names,
                f"{row.n} repeats",
                words.number(row.sd),
                words.number(effect),
                words.percent(share),
                "over 1000" if repeats is None else str(repeats),
            ]
            table.add_row(*map(Text, cells))
            names = ["", "", ""]
    console.print(table)
