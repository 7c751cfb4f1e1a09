"""How long a report of the paper's size takes: 98 studies, at least 116,117 steps.

Run: ``python benchmarks/report_scale.py``. Makes a store (about half a minute), then reports on
it in a process of its own and prints seconds, peak memory and the size of the page.
Goal: under 20 s and 500 MB, page under 10 MB.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

GAMES = ("chess", "minesweeper", "nullify", "pvz", "snake", "tetris", "trust")
AGENTS = tuple(f"model-{i}" for i in range(7))


def make(path: Path) -> None:
    """Write a store of the paper's size."""
    from made_store import make_store

    from s3gym.schedule import Schedule

    make_store(
        path,
        games=GAMES,
        agents=AGENTS,
        memories=("history", "summary"),
        repeats=1,
        schedule=Schedule.paper(),
        n_steps=19,
        size=18,
        effect=0.1,
    )


def draw(text: str) -> str:
    """Draw an observation."""
    cells = "".join(
        f'<rect x="{10 * c}" y="{10 * r}" width="9" height="9"/>'
        for r, line in enumerate(text.splitlines())
        for c, mark in enumerate(line)
        if mark == "#"
    )
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 200 200">{cells}</svg>'


def report(path: Path) -> None:
    """Report on a store and print what that took."""
    started = time.perf_counter()
    from s3gym.report import GameFacts, build_report, load_store, open_episodes, to_html, to_json

    imported = time.perf_counter()
    record = load_store(path)
    loaded = time.perf_counter()
    fact = GameFacts(random=1, reference=9, ceiling=20, reward_range=(0, 3))
    built = build_report([record], {game: fact for game in GAMES})
    counted = time.perf_counter()
    text = to_json(built)
    written = time.perf_counter()
    with open_episodes([record]) as episode:
        page = to_html(built, episode=episode, pictures={game: draw for game in GAMES})
    done = time.perf_counter()
    n_steps = sum(len(s.steps) for s in record.studies)
    all_steps = sum(sum(s.statuses.values()) for s in record.studies)
    seconds = {
        "import": imported - started,
        "load": loaded - imported,
        "build": counted - loaded,
        "json": written - counted,
        "page": done - written,
        "total": done - started,
    }
    print(
        json.dumps(
            {
                "studies": len(record.studies),
                "steps": all_steps,
                "exploration_steps": n_steps,
                "cpu_seconds": round(time.process_time(), 2),
                "seconds": {name: round(value, 2) for name, value in seconds.items()},
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                "json_mb": round(len(text) / 1e6, 2),
                "page_mb": round(len(page.encode()) / 1e6, 2),
            },
            indent=1,
        )
    )


def main() -> None:
    """Make a store and report on it in another process."""
    if len(sys.argv) > 1:
        report(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "paper.db"
        make(path)
        print(f"store: {path.stat().st_size / 1e6:.0f} MB")
        subprocess.run([sys.executable, __file__, str(path)], check=True)


if __name__ == "__main__":
    main()
