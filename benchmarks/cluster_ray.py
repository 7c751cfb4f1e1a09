"""What a study costs more on Ray than in one process.

    PYTHONSAFEPATH=1 python benchmarks/cluster.py --only ray [--studies 12]

Plays equal studies one after the other, in one process and on a cluster of this machine with one
place for a study, against a model server that answers after 0 ms and after 50 ms. What a study
costs is the difference between a sweep of many and of one, so what a sweep costs once is shown
apart: Ray's start, the check of the machines, the start of the limiter. The last line is the memory
of the driver for each study that waits in Ray.
"""

import argparse
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio

from s3gym.cli.folders import kept_config
from s3gym.cli.parts import wire
from s3gym.cluster.local import run_folder as run_here
from s3gym.cluster.ray_connect import connected
from s3gym.cluster.ray_engine import run_folder as run_on_ray
from s3gym.cluster.ray_worker import Keys, run_task
from s3gym.cluster.shards import SweepFolder
from s3gym.config import RunConfig, read_config

SERVER = Path(__file__).parent.parent / "tests" / "model_server.py"
SCHEDULE = {
    "exploration_episodes": 2,
    "evaluate_every": 2,
    "evaluation_episodes": 1,
    "max_steps": 20,
}
CALLS = 4 * 20
WAITING = 2000


def settings(url: str, repeats: int) -> RunConfig:
    """Return a sweep of equal studies."""
    return read_config(
        None,
        {
            "agent": ["openai:m"],
            "memory": ["history"],
            "repeats": repeats,
            "schedule": SCHEDULE,
            "seed": 7,
            "jobs": 1,
            "model.base_url": url,
            "cluster.num_cpus": os.cpu_count(),  # one place for a study
        },
    )


def run(engine: Any, config: RunConfig, place: Path) -> float:
    """Run a sweep; return its seconds."""
    kept = kept_config(config)
    sweep = wire(config, offline=True).sweep
    folder = SweepFolder.create(place, sweep, config=kept)
    begun = time.perf_counter()
    result = anyio.run(lambda: engine(folder, sweep, config=kept))
    seconds = time.perf_counter() - begun
    assert result.root is not None, result.outcome
    return seconds


def compare(delay: float, n: int, place: Path) -> None:
    """Print what a study costs with a server of this delay."""
    command = [sys.executable, str(SERVER), "--delay", str(delay)]
    found = os.environ | {"PYTHONPATH": str(SERVER.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=found) as server:
        try:
            url = f"{(server.stdout or sys.stdin).readline().strip()}/v1"
            here = marginal(run_here, url, n, place / f"here-{delay}")
            there = marginal(run_on_ray, url, n, place / f"ray-{delay}")
        finally:
            server.terminate()
    more = there.study - here.study
    print(
        f"{1000 * delay:.0f} ms a call, {CALLS} calls a study: {here.study:.3f} s in one process, "
        f"{there.study:.3f} s on Ray: {1000 * more:+.0f} ms a study, "
        f"{1000 * more / CALLS:+.2f} ms a call ({there.study / here.study:.2f} times); a sweep of "
        f"one study: {here.sweep:.1f} and {there.sweep:.1f} s"
    )


@dataclass(frozen=True)
class Cost:
    """Seconds of one more study, and of a sweep of one."""

    study: float
    sweep: float


def marginal(engine: Any, url: str, n: int, place: Path) -> Cost:
    """Return what studies cost beyond what a sweep costs, once all that is warm."""
    run(engine, settings(url, 1), place / "cold")
    one = run(engine, settings(url, 1), place / "one")
    many = run(engine, settings(url, n + 1), place / "many")
    return Cost(study=(many - one) / n, sweep=one)


def waiting(ray: Any) -> None:
    """Print the driver's memory for tasks that wait."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    nothing = ray.remote(run_task).options(num_cpus=1, resources={"nowhere": 1})
    handle = ray.put(b"x" * 10_000)
    tasks = [nothing.remote(handle, f"s{n}", None, Keys()) for n in range(WAITING)]
    time.sleep(2)
    kilobytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / WAITING
    for task in tasks:
        ray.cancel(task)
    print(f"a study that waits in Ray: {kilobytes:.1f} KB of the driver's memory")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=12)
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    logging.getLogger("s3gym.cluster.ray_engine").addHandler(logging.StreamHandler(sys.stdout))
    logging.getLogger("s3gym.cluster.ray_engine").setLevel(logging.INFO)
    begun = time.perf_counter()
    with connected(None) as ray, tempfile.TemporaryDirectory() as name:
        print(f"Ray's start: {time.perf_counter() - begun:.1f} s")
        for delay in (0.0, 0.05):
            compare(delay, given.studies, Path(name))
        waiting(ray)


if __name__ == "__main__":
    main()
