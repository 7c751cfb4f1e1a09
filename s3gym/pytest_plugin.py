"""pytest plug-in: does a memory make your agent better, and at least not worse?

Loaded by pytest itself where s3gym is installed. The fixture ``s3gym_study`` runs studies with
their control arm; ``assert_improves`` and ``assert_no_regression`` judge them with the report's
statistics: one number per repeat, the mean score over the checkpoints after 0 minus that of the
control arm under the same seeds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from math import fsum
from pathlib import Path
from typing import Any

import pytest

from s3gym.api import Result, Sweep
from s3gym.contracts.game import GameSpec
from s3gym.metrics import LEVEL, paired_differences, sign_flip_p, t_interval
from s3gym.report import load_store
from s3gym.schedule import Schedule

ERROR_RATE = round((1 - LEVEL) / 2, 9)
"""By default an assertion is as strict as the report: one side of its 95 % interval."""
REPEATS = 6
"""From six repeats on an exact sign-flip p stands beside the interval."""
CONTROL = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Contrast:
    """What the repeats of one arm show against the control arm.

    Attributes:
        arm: For example ``snake/strategist/history``.
        differences: One per repeat, in game points; above 0 the arm is better.
    """

    arm: str
    differences: tuple[float, ...]

    def __str__(self) -> str:
        mean = fsum(self.differences) / len(self.differences)
        shown = ", ".join(f"{value:+.3g}" for value in self.differences)
        return f"{self.arm}: {mean:+.3g} points against {CONTROL!r} (by repeat: {shown})"


class Studies:
    """Runs studies; ``s3gym_study`` is one of these, with a folder for the stores.

    Args:
        folder: Where stores are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count(1)

    def __call__(self, **settings: Any) -> Result:
        """Run studies and return their result. See ``run``; not inside an event loop."""
        sweep = self.sweep(**settings)
        return sweep.run_sync()

    async def run(self, **settings: Any) -> Result:
        """Run studies from an async test and return their result. See ``sweep``."""
        return await self.sweep(**settings).run()

    def sweep(
        self,
        *,
        game: str | GameSpec,
        agent: object,
        memory: object,
        schedule: Schedule | None = None,
        repeats: int = REPEATS,
        seed: int = 0,
        **others: Any,
    ) -> Sweep:
        """Return a memory's studies and their control arm, ready to run.

        Args:
            game: Name or ``GameSpec``.
            agent: Name, class, factory, instance, function or app.
            memory: Name, class or factory; ``own`` for the agent's, ``none`` for the control
                arm alone.
            schedule: Default ``Schedule.quick()``.
            repeats: Pairs of studies; what is asserted rests on their number.
            seed: Root seed; the same one gives the same episodes.
            others: What ``Sweep`` takes.
        """
        store = self._folder / f"study-{next(self._numbers)}.db"
        return Sweep(
            games=(game,),
            agents=(agent,),
            memories=(CONTROL,) if memory == CONTROL else (CONTROL, memory),
            schedule=schedule or Schedule.quick(),
            repeats=repeats,
            seed=seed,
            **{"store": store, **others},
        )


@pytest.fixture
def s3gym_study(tmp_path: Path) -> Studies:
    """Give what runs studies in a test, with stores in the test's own folder."""
    return Studies(tmp_path)


def assert_improves(result: Result, *, error_rate: float = ERROR_RATE) -> None:
    """Pass when every memory of a result is shown to be better than no memory.

    Args:
        result: Of ``s3gym_study``, or of any study or sweep with memory ``none`` beside others.
        error_rate: Most often that this passes, over all of the result's memories together,
            although experience is worth nothing.

    Raises:
        AssertionError: It is not shown, or there is too little to tell.
    """
    found = contrasts(result)
    unshown = [
        one for one in found if not shown_above(one.differences, 0.0, error_rate / len(found))
    ]
    if unshown:
        raise AssertionError(_told(f"not shown to improve (error rate {error_rate:g})", unshown))


def assert_no_regression(
    result: Result, *, margin: float | None = None, error_rate: float = ERROR_RATE
) -> None:
    """Pass when no memory of a result makes its agent worse than no memory.

    Args:
        result: As for ``assert_improves``.
        margin: In game points. ``None``: fail only when a memory is shown to be worse, and
            ``error_rate`` bounds how often this *fails* without cause. A number: pass only when
            a loss of more than that is ruled out, and ``error_rate`` bounds how often this
            *passes* without cause; it takes more repeats.
        error_rate: See ``margin``; over all of the result's memories together.

    Raises:
        AssertionError: A memory is worse, or, with a margin, may be.
        ValueError: The margin is not above 0.
    """
    if margin is not None and not margin > 0:
        raise ValueError(f"expected a margin above 0 points, got {margin!r}")
    found = contrasts(result)
    each = error_rate / len(found)
    if margin is None:
        losses = [one for one in found if shown_above(_negated(one.differences), 0.0, each)]
        why = f"shown to be worse (error rate {error_rate:g})"
    else:
        losses = [one for one in found if not shown_above(one.differences, -margin, each)]
        why = f"a loss of more than {margin:g} points is not ruled out (error rate {error_rate:g})"
    if losses:
        raise AssertionError(_told(why, losses))


def contrasts(result: Result) -> list[Contrast]:
    """Return every memory of a result against the control arm.

    Raises:
        AssertionError: A study is unfinished, there is no control arm, or nothing beside it.
    """
    studies = load_store(result.store).studies
    open_ones = [f"{study.id} ({study.status})" for study in studies if study.status != "done"]
    if open_ones:
        reasons = [*result.outcome.failed.values(), *result.outcome.refused.values()]
        raise AssertionError("\n".join([f"unfinished: {', '.join(open_ones)}", *reasons]))
    curves: dict[tuple[str, str, str], dict[int, Any]] = {}
    for study in studies:
        arm = study.game, study.agent, study.memory
        curves.setdefault(arm, {})[study.repeat] = study.points
    found = [
        Contrast(arm="/".join(arm), differences=_against(curves, arm))
        for arm in sorted(curves)
        if arm[2] != CONTROL
    ]
    if not found:
        raise AssertionError(f"{result.store}: no memory beside {CONTROL!r} to judge")
    return found


def _against(
    curves: Mapping[tuple[str, str, str], dict[int, Any]], arm: tuple[str, str, str]
) -> tuple[float, ...]:
    control = curves.get((*arm[:2], CONTROL), {})
    differences = tuple(paired_differences(curves[arm], control).values())
    if not differences:
        raise AssertionError(
            f"{'/'.join(arm)}: nothing to compare it with: add memory {CONTROL!r} with the same "
            f"repeats"
        )
    return differences


def shown_above(differences: Sequence[float], bound: float, error_rate: float) -> bool:
    """Return whether the repeats show a mean above a bound.

    The interval at ``1 - 2 * error_rate`` lies above it and, from six repeats on, the exact
    sign-flip p is at most ``2 * error_rate``. Below three repeats nothing is shown.

    Args:
        differences: One number per repeat.
        bound: In the same unit.
        error_rate: In (0, 0.5).

    Raises:
        ValueError: The error rate is out of range.
    """
    if not 0 < error_rate < 0.5:
        raise ValueError(f"expected an error rate above 0 and below 0.5, got {error_rate!r}")
    above = [value - bound for value in differences]
    interval, p = t_interval(above, 1 - 2 * error_rate), sign_flip_p(above)
    if p is not None and p > 2 * error_rate:
        return False
    if interval is not None:
        return interval[0] > 0
    return p is not None and fsum(above) > 0


def _negated(values: Sequence[float]) -> list[float]:
    return [-value for value in values]


def _told(why: str, found: Sequence[Contrast]) -> str:
    lines = [f"{why}:", *map(str, found)]
    least = min(len(one.differences) for one in found)
    if least < REPEATS:
        lines.append(f"{least} repeats tell little: run at least {REPEATS}")
    return "\n".join(lines)
