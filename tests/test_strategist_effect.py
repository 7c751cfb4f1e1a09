"""The strategist's learning effect is honest: it comes from memory, and from nothing else."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from s3gym.agents.strategies import playbook_of
from s3gym.api import Sweep
from s3gym.memory.history import HistoryMemory
from s3gym.memory.none import NoMemory
from s3gym.records import Episode
from s3gym.schedule import Schedule
from s3gym.seeds import Stream, derive

pytestmark = pytest.mark.slow

GAMES = ("trust", "snake")
REPEATS = 10
EVALUATION_EPISODES = {"trust": 15, "snake": 3}
"""Trust's scores hang on the opponent, so that three episodes would measure little else."""

MEAN_OF_STRATEGIES = {
    "trust": (10.125 + 11.75 + 10.0625 + 16.625) / 4,
    "snake": (12.2 + 17.4 + 4.9) / 3,
}
"""Evaluation levels: exact for trust, measured over 100 seeds for snake."""


class ShuffledNotes(HistoryMemory):
    """History whose notes name strategies drawn blindly, so that nothing can be learnt."""

    async def record(self, episode: Episode) -> None:
        names = sorted(playbook_of(episode.game).strategies)
        note = f"strategy: {Stream(derive('shuffled', episode.id)).pick(names)}"
        steps = tuple(
            replace(step, decision=replace(step.decision, note=note)) for step in episode.steps
        )
        await super().record(replace(episode, steps=steps))


@cache
def scores(game: str) -> dict[str, NDArray[np.float64]]:
    """Return, per memory, one mean evaluation score per repeat over the checkpoints after 0."""
    memories = {"none": NoMemory, "history": HistoryMemory, "shuffled": ShuffledNotes}
    with TemporaryDirectory() as folder:
        result = Sweep(
            games=(game,),
            memories=tuple(memories.values()),
            repeats=REPEATS,
            schedule=Schedule.paper(
                evaluation_episodes=EVALUATION_EPISODES[game], fresh_evaluation_seeds=True
            ),
            seed=7,
            store=Path(folder) / "effect.db",
        ).run_sync()
        curves = result.curves()
    means = [
        np.mean([score for checkpoint, score in curves[study] if checkpoint and score is not None])
        for study in result.studies
    ]
    return dict(zip(memories, np.array(means).reshape(len(memories), REPEATS), strict=True))


@pytest.mark.parametrize("game", GAMES)
def test_without_memory_it_scores_the_mean_of_its_strategies(game: str) -> None:
    found = scores(game)["none"]
    error = found.std(ddof=1) / REPEATS**0.5
    assert abs(found.mean() - MEAN_OF_STRATEGIES[game]) <= 3 * error


@pytest.mark.parametrize("game", GAMES)
def test_history_makes_it_better(game: str) -> None:
    found = scores(game)
    assert found["history"].mean() > found["none"].mean()
    assert stats.ttest_rel(found["history"], found["none"]).pvalue < 0.05


@pytest.mark.parametrize("game", GAMES)
def test_with_shuffled_notes_the_gain_vanishes(game: str) -> None:
    found = scores(game)
    gain = found["shuffled"] - found["none"]
    assert abs(gain.mean()) <= 3 * gain.std(ddof=1) / REPEATS**0.5
    assert found["shuffled"].mean() < found["history"].mean()
