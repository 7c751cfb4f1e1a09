"""What runs on the machines of a Ray cluster: the limiter's process, and one task per study.

A task gets names, numbers and texts, and makes the study's parts again from them. It answers with
plain data as well: what a study came to, never an exception that the driver could not read.
"""

import atexit
import json
import os
import shutil
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import Any, Literal

import anyio

from s3gym.api import Sweep
from s3gym.budget import Spent
from s3gym.cluster.files import put_file
from s3gym.cluster.letters import Answer, Letter, Report
from s3gym.cluster.limiter import Limiter, MeterSettings
from s3gym.cluster.local import run_shard
from s3gym.cluster.manifest import Manifest, must_be_version, write_manifest
from s3gym.cluster.permits import SharedLimits, UnreachableError
from s3gym.cluster.shards import SweepFolder
from s3gym.cluster.token import must_be_shared
from s3gym.errors import BudgetExhaustedError, ConfigError, S3GymError, StoreError
from s3gym.halt import HaltedError, haltable
from s3gym.plans import StudyPlan
from s3gym.seams import close_part
from s3gym.sweep import side_by_side

Kind = Literal["done", "failed", "refused", "unkept", "spent", "halted", "wrong"]


class Keys(dict[str, str]):
    """Environment variables on their way to a worker; their values are never shown."""

    def __repr__(self) -> str:
        return f"Keys({sorted(self)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What all tasks of a sweep need.

    Attributes:
        version: Version of s3gym that the driver runs.
        make: ``module:function`` that returns the sweep from ``values``.
        values: Its arguments, as JSON.
        where: The driver's working folder, from which relative paths and modules are found.
        folder: The sweep's folder, as the driver names it.
        shared: Whether the worker sees that folder.
        manifest: The sweep's manifest, as JSON.
        ttl: Seconds of a lease.
        settings: What the sweep is held to.
        description: The same for a store.
    """

    version: str
    make: str
    values: str
    where: str
    folder: str
    shared: bool
    manifest: str
    ttl: float
    settings: MeterSettings
    description: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a study ended on a worker.

    Attributes:
        kind: ``done`` also where the shard says that it was paused.
        reason: Why, for all other kinds.
        shard: The shard, where the folder is not shared.
    """

    kind: Kind
    reason: str = ""
    shard: bytes | None = None


class LimiterActor:
    """The process of the limiter; started by Ray, and again when it died."""

    def __init__(self, settings: MeterSettings) -> None:
        self._settings = settings
        self._limiter: Limiter | None = None
        self._made = anyio.Event()
        self._scope = anyio.CancelScope()

    async def serve(self, before: Spent, spent: Mapping[str, Spent], again: bool) -> None:
        """Give out permits until the next call of this or the end of the process."""
        self._scope.cancel()
        self._limiter = Limiter(self._settings.meter(drained=again), again=again)
        self._made.set()
        with anyio.CancelScope() as self._scope:
            await self._limiter.serve(before, spent)

    async def exchange(self, letter: Letter) -> Answer:
        """See ``Limiter.exchange``."""
        await self._made.wait()
        if self._limiter is None:
            raise UnreachableError("the limiter has not begun")
        return await self._limiter.exchange(letter)

    async def report(self) -> Report:
        """See ``Limiter.report``."""
        return Report() if self._limiter is None else self._limiter.report()

    async def close(self) -> tuple[str, ...]:
        """See ``Limiter.close``."""
        await self._made.wait()
        return () if self._limiter is None else self._limiter.close()

    async def stop(self) -> None:
        """See ``Limiter.stop``."""
        if self._limiter is not None:
            self._limiter.stop()


def check_machine(version: str, folder: str, token: str) -> str:
    """Return what hinders this machine from working for the driver; empty for nothing."""
    try:
        must_be_version(version)
        if token:
            must_be_shared(Path(folder), token)
    except S3GymError as error:
        return f"{socket.gethostname()}: {error}"
    return ""


def run_task(job: Job, study: str, limiter: Any, keys: Keys, shard: bytes | None = None) -> Ending:
    """Run or resume one study on this worker.

    Args:
        job: What all studies have in common.
        study: Id of the study.
        limiter: Handle of the ``LimiterActor``.
        keys: Environment variables that the driver passes on.
        shard: What there is of it, where the folder is not shared.
    """
    problem = check_machine(job.version, job.folder, "")
    if problem:
        return Ending(kind="wrong", reason=problem)
    with environment(keys):
        return _task(job, study, limiter, shard)


@contextmanager
def environment(keys: Keys) -> Iterator[None]:
    """Set environment variables for the body: the next sweep on this worker has its own."""
    before = {name: os.environ.get(name) for name in keys}
    os.environ.update(keys)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _task(job: Job, study: str, limiter: Any, shard: bytes | None) -> Ending:
    try:
        parts = parts_of(job)
    except (ConfigError, StoreError) as error:
        return Ending(kind="wrong", reason=f"{socket.gethostname()}: {error}{hint(str(error))}")
    path = parts.folder.shard(study)
    try:
        if shard is not None:
            put_file(shard, path)
        ending = anyio.run(_run, job, parts, study, limiter)
    except StoreError as error:
        return Ending(kind="unkept", reason=f"{socket.gethostname()}: {error}")
    if job.shared:
        return ending
    content = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    return replace(ending, shard=content)


def hint(error: str) -> str:
    """Return what to do about a variable that a worker lacks."""
    if "environment variable" not in error:
        return ""
    return (
        "; a worker has the environment in which Ray was started there, and those variables of "
        "the driver that cluster.env names"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """A sweep as it was made again in this process; models in it are loaded once."""

    sweep: Sweep
    folder: SweepFolder
    plans: dict[str, StudyPlan]


def parts_of(job: Job) -> Parts:
    """Return the parts of a job, made once per process.

    Raises:
        ConfigError: They cannot be made here.
        StoreError: The folder cannot be read.
    """
    return _made(job.make, job.values, job.where, job.folder if job.shared else "", job.manifest)


@lru_cache(maxsize=1)
def _made(make: str, values: str, where: str, folder: str, manifest: str) -> Parts:
    if Path(where).is_dir():
        os.chdir(where)
        if where not in sys.path:
            sys.path.insert(0, where)
    sweep = _sweep(make, json.loads(values))
    planned = Manifest(**json.loads(manifest))
    shards = SweepFolder.open(Path(folder)) if folder else _own_folder(planned)
    found = shards.manifest
    if (found.root_seed, found.salt) != (planned.root_seed, planned.salt):
        raise ConfigError(f"{folder}: not shared with this worker: it sees another sweep there")
    return Parts(sweep=sweep, folder=shards, plans={plan.id: plan for plan in shards.plans(sweep)})


def _sweep(make: str, values: dict[str, Any]) -> Sweep:
    module, _, function = make.partition(":")
    try:
        made = getattr(import_module(module), function)(**values)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{make}: what makes the sweep is not here: {error}") from error
    if not isinstance(made, Sweep):
        raise ConfigError(f"{make}: expected it to return a Sweep, got {type(made).__name__}")
    return made


def _own_folder(manifest: Manifest) -> SweepFolder:
    """Return a folder of this process alone, removed when it ends."""
    path = Path(mkdtemp(prefix="s3gym-"))
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    write_manifest(path, manifest)
    return SweepFolder.open(path)


async def _run(job: Job, parts: Parts, study: str, limiter: Any) -> Ending:
    with haltable() as halt:
        limits = SharedLimits(
            lambda letter: _posted(limiter, letter),
            session=f"{socket.gethostname()}/{os.getpid()}/{token_hex(3)}",
            study=study,
            settings=job.settings,
            description=job.description,
            halt=halt,
        )
        async with anyio.create_task_group() as group:
            group.start_soon(limits.correspond)
            await limits.introduced()
            ending = await _played(job, parts, parts.plans[study], limits)
            group.cancel_scope.cancel()
        await limits.leave()
        await _close_clients(parts.plans[study])
    return ending


async def _played(job: Job, parts: Parts, plan: StudyPlan, limits: SharedLimits) -> Ending:
    async def one(plan: StudyPlan, serial: anyio.CapacityLimiter) -> None:
        await run_shard(
            parts.folder,
            plan,
            limits,
            owner=f"worker {limits.session.rpartition('/')[2]}",  # a store names no machine
            ttl=job.ttl,
            serial=serial,
            on_event=limits.tell,
        )

    try:
        failed, refused = await side_by_side(
            [plan], one, at_most=1, interrupt=parts.sweep.interrupt
        )
    except HaltedError as error:
        return Ending(kind="halted", reason=str(error))
    except BudgetExhaustedError as error:
        return Ending(kind="spent", reason=str(error))
    except StoreError as error:
        return Ending(kind="unkept", reason=f"{socket.gethostname()}: {error}")
    except ConfigError as error:
        return Ending(kind="wrong", reason=f"{socket.gethostname()}: {error}")
    for reason in failed.values():
        return Ending(kind="failed", reason=reason)
    for reason in refused.values():
        return Ending(kind="refused", reason=reason)
    return Ending(kind="done")


async def _posted(limiter: Any, letter: Letter) -> Answer:
    """Send a letter to the limiter's process.

    Raises:
        UnreachableError: It died and may be about to be started again.
    """
    from ray.exceptions import RayError, RayTaskError

    try:
        answer = await limiter.exchange.remote(letter)
    except RayTaskError:
        raise
    except RayError as error:
        raise UnreachableError(type(error).__name__) from error
    if not isinstance(answer, Answer):
        raise UnreachableError("it gave no answer")
    return answer


async def _close_clients(plan: StudyPlan) -> None:
    """Close connections, which belong to this study's event loop; loaded models stay."""
    for chat in (plan.agent.chat, plan.memory.chat):
        if str(getattr(chat, "endpoint", "")).startswith("http"):
            await close_part(chat)
