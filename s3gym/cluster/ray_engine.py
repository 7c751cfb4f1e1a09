"""The engine on Ray: one task per study of a sweep's folder, one limiter for all of them.

Which task runs where, and that one whose worker died runs again, is Ray's business. The driver
hands the studies over, keeps the limiter served, passes on what happens, and gathers endings.
"""

import json
import logging
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from s3gym.api import Result, Sweep
from s3gym.budget import Spent
from s3gym.catalog import find_agent
from s3gym.cluster.letters import Report
from s3gym.cluster.limiter import settings_of
from s3gym.cluster.local import folder_result
from s3gym.cluster.manifest import installed
from s3gym.cluster.ray_connect import (
    checked_address,
    connected,
    must_answer,
    must_be_installed,
)
from s3gym.cluster.ray_machines import check_machines, last_line
from s3gym.cluster.ray_worker import Ending, Job, Keys, LimiterActor, run_task
from s3gym.cluster.shards import SweepFolder
from s3gym.cluster.token import write_token
from s3gym.config import ClusterConfig, validated
from s3gym.errors import BudgetExhaustedError, ConfigError, StoreError
from s3gym.events import Event
from s3gym.halt import HaltedError, check_halt
from s3gym.meter import Meter, described
from s3gym.store import file

MAKE = "s3gym.cli.parts:sweep_of"
"""What makes a sweep again from the configuration of the command line."""
NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}
"""For studies that ask for none: not every version of Ray keeps the others' GPUs from them."""
LISTEN_SECONDS = 0.5
RESTART_SECONDS = 0.25
CANCEL_SECONDS = 10.0
ONCE = frozenset({"episode", "checkpoint", "update", "done"})
"""Events that happen once; a study that was taken over tells them again."""
logger = logging.getLogger(__name__)


async def run_folder(
    folder: SweepFolder,
    sweep: Sweep,
    *,
    config: Mapping[str, Any] | None = None,
    address: str | None = None,
    make: str = MAKE,
) -> Result:
    """Run or resume the studies of a folder on a Ray cluster.

    Args:
        folder: Made for this sweep.
        sweep: What to run, with its limits and whom it tells what happens.
        config: What ``make`` is called with, as ``config``; plain data without keys. Its table
            ``cluster`` says what a study asks of the cluster.
        address: ``HOST:PORT``, ``auto``, or ``None`` for a cluster on this machine.
        make: ``module:function`` that returns the same sweep on a worker.

    Returns:
        What came out, as of an engine on one machine.

    Raises:
        ConfigError: The sweep is not the folder's, or the cluster cannot run it.
        BudgetExhaustedError: A budget of the run is used up.
        HaltedError: The run was stopped.
    """
    config = dict(config or {})
    cluster = validated(ClusterConfig, config.get("cluster") or {}, "cluster")
    meter = check_engine(sweep, cluster, address)
    address = address or cluster.address
    if address is not None and cluster.shared and not folder.manifest.shared:
        raise ConfigError(f"{folder.path}: several machines write to it: make it with shared=True")
    folder.plans(sweep)
    pending = folder.pending()
    if not pending:
        return folder_result(folder, failed={}, refused={}, unkept={})
    keys = keys_of(cluster)
    job = Job(
        version=installed(),
        make=make,
        values=json.dumps({"config": config}, sort_keys=True),
        where=os.getcwd(),
        folder=str(folder.path.absolute()),
        shared=cluster.shared or address is None,
        manifest=folder.manifest.model_dump_json(),
        ttl=cluster.lease_seconds,
        settings=settings_of(meter),
        description=described(meter),
    )
    with connected(address) as ray:
        driver = _Driver(ray, folder, sweep, cluster, job, keys, meter.budget.spent)
        await check_machines(ray, cluster, job, write_token(folder.path) if job.shared else "")
        await driver.run(pending)
    return folder_result(folder, failed=driver.failed, refused=driver.refused, unkept=driver.unkept)


def check_engine(sweep: Sweep, cluster: ClusterConfig, address: str | None) -> Meter:
    """Check, before anything is written, that this engine could run a sweep.

    Args:
        sweep: What to run.
        cluster: What it asks of the cluster.
        address: As for ``run_folder``.

    Returns:
        The sweep's limits and budget.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: The sweep has what workers on other machines cannot have, or nothing answers.
    """
    must_be_installed()
    if sweep.seal is not None:
        raise ConfigError("a sealed run needs the engine of one machine: leave --engine ray out")
    for part in (find_agent(agent) for agent in sweep.agents):
        if part.serial:
            raise ConfigError(
                f"agent {part.name!r} plays one episode at a time in the whole run, which workers "
                f"beside one another cannot keep to: leave --engine ray out"
            )
    meter = sweep.limits or Meter()
    if not isinstance(meter, Meter):
        raise ConfigError(f"limits: expected a Meter, got {type(meter).__name__}")
    keys_of(cluster)
    address = address or cluster.address
    if sweep.training is not None and address is not None and not cluster.shared:
        raise ConfigError(
            "cluster.shared: false, but a training study goes on from weights that lie beside its "
            "shard; use a folder that all machines see"
        )
    if address is not None and ":" in (target := checked_address(address)):
        must_answer(target)
    return meter


def keys_of(cluster: ClusterConfig) -> Keys:
    """Return the environment variables that workers get from the driver.

    Raises:
        ConfigError: One is not set.
    """
    for name in cluster.env:
        if name not in os.environ:
            raise ConfigError(
                f"cluster.env: the environment variable {name} is not set, so the workers cannot "
                f"be given it"
            )
    hidden = {} if cluster.num_gpus else NO_GPU
    return Keys(hidden | {name: os.environ[name] for name in cluster.env})


@dataclass(slots=True)
class _Driver:
    """One run of a folder's studies."""

    ray: Any
    folder: SweepFolder
    sweep: Sweep
    cluster: ClusterConfig
    job: Job
    keys: Keys
    before: Spent
    failed: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    unkept: dict[str, str] = field(default_factory=dict)
    _queue: deque[str] = field(default_factory=deque)
    _refs: dict[str, Any] = field(default_factory=dict)
    _told: dict[str, dict[str, int]] = field(default_factory=dict)
    _spent: dict[str, Spent] = field(default_factory=dict)
    _stopped: ConfigError | BudgetExhaustedError | None = None
    _runs: dict[str, str | None] = field(default_factory=dict)
    _taken_back: bool = False
    _limiter: Any = None
    _began: float = 0.0
    _letters: int = 0

    async def run(self, pending: list[str]) -> None:
        """Run studies to their ends.

        Raises:
            ConfigError: A worker cannot make the sweep.
            BudgetExhaustedError: A budget is used up, or the run was stopped.
        """
        self._queue.extend(pending)
        self._began = anyio.current_time()
        actor = self.ray.remote(LimiterActor)
        self._limiter = actor.options(
            num_cpus=0, max_restarts=-1, max_task_retries=0, max_concurrency=100_000
        ).remote(self.job.settings)
        job = self.ray.put(self.job)
        try:
            with unwrapped():
                async with anyio.create_task_group() as group:
                    group.start_soon(self._keep_serving)
                    group.start_soon(self._listen)
                    async with anyio.create_task_group() as lanes:
                        for _ in range(min(len(pending), self.cluster.pending)):
                            lanes.start_soon(self._lane, job)
                    await self._pass_on()
                    group.cancel_scope.cancel()
        finally:
            seconds = anyio.current_time() - self._began
            logger.info("the limiter got %d letters in %.1f s", self._letters, seconds)
            with anyio.move_on_after(CANCEL_SECONDS, shield=True):
                await self._cancel(list(self._refs.values()))
            self.ray.kill(self._limiter)
        if self._stopped is not None:
            raise self._stopped

    async def _lane(self, job: Any) -> None:
        while self._queue and self._stopped is None:
            await self._one(job, self._queue.popleft())

    async def _one(self, job: Any, study: str) -> None:
        """Hand a study to Ray and take in how it ended."""
        cluster, path = self.cluster, self.folder.shard(study)
        shard = None if self.job.shared or not path.exists() else path.read_bytes()
        task = self.ray.remote(run_task).options(
            name=f"s3gym {study}",
            num_cpus=cluster.num_cpus,
            num_gpus=cluster.num_gpus,
            resources=dict(cluster.resources),
            max_retries=cluster.retries,
        )
        ref = task.remote(job, study, self._limiter, self.keys, shard)
        self._refs[study] = ref
        errors = self.ray.exceptions
        try:
            self._take_in(study, await ref)
        except errors.TaskCancelledError:
            pass  # stopped before it began
        except errors.RayTaskError as error:
            if not isinstance(error, errors.TaskCancelledError):
                raise
        except errors.RayError as error:
            again = "it was tried again as often as cluster.retries says"
            self.refused[study] = f"{study}: its worker died ({last_line(error)}); {again}"
            self._tell(Event(kind="failed", study=study, note=self.refused[study]))
        finally:
            self._refs.pop(study, None)

    def _take_in(self, study: str, ending: Ending) -> None:
        if ending.shard is not None:
            self._keep(study, ending.shard)
        if ending.kind == "failed":
            self.failed[study] = ending.reason
        elif ending.kind == "refused":
            self.refused[study] = ending.reason
        elif ending.kind == "unkept":
            self.unkept[study] = ending.reason
        elif ending.kind == "spent":
            self._stop(BudgetExhaustedError(ending.reason))
        elif ending.kind == "halted":
            self._stop(HaltedError(ending.reason))
        elif ending.kind == "wrong":
            self._stop(ConfigError(ending.reason))

    def _keep(self, study: str, content: bytes) -> None:
        """Put a shard that a worker sent in the place of what there was of it."""
        path = self.folder.shard(study)
        draft = path.with_name(f".{path.name}.in")
        try:
            with file.disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                draft.write_bytes(content)
                draft.chmod(0o600)
            path.unlink(missing_ok=True)
            self.folder.take_in(study, draft)
        except StoreError as error:
            self.unkept[study] = str(error)

    def _stop(self, error: ConfigError | BudgetExhaustedError) -> None:
        """Begin nothing new; what runs comes to its own end."""
        if self._stopped is not None:
            return
        self._stopped = error
        self._queue.clear()

    async def _take_back(self) -> None:
        """Take back the studies that wait for room; one that has begun keeps what it paid for."""
        with self._away():
            begun = {*self._told, *await self._limiter.close.remote()}
            for study in [study for study in self._refs if study not in begun]:
                self.ray.cancel(self._refs[study])
            self._taken_back = True

    async def _keep_serving(self) -> None:
        """Keep the limiter served, also when Ray started it again."""
        again = False
        while True:
            hours = (anyio.current_time() - self._began) / 3600
            before = replace(self.before, hours=self.before.hours + hours)
            try:
                await self._limiter.serve.remote(before, self._spent, again)
            except self.ray.exceptions.RayTaskError:
                raise
            except self.ray.exceptions.RayError as error:
                logger.info("the limiter is started again: %s", type(error).__name__)
            again = True
            await anyio.sleep(RESTART_SECONDS)

    async def _listen(self) -> None:
        """Pass on what happens, and the user's wish to stop."""
        while True:
            await anyio.sleep(LISTEN_SECONDS)
            await self._pass_on()
            try:
                check_halt()
            except HaltedError as error:
                self._stop(error)
                with self._away():
                    await self._limiter.stop.remote()
            if self._stopped is not None and not self._taken_back:
                await self._take_back()

    async def _pass_on(self) -> None:
        with self._away():
            report: Report = await self._limiter.report.remote()
            self._spent.update(report.spent)
            self._letters = report.letters
            self._note_runs(report.runs)
            for event in report.events:
                self._tell(event)

    def _note_runs(self, runs: tuple[tuple[str, str | None], ...]) -> None:
        """Tell of studies that run again as a worker was lost; the limiter may be lost with it."""
        for study, session in runs:
            before = self._runs.get(study)
            self._runs[study] = session
            if None in (before, session) or before == session:
                continue
            note = f"{before} was lost, {session} took it over"
            if not self.job.shared:
                note = f"{note}; the folder is not shared, so it starts again"
            self._tell(Event(kind="moved", study=study, note=note))

    @contextmanager
    def _away(self) -> Iterator[None]:
        """Bear with a limiter that is being started again."""
        try:
            yield
        except self.ray.exceptions.RayTaskError:
            raise
        except self.ray.exceptions.RayError:
            pass

    def _tell(self, event: Event) -> None:
        told = self._told.setdefault(event.study, {})  # kind -> a bit per ordinal
        before, bit = told.get(event.kind, 0), 1 << event.ordinal
        if event.kind in ONCE and before & bit:
            return
        told[event.kind] = before | bit
        if self.sweep.on_event is not None:
            self.sweep.on_event(event)

    async def _cancel(self, refs: list[Any]) -> None:
        for ref in refs:
            self.ray.cancel(ref)
        for ref in refs:
            try:
                await ref
            except self.ray.exceptions.RayError:
                pass


@contextmanager
def unwrapped() -> Iterator[None]:
    """Raise the one error of a task group by itself."""
    try:
        yield
    except BaseExceptionGroup as group:  # whatever it holds is raised again
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
