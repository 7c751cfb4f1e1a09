"""A store that is open for writing: both sides over one connection, one transaction at a time.

Studies that run side by side share commits: most of what a commit costs does not depend on how
many rows it keeps.
"""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import anyio
import anyio.to_thread

from s3gym.errors import StoreError
from s3gym.store import file
from s3gym.store.chain import canonical
from s3gym.store.ledger import Ledger
from s3gym.store.updates import UpdateLog
from s3gym.store.verdicts import VerdictLog

LATEST_SECONDS = 0.02
"""How long a write may wait for others; a process killed meanwhile plays those steps again."""
CHECKPOINT_SECONDS = 2.0
OF_VALUES = (
    sqlite3.DataError, sqlite3.IntegrityError, sqlite3.InterfaceError, sqlite3.ProgrammingError,
)  # fmt: skip
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
        self._joined = False
        self._may_wait = False
        self._waits, self._kept = anyio.Event(), anyio.Event()
        self._broken: StoreError | None = None
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

    def transaction(self) -> "_Write":
        """Commit everything inside as one, or nothing of it; it is kept when the body ends.

        Never await inside: there is one connection, and it holds one transaction.

        Raises:
            StoreError: The disk is full, or another fault of the file.
        """
        return _Write(self, at_once=True)

    def soon(self) -> "_Write":
        """Do as ``transaction``, but be kept a moment later, with what others write.

        Kept with the next ``commit``, which everybody calls before a request is sent, or after
        ``LATEST_SECONDS``; at once outside ``keeping``.
        """
        return _Write(self, at_once=False)

    def commit(self) -> None:
        """Keep what was written so far.

        Raises:
            StoreError: As of ``transaction``. The store takes nothing more after that: others went
                on from rows that are lost.
        """
        self._must_be_sound()
        db = self.connection
        if not db.in_transaction:
            return
        try:
            if len(self._times) >= TIMES_TOGETHER:
                self._keep_times()
            db.execute("COMMIT")
        except sqlite3.Error as error:
            self._broken = self._fault(error)
            self._roll_back()
            raise self._broken from error
        if self._waits.is_set():
            self._waits = anyio.Event()
            self._kept.set()

    @asynccontextmanager
    async def keeping(self) -> AsyncIterator[None]:
        """Let what is written by ``soon`` wait a moment, while the body runs.

        Not for a shard: others who want to write to it would have to wait, too.
        """
        failure: Exception | None = None
        self._may_wait = True
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._keep, group.cancel_scope)
                group.start_soon(self._checkpoint)
                try:
                    yield
                except Exception as error:  # noqa: BLE001 - raised below, not wrapped in a group
                    failure = error
                group.cancel_scope.cancel()
            if failure is not None:
                raise failure
        finally:
            self._may_wait = False
            self.commit()

    async def _keep(self, scope: anyio.CancelScope) -> None:
        try:
            while True:
                await self._waits.wait()
                kept = self._kept
                with anyio.move_on_after(LATEST_SECONDS):
                    await kept.wait()
                if not kept.is_set():
                    self.commit()
        except StoreError:  # raised again where the body ends
            scope.cancel()

    async def _checkpoint(self) -> None:
        while True:
            before = self.connection.total_changes
            await anyio.sleep(CHECKPOINT_SECONDS)
            if self.connection.total_changes != before:
                await anyio.to_thread.run_sync(file.checkpoint, self.path)

    def begin(self) -> None:
        """Begin a write: in the transaction that waits to be committed, or in a new one."""
        self._must_be_sound()
        self._joined = self.connection.in_transaction
        if self._joined:
            self.connection.execute("SAVEPOINT write")
            return
        try:
            self.connection.execute("BEGIN IMMEDIATE")
            if self.fence is not None:
                self.fence()
        except BaseException as error:
            self.undo(error)
            raise

    def end(self, *, at_once: bool) -> None:
        """End a write that went well."""
        if at_once or not self._may_wait:
            self.commit()
            return
        if self._joined:
            self.connection.execute("RELEASE write")
        if not self._waits.is_set():
            self._kept = anyio.Event()
            self._waits.set()

    def undo(self, error: BaseException) -> None:
        """Undo a write that failed, be it that a Ctrl-C came into it, and no other.

        Where the file is at fault, what waited is lost, too, and the store takes nothing more.

        Raises:
            StoreError: SQLite refused the write.
        """
        fault = self._fault(error)
        if not self._joined:
            self._roll_back()
        elif self.connection.in_transaction and not _is_disks(error):
            self.ledger.forget()
            self.connection.execute("ROLLBACK TO write")
            self.connection.execute("RELEASE write")
        else:
            self._broken = fault
            self._roll_back()
        if isinstance(error, sqlite3.Error):
            raise fault from error

    def _roll_back(self) -> None:
        self.ledger.forget()
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def _must_be_sound(self) -> None:
        if self._broken is not None:
            raise self._broken

    def _fault(self, error: BaseException) -> StoreError:
        return StoreError(f"{self.path}: {error}; what was committed is kept, {self.remedy}")

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
        try:
            with suppress(StoreError), self.transaction():  # a full disk keeps what it holds
                self._keep_times()
            with suppress(sqlite3.OperationalError):  # a reader has it open: the log stays
                self.connection.execute("PRAGMA busy_timeout = 0")
                self.connection.execute("PRAGMA journal_mode = DELETE")
        finally:
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


class _Write:
    """The body of a write; made once per step, so not by ``contextlib``."""

    __slots__ = ("_at_once", "_store")

    def __init__(self, store: Store, *, at_once: bool) -> None:
        self._store, self._at_once = store, at_once

    def __enter__(self) -> None:
        self._store.begin()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self._store.end(at_once=self._at_once)
        else:
            self._store.undo(error)


def _is_disks(error: BaseException) -> bool:
    """Return whether an error says that the file is at fault, and not what was to be written."""
    return isinstance(error, sqlite3.Error) and not isinstance(error, OF_VALUES)


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
