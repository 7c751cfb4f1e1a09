"""Ctrl-C while the command line loads its modules: the program ends, without a traceback.

It works by being imported, because importing is what takes the time. Only a program that was
started as the command is touched; for everybody who imports s3gym signals stay theirs.
"""

import os
import signal
import sys
from pathlib import PurePath
from types import FrameType

INTERRUPTED = 130
COMMAND = "s3gym"
"""Name of the package, and of the program that pip makes."""


def loading() -> None:
    """End the program at once on Ctrl-C, until ``loaded``, where it is the command line's."""
    if _is_command() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def loaded() -> None:
    """Let Ctrl-C raise ``KeyboardInterrupt`` again: from now on somebody waits for it."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """Return whether this program is ``s3gym`` or ``python -m s3gym``."""
    program = sys.argv[0] if sys.argv else ""
    if program != "-m":
        return PurePath(program).name == COMMAND
    words = sys.orig_argv
    return words[words.index("-m") + 1 :][:1] == [COMMAND] if "-m" in words else False


def _leave(number: int, frame: FrameType | None) -> None:
    # Nothing is open yet. An exception could come into an import that takes it for its own.
    os._exit(INTERRUPTED)


loading()
