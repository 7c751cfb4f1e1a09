"""StrategistAgent: what it remembers, what it tries, what it names."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from episodes import play_episode

from s3gym.agents.strategies import playbook_of
from s3gym.agents.strategies.playbook import Move, Playbook
from s3gym.agents.strategist import StrategistAgent, choose_strategy, evidence_from
from s3gym.catalog import find_game
from s3gym.errors import ConfigError
from s3gym.records import Decision, Observation, Phase, Recollection, Step, Turn
from s3gym.seeds import Stream

START = Observation(text="0")
NAMES = ("bold", "calm", "dull")


def stay(turn: Turn, stream: Stream) -> Move:
    return Move(action="stay", self_score=0.5)


PLAYBOOK = Playbook(strategies=dict.fromkeys(NAMES, stay), random=stay, outcome=float)


def turn(
    recollection: Recollection | None = None,
    phase: Phase = Phase.EVALUATION,
    seed: int = 0,
    game: str = "trust",
    **more: Any,
) -> Turn:
    return Turn(
        episode="e",
        game=game,
        phase=phase,
        rules="",
        instruction="",
        observation=more.pop("observation", START),
        recollection=recollection or Recollection(),
        max_steps=10,
        seed=seed,
        **more,
    )


def episode(name: str, outcome: float, *, done: bool = True, n_steps: int = 2) -> list[Step]:
    """Return the steps of an episode in which a strategy reached an outcome."""
    texts = [START, *(Observation(text=f"{outcome} ") for _ in range(n_steps - 1))]
    end = Observation(text=str(outcome), done=done)
    decision = Decision(action="stay", note=f"strategy: {name}")
    return [
        Step(index=n, observation=before, decision=decision, outcome=after)
        for n, (before, after) in enumerate(zip(texts, [*texts[1:], end], strict=True))
    ]


def remember(*episodes: list[Step]) -> Recollection:
    return Recollection(text="shown", steps=tuple(step for steps in episodes for step in steps))


def chosen(recollection: Recollection, phase: Phase, book: Playbook = PLAYBOOK) -> Counter[str]:
    return Counter(choose_strategy(turn(recollection, phase, seed), book) for seed in range(300))


@pytest.mark.parametrize("phase", Phase)
def test_without_memories_all_strategies_are_equally_likely(phase: Phase) -> None:
    counts = chosen(Recollection(), phase)
    assert sum(counts.values()) == 300
    assert all(70 < counts[name] < 130 for name in NAMES)


def test_exploration_tries_what_it_has_tried_least() -> None:
    seen = remember(episode("bold", 9))
    counts = chosen(seen, Phase.EXPLORATION)
    assert set(counts) == {"calm", "dull"}
    assert min(counts.values()) > 100


def test_exploration_favours_what_looks_best_half_of_the_time() -> None:
    seen = remember(episode("bold", 9), episode("bold", 9), episode("calm", 1), episode("dull", 2))
    counts = chosen(seen, Phase.EXPLORATION)
    assert 120 < counts["bold"] < 180
    assert min(counts["calm"], counts["dull"]) > 40


def test_evaluation_plays_the_best_median_outcome_and_not_a_lucky_one() -> None:
    bold = [episode("bold", value) for value in (99, 1, 2)]
    seen = remember(*bold, episode("calm", 6), episode("dull", -2))
    assert set(chosen(seen, Phase.EVALUATION)) == {"calm"}


def test_the_mean_decides_between_equal_medians() -> None:
    calm = [episode("calm", value) for value in (4, 6, 9)]
    dull = [episode("dull", value) for value in (4, 6, 7)]
    assert set(chosen(remember(*calm, *dull), Phase.EVALUATION)) == {"calm"}


def test_evaluation_draws_among_equals_and_only_among_what_was_seen() -> None:
    counts = chosen(remember(episode("bold", 3), episode("dull", 3)), Phase.EVALUATION)
    assert set(counts) == {"bold", "dull"}
    assert min(counts.values()) > 110


def test_an_episode_without_its_end_does_not_count() -> None:
    cut = remember(episode("bold", 99, done=False), episode("calm", 1))
    assert set(evidence_from(cut, PLAYBOOK)) == {"calm"}


def test_an_episode_without_its_beginning_counts_by_its_end() -> None:
    steps = episode("bold", 7, n_steps=4)[2:] + episode("calm", 3)
    found = evidence_from(Recollection(steps=tuple(steps)), PLAYBOOK)
    assert {name: (each.trials, each.mean) for name, each in found.items()} == {
        "bold": (1, 7.0),
        "calm": (1, 3.0),
    }


def test_two_cut_episodes_side_by_side_are_told_apart() -> None:
    """The first lost its end, the second its beginning, and their numbers fit together."""
    steps = episode("bold", 7, n_steps=4)[:2] + episode("calm", 3, n_steps=4)[2:]
    assert set(evidence_from(Recollection(steps=tuple(steps)), PLAYBOOK)) == {"calm"}


def test_notes_of_strategies_that_it_does_not_own_are_passed_over() -> None:
    seen = remember(episode("bribe", 99), episode("calm", 1))
    assert set(evidence_from(seen, PLAYBOOK)) == {"calm"}
    assert not evidence_from(remember(episode("bribe", 99)), PLAYBOOK)


def test_reordering_the_table_changes_no_choice() -> None:
    turned = replace(PLAYBOOK, strategies=dict.fromkeys(reversed(NAMES), stay))
    seen = remember(episode("bold", 3), episode("dull", 3))
    for memory in (Recollection(), seen):
        for phase in Phase:
            assert chosen(memory, phase) == chosen(memory, phase, turned)


TIPS = """Retain:
- strategy: calm (mean self-scored outcome 4.5 over 2 episodes)
- strategy: bold (mean self-scored outcome 7 over 1 episodes)
Avoid:
- strategy: dull (mean self-scored outcome -3 over 12 episodes)
Next:
- build on episode 3
"""


def test_tips_are_read_as_a_model_would_read_them() -> None:
    found = evidence_from(Recollection(text=TIPS), PLAYBOOK)
    assert {name: (each.trials, each.mean, each.rank) for name, each in found.items()} == {
        "calm": (2, 4.5, 1),
        "bold": (1, 7.0, 1),
        "dull": (12, -3.0, -1),
    }
    assert set(chosen(Recollection(text=TIPS), Phase.EVALUATION)) == {"bold"}


def test_advice_counts_more_than_numbers() -> None:
    text = "## Retain\n* strategy: calm\n\n**Avoid:**\n* strategy: bold (mean outcome 99)"
    assert set(chosen(Recollection(text=text), Phase.EVALUATION)) == {"calm"}


def test_what_is_only_warned_against_leaves_the_others() -> None:
    text = "Avoid\n- strategy: calm"
    assert set(chosen(Recollection(text=text), Phase.EVALUATION)) == {"bold", "dull"}


@pytest.mark.parametrize("text", ["nothing of note", "strategy: ", "Retain:\n- strategy: bribe"])
def test_a_text_that_names_no_strategy_says_nothing(text: str) -> None:
    assert len(chosen(Recollection(text=text), Phase.EVALUATION)) == 3


def test_a_huge_text_is_read_in_time() -> None:
    text = "mean outcome " * 100_000 + "#" * 1_000_000 + "\nretain " * 100_000
    assert not evidence_from(Recollection(text=text), PLAYBOOK)


@pytest.mark.parametrize("game", ["snake", "trust"])
async def test_it_plays_one_strategy_per_episode_and_names_it_at_every_step(game: str) -> None:
    spec = find_game(game)
    agent = StrategistAgent()
    notes: list[str] = []
    trail: list[Step] = []
    played = play_episode(spec, None, Phase.EXPLORATION, 4, playbook_of(game).random)
    for step in played.steps:
        now = turn(
            game=game,
            observation=step.observation,
            seed=step.index,
            index=step.index,
            trail=tuple(trail),
        )
        decision = await agent.act(now)
        assert isinstance(decision, Decision)
        notes.append(decision.note)
        trail.append(replace(step, decision=replace(step.decision, note=decision.note)))
    assert len(set(notes)) == 1
    assert notes[0].removeprefix("strategy: ") in playbook_of(game).strategies


async def test_a_game_without_strategies_is_named() -> None:
    with pytest.raises(ConfigError, match="'croquet'"):
        await StrategistAgent().act(turn(game="croquet"))
