"""``s3gym plan``: what a run asks for, before anything is sent."""

from pathlib import Path
from typing import Any

import click

from s3gym.cli.console import console, say
from s3gym.cli.parts import wire
from s3gym.cli.report import facts
from s3gym.cli.run import given_options, part_options
from s3gym.config import read_config
from s3gym.records import Phase
from s3gym.report.build import build_report
from s3gym.report.load import load_stores
from s3gym.report.power import power_rows, print_power
from s3gym.schedule import SCHEDULES


@click.command("plan")
@click.argument("study_file", required=False, type=click.Path(path_type=Path))
@click.option("--schedule", type=click.Choice(sorted(SCHEDULES)), help="Default: paper.")
@click.option("--seed", type=int)
@click.option("--repeats", type=int, help="Studies per cell (default 3).")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key.")
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
    """Show the most episodes, decisions and prompt tokens that each study may take."""
    given.pop("replay")
    if finished is not None:
        records = load_stores([finished])
        print_power(power_rows(build_report(records, facts(records))), console())
        return
    plans = wire(
        read_config(study_file, given_options(given), overrides), offline=True
    ).sweep.plans()
    total = 0
    for plan in plans:
        schedule = plan.schedule
        most = {
            phase: min(plan.game.setup(plan.options, phase).max_steps, schedule.max_steps)
            for phase in Phase
        }
        evaluated = schedule.evaluation_episodes * len(schedule.checkpoints)
        decisions = (
            schedule.exploration_episodes * most[Phase.EXPLORATION]
            + evaluated * most[Phase.EVALUATION]
        )
        total += decisions
        if not quiet:
            say(
                f"{plan.id}: {plan.n_episodes} episodes, at most {decisions} decisions, each with "
                f"at most {schedule.memory_tokens} recalled and {schedule.reply_tokens} new tokens"
            )
    say(f"{len(plans)} studies, at most {total} decisions")
