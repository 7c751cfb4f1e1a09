"""Merging the shards of a sweep: studies per second and bytes.

    PYTHONSAFEPATH=1 python benchmarks/cluster.py --only merge [--studies 100] [--shared]

Plays the studies of a random player in Trust Evolution with history memory, on the paper's
schedule, in one store and shard by shard; then merges the folder, merges it again, and reads how
it stands.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import anyio

from s3gym import Schedule, Sweep
from s3gym.cluster.local import run_folder
from s3gym.cluster.merge import merge
from s3gym.cluster.shards import SweepFolder

T = TypeVar("T")


def timed(what: str, n: int, work: Callable[[], T]) -> T:
    """Do work on n studies, and print how many that was per second."""
    started = time.perf_counter(), time.process_time()
    result = work()
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    print(
        f"{what}: {n} studies in {wall:.2f} s = {n / wall:.1f} studies/s ({cpu:.2f} s of processor)"
    )
    return result


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=100)
    parser.add_argument("--shared", action="store_true", help="shards for several machines")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)

    def sweep(store: Path | None = None) -> Sweep:
        return Sweep(
            store=store,
            games=("trust",),
            agents=("random",),
            memories=("history",),
            repeats=given.studies,
            schedule=Schedule.paper(),
            seed=7,
        )

    with tempfile.TemporaryDirectory() as name:
        path = Path(name)
        folder = SweepFolder.create(path / "sweep", sweep(), shared=given.shared)
        n = len(folder.studies)
        timed("play, one store", n, sweep(path / "whole.db").run_sync)
        played = timed("play, a shard each", n, lambda: anyio.run(run_folder, folder, sweep()))
        merged = timed("merge", n, lambda: merge(folder, path / "out.db"))
        assert merged.root == played.root is not None
        timed("merge again", n, lambda: merge(folder, path / "out.db"))
        timed("status", n, folder.status)
        shards = sum(folder.shard(study).stat().st_size for study in folder.studies)
        out = (path / "out.db").stat().st_size
        print(f"bytes: {shards / n:,.0f} a shard, {out / n:,.0f} a study once merged")


if __name__ == "__main__":
    main()
