"""``s3gym memory``: what a memory knew at each version, and where it came from."""

import difflib
import json
from contextlib import closing
from pathlib import Path

import click

from s3gym.cli.console import say
from s3gym.cluster.reading import as_store
from s3gym.errors import ConfigError
from s3gym.store import file


@click.group("memory")
def memory_command() -> None:
    """Read what the memories of a store held."""


@memory_command.command("show")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--study", help="Id of the study; needed when the store holds several.")
@click.option("--checkpoint", type=int, help="Exploration episodes so far (default: the last).")
def show_command(store: Path, study: str | None, checkpoint: int | None) -> None:
    """Show what the agent knew, and the episodes that it came from."""
    text, sources, state = _version(store, study, checkpoint)
    say(text or "(nothing)")
    say(f"\nsources: {sources or 'none'}")
    if state:
        say(json.dumps(state, indent=1, sort_keys=True, ensure_ascii=False))


@memory_command.command("diff")
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("first", type=int)
@click.argument("second", type=int)
@click.option("--study", help="Id of the study; needed when the store holds several.")
def diff_command(store: Path, first: int, second: int, study: str | None) -> None:
    """Show what changed between two versions of a memory."""
    old, new = (_version(store, study, number)[0].splitlines() for number in (first, second))
    for line in difflib.unified_diff(old, new, f"version {first}", f"version {second}", "", "", 1):
        say(line.rstrip("\n"))


def _version(
    store: Path, study: str | None, version: int | None
) -> tuple[str, str, dict[str, object]]:
    with as_store(store, study or "") as rows, closing(file.open_learner(rows)) as db:
        studies = [
            row[0] for row in db.execute("SELECT DISTINCT study FROM memory_versions ORDER BY 1")
        ]
        if not studies:
            raise ConfigError(f"{store}: no memory of this store describes itself")
        if study is not None and study not in studies:
            known = [row[0] for row in db.execute("SELECT id FROM studies ORDER BY 1")]
            reason = (
                "its memory has no describe(), or nothing was explored yet"
                if study in known
                else f"no such study; there are: {', '.join(studies)}"
            )
            raise ConfigError(f"{store}: {study}: {reason}")
        if study is None and len(studies) > 1:
            raise ConfigError(f"{store}: name one with --study: {', '.join(studies)}")
        chosen = study or studies[0]
        (newest,) = db.execute(
            "SELECT max(version) FROM memory_versions WHERE study = ?", (chosen,)
        ).fetchone()
        if newest is not None and version is not None and not 0 <= version <= newest:
            raise ConfigError(
                f"{store}: {chosen} has versions 0 (nothing) to {newest}, got {version}"
            )
        row = db.execute(
            "SELECT text, sources, state FROM memory_versions WHERE study = ? "
            "AND version <= ? ORDER BY version DESC LIMIT 1",
            (chosen, 2**62 if version is None else version),
        ).fetchone()
    if row is None:
        return "", "", {}
    with file.damaged_rows(store):
        return str(row[0]), ", ".join(json.loads(row[1])), json.loads(row[2])
