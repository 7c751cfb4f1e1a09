"""``s3gym plan``: what a run asks for, before anything is sent."""

from pathlib import Path
from typing import Any

import click

from s3gym.budget import Prices
from s3gym.cli.console import console, say
from s3gym.cli.folders import load_all
from s3gym.cli.options import given_options, part_options
from s3gym.cli.parts import wire
from s3gym.cli.report import facts
from s3gym.cluster.capacity import CALLS_PER_SECOND, Load, load_of
from s3gym.config import read_config
from s3gym.forecast import Forecast, forecast
from s3gym.plans import StudyPlan
from s3gym.report.build import build_report
from s3gym.report.power import power_rows, print_power
from s3gym.schedule import SCHEDULES


@click.command("plan")
@click.argument("study_file", required=False, type=click.Path(path_type=Path))
@click.option("--schedule", type=click.Choice(sorted(SCHEDULES)), help="Default: paper.")
@click.option("--seed", type=int)
@click.option("--repeats", type=int, help="Studies per cell (default 3).")
@click.option(
    "--power",
    "finished",
    type=click.Path(path_type=Path),
    metavar="STORE",
    help="How many repeats find which effect, from the spread in a finished store.",
)
@click.option(
    "--call-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=5.0,
    help="What a model is taken to need for an answer (default 5).",
)
@part_options
def plan_command(
    study_file: Path | None,
    overrides: tuple[str, ...],
    finished: Path | None,
    call_seconds: float,
    *,
    quiet: bool,
    **given: Any,
) -> None:
    """Show what a run may ask for, what it may cost, and whether one machine is enough."""
    given.pop("replay")
    if finished is not None:
        records = load_all([finished])
        print_power(power_rows(build_report(records, facts(records))), console())
        return
    config = read_config(study_file, given_options(given), overrides)
    plans = wire(config, offline=True).sweep.plans()
    studies: list[tuple[StudyPlan, Forecast]] = []
    cells: dict[str, Forecast] = {}
    for plan in plans:
        cell = plan.id.rpartition("/")[0]  # its repeats ask for the same
        if cell not in cells:
            cells[cell] = forecast(plan, reask=config.model.reask)
        studies.append((plan, expected := cells[cell]))
        if not quiet:
            say(
                f"{plan.id}: {plan.n_episodes} episodes, at most {expected.decisions:,} decisions, "
                f"each with at most {plan.schedule.memory_tokens:,} recalled tokens"
            )
    decisions = sum(expected.decisions for _, expected in studies)
    say(f"{len(plans)} studies, at most {decisions:,} decisions")
    costs = [(p, f) for p, f in studies if p.agent.chat is not None or p.memory.chat is not None]
    _say_costs(costs, config.budget.prices)
    load = load_of(studies, jobs=config.jobs, model=config.model, call_seconds=call_seconds)
    _say_load(load, call_seconds)


def _say_load(load: Load, call_seconds: float) -> None:
    """Print what the run is for one machine, and whether more than one is worth while."""
    if not load.calls:
        say(
            f"one machine: {load.side_by_side} studies side by side, about {load.megabytes:,} MB, "
            f"{_time(load.seconds)}; no model is called"
        )
        return
    say(
        f"one machine: {load.side_by_side} studies side by side, at most {load.in_flight:,} calls "
        f"in flight, about {load.megabytes:,} MB; {load.calls:,} calls of {call_seconds:g} s take "
        f"about {_time(load.seconds)}, set by {load.held_by}"
    )
    if not load.enough:
        say(
            f"more than one machine ends it sooner: one process manages about {CALLS_PER_SECOND} "
            f"calls per second (s3gym run --engine ray)"
        )
        return
    sooner = f"; with more of it, {_time(load.shortest)} at the soonest"
    say(
        f"one machine is enough: {load.calls_per_second:.2g} calls per second of the about "
        f"{CALLS_PER_SECOND} that one process manages"
        + ("" if load.held_by == "the longest study" else sooner)
    )


def _time(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _say_costs(costs: list[tuple[StudyPlan, Forecast]], prices: Prices) -> None:
    """Print what each cell asks of its chat models, all its repeats together."""
    cells: dict[str, list[tuple[StudyPlan, Forecast]]] = {}
    for plan, expected in costs:
        cells.setdefault(plan.id.rpartition("/")[0], []).append((plan, expected))
    for cell, members in cells.items():
        plan, expected = members[0]
        n = len(members)
        chat = plan.agent.chat or plan.memory.chat
        if chat is None:
            continue
        say(
            f"{cell}: at most {n * (expected.calls + expected.memory_calls):,} calls, about "
            f"{n * expected.input_tokens:,} prompt tokens "
            f"({n * expected.cached_tokens:,} of them from a good cache), at most "
            f"{n * expected.output_tokens:,} new tokens"
        )
        dollars = [expected.usd(chat, prices, cached=cached) for cached in (False, True)]
        if dollars[0] is None or dollars[1] is None:
            say(f"{cell}: the price of {chat.name} is not known; give it under budget.prices")
        else:
            say(f"{cell}: at most ${n * dollars[0]:,.2f}, ${n * dollars[1]:,.2f} with a good cache")
