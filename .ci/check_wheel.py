"""Compare a wheel with the files of the four folders.

Usage: check_wheel.py WHEEL < LIST, where LIST holds the null-terminated paths that the wheel must
hold, relative to the project's folder: what ``.ci/sources s3gym memory agents games`` prints.
"""

import sys
from pathlib import PurePosixPath
from zipfile import ZipFile

PACKAGE = "s3gym"


def packaged(path: str) -> str:
    """Return where a file of the project lies in the wheel."""
    return path if PurePosixPath(path).parts[0] == PACKAGE else f"{PACKAGE}/{path}"


def findings(names: list[str], paths: list[str]) -> list[str]:
    """Return what is wrong with a wheel that holds ``names``; empty when nothing is."""
    tops = {PurePosixPath(name).parts[0] for name in names}
    info = {top for top in tops if top.startswith(f"{PACKAGE}-") and top.endswith(".dist-info")}
    held = {name for name in names if PurePosixPath(name).parts[0] not in info}
    wanted = {packaged(path) for path in paths}
    found = [f"unexpected top-level name: {top}" for top in sorted(tops - info - {PACKAGE})]
    found += [f"missing from the wheel: {name}" for name in sorted(wanted - held)]
    found += [f"in the wheel, not in the folders: {name}" for name in sorted(held - wanted)]
    licences = [name for name in names if name.endswith("/licenses/LICENSE")]
    return found if licences else [*found, "the wheel holds no LICENSE"]


def main() -> int:
    """Print the findings; 0 when there are none."""
    names = [name for name in ZipFile(sys.argv[1]).namelist() if not name.endswith("/")]
    paths = [path for path in sys.stdin.read().split("\0") if path]
    found = findings(names, paths)
    sys.stdout.write("\n".join(found or [f"the wheel holds the {len(paths)} files"]) + "\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
