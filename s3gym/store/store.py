"""A store that is open for writing: both sides over one connection, one transaction at a time."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from s3gym.errors import StoreError
from s3gym.store import file
from s3gym.store.chain import canonical
from s3gym.store.ledger import Ledger
from s3gym.store.updates import UpdateLog
from s3gym.store.verdicts import VerdictLog

TIMES_TOGETHER = 64
"""Clock values are written together: losing a few with a killed process loses no result."""


class Store:
    """The one writer of a store; make it with ``Store.create`` or ``Store.open``.

    Attributes:
        fence: Asked first in every transaction; raises where another writer took over.
        remedy: What to do once the disk's fault is over, for its message.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: file.Lock | None) -> None:
        self.path = path
        self.connection = connection
        self.ledger = Ledger(connection)
        self.updates = UpdateLog(connection)
        self.verdicts = VerdictLog(connection)
        self._lock = lock
        self._times: list[tuple[str, str, str, float]] = []
        self.fence: Callable[[], None] | None = None
        self.remedy = f"resume with 's3gym resume {path}'"

    @classmethod
    def create(cls, path: str | Path) -> Self:
        """Create a store; raises ``StoreError`` when the file exists or cannot be written."""
        return cls._open(Path(path), new=True)

    @classmethod
    def open(cls, path: str | Path) -> Self:
        """Open an existing store for writing; raises ``StoreError`` when that cannot be."""
        return cls._open(Path(path), new=False)

    @classmethod
    def _open(cls, path: Path, *, new: bool) -> Self:
        if new:
            with file.disk_errors(path):
                path.parent.mkdir(parents=True, exist_ok=True)
        else:
            _must_be_whole(path)  # says what is wrong before a lock file is made
        lock = file.Lock(path)
        try:
            connection = file.create(path) if new else file.open_writer(path)
        except StoreError:
            lock.release()
            raise
        return cls(path, connection, lock)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit everything inside as one, or nothing of it.

        Never await inside: there is one connection, and it holds one transaction.

        Raises:
            StoreError: The disk is full, or another fault of the file.
        """
        db = self.connection
        try:
            db.execute("BEGIN IMMEDIATE")
            try:
                if self.fence is not None:
                    self.fence()
                yield
                if len(self._times) >= TIMES_TOGETHER:
                    self._keep_times()
                db.execute("COMMIT")
            except BaseException:
                self.ledger.forget()
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreError(
                f"{self.path}: {error}; what was committed is kept, {self.remedy}"
            ) from error

    def note_time(self, kind: str, name: str, started: datetime, seconds: float) -> None:
        """Keep a clock value outside the chains, at the latest when the store is closed."""
        self._times.append((kind, name, started.isoformat(), seconds))

    def _keep_times(self) -> None:
        self.connection.executemany("INSERT INTO timings VALUES (?, ?, ?, ?)", self._times)
        self._times.clear()

    def note_provenance(self, **values: object) -> None:
        """Keep machine values outside the chains; equal keys are replaced."""
        with self.transaction():
            self.connection.executemany(
                "INSERT OR REPLACE INTO provenance VALUES (?, ?)",
                [(key, canonical(value)) for key, value in sorted(values.items())],
            )

    def close(self) -> None:
        """Close the file and let other writers in; a closed store is one file without a log."""
        with suppress(StoreError), self.transaction():  # a full disk keeps what it holds
            self._keep_times()
        with suppress(sqlite3.OperationalError):  # a reader has it open: the log stays
            self.connection.execute("PRAGMA busy_timeout = 0")
            self.connection.execute("PRAGMA journal_mode = DELETE")
        self.connection.close()
        if self._lock is not None:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def now() -> datetime:
    """Return the time, with its zone; for ``timings`` alone."""
    return datetime.now(UTC)


def _must_be_whole(path: Path) -> None:
    reader = file.open_reader(path)
    shard = file.is_shard(reader)
    reader.close()
    if shard:
        raise StoreError(
            f"{path}: one study of a sweep; it is written to through the sweep's folder alone: "
            f"s3gym resume {path.absolute().parent.parent}"
        )
