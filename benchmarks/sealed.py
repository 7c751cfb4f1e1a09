"""What a seal costs: time per step with agent and memory in a process of their own.

Run: python benchmarks/sealed.py

Two studies that differ in their number of exploration episodes are run in process and sealed;
the difference over the difference in steps is the time per step, free of the child's start,
which is printed beside it. Agent ``random`` on snake, memory ``none`` and ``history``.
"""

import tempfile
import time
from pathlib import Path
from statistics import median

from s3gym import Schedule, Seal, Sweep
from s3gym.sealed.process import probe
from s3gym.store import file

SHORT, LONG, ROUNDS = 10, 40, 3


def run(store: Path, memory: str, episodes: int, seal: Seal | None) -> tuple[float, int]:
    """Return (seconds, steps) of one study of exploration alone, nearly."""
    schedule = Schedule(
        exploration_episodes=episodes, evaluate_every=episodes, evaluation_episodes=1
    )
    sweep = Sweep(
        games=("snake",), agents=("random",), memories=(memory,), repeats=1, seed=1, salt="s",
        schedule=schedule, store=store, seal=seal,
    )  # fmt: skip
    sweep.plans()  # a sealed one asks its parts how they look, once
    began = time.perf_counter()
    sweep.run_sync()
    seconds = time.perf_counter() - began
    db = file.open_reader(store)
    (steps,) = db.execute("SELECT count(*) FROM steps").fetchone()
    db.close()
    return seconds, int(steps)


def step_cost(folder: Path, memory: str, seal: Seal | None) -> float:
    """Return milliseconds per step."""
    found = []
    for index in range(ROUNDS):
        name = f"{memory}{'sealed' if seal else 'open'}{index}"
        short, few = run(folder / f"{name}a.db", memory, SHORT, seal)
        long, many = run(folder / f"{name}b.db", memory, LONG, seal)
        found.append((long - short) / (many - few) * 1e3)
    return median(found)


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
            plain = step_cost(Path(name), memory, None)
            sealed = step_cost(Path(name), memory, Seal())
            print(
                f"step, memory {memory}: {plain:.3f} ms in process, {sealed:.3f} ms sealed, "
                f"{sealed - plain:.3f} ms more"
            )


if __name__ == "__main__":
    main()
