"""Ctrl-C while the command line loads, before anything of it could catch an exception."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys

class Stop:
    def find_spec(self, name, path=None, target=None):
        if name == {where!r}:
            os.kill(os.getpid(), signal.SIGINT)

{first}
sys.meta_path.insert(0, Stop())
from s3gym.cli import main
try:
    main(["games"])
finally:
    print(signal.getsignal(signal.SIGINT).__name__)
"""


def run(file: Path, where: str, first: str = "") -> "subprocess.CompletedProcess[str]":
    file.write_text(PROGRAM.format(where=where, first=first))
    command = [sys.executable, "-P", str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "where", ["s3gym.agents", "s3gym.api", "s3gym.cli.main", "s3gym.cli.games"]
)
def test_an_interrupt_while_the_command_loads_shows_no_traceback(
    tmp_path: Path, where: str
) -> None:
    ended = run(tmp_path / "s3gym", where)
    assert (ended.returncode, ended.stderr) == (130, "")


def test_once_it_is_loaded_an_interrupt_is_an_exception_again(tmp_path: Path) -> None:
    ended = run(tmp_path / "s3gym", "nowhere")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines()[-1] == "default_int_handler"


def test_a_program_that_ignores_interrupts_or_only_imports_s3gym_keeps_its_own_way(
    tmp_path: Path,
) -> None:
    ignoring = run(
        tmp_path / "s3gym",
        "s3gym.api",
        "def own(*given): pass\nsignal.signal(signal.SIGINT, own)",
    )
    assert ignoring.returncode == 0, ignoring.stderr
    assert ignoring.stdout.splitlines()[-1] == "own"
    importing = run(tmp_path / "mine.py", "s3gym.api")
    assert "KeyboardInterrupt" in importing.stderr
