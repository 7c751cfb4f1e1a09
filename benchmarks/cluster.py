"""What a sweep in a folder costs, part by part.

    PYTHONSAFEPATH=1 python benchmarks/cluster.py [--only merge]

Each part is a file of its own beside this one, named ``cluster_PART.py``, with a ``main``.
"""

import argparse
import runpy
from pathlib import Path

PARTS = ("merge", "ray", "simulation")


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    given, others = parser.parse_known_args()
    for part in PARTS if given.only is None else (given.only,):
        path = Path(__file__).with_name(f"cluster_{part}.py")
        runpy.run_path(str(path))["main"](others)


if __name__ == "__main__":
    main()
