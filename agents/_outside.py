"""What trainers share: the hash of a weights file, and the end of a process of theirs."""

import os
import signal
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.abc

from s3gym.errors import ConfigError

STOP_SECONDS = 5.0
BLOCK = 1 << 22


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file's bytes; raises ``ConfigError`` when it cannot be read."""
    digest = sha256()
    try:
        with file.open("rb") as stream:
            while block := stream.read(BLOCK):
                digest.update(block)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from error
    return digest.hexdigest()


async def stopped(process: anyio.abc.Process) -> None:
    """End a process with all that it started, when it did not end by itself."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(STOP_SECONDS, shield=True):
            await process.wait()
    await process.aclose()
