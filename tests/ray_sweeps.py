"""Small sweeps on a Ray cluster of this machine, for tests and benchmarks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio

from s3gym.api import Result
from s3gym.cli.folders import kept_config
from s3gym.cli.parts import wire
from s3gym.cluster.ray_engine import run_folder, unwrapped
from s3gym.cluster.shards import SweepFolder
from s3gym.config import RunConfig, read_config
from s3gym.events import Event

TINY = {
    "exploration_episodes": 2,
    "evaluate_every": 2,
    "evaluation_episodes": 1,
    "max_steps": 8,
}


def config(**given: Any) -> RunConfig:
    """Return the configuration of a small sweep."""
    plain = {"agent": ["strategist"], "memory": ["none"], "repeats": 1, "schedule": TINY, "seed": 7}
    return read_config(None, plain | given)


def single(settings: RunConfig, store: Path) -> str | None:
    """Run the sweep in this process; return its root."""
    sweep = wire(settings).sweep
    sweep.store = store
    return sweep.run_sync().root


def folder_of(settings: RunConfig, path: Path) -> SweepFolder:
    """Return a new folder for the sweep."""
    return SweepFolder.create(path, wire(settings).sweep, config=kept_config(settings), shared=True)


def on_ray(
    settings: RunConfig,
    folder: SweepFolder,
    address: str,
    events: list[Event] | None = None,
    beside: Any = None,
) -> Result:
    """Run the sweep's folder on a cluster.

    Args:
        settings: What to run.
        folder: Where.
        address: Of the cluster.
        events: Filled with what happens.
        beside: An asynchronous function that runs beside it.
    """
    sweep, plain = wire(settings, offline=True).sweep, kept_config(settings)
    if events is not None:
        sweep.on_event = events.append

    async def run() -> Result:
        if beside is None:
            return await run_folder(folder, sweep, config=plain, address=address)
        with unwrapped():
            async with anyio.create_task_group() as group:
                group.start_soon(beside)
                result = await run_folder(folder, sweep, config=plain, address=address)
                group.cancel_scope.cancel()
        return result

    return anyio.run(run)


@contextmanager
def cluster(*nodes: dict[str, Any]) -> Iterator[Any]:
    """Start a cluster of this machine; its head has no room for studies."""
    from ray.cluster_utils import Cluster

    made: Any = Cluster(
        initialize_head=True,
        head_node_args={
            "num_cpus": 0,
            "object_store_memory": 80_000_000,
            "include_dashboard": False,
            "_system_config": {
                "health_check_initial_delay_ms": 500,
                "health_check_period_ms": 500,
                "health_check_failure_threshold": 4,
            },
        },
    )
    try:
        for node in nodes:
            made.add_node(**({"object_store_memory": 80_000_000} | node))
        yield made
    finally:
        made.shutdown()
