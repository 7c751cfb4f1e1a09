"""What the engine costs: time per step, wall clock over the critical path, and peak memory.

Run: python benchmarks/engine.py [--long]

* step: an instant agent, no memory, the store on. The peer is the same game stepped bare in one
  loop, and one SQLite transaction of the same two rows. ``--long`` plays 100,000 steps and shows
  whether the time per step stays flat.
* wall: a chat model that sleeps 50 ms a call; the wall clock of a study over its critical path,
  which is exploration and consolidation plus the longest evaluation episode of the last
  checkpoint; then 16 studies side by side over the slowest one. What a process does once (loading
  a vocabulary, importing) is over by then: a study with an instant model was played. The wall
  clock of bare sleeps is shown as the machine's limit.
* memory: peak resident memory while a sweep of 16 studies grows past the history budget.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import anyio

from s3gym import Message, Phase, Schedule, Sweep, Turn
from s3gym.agents.model import ModelAgent
from s3gym.contracts.chat import Reply
from s3gym.contracts.game import Clock
from s3gym.errors import InvalidActionError
from s3gym.games.snake import SPEC as SNAKE
from s3gym.limits import Limits, LimitSettings
from s3gym.memory.history import HistoryMemory
from s3gym.meter import Meter
from s3gym.seeds import EpisodeSeeds
from s3gym.store import file

CALL_SECONDS = 0.05
MOVES = ("LEFT", "UP", "RIGHT", "DOWN")


async def instant(turn: Turn) -> tuple[str, float]:
    """Go round in a square; exploration ends no episode before its 64 steps."""
    return MOVES[turn.index % 4], 0.0


def steps_of(store: Path) -> int:
    """Return the number of recorded steps."""
    db = file.open_reader(store)
    count = db.execute("SELECT count(*) FROM steps").fetchone()[0]
    db.close()
    return int(count)


def step_cost(folder: Path, episodes: int) -> float:
    """Return milliseconds per step of a study of exploration alone, nearly."""
    store = folder / f"steps{episodes}.db"
    schedule = Schedule(
        exploration_episodes=episodes, evaluate_every=episodes, evaluation_episodes=1
    )
    sweep = Sweep(
        games=("snake",), agents=(instant,), memories=("none",), repeats=1, seed=1,
        schedule=schedule, store=store,
    )  # fmt: skip
    began = time.perf_counter()
    sweep.run_sync()
    return (time.perf_counter() - began) / steps_of(store) * 1e3


def bare_step_cost() -> float:
    """Return milliseconds per step of the same game in one loop, without an engine."""
    setup = SNAKE.setup(SNAKE.options(), Phase.EXPLORATION)
    state = setup.game.start(EpisodeSeeds(episode=1, game="snake"))
    clock = Clock(step=1, max_steps=64)
    began = time.perf_counter()
    n = 5_000
    for index in range(n):
        try:
            state = setup.game.apply(state, MOVES[index % 4]).state
        except InvalidActionError:
            continue
        setup.game.observe(state, clock)
    return (time.perf_counter() - began) / n * 1e3


class Sleeper:
    """A chat model that answers after a fixed time."""

    name = "sleeper"
    endpoint = "sleeper"

    def __init__(self, seconds: float = CALL_SECONDS) -> None:
        self._seconds = seconds

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return an answer after that time."""
        await anyio.sleep(self._seconds)
        return Reply(text="Answer: collaborate, Score: 2")


def wall(folder: Path, repeats: int, call_seconds: float = CALL_SECONDS) -> float:
    """Return the wall clock of a sweep of trust studies under the paper's schedule, in s."""
    meter = Meter(Limits(LimitSettings(start=1_000, most=1_000)))
    sweep = Sweep(
        games=("trust",), agents=(ModelAgent(Sleeper(call_seconds)),), memories=("history",),
        repeats=repeats, seed=1, store=folder / f"wall{repeats}.db", limits=meter,
    )  # fmt: skip
    began = time.perf_counter()
    anyio.run(sweep.run)
    return time.perf_counter() - began


async def bare_sleeps(n: int) -> float:
    """Return the wall clock of sleeps that follow one another, in s."""
    began = time.perf_counter()
    for _ in range(n):
        await anyio.sleep(CALL_SECONDS)
    return time.perf_counter() - began


def peak_memory(folder: Path) -> list[tuple[int, float]]:
    """Return (exploration episodes, peak MB) while 16 studies grow; the history budget is small."""
    found = []
    for episodes in (6, 12, 24):
        schedule = Schedule(exploration_episodes=episodes, memory_tokens=10_000)
        sweep = Sweep(
            games=("snake",), agents=(instant,), memories=(HistoryMemory,), repeats=16, seed=1,
            schedule=schedule, store=folder / f"memory{episodes}.db",
        )  # fmt: skip
        sweep.run_sync()
        found.append((episodes, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
    return found


def main() -> None:
    """Print every figure with its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--long", action="store_true", help="100,000 steps for flatness")
    parser.add_argument("--only", choices=["step", "wall", "memory"])
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if given.only in (None, "step"):
            bare = median(bare_step_cost() for _ in range(3))
            short = median(step_cost(folder, episodes) for episodes in (30, 31, 32))
            print(f"step: {short:.3f} ms with the engine, {bare:.3f} ms bare (limit 0.25 ms)")
            if given.long:
                long = step_cost(folder, 1_560)
                print(
                    f"step over 100,000 steps: {long:.3f} ms, {long / short:.2f} of the short run"
                )
        if given.only in (None, "wall"):
            critical = (30 * 10 + 10) * CALL_SECONDS
            wall(folder / "first", 1, call_seconds=0.0)
            one = wall(folder, 1)
            many = wall(folder, 16)
            bare = anyio.run(bare_sleeps, 100) / (100 * CALL_SECONDS)
            print(f"wall of sleeps alone over their sum: {bare:.3f}")
            print(f"wall: {one:.2f} s over {critical:.2f} s = {one / critical:.3f} (limit 1.05)")
            print(f"wall of 16 studies over one: {many / one:.3f} (limit 1.10)")
        if given.only in (None, "memory"):
            for episodes, megabytes in peak_memory(folder):
                print(f"memory: 16 studies, {episodes} episodes: peak {megabytes:.0f} MB")


if __name__ == "__main__":
    main()
