"""Sweeps in folders for tests: small ones, a worker as a process, and rows of shards."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from studies import drawing

from s3gym import Schedule, Sweep
from s3gym.cluster.shards import SweepFolder

TINY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=1)
MEMORIES = ("none", "history", "vector")


def sweep(**changes: Any) -> Sweep:
    """Return a small sweep of four studies."""
    given: dict[str, Any] = {
        "games": ("trust",),
        "agents": (drawing,),
        "memories": ("none", "history"),
        "repeats": 2,
        "schedule": TINY,
        "seed": 7,
    }
    return Sweep(**given | changes)


def issue_sweep(**changes: Any) -> Sweep:
    """Return the sweep of 24 studies that every engine must play alike."""
    return sweep(
        games=("trust", "snake"), agents=("strategist",), memories=MEMORIES, repeats=4, **changes
    )


WORKER = """
import sys
import anyio
sys.path.insert(0, {tests!r})
from sweeps import play_slowly
anyio.run(play_slowly, {folder!r})
"""


def worker(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    """Start a process that runs or resumes the folder of ``slow_sweep``."""
    script = WORKER.format(tests=str(Path(__file__).parent), folder=str(folder))
    return subprocess.Popen([sys.executable, "-c", script], env=os.environ | {"CALL_LOG": str(log)})


def slow_sweep() -> Sweep:
    """Return a sweep whose agent asks a scripted model and logs every answered call."""
    from test_durability import SlowModelAgent

    return sweep(agents=(SlowModelAgent,), memories=("history",))


async def play_slowly(folder: str) -> None:
    """Run or resume the folder of ``slow_sweep``; the work of a worker's process."""
    from s3gym.cluster.local import run_folder

    await run_folder(SweepFolder.open(folder), slow_sweep())


def wait_for_lines(log: Path, process: subprocess.Popen[bytes], n: int) -> None:
    """Wait until a log has so many lines, or its writer has ended."""
    while process.poll() is None:
        if log.exists() and len(log.read_text().splitlines()) >= n:
            return
        time.sleep(0.002)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process as a dying machine does."""
    process.send_signal(signal.SIGKILL)
    process.wait()
