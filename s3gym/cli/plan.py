"""``s3gym plan``: what a run asks for, before anything is sent."""

from pathlib import Path
from typing import Any

import click

from s3gym.budget import Prices
from s3gym.cli.console import console, say
from s3gym.cli.parts import wire
from s3gym.cli.report import facts
from s3gym.cli.run import given_options, part_options
from s3gym.config import read_config
from s3gym.forecast import Forecast, forecast
from s3gym.plans import StudyPlan
from s3gym.report.build import build_report
from s3gym.report.load import load_stores
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
@part_options
def plan_command(
    study_file: Path | None,
    overrides: tuple[str, ...],
    finished: Path | None,
    *,
    quiet: bool,
    **given: Any,
) -> None:
    """Show what a run may ask for: episodes, decisions, model calls, tokens and US dollars."""
    given.pop("replay")
    if finished is not None:
        records = load_stores([finished])
        print_power(power_rows(build_report(records, facts(records))), console())
        return
    config = read_config(study_file, given_options(given), overrides)
    plans = wire(config, offline=True).sweep.plans()
    decisions = 0
    costs: list[tuple[StudyPlan, Forecast]] = []
    for plan in plans:
        expected = forecast(plan, reask=config.model.reask)
        decisions += expected.decisions
        if plan.agent.chat is not None or plan.memory.chat is not None:
            costs.append((plan, expected))
        if not quiet:
            say(
                f"{plan.id}: {plan.n_episodes} episodes, at most {expected.decisions:,} decisions, "
                f"each with at most {plan.schedule.memory_tokens:,} recalled tokens"
            )
    say(f"{len(plans)} studies, at most {decisions:,} decisions")
    _say_costs(costs, config.budget.prices)


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
