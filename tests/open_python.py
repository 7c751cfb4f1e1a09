"""An interpreter with s3gym that any user may run, wherever this one lies."""

import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

SHARED_TESTS = ("sealed_agents", "sealed_runs", "studies")
LEFT_OUT = shutil.ignore_patterns(
    "*.opt-*.pyc", "config-*", "dist-packages", "ensurepip", "idlelib", "site-packages", "test"
)
"""What no program needs of Python's own library."""
SDKS = ("anthropic", "openai")
"""Half of all files, and loaded when a model is called: no agent of the sealed tests does."""


def open_python(folder: Path) -> Path:
    """Make an interpreter in an empty folder and return its path.

    The interpreter, its library, s3gym, what s3gym needs and what the sealed tests run are
    linked or copied, so that no folder on the way to the original has to be open to others.
    """
    site = folder / "site"
    share(Path(import_module("s3gym").__path__[0]), site / "s3gym")
    for name in ("memory", "agents", "games"):
        share(Path(import_module(f"s3gym.{name}").__path__[0]), site / "s3gym" / name)
    for name in SHARED_TESTS:
        share(Path(__file__).with_name(f"{name}.py"), site / f"{name}.py")
    for needed in needs("s3gym", {*SDKS}):
        for top in {file.parts[0] for file in needed.files or () if ".." not in file.parts}:
            share(Path(str(needed.locate_file(top))), site / top)
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base = Path(sys.base_prefix)
    share((base / "bin" / version).resolve(), folder / "bin" / version)
    shutil.copytree(
        Path(os.__file__).parent, folder / "lib" / version, copy_function=link, ignore=LEFT_OUT
    )
    for library in (base / "lib").glob("libpython*.so*"):
        share(library.resolve(), folder / "lib" / library.name)
    script = folder / "python"
    script.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={site} LD_LIBRARY_PATH={folder / 'lib'}\n"
        f'exec {folder / "bin" / version} "$@"\n'
    )
    open_up(folder)
    script.chmod(0o755)
    return script


def needs(name: str, known: set[str]) -> Iterator[Distribution]:
    """Yield what a distribution needs without its extras, each once, and not itself."""
    for line in distribution(name).requires or ():
        match = re.match(r"[\w.-]+", line)
        if match is None or "extra ==" in line or match[0].lower() in known:
            continue
        known.add(match[0].lower())
        try:
            yield distribution(match[0])
            yield from needs(match[0], known)
        except PackageNotFoundError:  # for another platform or Python
            continue


def share(source: Path, target: Path) -> None:
    """Link a file or the files of a folder, or copy what cannot be linked."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, copy_function=link, dirs_exist_ok=True)
    elif source.exists():
        link(source, target)


def link(source: str | Path, target: str | Path) -> None:
    if os.path.exists(target):
        return
    try:
        if os.stat(source).st_mode & stat.S_IROTH:
            os.link(os.path.realpath(source), target)
            return
    except OSError:  # on another disk
        pass
    shutil.copy2(source, target)  # with its time, which a compiled file beside it names


def open_up(folder: Path) -> None:
    """Let everybody read what is in a folder, and enter it; linked files can be read already."""
    for place, _, names in os.walk(folder):
        os.chmod(place, 0o755)
        for name in names:
            found = Path(place, name).stat()
            if not found.st_mode & stat.S_IROTH:
                os.chmod(Path(place, name), found.st_mode | (found.st_mode & 0o500) >> 6)


def runs_s3gym(python: str | Path, user: int, group: int) -> bool:
    """Return whether a user may run an interpreter that has s3gym and the sealed tests' agents."""
    try:
        subprocess.run(
            [python, "-P", "-c", "import s3gym, sealed_agents"], user=user, group=group,
            extra_groups=(), check=True, capture_output=True, cwd="/", env={},
        )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
