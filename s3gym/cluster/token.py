"""Is a worker's folder the driver's? A file that the driver writes and the worker reads tells."""

import secrets
from pathlib import Path

from s3gym.errors import ConfigError
from s3gym.store import file

NAME = ".driver"


def write_token(folder: Path) -> str:
    """Write a new token into a folder and return it; it travels to the workers by another way.

    Raises:
        StoreError: The folder cannot be written to.
    """
    token = secrets.token_hex(16)
    with file.disk_errors(folder):
        (folder / NAME).write_text(token, encoding="ascii")
    return token


def must_be_shared(folder: Path, token: str) -> None:
    """Check on a worker that it sees the driver's folder and may write to it.

    Raises:
        ConfigError: It sees another folder, none, or one that it cannot write to.
    """
    try:
        found = (folder / NAME).read_text(encoding="ascii", errors="replace")
    except OSError as error:
        found = error.strerror or "nothing"
    if found != token:
        raise ConfigError(
            f"{folder}: not shared with this worker: it does not see what the driver wrote there; "
            f"name a folder that all machines share"
        )
    probe = folder / f"{NAME}.{secrets.token_hex(8)}"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise ConfigError(
            f"{folder}: this worker cannot write to the shared folder: {error.strerror or error}"
        ) from error
