"""Nullify: reading and drawing its text, its players and their levels."""

import math
from statistics import mean
from typing import Any
from xml.etree import ElementTree

import pytest
from episodes import mean_and_error, play_episode
from game_traces import GOLDEN, REFERENCE, transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from nullify_boards import (
    CLOCK,
    EVALUATION,
    EXPLORATION,
    NUMBERS,
    OPERATORS,
    board,
    drawn,
    setup,
)

from s3gym.agents.pictures.nullify import render_svg
from s3gym.agents.reading import nullify as reading
from s3gym.agents.reading.nullify import NullifyView, read
from s3gym.agents.reference.nullify import choose as reference
from s3gym.agents.strategies.nullify import PLAYBOOK, outcome
from s3gym.games.nullify import SPEC
from s3gym.records import Phase
from s3gym.seeds import Stream

# Reading and drawing


READ_UNITS = st.one_of(
    NUMBERS,
    st.just(0.0),
    OPERATORS.map(lambda each: reading.Operator(each.name, each.k)),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(READ_UNITS, max_size=17))
def test_any_units_survive_the_way_through_text(units: list[reading.Unit]) -> None:
    text = NullifyView(tuple(units)).render()
    assert read(text).render() == text
    for ours, theirs in zip(read(text).units, units, strict=True):
        if isinstance(theirs, float):
            assert ours == pytest.approx(theirs, rel=1e-11)
        else:
            assert ours == theirs
    ElementTree.fromstring(render_svg(text))


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=40), st.integers(0, 80), st.integers(0, 3))
def test_other_text_is_refused_by_the_reader(noise: str, place: int, cut: int) -> None:
    text = setup().game.observe(drawn(1), CLOCK)
    damaged = text[:place] + noise + text[place + cut :]
    try:
        view = read(damaged)
    except ValueError:
        return
    assert read(view.render()) == view
    ElementTree.fromstring(render_svg(damaged))


def test_the_pictures_are_the_golden_ones() -> None:
    text = setup().game.observe(board("-0.328125 floor /7 +2 +1234567.12345 *-10 square"), CLOCK)
    picture = render_svg(text)
    ElementTree.fromstring(picture)
    assert picture == (GOLDEN / "nullify.svg").read_text(encoding="utf-8")
    assert "the board is empty" in render_svg("Current game board:\n(empty)")


# Players


def test_self_scores_of_winning_moves_are_right() -> None:
    for name, choose in PLAYERS.items():
        for seed in range(10):
            played = play_episode(SPEC, None, EXPLORATION, seed, choose)
            assert played.self_scores == played.rewards, (name, seed)


def test_outcome_ranks_a_win_over_everything_and_fewer_units_over_more() -> None:
    texts = [setup().game.observe(board(words), CLOCK) for words in ("", "+8", "sqrt *3 /2")]
    assert [outcome(text) for text in texts] == [1.0, -0.01, -0.03]


def test_the_reference_player_answers_alike_without_its_cache() -> None:
    from s3gym.agents.reference.nullify import plan

    played = play_episode(SPEC, None, EVALUATION, 2, reference)

    def forgetful(turn: Any, stream: Stream) -> Any:
        plan.cache_clear()
        return reference(turn, stream)

    assert play_episode(SPEC, None, EVALUATION, 2, forgetful).actions == played.actions


PLAYERS = {"random": PLAYBOOK.random, "reference": reference, **PLAYBOOK.strategies}
LEVELS = [
    ("random", EXPLORATION, 0.085),
    ("random", EVALUATION, 0.014),
    ("reference", EVALUATION, 0.84),
]


def check_level(player: str, phase: Phase, level: float, n_seeds: int) -> None:
    """Three standard errors, the published level's own spread where no episode differs."""
    values_of = PLAYERS[player]
    found, error = mean_and_error(
        lambda seed: play_episode(SPEC, None, phase, seed, values_of).score, range(n_seeds)
    )
    error = max(error, math.sqrt(level * (1 - level) / n_seeds))
    assert abs(found - level) <= 3 * error, (found, error)


@pytest.mark.parametrize(("player", "phase", "level"), LEVELS)
def test_players_reach_their_levels(player: str, phase: Phase, level: float) -> None:
    check_level(player, phase, level, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("player", "phase", "level"), LEVELS)
def test_players_reach_their_levels_over_many_seeds(
    player: str, phase: Phase, level: float
) -> None:
    check_level(player, phase, level, 100)


def test_plain_strategies_differ_in_strength() -> None:
    def level(name: str) -> float:
        choose = PLAYERS[name]
        return mean(play_episode(SPEC, None, EXPLORATION, s, choose).score for s in range(60))

    assert level("reference") > level("shallow-search") > level("vanishing-first")


def test_the_anchors_are_the_published_levels() -> None:
    anchors = SPEC.anchors
    assert (anchors.random, anchors.reference, anchors.ceiling) == (0.014, 0.84, 1.0)


def test_the_reference_page_shows_what_the_game_does() -> None:
    page = (REFERENCE / "games-nullify.md").read_text(encoding="utf-8")
    shown = transcript(SPEC, EXPLORATION, 5, reference, 9)
    assert f"```text\n{shown}\n```" in page
    for switch in type(SPEC.options()).model_fields:
        assert f"| `{switch}` |" in page
