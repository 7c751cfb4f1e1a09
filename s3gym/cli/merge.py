"""``s3gym merge``: one store from the folder of a sweep."""

from pathlib import Path

import click

from s3gym.cli.console import say
from s3gym.cluster.merge import merge
from s3gym.cluster.shards import SweepFolder


@click.command("merge")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--partial", is_flag=True, help="Take unfinished studies in as far as they are.")
def merge_command(folder: Path, out: Path, *, partial: bool) -> None:
    """Make one store of a sweep's folder, with the same roots; again, and it goes on."""
    merged = merge(SweepFolder.open(folder), out, partial=partial)
    counts = [
        f"{len(studies)} {what}"
        for what, studies in (
            ("added", merged.added),
            ("brought up to date", merged.replaced),
            ("there already", merged.kept),
            ("not begun", merged.missing),
        )
        if studies
    ]
    say(f"studies: {', '.join(counts)}")
    if merged.unfinished:
        say(f"{len(merged.unfinished)} of them unfinished: s3gym resume {folder}")
    say(f"store {out}")
    say(f"root {merged.root or 'not sealed: studies are unfinished'}")
