"""Opening and closing a store: one SQLite file, one writer, clear errors.

The standard library's connection serves the hot path: WAL, ``synchronous=NORMAL``, explicit
``BEGIN IMMEDIATE``; who commits when is up to ``Store``.
"""

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Literal, NoReturn

from s3gym.errors import StoreError
from s3gym.store.schema import APPLICATION_ID, SCHEMA, STORE_VERSION, VERIFIER_NAMES
from s3gym.text import shorten

PAGES_BETWEEN_CHECKPOINTS = 32_000
BUSY_SECONDS = 30.0
SWEEP = "sweep.json"
"""What makes a folder the folder of a sweep."""
LEASE = "lease"
"""Table that makes a store the shard of a sweep: who may write to it now."""
Journal = Literal["WAL", "PERSIST"]
"""``WAL`` needs memory that all who have the file open share, so one machine; ``PERSIST`` does
not, and pays a commit with several waits for the disk."""
REFUSED = VERIFIER_NAMES | {
    "provenance",  # holds the command line, which may name the seed
    "timings",
    LEASE,
    "dbstat",
    "sqlite_dbpage",
    "sqlite_stat1",
    "sqlite_stat4",
}
"""What a learner's connection may not read: verifier's tables, and what looks into all tables."""


@contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk or SQLite complains about into one clear ``StoreError``."""
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from error
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


@contextmanager
def damaged_rows(path: Path) -> Iterator[None]:
    """Turn what a row of another shape than ours makes a reader raise into a ``StoreError``."""
    try:
        yield
    except (
        ValueError,
        LookupError,
        TypeError,
        AttributeError,
        RecursionError,
        OverflowError,
    ) as error:
        raise StoreError(
            f"{path}: a row cannot be read ({shorten(str(error))}); 's3gym audit' names what is "
            f"damaged"
        ) from error


class LockedError(StoreError):
    """Another process of this machine is writing to a store."""


class NoLocksError(StoreError):
    """The file system of a store has no locks."""


class Lock:
    """The right to write to a store, held by one process at a time.

    Raises:
        LockedError: Another process holds it.
        NoLocksError: Nobody can hold one there.
        StoreError: The folder cannot be written to.
    """

    def __init__(self, store: Path) -> None:
        self.path = store.with_name(store.name + ".lock")
        self._file = self._open()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            while not self._is_current():  # its owner removed the file in between
                self._file.close()
                self._file = self._open()
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._file.seek(0)
            owner = self._file.read().strip() or "unknown"
            self._file.close()
            raise LockedError(
                f"{store}: another process (pid {owner}) is writing to this store; wait for it, "
                f"or stop it and resume"
            ) from None
        except OSError as error:
            self.release()
            raise NoLocksError(
                f"{store}: its file system has no locks ({error.strerror}); use another folder"
            ) from error
        with suppress(OSError):  # a full disk: the lock holds, only its owner is not named
            self._file.truncate(0)
            os.write(self._file.fileno(), str(os.getpid()).encode())

    def _open(self) -> IO[str]:
        with disk_errors(self.path):
            return self.path.open("a+")

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the right back, and leave no file behind."""
        self.path.unlink(missing_ok=True)
        self._file.close()


def create(path: Path) -> sqlite3.Connection:
    """Create a store and return its writing connection.

    Raises:
        StoreError: The file exists, or cannot be written.
    """
    must_be_new(path)
    with disk_errors(path):
        for rest in (path, *(path.with_name(path.name + end) for end in ("-wal", "-shm"))):
            rest.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = _connect(path)
        try:
            _lay_out(connection)
        except sqlite3.Error:
            connection.close()
            path.unlink(missing_ok=True)
            raise
    return connection


def create_in_memory() -> sqlite3.Connection:
    """Return the writing connection of a new store that is on no disk yet."""
    connection = sqlite3.connect(":memory:", isolation_level=None)
    _lay_out(connection)
    return connection


def _lay_out(connection: sqlite3.Connection) -> None:
    connection.executescript(f"BEGIN IMMEDIATE;{SCHEMA}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {STORE_VERSION}")
    connection.execute("COMMIT")


def must_be_new(path: Path) -> None:
    """Refuse a path at which a store cannot be created.

    What a run left that was killed before it kept its first study counts as nothing.

    Raises:
        StoreError: Something is there.
    """
    with disk_errors(path):
        if not path.exists() or _is_blank(path):
            return
    if not path.is_file():
        raise StoreError(f"{path}: a folder or device is there; name another file")
    try:
        open_reader(path).close()
    except StoreError as error:
        raise StoreError(f"{error}; name another file") from error
    raise StoreError(
        f"{path}: this store exists; continue it with 's3gym resume {path}', add repeats with "
        f"'s3gym extend {path} --repeats N', or name another file"
    )


def _is_blank(path: Path) -> bool:
    if not path.is_file():
        return False
    log = path.with_name(path.name + "-wal")
    if not path.stat().st_size and not (log.exists() and log.stat().st_size):
        return True
    try:
        connection = open_reader(path)
    except StoreError:
        return False
    try:
        return not connection.execute("SELECT count(*) FROM studies").fetchone()[0]
    except sqlite3.Error:
        return False
    finally:
        connection.close()


def open_writer(path: Path, journal: Journal = "WAL") -> sqlite3.Connection:
    """Open an existing store for writing; the caller holds its ``Lock``, or a lease."""
    _must_be_file(path)
    with disk_errors(path):
        connection = _connect(path, journal)
        _check(path, connection)
    return connection


def open_reader(
    path: Path, factory: type[sqlite3.Connection] = sqlite3.Connection
) -> sqlite3.Connection:
    """Open an existing store for reading; works beside a writer and in a read-only folder.

    Args:
        path: The store.
        factory: Class of the connection.

    Raises:
        StoreError: There is no such file, it is no store, or a store of another version.
    """
    _must_be_file(path)
    quoted = path.resolve().as_uri()
    with disk_errors(path):
        _roll_back(path)
        connection = sqlite3.connect(
            f"{quoted}?mode=ro", uri=True, timeout=BUSY_SECONDS, factory=factory
        )
        try:
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        except sqlite3.OperationalError:
            # WAL needs a writable folder even to read; without a log the file alone is complete.
            connection.close()
            if path.with_name(path.name + "-wal").exists():
                raise
            connection = sqlite3.connect(f"{quoted}?mode=ro&immutable=1", uri=True, factory=factory)
        _check(path, connection)
    return connection


def is_shard(connection: sqlite3.Connection) -> bool:
    """Return whether a store is the shard of a sweep, which is written to under a lease."""
    found = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (LEASE,))
    return bool(found.fetchone()[0])


def open_learner(path: Path) -> sqlite3.Connection:
    """Open a store as the learner's side may: read-only, the verifier's tables refused."""
    connection = open_reader(path, _LearnerConnection)
    sqlite3.Connection.set_authorizer(connection, _authorize_learner)
    return connection


class _LearnerConnection(sqlite3.Connection):
    """Refuses the ways of reading that no authorizer is asked about."""

    def _refuse(self, *given: object, **named: object) -> NoReturn:
        raise sqlite3.DatabaseError("not authorized: a learner's connection reads by queries alone")

    backup = serialize = deserialize = blobopen = iterdump = set_authorizer = _refuse
    enable_load_extension = load_extension = _refuse


def _authorize_learner(
    action: int, first: str | None, second: str | None, database: str | None, origin: str | None
) -> int:
    named = {first, second, origin}
    if named & REFUSED or action == sqlite3.SQLITE_ATTACH:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _must_be_file(path: Path) -> None:
    with disk_errors(path):
        exists = path.exists()
    if not exists:
        raise StoreError(f"{path}: no such store; start one with 's3gym run --store {path}'")
    if (path / SWEEP).is_file():
        raise StoreError(
            f"{path}: expected a store file, got the folder of a sweep; make one store of it with "
            f"'s3gym merge {path} OUT.db'"
        )
    if not path.is_file():
        raise StoreError(f"{path}: expected a store file, got a folder or device")


def _roll_back(path: Path) -> None:
    """Let SQLite undo what a writer without a log left half done; a reader could not."""
    journal = path.with_name(path.name + "-journal")
    try:
        with journal.open("rb") as rest:
            if not any(rest.read(8)):
                return
    except FileNotFoundError:
        return
    connection = sqlite3.connect(path.absolute(), timeout=BUSY_SECONDS)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()


def _connect(path: Path, journal: Journal = "WAL") -> sqlite3.Connection:
    # An address, so that a merge can attach a shard by one, which says: read-only.
    address = path.absolute().as_uri()
    connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    connection.execute(f"PRAGMA journal_mode = {journal}")
    connection.execute("PRAGMA synchronous = NORMAL")
    # A checkpoint waits for the disk: one every 1,000 pages (the default) is a third of what a
    # commit costs. While studies run they are made beside it, see ``Store.keeping``.
    connection.execute(f"PRAGMA wal_autocheckpoint = {PAGES_BETWEEN_CHECKPOINTS}")
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def checkpoint(path: Path) -> None:
    """Write what the log of an open store holds into its file, as far as nobody is in the way.

    It waits for the disk, so it belongs in a thread; its own connection lets the writer go on.
    """
    with suppress(sqlite3.Error), closing(sqlite3.connect(path.absolute(), timeout=0)) as db:
        db.execute("PRAGMA wal_checkpoint(PASSIVE)")  # one that fails is made up for by the next


def _check(path: Path, connection: sqlite3.Connection) -> None:
    try:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    except sqlite3.DatabaseError as error:
        connection.close()
        raise StoreError(f"{path}: not an s3gym store ({error})") from error
    if application != APPLICATION_ID or not tables:
        connection.close()
        raise StoreError(f"{path}: a SQLite file, but not an s3gym store")
    if version != STORE_VERSION:
        writer = _writer(connection)
        connection.close()
        by = f", written by s3gym {writer}" if writer else ""
        raise StoreError(
            f"{path}: a store of version {version}{by}; this s3gym reads version {STORE_VERSION}. "
            f"Report, audit and resume it with the s3gym that wrote it; a new run needs a new file"
        )


def _writer(connection: sqlite3.Connection) -> str:
    """Return the version of s3gym that wrote a store of another layout, where it says so."""
    try:
        query = "SELECT value FROM provenance WHERE key = 'packages'"
        (text,) = connection.execute(query).fetchone()
        return shorten(json.loads(text)["s3gym"], 40).strip("'")
    except (sqlite3.Error, ValueError, TypeError, KeyError):
        return ""
