"""What a seal costs: time per step with agent and memory in a process of their own.

Run: python benchmarks/sealed.py

Two studies that differ in their number of exploration episodes are run in process and sealed;
the difference over the difference in steps is the time per step, free of the child's start,
which is printed beside it. CPU is that of both processes; the wall clock holds two switches
between processes, which a busy machine makes long. Agent ``random`` on snake.
"""

import resource
import tempfile
import time
from pathlib import Path
from statistics import median

from s3gym import Schedule, Seal, Sweep
from s3gym.sealed.process import probe
from s3gym.store import file

SHORT, LONG, ROUNDS = 10, 40, 3


def cpu_seconds() -> float:
    """Return what this process and its ended children have used."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def run(store: Path, memory: str, episodes: int, seal: Seal | None) -> tuple[float, float, int]:
    """Return (seconds, CPU seconds, steps) of one study of exploration alone, nearly."""
    schedule = Schedule(
        exploration_episodes=episodes, evaluate_every=episodes, evaluation_episodes=1
    )
    sweep = Sweep(
        games=("snake",), agents=("random",), memories=(memory,), repeats=1, seed=1, salt="s",
        schedule=schedule, store=store, seal=seal,
    )  # fmt: skip
    sweep.plans()  # a sealed one asks its parts how they look, once
    began, used = time.perf_counter(), cpu_seconds()
    sweep.run_sync()
    seconds, spent = time.perf_counter() - began, cpu_seconds() - used
    db = file.open_reader(store)
    (steps,) = db.execute("SELECT count(*) FROM steps").fetchone()
    db.close()
    return seconds, spent, int(steps)


def step_cost(folder: Path, memory: str, seal: Seal | None) -> tuple[float, float]:
    """Return milliseconds per step, by the wall clock and of CPU."""
    walls, cpus = [], []
    for index in range(ROUNDS):
        name = f"{memory}{'sealed' if seal else 'open'}{index}"
        short, little, few = run(folder / f"{name}a.db", memory, SHORT, seal)
        long, much, many = run(folder / f"{name}b.db", memory, LONG, seal)
        walls.append((long - short) / (many - few) * 1e3)
        cpus.append((much - little) / (many - few) * 1e3)
    return median(walls), median(cpus)


def start_cost() -> float:
    """Return the seconds from starting a child until it has loaded and answered."""
    reference = {"where": "random", "name": "random"}
    memory = {"where": "history", "name": "history"}
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        probe(Seal(), {"do": "looks", "agents": [reference], "memories": [memory]})
        found.append(time.perf_counter() - began)
    return median(found)


def main() -> None:
    """Print every figure."""
    print(f"start of a child: {start_cost():.2f} s")
    with tempfile.TemporaryDirectory() as name:
        for memory in ("none", "history"):
            wall, cpu = step_cost(Path(name), memory, None)
            sealed_wall, sealed_cpu = step_cost(Path(name), memory, Seal())
            print(
                f"step, memory {memory}: in process {wall:.2f} ms (CPU {cpu:.2f}), "
                f"sealed {sealed_wall:.2f} ms (CPU {sealed_cpu:.2f})"
            )


if __name__ == "__main__":
    main()
