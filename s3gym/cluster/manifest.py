"""The manifest of a sweep's folder: what its studies are, and what a worker must know.

It holds the root seed and the salt, so it is the verifier's, like the stores beside it: only its
owner may read it, and no part of it is given to an agent or a memory. It holds no key.
"""

import json
import os
from importlib.metadata import version
from pathlib import Path
from tempfile import mkstemp
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from s3gym.errors import ConfigError, StoreError
from s3gym.store import file
from s3gym.text import shorten

FORMAT = 1


class Entry(BaseModel):
    """A study of the sweep: its id, and the hash of its specification."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    spec: str = Field(pattern="^[0-9a-f]{64}$")


class Manifest(BaseModel):
    """What ``sweep.json`` holds.

    Attributes:
        format: Version of this layout.
        s3gym: Version of s3gym that made the folder.
        config: The run's configuration; ``None`` for a sweep that was made in Python.
        shared: Whether workers of several machines write to the folder.
        root_seed: As in a store's ``secrets``.
        salt: As in a store's ``secrets``.
        studies: All studies, in the order in which they were planned.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    s3gym: str
    config: dict[str, Any] | None = None
    shared: bool = False
    root_seed: str = Field(pattern="^[0-9]{1,1000}$")
    salt: str
    studies: tuple[Entry, ...] = Field(min_length=1)


def installed() -> str:
    """Return the version of s3gym that runs here."""
    return version("s3gym")


def read_manifest(folder: Path) -> Manifest:
    """Return a folder's manifest.

    Raises:
        StoreError: There is none, or it is broken or of another version.
    """
    path = folder / file.SWEEP
    if not folder.is_dir():
        raise StoreError(f"{folder}: no such folder; start a sweep with 's3gym run --store DIR/'")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StoreError(f"{folder}: not the folder of a sweep: it has no {file.SWEEP}") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise StoreError(f"{path}: the manifest is broken: {error}") from error
    found = raw.get("format") if isinstance(raw, dict) else None
    if found != FORMAT:
        writer = raw.get("s3gym") if isinstance(raw, dict) else None
        by = f", written by s3gym {writer}" if isinstance(writer, str) else ""
        raise StoreError(
            f"{path}: a manifest of format {shorten(found)}{by}; this s3gym ({installed()}) reads "
            f"{FORMAT}. Report, audit and resume the sweep with the s3gym that wrote it; a new run "
            f"needs a new folder"
        )
    try:
        manifest = Manifest(**raw)
    except ValidationError as error:
        fault = error.errors()[0]
        key = ".".join(map(str, fault["loc"]))
        raise StoreError(f"{path}: the manifest is broken: {key}: {fault['msg']}") from error
    ids = [entry.id for entry in manifest.studies]
    if len(set(ids)) < len(ids):
        raise StoreError(f"{path}: the manifest is broken: studies: an id occurs twice")
    return manifest


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write a folder's manifest as a whole, readable by its owner alone.

    Raises:
        StoreError: The disk refused.
    """
    path = folder / file.SWEEP
    with file.disk_errors(path):
        descriptor, name = mkstemp(prefix=f".{file.SWEEP}.", dir=folder)  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as target:
                json.dump(manifest.model_dump(mode="json"), target, ensure_ascii=False)
                target.write("\n")
                target.flush()
                os.fsync(target.fileno())
            Path(name).replace(path)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def must_be_version(driver: str) -> None:
    """Refuse to work for a driver with another s3gym: results could differ unseen.

    Args:
        driver: Version of s3gym that the driver runs, from ``installed()`` there.

    Raises:
        ConfigError: This worker has another one.
    """
    if driver != installed():
        raise ConfigError(
            f"the driver runs s3gym {driver}, this worker s3gym {installed()}: install one version "
            f"on all machines"
        )
