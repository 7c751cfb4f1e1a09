"""Keeping vectors that cost time or money, in a SQLite file of the user's own."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import numpy as np

from s3gym.errors import ConfigError, MemoryFailure
from s3gym.memory._embedders import Embedder, Vectors

SCHEMA = """
CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT NOT NULL, digest BLOB NOT NULL, vector BLOB NOT NULL,
    PRIMARY KEY (embedder, digest)
) WITHOUT ROWID
"""
QUESTION = "SELECT vector FROM vectors WHERE embedder = ? AND digest = ?"
ANSWER = "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?)"


class KeptEmbedder:
    """Asks another embedder once per text and keeps the vector as a float32 BLOB.

    Args:
        inner: Asked for texts that are new.
        path: SQLite file; made when it is missing. One per embedder or shared.

    Raises:
        ConfigError: The file cannot be opened or is no such file.
    """

    def __init__(self, inner: Embedder, path: str | Path) -> None:
        self.name = inner.name
        self._inner = inner
        self._path = path
        try:
            with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                connection.execute(SCHEMA)
                connection.execute(QUESTION, ("", b"")).fetchone()
        except sqlite3.Error as error:
            raise ConfigError(f"{path} cannot keep vectors: {error}") from error

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text; only new texts are embedded."""
        keys = [_digest(text) for text in texts]
        known = self._read(keys)
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            made = np.asarray(await self._inner.embed(list(new.values())), dtype="<f4")
            if made.ndim != 2 or len(made) != len(new) or not np.isfinite(made).all():
                raise MemoryFailure(
                    f"embedder {self.name!r}: expected {len(new)} finite vectors, got an array "
                    f"of shape {made.shape}; nothing of it was kept"
                )
            fresh = {key: vector.tobytes() for key, vector in zip(new, made, strict=True)}
            self._write(fresh)
            known |= fresh
        rows = [np.frombuffer(known[key], dtype="<f4") for key in keys]
        if len({len(row) for row in rows}) > 1:
            raise MemoryFailure(f"{self._path} holds vectors of another length under {self.name!r}")
        return np.stack(rows).astype(np.float32)

    async def aclose(self) -> None:
        """Close the inner embedder, if it can be closed."""
        close = getattr(self._inner, "aclose", None)
        if close is not None:
            await close()

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        with closing(sqlite3.connect(self._path, timeout=30)) as connection:
            for key in keys:
                row = connection.execute(QUESTION, (self.name, key)).fetchone()
                if row is not None:
                    found[key] = row[0]
        return found

    def _write(self, vectors: dict[bytes, bytes]) -> None:
        rows = [(self.name, key, vector) for key, vector in vectors.items()]
        with closing(sqlite3.connect(self._path, timeout=30)) as connection, connection:
            connection.executemany(ANSWER, rows)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
