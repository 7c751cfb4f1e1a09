"""What a memory is never asked in a tidy world: every built-in one answers or says why not."""

import tracemalloc
from typing import Any

import pytest

from s3gym.catalog import find_memory
from s3gym.memory import MEMORIES
from s3gym.memory.history import HistoryMemory
from s3gym.records import Episode
from s3gym.testing.episodes import make_cue, make_episode
from s3gym.tokens import token_counter

NAMES = sorted(MEMORIES)
SPECIAL = "<|endoftext|><|fim_prefix|>"


async def fed(name: str, *episodes: Episode) -> Any:
    memory = find_memory(name).make()
    for episode in episodes:
        await memory.record(episode)
        await memory.consolidate(episode.rules, 100_000)
    return memory


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("max_tokens", [0, 1, 5])
async def test_a_budget_below_one_step_recalls_nothing_or_fits(name: str, max_tokens: int) -> None:
    memory = await fed(name, make_episode(1), make_episode(2))
    for text in ("episode 1, board 1", ""):
        found = await memory.recall(make_cue(text, max_tokens=max_tokens))
        assert token_counter().count(found.text) == found.tokens <= max_tokens
        assert not max_tokens or name == "none" or found.text or found.dropped or not text


@pytest.mark.parametrize("name", NAMES)
async def test_special_token_text_is_ordinary_text(name: str) -> None:
    texts = [SPECIAL] * 4
    episode = make_episode(1, texts=texts, actions=(SPECIAL,), note=SPECIAL, rules=SPECIAL)
    found = await (await fed(name, episode)).recall(make_cue(SPECIAL))
    assert name == "none" or SPECIAL in found.text


@pytest.mark.parametrize("name", NAMES)
async def test_empty_observations_and_identical_steps_are_kept(name: str) -> None:
    same = make_episode(2, texts=["same"] * 6, actions=("a",), self_scores=(0.0,))
    memory = await fed(name, make_episode(1, texts=[""] * 5), same)
    found = await memory.recall(make_cue("same"))
    assert name == "none" or found.text
    if name == "history":
        assert len(found.steps) == 9
        assert found.text.count("Env: \nLLM:") == 1, "the first step has no feedback"


@pytest.mark.parametrize("name", NAMES)
async def test_a_huge_episode_is_recorded_and_fits(name: str) -> None:
    board = "\n".join("#.o" * 60 for _ in range(600))
    memory = await fed(name, make_episode(1, texts=[board] * 4), make_episode(2))
    found = await memory.recall(make_cue("episode 2, board 1", max_tokens=2_000))
    assert token_counter().count(found.text) <= 2_000


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
async def test_an_episode_of_ten_megabytes_is_recorded_and_fits(name: str) -> None:
    board = "\n".join("#.o" * 60 for _ in range(14_000))
    memory = await fed(name, make_episode(1, texts=[board] * 4), make_episode(2))
    found = await memory.recall(make_cue("episode 2, board 1", max_tokens=2_000))
    assert token_counter().count(found.text) <= 2_000


async def test_special_tokens_count_as_text() -> None:
    counter = token_counter("cl100k_base")
    assert counter.count("<|endoftext|>") > 1


class Metered:
    """Counts what is counted."""

    name = "metered"

    def __init__(self) -> None:
        self.characters = 0

    def count(self, text: str) -> int:
        self.characters += len(text)
        return len(text)


async def test_text_is_counted_once_over_a_whole_study() -> None:
    counter = Metered()
    memory = HistoryMemory(counter=counter)
    board = "\n".join(["." * 18] * 18)
    for ordinal in range(1, 31):
        await memory.record(make_episode(ordinal, texts=[board] * 21))
        for _ in range(4):
            found = await memory.freeze().recall(make_cue(max_tokens=10_000))
    whole = (await memory.recall(make_cue(max_tokens=10**9))).text
    assert len(found.text) <= 10_000
    assert counter.characters <= 1.2 * len(whole)


async def test_freezing_copies_nothing() -> None:
    memory = HistoryMemory()
    for ordinal in range(1, 31):
        await memory.record(make_episode(ordinal, n_steps=64))
    tracemalloc.start()
    views = [memory.freeze() for _ in range(10)]
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(views) == 10
    assert size < 10 * 1_000
