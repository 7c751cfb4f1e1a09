"""``s3gym report`` and ``s3gym compare``: what came out, and how sure that is."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path

import click

from s3gym.agents.chat_names import is_chat_name
from s3gym.budget import Price, RecordedChat, usd
from s3gym.catalog import find_game, memory_prompts, pictures, teachings
from s3gym.cli.console import console, say
from s3gym.cli.folders import audit_of, load_all, shards
from s3gym.cli.parts import find_own_modules, held_to
from s3gym.cluster.files import is_sweep_folder
from s3gym.cluster.reading import load_folder
from s3gym.config import validated
from s3gym.contracts.game import GameSpec
from s3gym.errors import ConfigError
from s3gym.report.build import build_report
from s3gym.report.compare import compare, load_side, print_comparison
from s3gym.report.episodes import open_episodes
from s3gym.report.files import dumps, to_json, write_csv, write_svg, write_text
from s3gym.report.load import game_facts, select
from s3gym.report.page import to_html
from s3gym.report.paper import PaperRow, PaperTable, paper_beside, paper_rows
from s3gym.report.records import GameFacts, ModelUsage, StoreRecord
from s3gym.report.schema import Report
from s3gym.report.site import write_site
from s3gym.report.table import print_paper, print_table
from s3gym.store import file
from s3gym.store.spec import read_spec

File = click.Path(path_type=Path, dir_okay=False)
MOST_AUDITED = 40_000
"""Steps up to which a page audits its stores: an audit plays every episode again."""
Folder = click.Path(path_type=Path, file_okay=False)


@click.command("report")
@click.argument("stores", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "json_file", type=File, help="Write everything as JSON.")
@click.option(
    "--html",
    "html_file",
    type=click.Path(),
    help="Write one self-contained page; a folder (or NAME/) gets a page per study too.",
)
@click.option("--csv", "csv_folder", type=Folder, help="Write the tables as CSV files.")
@click.option("--svg", "svg_folder", type=Folder, help="Write the figures as SVG files.")
@click.option("--paper", is_flag=True, help="Put the paper's published rows beside yours.")
@click.option("--game", multiple=True, help="Your own game, as module:attribute.")
@click.option("--quiet", is_flag=True, help="Write files only.")
def report_command(
    stores: tuple[Path, ...],
    json_file: Path | None,
    html_file: str | None,
    csv_folder: Path | None,
    svg_folder: Path | None,
    game: tuple[str, ...],
    *,
    paper: bool,
    quiet: bool,
) -> None:
    """Show the metrics of stores with their uncertainty."""
    records = load_all(stores)
    paths = tuple(chain.from_iterable(map(shards, stores)))
    report = build_report(records, facts(records, game), price=pricing(paths))
    rows = paper_rows(report) if paper else []
    beside = paper_beside(report) if paper else []
    if not quiet:
        print_table(report, console())
        if paper:
            print_paper(rows, console(), beside)
    if json_file is not None:
        write_text(json_file, to_json(report))
    if csv_folder is not None:
        write_csv(report, csv_folder)
    if svg_folder is not None:
        write_svg(report, svg_folder)
    if html_file is not None:
        _write_page(report, records, stores, rows, beside, html_file)
        if not quiet:
            say(f"wrote {html_file}")


def facts(records: list[StoreRecord], own: tuple[str, ...] = ()) -> dict[str, GameFacts]:
    """Return what is known of the games of stores; a game that is not at hand has no facts."""
    if own:
        find_own_modules()
    given = {spec.name: spec for spec in map(find_game, own)}
    found: dict[str, GameFacts] = {}
    for record in records:
        for study in record.studies:
            spec = given.get(study.game) or _built_in(study.game)
            if study.game not in found and spec is not None:
                found[study.game] = game_facts(spec, dict(study.options))
    return found


def _built_in(name: str) -> GameSpec | None:
    try:
        return find_game(name) if ":" not in name else None
    except ConfigError:
        return None


def pricing(stores: tuple[Path, ...]) -> Callable[[ModelUsage], float | None]:
    """Return what prices the usage in stores; ``None`` where the price is not known.

    Prices that the runs were given come first, where the stores agree about them.
    A model has its provider's listed price only where the store says that it was called at the
    provider's address: one at home may have the same name.
    """
    addresses: dict[str, set[str | None]] = {}
    for store in stores:
        for name, address in _addresses(store):
            addresses.setdefault(name, set()).add(address)
    prices = _prices(stores)

    def price(usage: ModelUsage) -> float | None:
        known = addresses.get(usage.chat.partition(" ")[0], set())
        address = next(iter(known)) if len(known) == 1 else "unknown"
        chat = RecordedChat(usage.chat, address)
        return usd(chat, usage.usage, served=usage.model, prices=prices)

    return price


def _prices(stores: tuple[Path, ...]) -> dict[str, Price]:
    """Return the prices that the runs of stores were given; no price where they differ."""
    found: dict[str, set[Price]] = {}
    for store in stores:
        with file.damaged_rows(store), closing(file.open_reader(store)) as db:
            given = dict(held_to(db).get("budget", {}).get("prices", {}))
        for name, values in given.items():
            found.setdefault(name, set()).add(validated(Price, values, str(store), name))
    return {name: next(iter(prices)) for name, prices in found.items() if len(prices) == 1}


def _addresses(store: Path) -> Iterator[tuple[str, str | None]]:
    """Yield (name, base URL) of the chat models that a store's run was given by name."""
    with file.damaged_rows(store), closing(file.open_reader(store)) as db:
        specs = [read_spec(*row) for row in db.execute("SELECT id, spec FROM studies")]
        for spec in specs:
            model = json.loads(spec["settings"]).get("model", {})
            for name in (spec["agent"]["origin"], model.get("memory_model")):
                if name and is_chat_name(name):
                    yield name, model.get("base_url")


def drawings(records: list[StoreRecord]) -> dict[str, Callable[[str], str]]:
    """Return the functions that draw the games of stores."""
    return pictures(sorted({study.game for record in records for study in record.studies}))


def audited(stores: tuple[Path, ...], records: list[StoreRecord]) -> str:
    """Return what an audit says of stores, in a line; large ones are left to ``s3gym audit``."""
    found = []
    for path, record in zip(stores, records, strict=True):
        n_steps = sum(sum(study.statuses.values()) for study in record.studies)
        if n_steps > MOST_AUDITED:
            found.append(f"{path.name}: {n_steps} steps, too many to audit for a page")
            continue
        audit = audit_of(path, _built_in, prompts=memory_prompts(), teachings=teachings())
        faults = sum(finding.level == "fail" for finding in audit.findings)
        found.append(f"{path.name}: {audit.level()}" + (f", {faults} faults" if faults else ""))
    return "; ".join(found)


def _write_page(
    report: Report,
    records: list[StoreRecord],
    stores: tuple[Path, ...],
    rows: list[PaperRow],
    beside: list[PaperTable],
    target: str,
) -> None:
    drawn, said = drawings(records), audited(stores, records)
    with open_episodes(records) as episode:
        if Path(target).is_dir() or target.endswith("/"):
            write_site(
                report,
                records,
                target,
                episode=episode,
                pictures=drawn,
                paper=rows,
                beside=beside,
                audit=said,
            )
        else:
            page = to_html(
                report, episode=episode, pictures=drawn, paper=rows, beside=beside, audit=said
            )
            write_text(Path(target), page)


def _side(side: str) -> StoreRecord:
    """Read one side of a comparison, which may be, or name an arm of, a sweep's folder."""
    path, _, prefix = side.rpartition(":")
    folder = Path(side if Path(side).exists() else path)
    if not is_sweep_folder(folder):
        return load_side(side)
    record = load_folder(folder)
    return record if Path(side).exists() else select(record, prefix)


@click.command("compare")
@click.argument("first")
@click.argument("second")
@click.option("--json", "json_file", type=File, help="Write the comparison as JSON.")
def compare_command(first: str, second: str, json_file: Path | None) -> None:
    """Compare two stores, or two arms as STORE:GAME/AGENT/MEMORY, paired on seeds."""
    found = compare(_side(first), _side(second), name_a=first, name_b=second)
    print_comparison(found, console())
    if json_file is not None:
        write_text(json_file, dumps(found))
