"""Who may write to a shard: one worker at a time, also when an earlier one is still alive.

A lease stands in the shard itself: owner, epoch, and when it runs out. The owner renews it while it
lives. Another worker takes it when it has run out, or when its owner is known to be dead, and
raises the epoch. Every transaction of a shard checks, under SQLite's own write lock, that its epoch
is still the current one; so whatever an owner that was replaced still tries, nothing of it is kept.

Clocks of different machines decide only how early a lease is taken over, never who may write.
"""

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from s3gym.errors import StoreError
from s3gym.store import file

TTL = 60.0
"""Seconds that a lease lasts when its owner does not renew it."""
BEATS_PER_TTL = 4
TABLE = f"""
CREATE TABLE IF NOT EXISTS {file.LEASE} (
  only INTEGER PRIMARY KEY CHECK (only = 1), owner TEXT NOT NULL, epoch INTEGER NOT NULL,
  machine TEXT NOT NULL, process TEXT NOT NULL, expires REAL NOT NULL
) STRICT;
"""


class HeldError(StoreError):
    """A shard has a writer already.

    Attributes:
        seconds: After so many seconds it is worth another try: the lease has run out by then
            unless its owner renews it.
    """

    def __init__(self, message: str, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(message)


class LostError(StoreError):
    """A writer was replaced; what it tried to write was not kept."""


class Lease:
    """The right to write to one shard; take it with ``Lease.take``.

    Attributes:
        owner: Who holds it.
        epoch: How many owners the shard has had.
    """

    def __init__(
        self, path: Path, connection: sqlite3.Connection, owner: str, epoch: int, ttl: float
    ) -> None:
        self.owner, self.epoch = owner, epoch
        self._path, self._db, self._ttl = path, connection, ttl

    @classmethod
    def take(
        cls,
        path: Path,
        connection: sqlite3.Connection,
        owner: str,
        ttl: float = TTL,
    ) -> "Lease":
        """Take the lease of a shard.

        Args:
            path: The shard.
            connection: Its writing connection.
            owner: Name of the worker, for messages; no secret.
            ttl: Seconds that it lasts without being renewed.

        Raises:
            HeldError: Another worker holds it.
            StoreError: The disk failed.
        """
        with file.disk_errors(path):
            connection.execute("BEGIN IMMEDIATE")
            try:
                epoch = 1 + _check_free(path, connection)
                connection.execute(
                    f"INSERT OR REPLACE INTO {file.LEASE} VALUES (1, ?, ?, ?, ?, ?)",
                    (owner, epoch, machine(), process(os.getpid()), time.time() + ttl),
                )
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
        return cls(path, connection, owner, epoch, ttl)

    def check(self) -> None:
        """Check, inside a transaction, that this is still the shard's lease.

        Raises:
            LostError: Another worker took the shard over.
        """
        row = self._db.execute(f"SELECT owner, epoch FROM {file.LEASE}").fetchone()
        owner, epoch = row or ("", 0)
        if epoch != self.epoch:
            raise LostError(
                f"{self._path}: {self.owner} was replaced as its writer by {owner or 'another'} "
                f"(epoch {self.epoch}, now {epoch}), because its lease had run out; nothing that "
                f"it wrote since was kept"
            )

    @contextmanager
    def kept(self, journal: file.Journal) -> Iterator[None]:
        """Renew the lease from a thread while the body runs, and give it back at the end."""
        stop = threading.Event()
        thread = threading.Thread(
            target=self._beat, args=(stop, journal), name="s3gym-lease", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            self._release()

    def _beat(self, stop: threading.Event, journal: file.Journal) -> None:
        while not stop.wait(self._ttl / BEATS_PER_TTL):
            # What hinders one beat (a reader, a full disk) may be over at the next one.
            with suppress(StoreError, sqlite3.Error):
                if not self._renew(journal):
                    return

    def _renew(self, journal: file.Journal) -> bool:
        """Renew the lease; return whether it was still ours."""
        db = file.open_writer(self._path, journal)
        try:
            changed = db.execute(
                f"UPDATE {file.LEASE} SET expires = ? WHERE epoch = ?",
                (time.time() + self._ttl, self.epoch),
            )
            return changed.rowcount > 0
        finally:
            db.close()

    def _release(self) -> None:
        with suppress(sqlite3.Error):  # it runs out by itself
            self._db.execute(
                f"UPDATE {file.LEASE} SET owner = '', expires = 0 WHERE epoch = ?", (self.epoch,)
            )


def holder(connection: sqlite3.Connection) -> tuple[str, bool] | None:
    """Return (owner, whether the lease still holds) of a shard; ``None`` when it was given back."""
    try:
        row = connection.execute(
            f"SELECT owner, machine, process, expires FROM {file.LEASE}"
        ).fetchone()
    except sqlite3.OperationalError:  # a store that never was a shard
        return None
    if row is None or not row[3]:
        return None
    owner, where, which, expires = row
    return str(owner), expires > time.time() and not _is_dead(where, which)


def _check_free(path: Path, connection: sqlite3.Connection) -> int:
    """Return the epoch of the last lease, when it is over."""
    row = connection.execute(
        f"SELECT owner, epoch, machine, process, expires FROM {file.LEASE}"
    ).fetchone()
    if row is None:
        return 0
    owner, epoch, where, which, expires = row
    left = expires - time.time()
    if left > 0 and not _is_dead(where, which):
        raise HeldError(
            f"{path}: {owner} is writing to this shard; its lease runs out in {left:.0f} s unless "
            f"it is renewed",
            left,
        )
    return int(epoch)


def _is_dead(where: str, which: str) -> bool:
    """Return whether a process is known to have ended: only one of this machine can be."""
    if not where or where != machine():
        return False
    return process(int(which.partition(":")[0])) != which


def machine() -> str:
    """Return what stands for this machine, until its next start; empty where that is not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        names = os.readlink("/proc/self/ns/pid")  # containers count their processes apart
    except OSError:
        return ""
    return sha256(f"{boot} {names}".encode()).hexdigest()[:16]


def process(pid: int) -> str:
    """Return what stands for a process: its number and its start; the number alone if it ended."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return str(pid)
    state, *fields = status.rpartition(")")[2].split()
    return str(pid) if state == "Z" else f"{pid}:{fields[18]}"
