"""Sweeps in a folder, as the command line starts, continues and counts them."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from s3gym.api import Result, Sweep
from s3gym.audit import Audit, audit_store
from s3gym.audit.findings import GameFinder
from s3gym.catalog import TRAINING
from s3gym.cli.parts import charge_recorded
from s3gym.cluster.files import is_sweep_folder
from s3gym.cluster.reading import audit_folder, load_folder
from s3gym.cluster.shards import SweepFolder
from s3gym.config import RunConfig, validated
from s3gym.contracts.memory import CallRenderer
from s3gym.errors import ConfigError
from s3gym.meter import Meter
from s3gym.parts import Teachings
from s3gym.report.load import load_store, load_stores
from s3gym.report.records import StoreRecord

LOCAL = "local"
ENGINES = {LOCAL: "s3gym.cluster.local", "ray": "s3gym.cluster.ray_engine"}
"""Engine -> module with its ``run_folder``; loaded when it is used.

One with a ``check_engine`` is asked first whether it could run a sweep at all."""


def folder_for(config: RunConfig, engine: str | None, fallback: Path) -> Path | None:
    """Return the folder that a run shall fill, or ``None`` where it shall write one store.

    Args:
        config: Its ``store`` names a folder when it ends in ``/``, or is one of a sweep.
        engine: What was given as ``--engine``: every engine fills a folder.
        fallback: The store that is written where none is named.
    """
    store = config.store
    if store is None:
        return None if engine is None else fallback.with_suffix("")
    if engine is not None or store.endswith("/") or is_sweep_folder(store):
        return Path(store)
    return None


def starting(
    path: Path, sweep: Sweep, config: RunConfig, engine: str | None, address: str | None
) -> Callable[[], Awaitable[Result]]:
    """Return what makes a new folder and fills it."""
    kept = kept_config(config)

    async def start() -> Result:
        run = _engine(engine, address, sweep, config)
        folder = SweepFolder.create(path, sweep, config=kept, shared=_shared(engine))
        try:
            return await run(folder, sweep, config=kept, address=address)
        except ConfigError:
            folder.discard()
            raise

    return start


def going_on(
    path: Path, sweep: Sweep, config: RunConfig, engine: str | None, address: str | None
) -> Callable[[], Awaitable[Result]]:
    """Return what takes up an unfinished folder; it remembers limits and budget that are new."""
    kept = kept_config(config)

    async def start() -> Result:
        run = _engine(engine, address, sweep, config)
        folder = SweepFolder.open(path)
        folder.plans(sweep)  # what does not fit is refused before anything is written
        folder.keep(config=kept, shared=_shared(engine))
        return await run(folder, sweep, config=kept, address=address)

    return start


def folder_config(path: Path) -> dict[str, Any]:
    """Return the configuration that a folder was made with.

    Raises:
        ConfigError: It was made in Python.
    """
    folder = SweepFolder.open(path)
    config = folder.manifest.config
    if config is None:
        raise ConfigError(
            f"{path}: this sweep was made in Python; resume it from that program with "
            f"s3gym.cluster.local.run_folder"
        )
    recorded = validated(RunConfig, config, str(folder.manifest_path))
    return kept_config(recorded) | {"schedule": recorded.schedule}


def charge_folder(meter: Meter, path: Path, base_url: str | None) -> None:
    """Count what the calls in a folder cost already, so that a resumed run keeps its budget."""
    for shard in shards(path):
        charge_recorded(meter, shard, base_url)


def shards(path: Path) -> Iterator[Path]:
    """Yield the stores that a path stands for: itself, or the shards of a sweep's folder."""
    if not is_sweep_folder(path):
        yield path
        return
    folder = SweepFolder.open(path)
    yield from (shard for shard in map(folder.shard, folder.studies) if shard.exists())


def load_all(stores: Sequence[Path]) -> list[StoreRecord]:
    """Read stores and sweeps' folders; each study carries its store's name, if there are several.

    Raises:
        StoreError: One cannot be read.
    """
    return load_stores(stores, _load)


def audit_of(
    store: Path,
    find_game: GameFinder,
    expect: str | None = None,
    prompts: Mapping[str, CallRenderer] | None = None,
    teachings: Teachings | None = None,
) -> Audit:
    """Audit a store or a sweep's folder. See ``audit_store``."""
    audit = audit_folder if is_sweep_folder(store) else audit_store
    return audit(store, find_game, expect, prompts, teachings)


def _load(path: str | Path, label: str) -> StoreRecord:
    return load_folder(path, label) if is_sweep_folder(path) else load_store(path, label)


def must_fit_engine(engine: str | None, replay: Path | None, proxy: int | None) -> None:
    """Refuse, for workers on other machines, what only this process has.

    Raises:
        ConfigError: A store that answers the calls, or a proxy, was asked for.
    """
    given = "--replay" if replay is not None else "--proxy" if proxy is not None else ""
    if given and _shared(engine):
        raise ConfigError(f"{given} needs the engine of one machine: leave --engine {engine} out")


def keys_are_elsewhere(engine: str | None) -> bool:
    """Return whether not this process makes the model calls, so it needs no keys."""
    return _shared(engine)


def _engine(
    name: str | None, address: str | None, sweep: Sweep, config: RunConfig
) -> Callable[..., Awaitable[Result]]:
    if address is not None and not _shared(name):
        raise ConfigError(f"--address {address}: needs an --engine that runs on a cluster")
    module = import_module(ENGINES[name or LOCAL])
    check = getattr(module, "check_engine", None)
    if check is not None:
        check(sweep, config.cluster, address)
    run: Callable[..., Awaitable[Result]] = module.run_folder
    return run


def _shared(engine: str | None) -> bool:
    """Return whether several machines will write: all engines but the local one use some."""
    return engine not in (None, LOCAL)


def kept_config(config: RunConfig) -> dict[str, Any]:
    """Return what a folder keeps of a configuration: no seed, which stands beside it."""
    # The memories say whether a study trains; a table for none is refused.
    trains = TRAINING in config.memory
    left_out = {"seed", "store", "pathway"} | (set() if trains else {"training"})
    return config.model_dump(mode="json", exclude=left_out)
