"""A sweep that no test can run: 8,400 studies on 1, 8 and 64 places of a cluster, simulated.

    PYTHONSAFEPATH=1 python benchmarks/cluster.py --only simulation [--calls STORE] [--median 3.0]

Call times are drawn from those that a store recorded (``--calls``), scaled to a median; without one
they are assumed. The
makespan comes from list scheduling, which is what Ray does with tasks of one size: the next study
in order goes to the first free place. Its lower bound is the larger of all work over all places and
the longest study. Letters to the limiter come from the real limiter and the real workers' side,
on a clock that jumps from one event to the next. The driver's memory is measured: its plans, its
folder, and what it keeps per study.
"""

import argparse
import heapq
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import anyio
import numpy as np
import trio.testing
from scipy.stats import norm

from s3gym.api import Sweep
from s3gym.budget import NOTHING
from s3gym.cluster.letters import Answer, Letter
from s3gym.cluster.limiter import Limiter, MeterSettings
from s3gym.cluster.permits import SharedLimits
from s3gym.cluster.shards import SweepFolder
from s3gym.contracts.chat import Reply
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Usage
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.testing.fakes import ScriptedChat

STUDIES = 8400
"""7 games x 20 agents x 6 memories x 10 repeats."""
STEPS = (10, 15, 20, 30, 40, 45, 64)
"""Steps of an episode in each of the games, in the order in which they are planned: the longest
studies come last, which is the worst order for the makespan."""
SPREAD = 0.52
"""Of the call times that are assumed where none are recorded: log-normal, one in twenty takes 2.4
times the median."""
STUDY_SECONDS = 0.1
"""Of a study for which Ray and s3gym are to blame (``cluster_ray.py``, on a busy machine)."""


def drawn(quantiles: np.ndarray, median: float, n: int, rng: np.random.Generator) -> np.ndarray:
    """Return n call times in seconds."""
    at = np.linspace(0, 1, len(quantiles))
    return np.interp(rng.random(n), at, quantiles) * median / np.interp(0.5, at, quantiles)


def durations(quantiles: np.ndarray, median: float, rng: np.random.Generator) -> np.ndarray:
    """Return the seconds of every study, in the order in which they are planned.

    Exploration is sequential; evaluation runs beside it, so that only the last checkpoint's
    longest episode adds to it.
    """
    schedule = Schedule.paper()
    found = np.empty(STUDIES)
    for index in range(STUDIES):
        steps = STEPS[index * len(STEPS) // STUDIES]
        explored = drawn(quantiles, median, schedule.exploration_episodes * steps, rng).sum()
        last = drawn(quantiles, median, 3 * steps, rng).reshape(3, steps).sum(axis=1).max()
        found[index] = explored + last + STUDY_SECONDS
    return found


def makespan(seconds: np.ndarray, places: int) -> float:
    """Return when the last study ends, if each goes to the first free place."""
    free = [0.0] * places
    for one in seconds:
        heapq.heapreplace(free, free[0] + float(one))
    return max(free)


async def letters(workers: int, quantiles: np.ndarray, median: float, minutes: float) -> None:
    """Print what the limiter gets from workers with one exploration and three evaluations each."""
    settings = MeterSettings(limits=LimitSettings(start=4, most=4 * workers))
    meter = Meter(Limits(settings.limits, clock=anyio.current_time))
    limiter = Limiter(meter, clock=anyio.current_time)
    rng, n_letters, n_calls = np.random.default_rng(7), 0, 0
    times = iter(drawn(quantiles, median, 2_000_000, rng))

    async def post(letter: Letter) -> Answer:
        nonlocal n_letters
        n_letters += 1
        await anyio.sleep(0.001)
        return await limiter.exchange(letter)

    async def lane(limits: SharedLimits, pause: float) -> None:
        nonlocal n_calls
        chat = ScriptedChat([], name="openai:m", endpoint="http://model.test/v1")

        async def send() -> Reply:
            await anyio.sleep(float(next(times)))
            return Reply(text="", usage=Usage(calls=1, input_tokens=2000, output_tokens=400))

        await anyio.sleep(pause)
        while True:
            await limits.call(chat, send, tokens=2000)
            n_calls += 1
            await anyio.sleep(0.005)

    with anyio.move_on_after(60 * minutes):
        async with anyio.create_task_group() as group:
            group.start_soon(limiter.serve, NOTHING, {})
            for number in range(workers):
                limits = SharedLimits(
                    post, session=f"w{number}", study=f"s{number}", settings=settings
                )
                group.start_soon(limits.correspond)
                for _ in range(2):  # exploration, and on average one evaluation episode
                    group.start_soon(lane, limits, float(rng.random() * median))
    print(
        f"limiter, {workers} workers: {n_calls / minutes / 60:.1f} calls/s, "
        f"{n_letters / minutes / 60:.1f} letters/s, {n_letters / max(n_calls, 1):.2f} a call"
    )


def memory() -> None:
    """Print what the driver's plans and folder take for all studies."""
    sweep = Sweep(
        agents=("random",),
        memories=("none",),
        repeats=STUDIES,
        seed=7,
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as name:
        folder = SweepFolder.create(Path(name) / "sweep", sweep)
        size = (folder.path / file.SWEEP).stat().st_size
        pending = folder.pending()
    told = {study: {"episode": (1 << 31) - 1, "checkpoint": (1 << 31) - 1} for study in pending}
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(
        f"driver: {grown / 1024:.0f} MB for {len(told):,} studies' plans, folder and progress; "
        f"the manifest has {size / 1e6:.1f} MB"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every figure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=Path, metavar="STORE", help="a store with recorded calls")
    parser.add_argument("--median", type=float, default=3.0, help="seconds of a call")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the limiter's simulation")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    quantiles = np.exp(SPREAD * norm.ppf(np.linspace(0.005, 0.995, 100)))
    if given.calls is not None:
        db = file.open_reader(given.calls)
        seconds = [row[0] for row in db.execute("SELECT seconds FROM timings WHERE kind = 'call'")]
        db.close()
        quantiles = np.quantile(seconds, np.linspace(0, 1, 21))
        print(f"{len(seconds)} recorded calls:", ", ".join(f"{one:.3f}" for one in quantiles))
    memory()
    seconds = durations(quantiles, given.median, np.random.default_rng(7))
    for places in (1, 8, 64):
        bound = max(seconds.sum() / places, seconds.max())
        planned = makespan(seconds, places)
        longest_first = makespan(np.sort(seconds)[::-1], places)
        print(
            f"{places} places: {planned / 86400:.2f} days, {planned / bound:.3f} of the lower "
            f"bound ({longest_first / bound:.3f} with the longest studies first)"
        )
    for workers in (1, 8, 64):
        trio.run(
            letters,
            workers,
            quantiles,
            given.median,
            given.minutes,
            clock=trio.testing.MockClock(autojump_threshold=0),
        )


if __name__ == "__main__":
    main()
