"""How stable prompts are from step to step: what a provider may cache."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from s3gym.memory.history import HistoryMemory
from s3gym.memory.insights import InsightsMemory
from s3gym.memory.layered import layered
from s3gym.memory.none import NoMemory
from s3gym.memory.summary import SummaryMemory
from s3gym.memory.vector import VectorMemory
from s3gym.records import Layout, Message, Phase, Recollection, Step, Turn
from s3gym.testing.episodes import make_cue, make_episode

MEMORIES: dict[str, Any] = {
    "none": NoMemory,
    "history": HistoryMemory,
    "summary": SummaryMemory,
    "insights": InsightsMemory,
    "vector": lambda: VectorMemory(recall_each="episode"),
    "layered": layered([SummaryMemory, HistoryMemory], [200, 1.0]),
}


def turn(trail: Sequence[Step], recollection: Recollection) -> Turn:
    observation = trail[-1].outcome if trail else make_episode(9).steps[0].observation
    return Turn(
        episode="e",
        game="toy",
        phase=Phase.EVALUATION,
        rules="Pick a or b.",
        instruction="Play.",
        observation=observation,
        trail=tuple(trail),
        recollection=recollection,
        index=len(trail),
        max_steps=9,
    )


async def prompts(make: Any, layout: Layout) -> list[list[Message]]:
    """Return the prompts of one episode under one version of a memory."""
    memory = make()
    for ordinal in (1, 2):
        await memory.record(make_episode(ordinal))
        await memory.consolidate("Pick a or b.", 1000)
    view = memory.freeze()
    steps = make_episode(9, n_steps=6).steps
    found: list[list[Message]] = []
    recollection = await view.recall(make_cue(steps[0].observation.text))
    for n in range(len(steps)):
        if view.recall_each == "step":
            recollection = await view.recall(make_cue(steps[n].observation.text, trail=steps[:n]))
        found.append(turn(steps[:n], recollection).messages(layout))
    return found


def flat(messages: Sequence[Message]) -> str:
    return "".join(f"<{message.role}>{message.content}\n" for message in messages)


def shared(left: str, right: str) -> int:
    """Return how many characters two texts have in common from the start."""
    pairs = zip(left, right, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(left), len(right)))


@pytest.mark.parametrize("name", MEMORIES)
async def test_in_the_cached_layout_a_longer_prompt_extends_the_shorter_one(name: str) -> None:
    found = await prompts(MEMORIES[name], "cached")
    for shorter, longer in pairwise(found):
        assert longer[: len(shorter)] == shorter
        assert flat(longer).startswith(flat(shorter))


@pytest.mark.parametrize("name", MEMORIES)
async def test_in_the_paper_layout_memory_and_trail_are_shared_and_rules_come_last(
    name: str,
) -> None:
    found = await prompts(MEMORIES[name], "paper")
    for shorter, longer in pairwise(found):
        common = shared(flat(shorter), flat(longer))
        before_rules = flat(shorter[:-1])
        assert common >= len(before_rules) - 1, "all but the rules and the state is shared"
        assert not flat(longer).startswith(flat(shorter))


async def test_recalling_at_each_step_costs_the_shared_prefix() -> None:
    found = await prompts(lambda: VectorMemory(k=1, items="step"), "cached")
    kept = [longer[: len(shorter)] == shorter for shorter, longer in pairwise(found)]
    assert not all(kept)
    assert all(longer[0] == found[0][0] for longer in found), "instruction and rules stay"


async def test_a_later_history_extends_an_earlier_one_until_the_budget_is_full() -> None:
    memory = HistoryMemory()
    texts = [""]
    for ordinal in range(1, 8):
        await memory.record(make_episode(ordinal))
        texts.append((await memory.recall(make_cue(max_tokens=300))).text)
    assert all(longer.startswith(shorter) for shorter, longer in pairwise(texts))
    assert texts[-1] == texts[-2] != texts[1], "a full budget shows the oldest and nothing new"
