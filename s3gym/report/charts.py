"""Figures as SVG text, drawn by hand: no library, no network, readable in light and dark.

Colours are classes (``c0`` the control arm, ``c1`` ... the others) that ``STYLE`` or the page's
style sheet defines; shapes of the marks tell the arms apart without colour.
"""

from collections.abc import Iterable, Sequence
from math import floor, log10
from typing import NamedTuple

from markupsafe import Markup, escape

from s3gym.report import words
from s3gym.report.safe import one_line
from s3gym.report.schema import ArmRow, ComparisonRow, JudgingRow, TrainingRow

WIDTH, HEIGHT = 420, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 12, 24, 34
N_COLOURS = 7
MOST_POINTS = 100
FEW_POINTS = 40
"""Lines of at most so many points get marks."""
LIGHT = ("#5b6470", "#0b62a4", "#a84300", "#1a7343", "#7a3fc4", "#b3245a", "#00686f")
DARK = ("#a3adb8", "#6cb6ff", "#f0a35e", "#5ad19a", "#c4a6ff", "#ff8fb1", "#5fd0d8")


def _palette(colours: Sequence[str], ink: str, faint: str) -> str:
    rules = [f".c{i}{{--c:{colour}}}" for i, colour in enumerate(colours)]
    return "".join(rules) + f".chart{{--ink:{ink};--faint:{faint}}}"


STYLE = (
    _palette(LIGHT, "#333b44", "#c9d0d8")
    + "@media(prefers-color-scheme:dark){"
    + _palette(DARK, "#d5dbe2", "#48525e")
    + "}"
    + ".chart text{fill:var(--ink);font:11px system-ui,sans-serif}"
    ".chart .axis{stroke:var(--ink);fill:none}.chart .grid{stroke:var(--faint);fill:none}"
    ".chart .line{stroke:var(--c);fill:none;stroke-width:2;stroke-linejoin:round}"
    ".chart .mark{fill:var(--c)}.chart .band{fill:var(--c);opacity:.12}"
    ".chart .null{fill:var(--faint);opacity:.45}"
    ".chart .anchor{stroke:var(--ink);stroke-dasharray:2 4;fill:none}"
    ".chart .bubble{fill:var(--c);opacity:.35}"
)
"""What a figure needs to be shown outside the page."""


class Frame(NamedTuple):
    """Maps values to places on the canvas."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    width: int = WIDTH
    height: int = HEIGHT

    def x(self, value: float) -> float:
        """Return the horizontal place of a value."""
        span = (self.x_high - self.x_low) or 1
        return LEFT + (value - self.x_low) / span * (self.width - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Return the vertical place of a value; greater values are higher up."""
        span = (self.y_high - self.y_low) or 1
        return self.height - BOTTOM - (value - self.y_low) / span * (self.height - TOP - BOTTOM)

    def path(self, points: Iterable[tuple[float, float]]) -> str:
        """Return the path through some values."""
        return "M" + "L".join(f"{self.x(x):.1f} {self.y(y):.1f}" for x, y in points)


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Return about ``n`` round numbers from low to high."""
    span = high - low
    if not span > 0:
        return [low]
    raw = span / n
    power = 10.0 ** floor(log10(raw))
    step = min((m * power for m in (1, 2, 2.5, 5, 10)), key=lambda s: abs(s - raw))
    first = -floor(-low / step + 1e-9)
    found = [round((first + i) * step, 12) for i in range(int(span / step) + 2)]
    return [tick for tick in found if tick <= high + step * 1e-9]


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(one_line(text))}</text>'


def _axes(frame: Frame, x_ticks: Sequence[float], x_label: str, y_label: str) -> list[str]:
    right, bottom = frame.width - RIGHT, frame.height - BOTTOM
    parts = []
    for tick in ticks(frame.y_low, frame.y_high, 4):
        y = frame.y(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{right}"/>')
        parts.append(_text(LEFT - 6, y + 4, words.number(tick), "end"))
    parts.append(f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>')
    for tick in x_ticks:
        parts.append(_text(frame.x(tick), bottom + 14, words.number(tick)))
    parts.append(_text((LEFT + right) / 2, frame.height - 5, x_label))
    parts.append(_text(4, 13, y_label, "start"))
    return parts


def mark(kind: int, x: float, y: float) -> str:
    """Return the mark of the arm with that colour: shape and colour both tell it."""
    shape = kind % 4
    if shape == 0:
        drawn = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4"'
    elif shape == 1:
        drawn = f'<rect x="{x - 3.2:.1f}" y="{y - 3.2:.1f}" width="6.4" height="6.4"'
    elif shape == 2:
        drawn = f'<path d="M{x:.1f} {y - 4.2:.1f}l4.2 7.4h-8.4z"'
    else:
        drawn = f'<path d="M{x:.1f} {y - 4.4:.1f}l4.4 4.4l-4.4 4.4l-4.4-4.4z"'
    return f'{drawn} class="mark"/>'


def _svg(parts: Iterable[str], title: str, width: int, height: int, standalone: bool) -> Markup:
    space = ' xmlns="http://www.w3.org/2000/svg"' if standalone else ""
    style = f"<style>{STYLE}</style>" if standalone else ""
    return Markup(  # every text in it went through escape()
        f'<svg{space} class="chart" viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(one_line(title, 400))}">{style}{"".join(parts)}</svg>'
    )


def _y_range(arms: Sequence[ArmRow]) -> tuple[float, float]:
    """Return the range of means, widened for intervals by at most 60 % on each side."""
    means = [at.mean for arm in arms for _, at in arm.curve if at.mean is not None]
    if not means:
        return 0.0, 1.0
    low, high = min(means), max(means)
    room = (high - low) or abs(high) or 1.0
    lows = [at.low for arm in arms for _, at in arm.curve if at.low is not None]
    highs = [at.high for arm in arms for _, at in arm.curve if at.high is not None]
    low = max(min([low, *lows]), low - 0.6 * room)
    high = min(max([high, *highs]), high + 0.6 * room)
    return low - 0.06 * room, high + 0.1 * room


def curves(
    arms: Sequence[ArmRow],
    colours: Sequence[int],
    anchors: Sequence[tuple[str, float]] = (),
    *,
    standalone: bool = False,
) -> Markup:
    """Return the learning curves of one game and agent.

    Args:
        arms: Its arms; intervals of three or more repeats are shaded, and the range of the
            control arm's means is the null band.
        colours: One per arm.
        anchors: (name, level) of the levels to show where they fit.
        standalone: True for a file of its own.
    """
    low, high = _y_range(arms)
    checkpoints = [float(at) for arm in arms for at, _ in arm.curve]
    first, last = min(checkpoints, default=0.0), max(checkpoints, default=1.0)
    room = 0.02 * (last - first or 1.0)
    frame = Frame(first - room, last + room, low, high)
    shown = sorted({float(at) for arm in arms for at, _ in arm.curve})
    every = max(1, -(-len(shown) // 11))
    parts = _axes(frame, shown[::every], "exploration episodes", "score")
    box = f'x="{LEFT}" y="{TOP}" width="{WIDTH - LEFT - RIGHT}" height="{HEIGHT - TOP - BOTTOM}"'
    drawn = [_curve(frame, arm, colour) for arm, colour in zip(arms, colours, strict=True)]
    inner = [shades for shades, _ in drawn]
    for name, level in anchors:
        if low <= level <= high:
            inner.append(f'<path class="anchor" d="M{LEFT} {frame.y(level):.1f}H{WIDTH - RIGHT}"/>')
            inner.append(_text(WIDTH - RIGHT - 4, frame.y(level) - 4, name, "end"))
    inner += [line for _, line in drawn]
    parts.append(
        f'<svg {box} viewBox="{LEFT} {TOP} {WIDTH - LEFT - RIGHT} {HEIGHT - TOP - BOTTOM}">'
        f"{''.join(inner)}</svg>"
    )
    names = ", ".join(arm.memory for arm in arms)
    title = f"Learning curves of {arms[0].game}, {arms[0].agent}: {names}" if arms else "no curve"
    return _svg(parts, title, WIDTH, HEIGHT, standalone)


def _curve(frame: Frame, arm: ArmRow, colour: int) -> tuple[str, str]:
    """Return the shades and the line of an arm; all shades lie behind all lines."""
    means = [(float(at), found.mean) for at, found in arm.curve if found.mean is not None]
    if not means:
        return "", ""
    parts = []
    if colour == 0:
        top, bottom = frame.y(max(y for _, y in means)), frame.y(min(y for _, y in means))
        parts.append(
            f'<rect class="null" x="{LEFT}" y="{top:.1f}" width="{frame.width - LEFT - RIGHT}" '
            f'height="{max(bottom - top, 1):.1f}"/>'
        )
    bounded = [
        (float(at), found.low, found.high)
        for at, found in arm.curve
        if found.low is not None and found.high is not None
    ]
    if len(bounded) > 1:
        there = [(at, high) for at, _, high in bounded]
        back = [(at, low) for at, low, _ in reversed(bounded)]
        parts.append(f'<path class="band" d="{frame.path(there + back)}Z"/>')
    line = [f'<path class="line" d="{frame.path(means)}"/>']
    line += [mark(colour, frame.x(x), frame.y(y)) for x, y in means]
    shades, drawn = (f'<g class="c{colour}">{"".join(group)}</g>' for group in (parts, line))
    return shades, drawn


class Series(NamedTuple):
    """A line of a figure: its colour and its points."""

    colour: int
    points: Sequence[tuple[float, float]]


def lines(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    low: float | None = None,
    high: float | None = None,
    standalone: bool = False,
) -> Markup:
    """Return lines over exploration episodes; of a long one about a hundred points are drawn.

    Args:
        series: The lines.
        title: For readers without eyes on it.
        x_label: Below the horizontal axis.
        y_label: Above the vertical axis.
        low: Where the vertical axis starts; at the lowest value without.
        high: Where it ends.
        standalone: True for a file of its own.
    """
    drawn = [(line.colour, _thinned(line.points)) for line in series if line.points]
    xs = [x for _, points in drawn for x, _ in points] or [0.0, 1.0]
    ys = [y for _, points in drawn for _, y in points] or [0.0, 1.0]
    low, high = min(ys) if low is None else low, max(ys) if high is None else high
    room = 0.06 * ((high - low) or abs(high) or 1.0)
    frame = Frame(min(xs), max(xs), low - room, high + room)
    parts = _axes(frame, ticks(min(xs), max(xs), 8), x_label, y_label)
    for colour, points in drawn:
        inner = [f'<path class="line" d="{frame.path(points)}"/>'] if len(points) > 1 else []
        if len(points) <= FEW_POINTS:
            inner += [mark(colour, frame.x(x), frame.y(y)) for x, y in points]
        parts.append(f'<g class="c{colour}">{"".join(inner)}</g>')
    return _svg(parts, title, WIDTH, HEIGHT, standalone)


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    """Return every nth point, and the last one."""
    every = max(1, len(points) // MOST_POINTS)
    return [*points[:-1:every], points[-1]]


def losses(rows: Sequence[TrainingRow], *, standalone: bool = False) -> Markup:
    """Return the loss curves of an arm, one line per study; an update takes the room before it."""
    title = f"Loss of {rows[0].game}, {rows[0].agent}" if rows else "no loss"
    return lines(
        [Series(_colour(row), list(_loss_points(row))) for row in rows],
        title=title,
        x_label="exploration episodes",
        y_label="loss, nats per token",
        standalone=standalone,
    )


def _loss_points(row: TrainingRow) -> Iterable[tuple[float, float]]:
    before = 0
    for cell in row.updates:
        n = len(cell.losses)
        for index, loss in enumerate(cell.losses, 1):
            yield before + (cell.version - before) * index / n, loss
        before = cell.version


def in_contract(rows: Sequence[TrainingRow], *, standalone: bool = False) -> Markup:
    """Return the share of replies inside the contract by checkpoint, one line per study."""
    title = f"Replies inside the contract, {rows[0].game}, {rows[0].agent}" if rows else "none"
    return lines(
        [
            Series(
                _colour(row),
                [
                    (float(cell.version), cell.contract)
                    for cell in row.updates
                    if cell.contract is not None
                ],
            )
            for row in rows
        ],
        title=title,
        x_label="exploration episodes",
        y_label="share inside the contract",
        low=0.0,
        high=1.0,
        standalone=standalone,
    )


def _colour(row: TrainingRow) -> int:
    return 1 + row.repeat % (N_COLOURS - 1)


def difference(row: ComparisonRow, reach: float, *, standalone: bool = False) -> Markup:
    """Return a small figure of a difference and its interval.

    Args:
        row: The comparison.
        reach: Largest distance from 0 to show, the same for all rows of a game.
        standalone: True for a file of its own.
    """
    width, height, pad = 190, 22, 8

    def x(value: float) -> float:
        share = min(max(value / (reach or 1), -1), 1)
        return width / 2 + share * (width / 2 - pad)

    middle = height / 2
    parts = [f'<path class="axis" d="M{width / 2} 2V{height - 2}"/>']
    parts.append(f'<path class="grid" d="M{pad} {middle}H{width - pad}"/>')
    colour = {"better": 3, "worse": 5}.get(row.direction, 0)
    inner = []
    if row.low is not None and row.high is not None:
        inner.append(f'<path class="line" d="M{x(row.low):.1f} {middle}H{x(row.high):.1f}"/>')
    inner += [
        f'<circle class="bubble" cx="{x(value):.1f}" cy="{middle}" r="2.6"/>'
        for value in row.differences
    ]
    if row.mean is not None:
        inner.append(mark(3, x(row.mean), middle))
    parts.append(f'<g class="c{colour}">{"".join(inner)}</g>')
    title = f"{row.memory} minus {row.control}: {words.number(row.mean, signed=True)}"
    return _svg(parts, title, width, height, standalone)


def reach_of(rows: Iterable[ComparisonRow]) -> float:
    """Return the scale on which the differences of one game are drawn."""
    ends = [
        abs(value)
        for row in rows
        for value in (row.mean, row.low, row.high, *row.differences)
        if value is not None
    ]
    return max(ends, default=1.0) or 1.0


def self_judging(row: JudgingRow, *, standalone: bool = False) -> Markup:
    """Return self-scores against rewards: areas count steps, the line joins mean rewards.

    Self-scores far outside the rewards are drawn at the edge.
    """
    rewards = [r for _, r, _ in row.cells] or [0.0, 1.0]
    low, high = min([0.0, *rewards]), max([0.0, *rewards])
    span = (high - low) or 1.0
    x_low, x_high = low, high
    for s, _, _ in row.cells:
        x_low, x_high = max(min(x_low, s), low - span), min(max(x_high, s), high + span)
    pad_x, pad_y = 0.08 * ((x_high - x_low) or 1), 0.12 * span
    frame = Frame(x_low - pad_x, x_high + pad_x, low - pad_y, high + pad_y)
    parts = _axes(frame, ticks(x_low, x_high, 5), "self-score", "reward")
    first, last = max(x_low, low), min(x_high, high)
    parts.append(f'<path class="anchor" d="{frame.path([(first, first), (last, last)])}"/>')
    most = max((n for _, _, n in row.cells), default=1)

    def place(s: float) -> float:
        return frame.x(min(max(s, x_low), x_high))

    inner = [
        f'<circle class="bubble" cx="{place(s):.1f}" cy="{frame.y(r):.1f}" '
        f'r="{2 + 12 * (n / most) ** 0.5:.1f}"/>'
        for s, r, n in row.cells
    ]
    line = [(min(max(b.self_score, x_low), x_high), b.reward) for b in row.reliability]
    if line:
        inner.append(f'<path class="line" d="{frame.path(line)}"/>')
        inner += [mark(1, frame.x(s), frame.y(r)) for s, r in line]
    parts.append(f'<g class="c1">{"".join(inner)}</g>')
    title = f"Self-scores against rewards, {row.game}, {row.agent}"
    return _svg(parts, title, WIDTH, HEIGHT, standalone)


def colours_of(arms: Sequence[ArmRow]) -> dict[str, int]:
    """Return a colour for every memory: 0 for the control arm, then 1, 2, ... by name."""
    others = sorted({arm.memory for arm in arms} - {"none"})
    return {"none": 0} | {name: 1 + i % (N_COLOURS - 1) for i, name in enumerate(others)}
