"""``s3gym export``: what leaves the store for others."""

from pathlib import Path

import click

from s3gym.cli.console import say
from s3gym.cli.export_sft import sft_command
from s3gym.cli.report import audited, drawings, facts, pricing
from s3gym.report.build import build_report
from s3gym.report.bundle import write_bundle
from s3gym.report.episodes import open_episodes
from s3gym.report.files import to_json
from s3gym.report.load import load_stores
from s3gym.report.page import to_html


@click.group("export")
def export_command() -> None:
    """Write what others need: a bundle to publish, examples to train on."""


export_command.add_command(sft_command)


@export_command.command("bundle")
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--no-prompts", is_flag=True, help="Leave the prompts out; their hashes stay.")
@click.option("--game", multiple=True, help="Your own game, as module:attribute.")
def bundle_command(store: Path, out: Path, game: tuple[str, ...], *, no_prompts: bool) -> None:
    """Pack a store, its report and how to check it into one zip file.

    A bundle holds the evaluation seeds, so that anybody can audit it: s3gym audit OUT.
    """
    records = load_stores([store])
    report = build_report(records, facts(records, game), price=pricing((store,)))
    with open_episodes(records) as episode:
        page = to_html(
            report, episode=episode, pictures=drawings(records), audit=audited((store,), records)
        )
    root = write_bundle(store, out, report_json=to_json(report), page=page, bodies=not no_prompts)
    say(f"wrote {out}")
    say(f"root {root or 'not sealed: studies are unfinished'}")
