"""Running sealed studies in tests."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from studies import TINY

from s3gym import Result, Seal, Sweep
from s3gym.store import file


def sweep(path: Path, agent: object = "strategist", memory: object = "none", **more: Any) -> Sweep:
    """Return a small sealed sweep on trust."""
    given: dict[str, Any] = {"repeats": 1, "seed": 7, "schedule": TINY, "seal": Seal()} | more
    return Sweep(games=("trust",), agents=(agent,), memories=(memory,), store=path, **given)


def notes(path: Path) -> list[str]:
    """Return the notes of all steps, in order."""
    db = file.open_learner(path)
    try:
        return [row[0] for row in db.execute("SELECT note FROM steps ORDER BY episode, idx")]
    finally:
        db.close()


def children() -> list[int]:
    """Return the ids of this process's sealed children, ended but unburied ones too."""
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            status = Path(f"/proc/{name}/stat").read_text()
        except OSError:
            continue
        parent = int(status.rpartition(")")[2].split()[1])
        if parent == os.getpid() and "python" in status:
            found.append(int(name))
    return found


def only(result: Result) -> str:
    """Return why the only study failed."""
    (reason,) = result.outcome.failed.values()
    return reason


def parsed(texts: Sequence[str], read: Callable[[str], Any] = json.loads) -> list[Any]:
    return [read(text) for text in texts]
