"""The chromadb index: a cache that may be killed, corrupted or locked, and loses nothing."""

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from s3gym.errors import ConfigError
from s3gym.memory._embedders import HashingEmbedder, Vectors
from s3gym.memory._indexes import LOCK, ChromaIndex, Matrix, NumpyIndex
from s3gym.memory.filtered import filtered
from s3gym.memory.vector import VectorMemory
from s3gym.testing import check_memory
from s3gym.testing.episodes import make_cue, make_episode

needs_chroma = pytest.mark.skipif(
    find_spec("chromadb") is None, reason="chromadb is not installed (extra 'chroma'); issue 4"
)
pytestmark = [
    needs_chroma,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def matrix_of(n: int, dimensions: int = 32, seed: int = 0) -> Matrix:
    rows = np.random.default_rng(seed).normal(size=(n, dimensions)).astype(np.float32)
    matrix = Matrix()
    matrix.add(np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32))
    return matrix


def query_of(matrix: Matrix, seed: int) -> Vectors:
    noise = np.random.default_rng(seed + 100).normal(size=matrix.dimensions).astype(np.float32)
    mixed = matrix.first(len(matrix))[seed % len(matrix)] + 0.1 * noise
    return np.asarray(mixed / np.linalg.norm(mixed), dtype=np.float32)


def chroma(tmp_path: Path) -> ChromaIndex:
    return ChromaIndex(tmp_path / "index", exact_below=0)


async def agrees(index: ChromaIndex, matrix: Matrix, limit: int) -> bool:
    exact = NumpyIndex()
    for seed in range(10):
        query = query_of(matrix, seed)
        if await index.search(matrix, query, 10, limit) != await exact.search(
            matrix, query, 10, limit
        ):
            return False
    return True


async def test_chroma_finds_what_exact_search_finds(tmp_path: Path) -> None:
    matrix, index = matrix_of(800), chroma(tmp_path)
    await index.sync(matrix)
    assert await agrees(index, matrix, 800)
    assert await agrees(index, matrix, 500), "a frozen view sees earlier rows only"
    assert index.incidents == []
    await index.aclose()


async def test_up_to_a_limit_chroma_is_not_asked_and_the_answer_is_exact(tmp_path: Path) -> None:
    matrix, index = matrix_of(3000, 64), ChromaIndex(tmp_path / "index")
    await index.sync(matrix)
    assert await agrees(index, matrix, 3000)
    await index.aclose()


@pytest.mark.slow
async def test_above_ten_thousand_rows_recall_is_high(tmp_path: Path) -> None:
    matrix, index = matrix_of(11_000), ChromaIndex(tmp_path / "index")
    await index.sync(matrix)
    hits = 0
    for seed in range(20):
        query = query_of(matrix, seed)
        found = await index.search(matrix, query, 10, 11_000)
        exact = await NumpyIndex().search(matrix, query, 10, 11_000)
        hits += len({*found.rows} & {*exact.rows})
    assert hits >= 0.98 * 200
    await index.aclose()


async def test_a_reopened_folder_is_used_and_a_stale_one_is_overwritten(tmp_path: Path) -> None:
    first = chroma(tmp_path)
    await first.sync(matrix_of(150))
    await first.aclose()
    again = chroma(tmp_path)
    await again.sync(matrix_of(150))
    assert await agrees(again, matrix_of(150), 150)
    await again.aclose()
    other = chroma(tmp_path)
    await other.sync(matrix_of(120, seed=5))
    assert await agrees(other, matrix_of(120, seed=5), 120)
    assert (first.incidents, again.incidents, other.incidents) == ([], [], [])
    await other.aclose()


async def test_a_folder_has_one_owner(tmp_path: Path) -> None:
    first, second = chroma(tmp_path), chroma(tmp_path)
    await first.sync(matrix_of(5))
    with pytest.raises(ConfigError, match="in use by another memory"):
        await second.sync(matrix_of(5))
    await first.aclose()
    await second.sync(matrix_of(5))
    await second.aclose()


async def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ConfigError, match="something else"):
        await ChromaIndex(tmp_path).sync(matrix_of(5))
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


async def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        await ChromaIndex(tmp_path / "file" / "index").sync(matrix_of(5))
    if os.geteuid() != 0:  # root may write anywhere
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        with pytest.raises(ConfigError, match="cannot be used"):
            await ChromaIndex(closed / "index").sync(matrix_of(5))


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["zeros", "cut", "text", "folder gone"])
async def test_a_corrupt_folder_is_filled_again(tmp_path: Path, damage: str) -> None:
    index = chroma(tmp_path)
    await index.sync(matrix_of(300))
    await index.aclose()
    database = tmp_path / "index" / "chroma.sqlite3"
    content = database.read_bytes()
    if damage == "zeros":
        database.write_bytes(b"\0" * len(content))
    elif damage == "cut":
        database.write_bytes(content[: len(content) // 3])
    elif damage == "text":
        database.write_text("not a database")
    else:
        for entry in (tmp_path / "index").iterdir():
            if entry.is_file() and entry.name != LOCK:
                entry.unlink()
    again = chroma(tmp_path)
    await again.sync(matrix_of(300))
    assert await agrees(again, matrix_of(300), 300)
    assert damage == "folder gone" or again.incidents, "the repair is recorded"
    await again.aclose()


WRITER = """
import sys, anyio, numpy as np
from s3gym.memory._indexes import ChromaIndex, Matrix
async def main():
    index, matrix = ChromaIndex(sys.argv[1], 0), Matrix()
    rows = np.random.default_rng(0).normal(size=(5000, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for start in range(0, 5000, 50):
        matrix.add(rows[start:start + 50])
        await index.sync(matrix)
        print(start, flush=True)
anyio.run(main)
"""


@pytest.mark.slow
async def test_a_writer_killed_with_9_loses_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "index"
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True
    )
    stdout = writer.stdout
    assert stdout is not None
    for _ in range(12):
        assert stdout.readline(), "the writer ended early"
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    stdout.close()
    rows = np.random.default_rng(0).normal(size=(5000, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    matrix, index = Matrix(), ChromaIndex(folder, exact_below=0)
    matrix.add(rows[:900])
    await index.sync(matrix)
    assert await agrees(index, matrix, 900)
    await index.aclose()


async def test_a_failure_while_reading_fills_the_folder_again(tmp_path: Path) -> None:
    matrix, index = matrix_of(100), chroma(tmp_path)
    await index.sync(matrix)
    index._client.delete_collection("s3gym")
    assert await agrees(index, matrix, 100)
    assert "reading failed" in index.incidents[0]
    await index.aclose()


async def test_the_vector_memory_over_chroma_recalls_what_numpy_recalls(tmp_path: Path) -> None:
    cached = VectorMemory(index=chroma(tmp_path))
    exact = VectorMemory(HashingEmbedder())
    for ordinal in range(1, 6):
        for memory in (cached, exact):
            await memory.record(make_episode(ordinal, n_steps=8))
            await memory.consolidate("rules", 1000)
        view = cached.freeze()
        cue = make_cue(f"episode {ordinal}, board 3")
        assert await view.recall(cue) == await exact.recall(cue)
    await cached.aclose()


@pytest.mark.slow
async def test_the_vector_memory_over_chroma_keeps_the_contract(tmp_path: Path) -> None:
    made = iter(range(100))
    await check_memory(lambda: VectorMemory(index=chroma(tmp_path / str(next(made)))))


async def test_without_a_folder_every_index_has_a_temporary_one() -> None:
    memory = filtered(lambda: VectorMemory(index=ChromaIndex()), last_n=1)()
    for ordinal in (1, 2):
        await memory.record(make_episode(ordinal))
        await memory.consolidate("", 1_000)
    index = ChromaIndex(exact_below=0)
    matrix = Matrix()
    matrix.add(np.eye(3, dtype=np.float32))
    await index.sync(matrix)
    assert (await index.search(matrix, np.eye(3, dtype=np.float32)[1], 1, 3)).rows == (1,)
    assert index.path.is_dir()
    await index.aclose()
    assert not index.path.exists()
    await memory.aclose()
