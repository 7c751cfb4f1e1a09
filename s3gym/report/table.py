"""The report in a terminal: tables that fit 80 columns and files alike."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from s3gym.report import words
from s3gym.report.paper import CAVEATS, PaperRow, PaperTable
from s3gym.report.safe import one_line
from s3gym.report.schema import (
    ArmRow,
    ComparisonRow,
    CostRow,
    JudgingRow,
    PathwayRow,
    Report,
    StudyRow,
    TransferRow,
)
from s3gym.report.trained import progress

TONES = {"better": "green", "worse": "red", "unclear": "yellow"}
Cell = str | Text


def print_table(report: Report, console: Console) -> None:
    """Print a report.

    Args:
        report: What to say.
        console: Where to; without a terminal it prints plain lines.
    """
    for sentence in report.summary:
        _say(console, one_line(sentence, 2000), bold=True)
    for warning in report.warnings:
        outside = warning.startswith("OUTSIDE")
        _say(console, f"! {one_line(warning)}", tone="red" if outside else "yellow")
    if not report.arms:
        _say(console, "The store holds no study.")
        return
    _print(console, "Scores (mean over repeats, in game points)", *_scores(report.arms))
    if report.comparisons:
        _print(console, "Gain by experience: arm minus none", *_gains(report.comparisons))
    if report.transfer:
        _print(console, "Training: scores by weights", *_transfer(report.transfer))
        _print(console, "Training: updates, from the first to the last", *_updates(report))
    overall = [row for row in report.judging if not row.memory]
    _print(console, "Self-judging in exploration", *_judging(overall))
    if report.pathways:
        _print(console, "Summary against history, by NABA", *_pathways(report.pathways))
    _stages(report, console)
    _print(console, "Replies, memory and cost", *_health(report))
    for row in report.departures:
        _say(console, f"unlike the paper: {row.setting} = {row.here} (paper: {row.paper})")
    _apart(report.studies, console)
    for label, root in report.roots.items():
        where = f" of {one_line(label)}" if label else ""
        _say(console, f"root{where} {root or 'not sealed: a study is unfinished'}")


def _say(console: Console, text: str, *, tone: str = "", bold: bool = False) -> None:
    style = " ".join(part for part in (tone, "bold" if bold else "") if part)
    console.print(Text(text, style=style))


def _print(
    console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[Cell]]
) -> None:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for column in columns:
        text = column in ("game", "agent", "memory", "who")
        table.add_column(column, justify="left" if text else "right", overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(cell) for cell in row))
    console.print()
    console.print(table)


def _who(row: ArmRow | ComparisonRow | JudgingRow | CostRow | TransferRow | PathwayRow) -> str:
    return one_line(f"{row.agent} [{row.store}]" if row.store else row.agent, 40)


def _names(row: ArmRow | ComparisonRow | JudgingRow | CostRow | TransferRow) -> list[Cell]:
    return [one_line(row.game, 30), _who(row), one_line(row.memory, 30)]


def _scores(arms: Sequence[ArmRow]) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "memory", "n", "Avg", "Max", "AUC+", "area", "skill"]
    rows: list[list[Cell]] = []
    for arm in arms:
        found = arm.metrics
        cells = [words.number(found[name].mean) for name in ("avg", "max", "auc_plus")]
        area = words.number(found["signed_area"].mean, signed=True)
        skill = words.number(arm.skill.mean if arm.skill else None)
        rows.append([*_names(arm), str(len(arm.repeats)), *cells, area, skill])
    return columns, rows


def _gains(compared: Sequence[ComparisonRow]) -> tuple[list[str], list[list[Cell]]]:
    tested = any(row.p is not None for row in compared)
    columns = ["game", "agent", "memory", "n", "gain", "95 % interval", ""]
    if tested:
        columns[-1:] = ["p", "q", ""]
    rows: list[list[Cell]] = []
    for row in compared:
        few = len(row.repeats) < 3
        reads = "one run cannot tell" if few else row.direction
        chances = [words.probability(row.p), words.probability(row.q)] if tested else []
        rows.append(
            [
                *_names(row),
                str(len(row.repeats)),
                words.number(row.mean, signed=True),
                words.interval(row.low, row.high),
                *chances,
                Text(reads, style=TONES[row.direction]),
            ]
        )
    return columns, rows


def _transfer(arms: Sequence[TransferRow]) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "n", "base", "mean after", "max after", "final", "below base", ""]
    rows: list[list[Cell]] = []
    for row in arms:
        tone = {"positive": "better", "negative": "worse"}.get(row.transfer, "unclear")
        rows.append(
            [
                *_names(row)[:2],
                str(len(row.repeats)),
                words.number(row.base.mean),
                words.number(row.later.mean),
                words.number(row.later_best.mean),
                words.number(row.final_change.mean, signed=True),
                f"{row.n_worse} of {row.n_points}",
                Text(
                    f"{row.transfer} transfer" if row.transfer != "unclear" else "unclear",
                    style=TONES[tone],
                ),
            ]
        )
    return columns, rows


def _updates(report: Report) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "trained", "examples", "tokens", "loss", "in contract", "s", "MB"]
    rows: list[list[Cell]] = []
    for arm in report.transfer:
        found = progress(report, arm)
        rows.append(
            [
                *_names(arm)[:2],
                f"{found.n_trained} of {found.n_updates}",
                words.count(found.n_examples),
                words.count(found.tokens),
                words.change(found.losses, words.number),
                words.change(found.contract, words.percent),
                words.count(found.seconds),
                words.count(found.peak_mb),
            ]
        )
    return columns, rows


def _judging(judging: Sequence[JudgingRow]) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "steps", "agree", "NMAE", "over", "under", "informed", "missing"]
    rows: list[list[Cell]] = []
    for row in judging:
        found = row.judging
        rows.append(
            [
                *_names(row)[:2],
                words.count(found.n_steps),
                words.percent(found.agreement),
                words.number(found.nmae),
                words.percent(found.over_confidence),
                words.percent(found.under_confidence),
                words.number(row.informedness),
                words.percent(found.missing_share),
            ]
        )
    return columns, rows


def _pathways(pathways: Sequence[PathwayRow]) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "pairs", "undefined", "summary", "history", "ties"]
    columns.append("mean ΔNABA")
    rows: list[list[Cell]] = []
    for row in pathways:
        found = row.wins
        wins = (found.summary_wins, found.history_wins, found.ties)
        counts = (found.n_pairs, found.n_undefined, *wins)
        delta = words.number(found.mean_delta_naba, signed=True)
        rows.append([one_line(row.game, 30), _who(row), *map(str, counts), delta])
    return columns, rows


def _stages(report: Report, console: Console) -> None:
    if not report.stages:
        return
    console.print()
    _say(console, "Where does it break?", bold=True)
    for row in report.stages:
        name = one_line(f"{row.game}, {row.agent}, {row.memory}")
        _say(console, f"{name}: {row.sentence}")


def _apart(studies: Sequence[StudyRow], console: Console) -> None:
    """Say how agents were kept apart from the verifier, and whose isolation nobody can prove."""
    for kept in sorted({row.kept for row in studies}):
        arms = dict.fromkeys(_arm(row) for row in studies if row.kept == kept)
        whose = "" if all(row.kept == kept for row in studies) else f": {'; '.join(arms)}"
        count = sum(row.kept == kept for row in studies)
        _say(console, f"agents kept {kept} ({count} of {len(studies)} studies){whose}")
    for parts in sorted({tuple(row.not_provable) for row in studies} - {()}):
        arms = dict.fromkeys(_arm(row) for row in studies if tuple(row.not_provable) == parts)
        _say(console, f"isolation not provable ({' and '.join(parts)}): {'; '.join(arms)}")


def _arm(row: StudyRow) -> str:
    store = f" [{row.store}]" if row.store else ""
    return one_line(f"{row.game}, {row.agent}{store}, {row.memory}")


def _worst(rows: Iterable[StudyRow], name: str) -> float | None:
    values = [getattr(row, name) for row in rows]
    return max((value for value in values if value is not None), default=None)


def _health(report: Report) -> tuple[list[str], list[list[Cell]]]:
    columns = ["game", "agent", "memory", "invalid", "unread", "refused", "cut", "tokens", "$"]
    rows: list[list[Cell]] = []
    for arm, cost in zip(report.arms, report.costs, strict=True):
        names = _names(arm)
        studies = [
            row
            for row in report.studies
            if (row.game, row.agent, row.memory, row.store)
            == (arm.game, arm.agent, arm.memory, arm.store)
        ]
        rows.append(
            [
                *names,
                str(arm.n_invalid),
                words.percent(_worst(studies, "unparsed")),
                words.percent(_worst(studies, "refused")),
                words.percent(_worst(studies, "recalls_cut")),
                words.count(cost.input_tokens + cost.output_tokens),
                words.number(cost.usd),
            ]
        )
    return columns, rows


def print_paper(
    rows: Sequence[PaperRow], console: Console, beside: Sequence[PaperTable] = ()
) -> None:
    """Print one's own arms above the paper's published rows, and what that is worth.

    Args:
        rows: Table 4, see ``paper_rows``.
        console: Where to.
        beside: Tables 5 to 7, see ``paper_beside``.
    """
    columns = ["game", "memory", "who", "Avg", "Max", "AUC+"]
    cells: list[list[Cell]] = [
        [
            row.game,
            row.pathway,
            Text(one_line(row.who, 40), style="" if row.published else "bold"),
            words.number(row.avg),
            words.number(row.max),
            words.number(row.auc_plus),
        ]
        for row in rows
    ]
    if not cells and not beside:
        _say(console, "The paper has no row for these games and memories.")
        return
    if cells:
        _print(console, "The paper's figures below these", columns, cells)
    for table in beside:
        lines: list[list[Cell]] = [
            [
                one_line(line.game, 30),
                Text(
                    f"{line.who}, paper" if line.published else one_line(line.who, 40),
                    style="" if line.published else "bold",
                ),
                *line.cells,
            ]
            for line in table.lines
        ]
        _print(console, table.title, ["game", "who", *table.columns], lines)
    for caveat in CAVEATS:
        _say(console, f"- {caveat}")
