"""Parts that do not fit together are refused in one line, before a store is made."""

from pathlib import Path
from typing import Any

import pytest
from studies import drawing

from s3gym import Agent, Schedule, Sweep, Turn
from s3gym.errors import ConfigError
from s3gym.records import Decision
from s3gym.testing.canary import CanaryGame


class Picky(Agent):
    knows = frozenset({"snake"})

    async def act(self, turn: Turn) -> Decision:
        return Decision(action="UP")


@pytest.mark.parametrize("agent", ["random", "strategist", "reference", Picky, Picky()])
def test_an_agent_that_does_not_know_a_game_is_refused(tmp_path: Path, agent: Any) -> None:
    store = tmp_path / "out.db"
    sweep = Sweep(games=[CanaryGame()], agents=[agent], memories=["none"], store=store)
    with pytest.raises(ConfigError, match=r"does not know the game 'canary', only: .*snake"):
        sweep.run_sync()
    assert not store.exists()


def test_the_reference_player_must_know_what_it_explores() -> None:
    sweep = Sweep(games=[CanaryGame()], agents=[drawing], memories=["none"], oracle="explorer")
    with pytest.raises(ConfigError, match="'reference' does not know the game 'canary'"):
        sweep.plans()


def test_an_agent_plays_the_games_that_it_knows(tmp_path: Path) -> None:
    schedule = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
    sweep = Sweep(
        games=["snake"], agents=[Picky], memories=["none"], repeats=1, schedule=schedule,
        store=tmp_path / "out.db",
    )  # fmt: skip
    assert sweep.run_sync().outcome.failed == {}


@pytest.mark.parametrize("knows", ["snake", 7])
def test_what_an_agent_knows_is_a_set_of_names(
    knows: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Picky, "knows", knows)
    with pytest.raises(ConfigError, match="expected a set of names of games as knows"):
        Sweep(games=["snake"], agents=[Picky], memories=["none"]).plans()
