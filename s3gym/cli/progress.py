"""Live progress of a run: a rich display on a terminal, plain lines elsewhere."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from s3gym.cli.console import on_terminal, printable
from s3gym.events import Event
from s3gym.plans import StudyPlan

SECONDS_BETWEEN_LINES = 5.0
Curves = Callable[[str], Sequence[tuple[int, float]]]
"""From a study to its points so far, for the person who watches."""


class Watcher:
    """Shows what happens; use as a context manager around a run.

    Args:
        plans: The studies of the run.
        quiet: Show nothing but failures.
    """

    def __init__(self, plans: Sequence[StudyPlan], *, quiet: bool) -> None:
        self.curves: Curves | None = None
        self._quiet = quiet
        self._counts: Counter[str] = Counter()
        self._explored: Counter[str] = Counter()
        self._n_studies = len(plans)
        self._n_explored = sum(plan.schedule.exploration_episodes for plan in plans)
        self._n_points = sum(len(plan.schedule.checkpoints) for plan in plans)
        self._said = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        if on_terminal() and not quiet:
            self._progress = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TextColumn("{task.fields[detail]}", markup=False),
                TimeRemainingColumn(),
                console=Console(stderr=True),
            )
            total = self._n_explored + self._n_points
            self._task = self._progress.add_task("studies", total=total, detail="")

    def __enter__(self) -> Self:
        if self._progress is not None:
            self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Take an event in."""
        self._counts[event.kind] += 1
        if event.kind in ("failed", "paused", "invalid"):
            self._line(f"{event.study}: {event.kind} {event.note}".rstrip())
        if self._quiet:
            return
        detail = self._detail(event)
        if self._progress is not None and self._task is not None:
            done = self._counts["episode"] + self._counts["checkpoint"] + self._counts["invalid"]
            finished = self._counts["done"] + self._counts["failed"] + self._counts["paused"]
            self._progress.update(
                self._task,
                completed=done,
                description=f"{finished}/{self._n_studies} studies",
                detail=detail,
            )
        elif event.kind == "done" or time.monotonic() - self._said > SECONDS_BETWEEN_LINES:
            self._line(detail if event.kind != "done" else f"{event.study}: done {detail}")

    def _detail(self, event: Event) -> str:
        text = (
            f"{self._counts['episode']}/{self._n_explored} episodes, "
            f"{self._counts['checkpoint']}/{self._n_points} checkpoints"
        )
        if event.kind in ("checkpoint", "done") and self.curves is not None:
            points = self.curves(event.study)[-4:]
            curve = " ".join(f"{checkpoint}:{score:.3g}" for checkpoint, score in points)
            text += f", {event.study} {curve}"
        return text

    def _line(self, text: str) -> None:
        self._said = time.monotonic()
        if self._progress is not None:
            self._progress.console.print(printable(text), markup=False, highlight=False)
        else:
            click.echo(printable(text), err=True)
