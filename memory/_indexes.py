"""Nearest neighbours over vectors that the memory owns.

An index is a cache: it holds nothing that cannot be made again from the memory's own vectors.
``NumpyIndex`` is exact. ``ChromaIndex`` (extra ``chroma``) is faster from about 100,000 items on
and keeps by itself what a folder of chromadb needs to be trusted; see its docstring.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
from numpy.typing import NDArray

from s3gym.errors import ConfigError, MemoryFailure, MissingExtraError
from s3gym.memory._embedders import Vectors
from s3gym.text import shorten

DIGITS = 6
"""Similarities are compared to this many digits: summing order must not decide a rank."""


class Matrix:
    """Unit vectors, row by row; rows are added and never change.

    Attributes:
        dimensions: Length of a row; 0 before the first.
    """

    def __init__(self) -> None:
        self.dimensions = 0
        self._rows: Vectors = np.zeros((0, 0), dtype=np.float32)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, vectors: Vectors) -> None:
        """Append rows; shape (rows, dimensions)."""
        if not len(vectors):
            return
        needed = self._count + len(vectors)
        if needed > len(self._rows):
            grown = np.zeros((max(needed, 2 * len(self._rows), 64), vectors.shape[1]), np.float32)
            grown[: self._count] = self._rows[: self._count] if self._count else 0
            self._rows = grown
        self._rows[self._count : needed] = vectors
        self._count, self.dimensions = needed, vectors.shape[1]

    def first(self, limit: int) -> Vectors:
        """Return the first rows, without a copy."""
        return self._rows[: min(limit, self._count)]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Rows near a query, nearest first, equal ones in row order.

    Attributes:
        similarities: Cosines, in [-1, 1], rounded to 6 digits.
    """

    rows: tuple[int, ...]
    similarities: tuple[float, ...]


class Index(Protocol):
    """Finds near rows of a matrix. Holds nothing that the matrix does not."""

    @property
    def name(self) -> str:
        """Short name for records."""
        ...

    @property
    def incidents(self) -> Sequence[str]:
        """What went wrong and was repaired, oldest first."""
        ...

    async def sync(self, matrix: Matrix) -> None:
        """Take in the rows that are new."""
        ...

    async def search(self, matrix: Matrix, query: Vectors, k: int, limit: int) -> Neighbours:
        """Return up to ``k`` of the first ``limit`` rows; the query has length 1."""
        ...

    async def aclose(self) -> None:
        """Let go of files and locks."""
        ...


def ranked(matrix: Matrix, query: Vectors, rows: NDArray[np.int64], k: int) -> Neighbours:
    """Return the ``k`` nearest of the given rows, exactly."""
    cosines = np.round(matrix.first(len(matrix))[rows] @ query, DIGITS)
    return _top(rows, cosines, k)


def _top(rows: NDArray[np.int64], cosines: Vectors, k: int) -> Neighbours:
    if len(rows) > 4 * k:
        edge = np.partition(cosines, len(cosines) - k)[len(cosines) - k]
        near = np.flatnonzero(cosines >= edge)
        rows, cosines = rows[near], cosines[near]
    order = np.lexsort((rows, -cosines))[:k]
    return Neighbours(
        tuple(int(row) for row in rows[order]), tuple(float(value) for value in cosines[order])
    )


class NumpyIndex:
    """Exact search: one pass over the vectors."""

    name = "numpy"
    incidents: Sequence[str] = ()

    async def sync(self, matrix: Matrix) -> None:
        """Nothing to do: the matrix is searched as it stands."""

    async def search(self, matrix: Matrix, query: Vectors, k: int, limit: int) -> Neighbours:
        """Return the ``k`` nearest of the first ``limit`` rows."""
        rows = matrix.first(limit)
        if not len(rows) or k < 1:
            return Neighbours((), ())
        cosines = np.round(rows @ query, DIGITS)
        return _top(np.arange(len(rows)), cosines, k)

    async def aclose(self) -> None:
        """Nothing is held."""


COLLECTION = "s3gym"
LOCK = "s3gym.lock"
BATCH = 100
NEVER = 10_000_000
SEARCHED = 400
"""Candidates that chromadb looks at per query: its default of 100 missed 5 % of random vectors."""
PROBE_SECONDS = 120.0
PROBE = """
import sys, chromadb
from chromadb.config import Settings
client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))
for found in client.list_collections():
    found.count()
    some = found.get(limit=1, include=["embeddings"])["embeddings"]
    if len(some):
        found.query(query_embeddings=some, n_results=1)
"""


class ChromaIndex:
    """A chromadb collection as a cache of the memory's vectors.

    Embeddings are always passed, never computed by chromadb; its own index file is never written
    (high ``sync_threshold``, because a process killed while writing it leaves a folder that can
    crash the interpreter); a folder has one owner at a time, held by a lock file; what a folder
    holds is opened by another process first, and rows are compared with the memory's vectors by
    digest; a folder that fails is emptied and filled again. Rows are written 100 at a time with a
    pause for the event loop after each. Up to ``exact_below`` rows the vectors are searched as they
    are, which is exact and faster, and the folder is locked but not filled.

    Args:
        path: Folder of its own: new, empty, or one that this class made. Without one a temporary
            folder is made on first use and deleted by ``aclose``: right for factories that make
            several, as a sweep and ``filtered`` do.
        exact_below: Most rows that are searched without chromadb.

    Raises:
        ConfigError: On first use: the folder is somebody else's, in use, or cannot be written.
    """

    name = "chroma"

    def __init__(self, path: str | Path | None = None, exact_below: int = 10_000) -> None:
        self.path = Path(path or "")
        self._temporary = path is None
        self.exact_below = exact_below
        self.incidents: list[str] = []
        self._lock: int | None = None
        self._client: Any = None
        self._collection: Any = None
        self._digests: dict[int, str] = {}
        self._synced = 0
        self._turn = anyio.Lock()

    async def sync(self, matrix: Matrix) -> None:
        """Write the rows that the folder does not hold yet; once more from empty if that fails.

        Raises:
            ConfigError: The folder cannot be used.
            MemoryFailure: chromadb fails on an empty folder, too.
        """
        async with self._turn:
            await self._open()
            if len(matrix) <= self.exact_below:
                return
            try:
                await self._write(matrix)
            except self._errors() as error:
                await self._rebuild(matrix, f"writing failed: {type(error).__name__}: {error}")

    async def search(self, matrix: Matrix, query: Vectors, k: int, limit: int) -> Neighbours:
        """Return up to ``k`` of the first ``limit`` rows; order and similarities are exact.

        Raises:
            MemoryFailure: The folder fails and cannot be filled again.
        """
        limit = min(limit, len(matrix))
        if limit < 1 or k < 1 or not query.any():
            return Neighbours((), ())
        if limit <= self.exact_below:
            return await NumpyIndex().search(matrix, query, k, limit)
        if self._synced < limit:
            await self.sync(matrix)
        try:
            rows = self._near(query, min(2 * k + 10, limit), limit)
        except self._errors() as error:
            async with self._turn:
                await self._rebuild(matrix, f"reading failed: {type(error).__name__}: {error}")
            rows = self._near(query, min(2 * k + 10, limit), limit)
        return ranked(matrix, query, np.asarray(rows, dtype=np.int64), k)

    async def aclose(self) -> None:
        """Close chromadb and give the lock back."""
        self._shut()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
            if self._temporary:
                shutil.rmtree(self.path, ignore_errors=True)

    def _near(self, query: Vectors, n: int, limit: int) -> list[int]:
        where = {"row": {"$lt": limit}} if len(self._digests) > limit else None
        found = self._collection.query(
            query_embeddings=[query.tolist()], n_results=n, where=where, include=["metadatas"]
        )
        return [int(entry["row"]) for entry in found["metadatas"][0]]

    async def _open(self) -> None:
        if self._collection is not None:
            return
        await anyio.to_thread.run_sync(_chromadb)
        self._own_folder()
        if (self.path / "chroma.sqlite3").exists():
            reason = await anyio.to_thread.run_sync(self._probe)
            if reason:
                self._empty(reason)
        try:
            self._connect()
        except self._errors() as error:
            self._empty(f"opening failed: {type(error).__name__}: {error}")
            self._connect()

    def _own_folder(self) -> None:
        """Take the lock; refuse a folder that is in use or not ours."""
        import fcntl

        if self._lock is not None:
            return
        try:
            if self._temporary:
                self.path = Path(tempfile.mkdtemp(prefix="s3gym-chroma-"))
            known = self.path.exists() and any(self.path.iterdir())
            if known and not (self.path / LOCK).exists():
                raise ConfigError(
                    f"{self.path} holds something else: expected a new, empty or s3gym folder"
                )
            self.path.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise ConfigError(f"{self.path} cannot be used as a chroma folder: {error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise ConfigError(
                f"{self.path} is in use by another memory: give every study a folder of its own"
            ) from None
        self._lock = handle

    def _probe(self) -> str:
        """Open the folder in another process, which may crash; return what went wrong."""
        command = [sys.executable, "-c", PROBE, str(self.path)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PROBE_SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            return f"the probe took longer than {PROBE_SECONDS:g} s"
        lines = done.stderr.strip().splitlines()
        detail = shorten(lines[-1], 200) if lines else ""
        return f"the probe ended with {done.returncode}: {detail}" if done.returncode else ""

    def _connect(self) -> None:
        chromadb = _chromadb()
        from chromadb.config import Settings

        self._client = chromadb.PersistentClient(
            str(self.path), settings=Settings(anonymized_telemetry=False)
        )
        self._collection = self._client.get_or_create_collection(
            COLLECTION,
            embedding_function=None,
            configuration={
                "hnsw": {"space": "cosine", "sync_threshold": NEVER, "ef_search": SEARCHED}
            },
        )
        found = self._collection.get(include=["metadatas"])
        self._digests = {int(entry["row"]): entry["digest"] for entry in found["metadatas"]}
        self._synced = 0

    async def _write(self, matrix: Matrix) -> None:
        rows = matrix.first(len(matrix))
        while self._synced < len(rows):
            stop = min(self._synced + BATCH, len(rows))
            digests = {row: _digest(rows[row]) for row in range(self._synced, stop)}
            new = [row for row in digests if self._digests.get(row) != digests[row]]
            if new:
                self._collection.upsert(
                    ids=[str(row) for row in new],
                    embeddings=rows[new],
                    metadatas=[{"row": row, "digest": digests[row]} for row in new],
                )
                self._digests.update((row, digests[row]) for row in new)
            self._synced = stop
            await anyio.lowlevel.checkpoint()

    async def _rebuild(self, matrix: Matrix, reason: str) -> None:
        self._empty(reason)
        try:
            self._connect()
            await self._write(matrix)
        except self._errors() as error:
            raise MemoryFailure(
                f"chroma folder {self.path}: {reason}; filling it again failed, too: "
                f"{type(error).__name__}: {shorten(str(error), 200)}"
            ) from error

    def _empty(self, reason: str) -> None:
        """Delete what chromadb wrote: all of it can be made again."""
        self.incidents.append(f"rebuilt: {shorten(reason, 300)}")
        self._shut()
        for entry in self.path.iterdir():
            if entry.name != LOCK:
                shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def _shut(self) -> None:
        client, self._client, self._collection = self._client, None, None
        self._synced = 0
        if client is not None:
            with suppress(*self._errors()):
                client.close()

    def _errors(self) -> tuple[type[Exception], ...]:
        from chromadb.errors import ChromaError

        return (ChromaError, OSError, RuntimeError, ValueError, KeyError)


def _digest(vector: Vectors) -> str:
    return blake2b(vector.astype("<f4").tobytes(), digest_size=8).hexdigest()


def _chromadb() -> Any:
    try:
        import chromadb
    except ImportError:
        raise MissingExtraError("ChromaIndex", "chroma") from None
    return chromadb
