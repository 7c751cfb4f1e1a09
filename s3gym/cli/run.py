"""``s3gym run``, ``resume`` and ``extend``: studies into a store."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import click

from s3gym.agents.chat_names import is_chat_name
from s3gym.api import Result, Sweep
from s3gym.cli.console import log_errors, say, say_error
from s3gym.cli.folders import (
    charge_folder,
    folder_config,
    folder_for,
    going_on,
    keys_are_elsewhere,
    must_fit_engine,
    shards,
    starting,
)
from s3gym.cli.interrupt import interrupting, kindly_stopped
from s3gym.cli.main import INTERRUPTED, PLUGIN, SERVICE, USAGE
from s3gym.cli.moved import (
    is_moved_agent,
    must_be_the_same_base,
    must_be_there,
    note_moved,
    words_of_record,
)
from s3gym.cli.options import engine_options, given_options, part_options
from s3gym.cli.parts import Wiring, held_to, wire
from s3gym.cli.progress import Watcher
from s3gym.cli.proxy import Front, front
from s3gym.cli.training import must_be_named_again
from s3gym.cluster.files import is_sweep_folder, must_be_new_folder
from s3gym.cluster.shards import SweepFolder
from s3gym.config import RunConfig, override, read_config, validated
from s3gym.errors import BudgetExhaustedError, ConfigError
from s3gym.halt import CutOffError, HaltedError
from s3gym.oracle import ORACLES
from s3gym.plans import default_store
from s3gym.schedule import SCHEDULES, Schedule
from s3gym.store import file
from s3gym.store.spec import kept_apart, read_spec
from s3gym.store.verdicts import VerdictLog


@click.command("run")
@click.argument("study_file", required=False, type=click.Path(path_type=Path))
@click.option("--schedule", type=click.Choice(sorted(SCHEDULES)), help="Default: paper.")
@click.option("--seed", type=int, help="Root seed; drawn when it is missing.")
@click.option("--repeats", type=int, help="Studies per cell (default 3).")
@click.option("--store", help="File to write.")
@click.option(
    "--oracle",
    type=click.Choice(ORACLES),
    help="Perfect judging, exploring or labels, for comparison: outside the protocol.",
)
@click.option(
    "--pathway",
    type=click.Choice(["context", "training"]),
    help="Where experience goes: a memory (default), or weights beside the control arm.",
)
@click.option("--dry-run", is_flag=True, help="Show what would run, and stop.")
@engine_options
@part_options
def run_command(
    study_file: Path | None,
    overrides: tuple[str, ...],
    engine: str | None,
    address: str | None,
    *,
    dry_run: bool,
    quiet: bool,
    **given: Any,
) -> None:
    """Run studies: every game x agent x memory x repeat, into a new store."""
    replay = given.pop("replay")
    must_fit_engine(engine, replay, given["proxy"])
    before_agents = front(given.pop("proxy"), replay)
    config = read_config(study_file, given_options(given), overrides)
    wiring = wire(config, replay, offline=dry_run or keys_are_elsewhere(engine))
    sweep = wiring.sweep
    if before_agents is not None:
        before_agents.before(sweep)
    plans = sweep.plans()
    if dry_run:
        _show_plans(config, plans)
        return
    folder = folder_for(config, engine, default_store(plans))
    start: Callable[[], Any] = sweep.run
    if folder is not None:
        must_be_new_folder(folder)  # before anything is shown
        sweep.store, start = folder, starting(folder, sweep, config, engine, address)
    else:
        sweep.store = default_store(plans) if sweep.store is None else sweep.store
        file.must_be_new(Path(sweep.store))
    watcher = Watcher(plans, quiet=quiet)
    _finish(wiring, watcher, start, before_agents)


@click.command("resume")
@click.argument("store", type=click.Path(path_type=Path))
@engine_options
@part_options
def resume_command(
    store: Path,
    overrides: tuple[str, ...],
    engine: str | None,
    address: str | None,
    *,
    quiet: bool,
    **given: Any,
) -> None:
    """Take up an unfinished run; what was finished or paid for is kept."""
    if engine is not None and not is_sweep_folder(store):
        raise ConfigError(f"--engine {engine}: {store} is not the folder of a sweep")
    _continue(store, None, overrides, quiet=quiet, given=given, engine=engine, address=address)


@click.command("extend")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--repeats", type=int, required=True, help="Repeats that each cell shall have.")
@part_options
def extend_command(
    store: Path, repeats: int, overrides: tuple[str, ...], *, quiet: bool, **given: Any
) -> None:
    """Add repeats to every cell of a store, and finish what is unfinished."""
    _continue(store, repeats, overrides, quiet=quiet, given=given)


def _continue(
    store: Path,
    repeats: int | None,
    overrides: tuple[str, ...],
    *,
    quiet: bool,
    given: dict[str, Any],
    engine: str | None = None,
    address: str | None = None,
) -> None:
    replay = given.pop("replay")
    must_fit_engine(engine, replay, given["proxy"])
    before_agents = front(given.pop("proxy"), replay)
    folder = is_sweep_folder(store) and repeats is None
    recorded = folder_config(store) if folder else recorded_config(store)
    words = words_of_record(recorded)
    renamed = _renamed(given, recorded)
    if repeats is not None:
        if repeats < recorded["repeats"]:
            raise ConfigError(
                f"--repeats: expected at least {recorded['repeats']}, which {store} has already, "
                f"got {repeats}"
            )
        recorded["repeats"] = repeats
    for key, value in renamed.items():
        table, _, name = key.rpartition(".")
        (recorded.setdefault(table, {}) if table else recorded)[name] = value
    recorded["schedule"] = recorded["schedule"].model_dump()
    override(recorded, overrides)
    validated(RunConfig, recorded, str(store))  # what follows reads it
    note_moved(recorded, words)
    if not keys_are_elsewhere(engine):
        must_be_there(recorded)
    recorded["store"] = str(store)
    config = validated(RunConfig, recorded, str(store))
    wiring = wire(config, replay, offline=keys_are_elsewhere(engine))
    if before_agents is not None:
        before_agents.before(wiring.sweep)
    must_be_the_same_base(shards(store), wiring.sweep.training, config.training.recorded)
    charge_folder(wiring.meter, store, config.model.base_url)
    watcher = Watcher(wiring.sweep.plans(), quiet=quiet)
    start: Callable[[], Any] = wiring.sweep.resume
    if folder:
        start = going_on(store, wiring.sweep, config, engine, address)
    _finish(wiring, watcher, start, before_agents)


def recorded_config(store: Path, *, over_mcp: bool = False) -> dict[str, Any]:
    """Return the configuration that a store was made with, its limits and budget included.

    Raises:
        ConfigError: It holds no study, or one that is played ``over_mcp``, unless that is meant.
        StoreError: It is damaged.
    """
    with file.damaged_rows(store), closing(file.open_reader(store)) as db:
        rows = db.execute(
            "SELECT game, agent, memory, repeat, spec, id FROM studies ORDER BY rowid"
        ).fetchall()
        return _recorded(store, rows, held_to(db), over_mcp=over_mcp)


def _recorded(
    store: Path, rows: list[Any], held: dict[str, Any], *, over_mcp: bool
) -> dict[str, Any]:
    if not rows:
        raise ConfigError(
            f"{store}: holds no study, because its run ended before it began; start it again with "
            f"'s3gym run'"
        )
    specs = [read_spec(row[5], row[4]) for row in rows]
    first = specs[0]
    if kept_apart(first) == "over MCP" and not over_mcp:
        raise ConfigError(
            f"{store}: is played over MCP; go on with 's3gym serve --mcp --resume --store {store}'"
        )
    recorded = {
        "game": list(dict.fromkeys(row[0] for row in rows)),
        "agent": list(dict.fromkeys(_name(spec, "agent") for spec in specs)),
        "memory": list(dict.fromkeys(_name(spec, "memory") for spec in specs)),
        "repeats": max(row[3] for row in rows) + 1,
        "schedule": Schedule(**first["schedule"]),
        "games": {row[0]: spec["options"] for row, spec in zip(rows, specs, strict=True)},
        "oracle": first.get("oracle"),
        **json.loads(first["settings"]),
    }
    if any("training" in spec for spec in specs) and "training" not in recorded:
        raise ConfigError(
            f"{store}: its trainer was given in Python; resume it from that program with "
            f"Study(...).resume()"
        )
    recorded["model"] = held.get("limits", {}) | recorded.get("model", {})
    recorded["budget"] = held.get("budget", {})
    return recorded


def _name(spec: dict[str, Any], kind: str) -> str:
    part = spec[kind]
    return str(part["origin"] or part["name"])


def _renamed(given: dict[str, Any], recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a resume; parts that are not built in must be named again.

    Nothing that is named in a store is ever imported because the store says so.
    """
    values = given_options(given)
    for kind in ("agent", "memory", "game"):
        again = set(values.pop(kind, []))
        for origin in recorded[kind]:
            if origin == "python":
                raise ConfigError(
                    f"this store's {kind} was given in Python; resume it from that program with "
                    f"Study(...).resume()"
                )
            foreign = ":" in origin and not is_chat_name(origin)
            if foreign and origin not in again:
                raise ConfigError(
                    f"this store's {kind} {origin!r} is not built in; name it again: "
                    f"--{kind} {origin}"
                )
        unknown = sorted(again - set(recorded[kind]))
        if kind == "agent" and is_moved_agent(recorded, unknown):
            values["agent"] = unknown
        elif unknown:
            raise ConfigError(f"--{kind} {unknown[0]}: this store has no such {kind}")
    must_be_named_again(recorded.get("training", {}), values)
    return values


def _show_plans(config: RunConfig, plans: list[Any]) -> None:
    schedule = config.schedule
    say(
        f"{len(plans)} studies, each {schedule.exploration_episodes} exploration episodes and "
        f"{schedule.evaluation_episodes} strict episodes at the checkpoints "
        f"{', '.join(map(str, schedule.checkpoints))}"
    )
    for plan in plans:
        say(plan.id)


def _finish(
    wiring: Wiring, watcher: Watcher, start: Callable[[], Any], before_agents: Front | None
) -> None:
    """Run, say how it ended, and exit with the documented code."""
    log_errors()
    sweep: Sweep = wiring.sweep
    sweep.on_event = watcher
    watcher.curves = _curves(sweep)
    with kindly_stopped() as stopping:
        try:
            with watcher, interrupting() as sweep.interrupt:
                if before_agents is not None:
                    start = before_agents.around(sweep, start)
                result: Result = anyio.run(stopping.run, start)
        except BaseException as error:  # all but a stop that was asked for is raised again
            if stopping.broken or _is_interrupt(error):
                say_error(
                    f"interrupted; all but the calls under way is kept: s3gym resume {sweep.store}"
                )
                raise SystemExit(INTERRUPTED) from None
            if isinstance(error, HaltedError):
                say_error(f"stopped; nothing is lost: s3gym resume {sweep.store}")
                raise SystemExit(INTERRUPTED) from None
            if isinstance(error, BudgetExhaustedError):
                raise BudgetExhaustedError(
                    f"{error}; go on with more of it: "
                    f"s3gym resume {sweep.store} {_more(str(error))}"
                ) from error
            raise
    say_result(result)


def _is_interrupt(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, (CutOffError, KeyboardInterrupt))


def _more(spent: str) -> str:
    """Return the option that raises the cap which an error names first."""
    return f"--{spent.partition(' ')[0].replace('_', '-')} ..."


def _curves(sweep: Sweep) -> Callable[[str], Sequence[tuple[int, float]]]:
    folder = cache(SweepFolder.open)

    def read(study: str) -> Sequence[tuple[int, float]]:
        if sweep.store is None:
            return []
        if is_sweep_folder(sweep.store):
            return folder(sweep.store).status_of(study).curve
        db = file.open_reader(Path(sweep.store))
        try:
            return VerdictLog(db).curve(study)
        finally:
            db.close()

    return read


def say_result(result: Result) -> None:
    """Say how a run ended, and exit with the documented code."""
    outcome = result.outcome
    unfinished = {*outcome.failed, *outcome.refused, *outcome.paused, *outcome.unkept}
    done = len(result.studies) - len(unfinished)
    say(f"{done} of {len(result.studies)} studies done")
    unread, steps = _unread(result.store)
    say(f"replies that did not parse: {unread} of {steps} ({unread / max(steps, 1):.1%})")
    say(f"store {result.store}")
    say(f"root {result.root or 'not sealed: studies are unfinished'}")
    for name, reason in (outcome.failed | outcome.refused).items():
        say_error(reason if reason.startswith(name) else f"{name}: {reason}")
    for reason in outcome.unkept.values():
        say_error(reason)
    for name in outcome.paused:
        say_error(f"{name}: paused by a service; s3gym resume {result.store}")
    for name in outcome.invalid:
        say_error(f"{name}: has invalid points; s3gym resume {result.store} tries them again")
    if outcome.failed:
        raise SystemExit(PLUGIN)
    if outcome.unkept:
        raise SystemExit(USAGE)
    if outcome.paused or outcome.invalid or outcome.refused:
        raise SystemExit(SERVICE)


def _unread(store: Path) -> tuple[int, int]:
    """Return (steps whose reply did not give action and self-score, all steps)."""
    unread = steps = 0
    for path in shards(store):
        db = file.open_reader(path)
        try:
            found = db.execute(
                "SELECT coalesce(sum(status IN ('no_action', 'no_score', 'truncated', 'refused')), "
                "0), count(*) FROM steps"
            ).fetchone()
        finally:
            db.close()
        unread, steps = unread + int(found[0]), steps + int(found[1])
    return unread, steps
