"""Environments in and out with the real libraries, as the how-to pages show them.

See ``workshop``.
"""

import json

import pytest
from workshop import Workshop

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("program", ["play_gymnasium.py"])
def test_gymnasium_plays_a_game_and_finds_no_fault(program: str, workshop: Workshop) -> None:
    assert "score" in workshop.played(program).stdout


@pytest.mark.parametrize("program", ["play_inspect.py"])
def test_inspect_scores_what_the_model_played(program: str, workshop: Workshop) -> None:
    assert workshop.played(program).stdout.startswith("success ")


@pytest.mark.parametrize("program", ["play_verifiers.sh"])
def test_verifiers_rewards_what_the_model_played(program: str, workshop: Workshop) -> None:
    (found,) = workshop.played(program).folder.glob("outputs/**/traces.jsonl")
    episodes = [json.loads(line) for line in found.read_text().splitlines()]
    assert [episode["errors"] for episode in episodes] == [[], []]
    for episode in episodes:
        (trace,) = episode["traces"]
        assert trace["metrics"] == {"s3gym_steps": 3.0}
        assert -3 <= trace["rewards"]["s3gym_score"]["score"] <= 9


@pytest.mark.parametrize("program", ["play_textarena.py"])
def test_a_game_of_textarena_is_studied(program: str, workshop: Workshop) -> None:
    assert "[(0, " in workshop.played(program).stdout
