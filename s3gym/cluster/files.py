"""File names, whole files and locks of a sweep's folder."""

import os
import re
import secrets
from hashlib import sha256
from pathlib import Path
from shutil import copyfile

from s3gym.errors import StoreError
from s3gym.sealed.seal import private_files
from s3gym.store import file
from s3gym.weights import weights_folder

LONGEST_NAME = 80


def shard_name(study: str) -> str:
    """Return the file name of a study's shard: readable, and safe in any folder."""
    readable = re.sub(r"[^A-Za-z0-9.-]+", "-", study).strip("-.")[:LONGEST_NAME]
    return f"{readable}-{sha256(study.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}.db"


def is_sweep_folder(path: str | Path) -> bool:
    """Return whether a path is the folder of a sweep."""
    try:
        return (Path(path) / file.SWEEP).is_file()
    except OSError:  # for example a name that is too long
        return False


def must_be_new_folder(path: Path) -> None:
    """Refuse a path at which the folder of a new sweep cannot be made.

    Raises:
        StoreError: Something is there.
    """
    if is_sweep_folder(path):
        raise StoreError(
            f"{path}: this sweep exists; continue it with 's3gym resume {path}', or name another "
            f"folder"
        )
    with file.disk_errors(path):
        if path.exists() and not path.is_dir():
            raise StoreError(f"{path}: expected a folder, a file or device is there")
        if path.exists() and any(path.iterdir()):
            raise StoreError(f"{path}: the folder is not empty; name a new one")


def put_file(content: bytes, path: Path) -> bool:
    """Write a file whole, unless there is one of its name; return whether there was none."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with file.disk_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with private_files(), draft.open("wb") as target:
                target.write(content)
                target.flush()
                os.fsync(target.fileno())
            return _named(draft, path)
        finally:
            draft.unlink(missing_ok=True)


def _named(draft: Path, path: Path) -> bool:
    """Give a file its name, unless that is taken; return whether it was free."""
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    except OSError:  # a file system without links
        if path.exists():
            return False
        draft.replace(path)
    return True


def lock_of(path: Path) -> file.Lock | None:
    """Return the lock of a shard's file, which keeps other programs of this machine out.

    ``None`` where an owner that was replaced still has it, or a file system has no locks: the lease
    decides who writes.
    """
    try:
        return file.Lock(path)
    except (file.LockedError, file.NoLocksError):
        return None


def link_weights(shard: Path, out: Path) -> None:
    """Give a store the weights that lie beside a shard: by links, else as copies.

    Raises:
        StoreError: The disk refused.
    """
    source, target = weights_folder(shard), weights_folder(out)
    with file.disk_errors(target):
        for path in sorted(source.rglob("*")) if source.is_dir() else ():
            to = target / path.relative_to(source)
            if not path.is_file() or to.exists():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path, to)
            except OSError:  # another disk, or one without links
                copyfile(path, to)
