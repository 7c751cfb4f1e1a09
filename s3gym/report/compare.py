"""Two runs, or two arms of one, side by side: what differs, and how sure that is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from s3gym import metrics
from s3gym.errors import ConfigError
from s3gym.report import words
from s3gym.report.arms import Arm, by_arm
from s3gym.report.build import oracle_warning, variant_warnings
from s3gym.report.load import load_store, select
from s3gym.report.records import StoreRecord, StudyRecord
from s3gym.report.safe import one_line
from s3gym.report.table import TONES


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRow:
    """One arm of B against one arm of A; the difference is B minus A, in game points.

    Attributes:
        a: Agent and memory on side A.
        b: The same on side B.
        paired: True when the repeats share their evaluation seeds; then each repeat gives one
            difference, otherwise the sides are independent samples (Welch's interval).
        repeats: Repeats used: common ones if paired, else the smaller number.
        mean_a: Mean score over the checkpoints after 0, over the common repeats if paired.
        mean_b: The same on side B.
        verdict: What follows, in words.
    """

    game: str
    a: str
    b: str
    paired: bool
    repeats: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    detectable: float | None
    direction: str
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All pairs of two sides, and the arms that have no partner."""

    a: str
    b: str
    rows: list[PairRow]
    only_a: list[str]
    only_b: list[str]
    notes: list[str]


def load_side(side: str) -> StoreRecord:
    """Read one side of a comparison.

    Args:
        side: A store, or ``STORE:PREFIX`` for the studies whose id starts with ``PREFIX/``, for
            example ``out.db:trust/strategist/history``.

    Raises:
        StoreError: The store cannot be read, or no study fits.
    """
    path, colon, prefix = side.rpartition(":")
    if Path(side).exists() or not colon or not path:
        return load_store(side)
    return select(load_store(path), prefix)


def compare(a: StoreRecord, b: StoreRecord, *, name_a: str = "A", name_b: str = "B") -> Comparison:
    """Compare two sides game by game.

    Arms with the same agent and memory are partners; where a game has one arm on each side,
    those two are, whatever they are called.

    Raises:
        ConfigError: The sides have no game in common.
    """
    left, right = by_arm(a.studies), by_arm(b.studies)
    left = {arm._replace(store=""): studies for arm, studies in left.items()}
    right = {arm._replace(store=""): studies for arm, studies in right.items()}
    pairs = _partners(left, right)
    if not pairs:
        games = [", ".join(sorted({arm.game for arm in side})) or "none" for side in (left, right)]
        raise ConfigError(
            f"nothing to compare: expected arms in common, got games {games[0]} in {name_a} and "
            f"{games[1]} in {name_b}; name one arm each as STORE:GAME/AGENT/MEMORY"
        )
    rows = [_row(x, left[x], y, right[y], name_a, name_b) for x, y in pairs]
    return Comparison(
        a=name_a,
        b=name_b,
        rows=_adjusted(rows),
        only_a=_alone(left, {x for x, _ in pairs}),
        only_b=_alone(right, {y for _, y in pairs}),
        notes=[
            *_outside(name_a, [study for x, _ in pairs for study in left[x]]),
            *_outside(name_b, [study for _, y in pairs for study in right[y]]),
            *_notes([(left[x], right[y]) for x, y in pairs]),
        ],
    )


def _partners(
    left: Mapping[Arm, Sequence[StudyRecord]], right: Mapping[Arm, Sequence[StudyRecord]]
) -> list[tuple[Arm, Arm]]:
    found = []
    for game in sorted({arm.game for arm in left} & {arm.game for arm in right}):
        here = [arm for arm in left if arm.game == game]
        there = [arm for arm in right if arm.game == game]
        if len(here) == len(there) == 1:
            found.append((here[0], there[0]))
        else:
            found += [(arm, arm) for arm in here if arm in right]
    return found


def _alone(side: Mapping[Arm, Sequence[StudyRecord]], used: set[Arm]) -> list[str]:
    return [f"{arm.game}/{arm.agent}/{arm.memory}" for arm in side if arm not in used]


def _seeds(study: StudyRecord) -> frozenset[tuple[int, int]]:
    return frozenset((episode.place, episode.seed) for episode in study.evaluation)


def _row(
    x: Arm,
    left: Sequence[StudyRecord],
    y: Arm,
    right: Sequence[StudyRecord],
    name_a: str,
    name_b: str,
) -> PairRow:
    here = {study.repeat: study for study in left}
    there = {study.repeat: study for study in right}
    common = sorted(here.keys() & there.keys())
    paired = bool(common) and all(_seeds(here[r]) & _seeds(there[r]) for r in common)
    levels = [_levels(left), _levels(right)]
    if paired:
        differences = metrics.paired_differences(
            {r: there[r].points for r in common}, {r: here[r].points for r in common}
        )
        found = metrics.estimate(list(differences.values()))
        levels = [_levels([side[r] for r in differences or common]) for side in (here, there)]
    else:
        found = metrics.unpaired(levels[1], levels[0])
    a, b = _label(x, y), _label(y, x)
    same = a == b
    return PairRow(
        game=x.game,
        a=a,
        b=b,
        paired=paired,
        repeats=found.n,
        mean_a=metrics.mean(levels[0]),
        mean_b=metrics.mean(levels[1]),
        difference=found.mean,
        low=found.low,
        high=found.high,
        p=found.p,
        q=None,
        detectable=found.detectable,
        direction=found.direction,
        verdict=metrics.verdict(found, name_b if same else b, name_a if same else a),
    )


def _label(arm: Arm, other: Arm) -> str:
    """Return what tells an arm from its partner: the memory, the agent, or both."""
    if arm.agent == other.agent and arm.memory != other.memory:
        return arm.memory
    return f"{arm.agent}/{arm.memory}"


def _levels(studies: Sequence[StudyRecord]) -> list[float]:
    found = [metrics.later(study.points) for study in studies]
    return [value for value in found if value is not None]


def _adjusted(rows: Sequence[PairRow]) -> list[PairRow]:
    adjusted = iter(metrics.benjamini_hochberg([row.p for row in rows if row.p is not None]))
    return [row if row.p is None else replace(row, q=next(adjusted)) for row in rows]


def _outside(name: str, studies: Sequence[StudyRecord]) -> list[str]:
    """Return what puts the studies of one side outside the protocol."""
    kinds = sorted({study.oracle for study in studies if study.oracle})
    found = [oracle_warning(name, kind) for kind in kinds]
    return found + [f"{warning} ({name})" for warning in variant_warnings(studies)]


def _notes(pairs: Sequence[tuple[Sequence[StudyRecord], Sequence[StudyRecord]]]) -> list[str]:
    """Return what makes two sides less comparable than they look."""
    notes = []
    both = [(left[0], right[0]) for left, right in pairs]
    if any(a.schedule != b.schedule for a, b in both):
        notes.append("the schedules differ")
    if any(dict(a.options) != dict(b.options) for a, b in both):
        notes.append("the options of a game differ")
    if any(a.game_version != b.game_version for a, b in both):
        notes.append("a game has another version")
    unfinished = sum(s.status != "done" for pair in pairs for side in pair for s in side)
    if unfinished:
        notes.append(f"{unfinished} studies are not finished")
    return notes


def print_comparison(found: Comparison, console: Console) -> None:
    """Print a comparison: a verdict per pair, then the table."""
    for row in found.rows:
        arm = f"{row.game}, {row.a}" if row.a == row.b else row.game
        sentence = f"{arm}: {row.verdict}"
        console.print(Text(one_line(sentence, 2000), style=f"bold {TONES[row.direction]}"))
    for note in found.notes:
        tone = "red" if note.startswith("OUTSIDE") else "yellow"
        console.print(Text(one_line(f"! {note}", 2000), style=tone))
    table = Table(box=None, pad_edge=False)
    for column in ("game", "arms"):
        table.add_column(column, overflow="fold")
    for column in ("n", "A", "B", "B - A", "95 % interval", "p", "seeds"):
        table.add_column(column, justify="right")
    for row in found.rows:
        cells = [
            one_line(row.game, 30),
            one_line(row.a if row.a == row.b else f"{row.b} against {row.a}", 60),
            str(row.repeats),
            words.number(row.mean_a),
            words.number(row.mean_b),
            words.number(row.difference, signed=True),
            words.interval(row.low, row.high),
            words.probability(row.p),
            "shared" if row.paired else "own",
        ]
        table.add_row(*map(Text, cells))
    console.print()
    console.print(table)
    console.print(Text(f"A = {one_line(found.a)}, B = {one_line(found.b)}"))
    for name, arms in ((found.a, found.only_a), (found.b, found.only_b)):
        if arms:
            console.print(Text(one_line(f"only in {name}: {', '.join(arms)}", 2000)))
