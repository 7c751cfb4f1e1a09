"""Turn the JSON of a report into the table of docs/explanation/first-findings.md.

Run: s3gym report findings.db --json findings.json --quiet && python benchmarks/first_findings.py
"""

import json
import sys
from pathlib import Path


def main() -> None:
    """Print one row per game and memory: gain over none, interval, q and slope."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "findings.json")
    report = json.loads(path.read_text())
    print("| game | memory | gain over `none` | 95 % interval | q | slope per episode | verdict |")
    print("|---|---|---|---|---|---|---|")
    order = {name: place for place, name in enumerate(("history", "summary", "insights"))}
    rows = sorted(
        report["comparisons"],
        key=lambda row: (row["game"], order.get(row["memory"], 9), row["memory"]),
    )
    for row in rows:
        interval = f"{row['low']:+.3g} to {row['high']:+.3g}" if row["low"] is not None else "none"
        slope = row["slope"]
        shown = f"{slope['mean']:+.3g}" if slope and slope["mean"] is not None else ""
        if slope and slope.get("low") is not None:
            shown += f" ({slope['low']:+.2g} to {slope['high']:+.2g})"
        q = "" if row["q"] is None else f"{row['q']:.2g}"
        direction = row["direction"] or "cannot tell"
        print(
            f"| {row['game']} | {row['memory']} | {row['mean']:+.3g} | {interval} | {q} | {shown} "
            f"| {direction} |"
        )


if __name__ == "__main__":
    main()
