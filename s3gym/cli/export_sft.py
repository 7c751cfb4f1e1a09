"""``s3gym export sft``: exploration as chat JSONL for fine-tuning, with a datasheet."""

import json
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, cast, get_args

import click

from s3gym.cli.console import say, say_error
from s3gym.cluster.reading import as_store
from s3gym.config import validated
from s3gym.errors import ConfigError
from s3gym.records import Layout, Message, Turn
from s3gym.report.bundle import unpacked
from s3gym.sft import SFTPolicy, build_sft
from s3gym.sft.dataset import Dataset
from s3gym.sft.datasheet import Source, datasheet
from s3gym.sft.jsonl import FORMATS, Format, to_jsonl
from s3gym.sft.policy import POLICIES, Answered, Weights
from s3gym.store import file
from s3gym.store.explored import load_sources
from s3gym.tokens import token_counter


@click.command("sft")
@click.argument("store", type=click.Path(path_type=Path))
@click.option(
    "--out", required=True, type=click.Path(path_type=Path, dir_okay=False), help="File to write."
)
@click.option("--policy", type=click.Choice(POLICIES), help="Default: keep.")
@click.option("--min-score", type=float, help="Keep self-scores of at least this many points.")
@click.option("--quantile", type=float, help="Keep self-scores from this quantile of a game on.")
@click.option("--positive", is_flag=True, default=None, help="Keep self-scores above 0 (default).")
@click.option("--weights", type=click.Choice(get_args(Weights)), help="Default: uniform.")
@click.option("--balance", is_flag=True, default=None, help="Cap episodes at the median episode.")
@click.option("--no-dedupe", "dedupe", flag_value=False, default=None, help="Keep equal examples.")
@click.option("--cap", type=int, help="Most examples.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(get_args(Answered)),
    help="Statuses that may become examples; several times.",
)
@click.option("--study", "studies", multiple=True, help="Only this study; several times.")
@click.option("--game", "games", multiple=True, help="Only this game; several times.")
@click.option("--agent", "agents", multiple=True, help="Only this agent; several times.")
@click.option("--memory", "memories", multiple=True, help="Only this memory; several times.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="messages", help="Of lines.")
@click.option("--force", is_flag=True, help="Replace a file that is no earlier export, too.")
def sft_command(
    store: Path,
    out: Path,
    studies: tuple[str, ...],
    games: tuple[str, ...],
    agents: tuple[str, ...],
    memories: tuple[str, ...],
    form: Format,
    *,
    force: bool,
    **rule: Any,
) -> None:
    """Write the exploration of a store as chat JSONL, ready for fine-tuning.

    Steps are chosen by the agent's own self-scores. A datasheet is written beside the file.
    """
    given = {key: value for key, value in rule.items() if value not in (None, ())}
    policy = validated(SFTPolicy, given, "command line")
    if policy.asks:
        raise ConfigError(
            f"--policy {policy.policy}: asks the model for answers, which a training study does "
            f"and records; expected keep or drop"
        )
    sheet = out.with_name(f"{out.stem}.datasheet.json")
    for target in (out, sheet):
        if target.exists() and store.exists() and target.samefile(store):
            raise ConfigError(f"--out {out}: would replace the store; name another file")
        if target.exists() and not (force or _was_exported(out, sheet)):
            raise ConfigError(
                f"--out {out}: {target} exists and is not an export as it was written; name "
                f"another file, or replace it with --force"
            )
    with (
        as_store(store) as whole,
        unpacked(whole) as path,
        closing(file.open_learner(path)) as db,
        file.damaged_rows(store),
    ):
        sources = load_sources(db, studies=studies, games=games, agents=agents, memories=memories)
        if not sources:
            raise _nobody(db, store)
    dataset = _built(sources, policy)
    if not dataset.examples:
        raise ConfigError(f"{store}: no step becomes an example; {_why(dataset)}")
    text = to_jsonl(dataset, form)
    described = datasheet(
        dataset,
        policy,
        sources,
        name=out.name,
        text=text,
        form=form,
        counter=token_counter("estimate"),
    )
    _replace(out, text)
    _replace(sheet, json.dumps(described, indent=1) + "\n")
    for source in sources:
        if source.oracle:
            say_error(f"{source.id} is outside the protocol: oracle {source.oracle}")
    say(f"wrote {out}: {len(dataset.examples)} examples of {len(sources)} studies")
    for reason, n in dataset.reasons.items():
        say(f"  left out: {n} {reason}")
    say(f"wrote {sheet}")


def _was_exported(out: Path, sheet: Path) -> bool:
    """Return whether what is there are an earlier export's files, which can be made again."""
    try:
        told = json.loads(sheet.read_text(encoding="ascii"))["file"]
        found = sha256(out.read_bytes()).hexdigest() if out.exists() else told["sha256"]
        return bool(told["name"] == out.name and told["sha256"] == found)
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _built(sources: Sequence[Source], policy: SFTPolicy) -> Dataset:
    """Return the examples, each in the layout in which its episode was played."""
    layouts = {episode: layout for source in sources for episode, layout in source.layouts.items()}

    def prompt(turn: Turn) -> list[Message]:
        return turn.messages(cast(Layout, layouts[turn.episode]))

    explored = [item for source in sources for item in source.explored]
    return build_sft(explored, policy, prompt=prompt)


def _nobody(db: sqlite3.Connection, store: Path) -> ConfigError:
    there = [row[0] for row in db.execute("SELECT id FROM studies ORDER BY id")]
    return ConfigError(
        f"{store}: no study fits --study, --game, --agent and --memory; there are: "
        f"{', '.join(there) or 'none'}"
    )


def _why(dataset: Dataset) -> str:
    found = "; ".join(f"{n} {reason}" for reason, n in dataset.reasons.items())
    return f"of its exploration: {found}" if found else "no exploration episode is finished"


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole or not at all."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    with file.disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            half.write_text(text, encoding="ascii", newline="")
            half.replace(path)
        finally:
            half.unlink(missing_ok=True)
