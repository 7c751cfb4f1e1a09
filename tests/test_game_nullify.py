"""Nullify: hand-worked rows of games.md 3.H, solvability, leaks, invariants, traces."""

import math
from dataclasses import replace
from statistics import mean
from typing import Any

import pytest
from episodes import play_episode, scripted
from game_traces import GOLDEN, read_trace, replay_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from nullify_boards import (
    CLOCK,
    EVALUATION,
    EXPLORATION,
    NUMBERS,
    OPERATORS,
    SQRT,
    board,
    drawn,
    play,
    setup,
    shown,
    solution,
    unit,
)
from pydantic import ValidationError

from s3gym.agents.reading import nullify as reading
from s3gym.agents.reading.nullify import read
from s3gym.agents.reference._nullify_search import find_plan
from s3gym.agents.strategies import _nullify_pairs as printed
from s3gym.agents.strategies.nullify import PLAYBOOK
from s3gym.games import _nullify_boards as boards
from s3gym.games import _nullify_units as units_of_nullify
from s3gym.games._nullify_boards import construct, deal
from s3gym.games._nullify_units import Operator, Unit, combine, show
from s3gym.games.nullify import CONSTRUCTION_STEPS, SPEC, NullifyOptions, State
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds
from s3gym.testing import check_game

# games.md 3.H


@pytest.mark.parametrize(
    ("row", "words", "moves", "boards_after"),
    [
        ("N1", "-19 +19", ["0 1"], [""]),
        ("N2", "+5 *3 -15", ["0 1", "0 1"], ["-15 +15", ""]),
        ("N3", "+7 /-2 +3.5", ["0 1", "0 1"], ["+3.5 -3.5", ""]),
        ("N4", "floor -2.5 +3", ["0 1", "0 1"], ["+3 -3", ""]),
        ("N10", "floor +0.3 +7 -7", ["0 1", "0 1"], ["+7 -7", ""]),
        ("N14", "-3 square -9", ["1 0", "0 1"], ["-9 +9", ""]),
        ("N15", "1/3 *3 -1", ["0 1", "0 1"], ["-1 +1", ""]),
    ],
)
def test_rows_that_win(row: str, words: str, moves: list[str], boards_after: list[str]) -> None:
    played = play(words, *moves)
    assert [shown(state) for state in played.states[1:]] == boards_after
    assert played.rewards == [0.0] * (len(moves) - 1) + [1.0]
    assert (played.terminated, played.score, len(played.steps)) == (True, 1.0, len(moves))
    assert played.observations[-1] == "Current game board:\n(empty)"


def test_n6_a_root_of_a_negative_number_is_refused() -> None:
    played = play("sqrt -4 +1", "0 1")
    assert played.states[0] == played.states[1]
    assert played.feedback[0] == "expected a legal pair, sqrt and -4 cannot be combined"
    assert printed.legal_pairs(read(played.observations[1]).units) == [(0, 2), (1, 2)]


def test_n7_operators_never_combine() -> None:
    played = play("sqrt *3 +1", "0 1")
    assert played.states[0] == played.states[1]
    assert played.rewards[0] == 0.0


def test_n8_a_lone_number_is_dead() -> None:
    played = play("+5 +3", "0 1")
    assert (shown(played.states[1]), played.terminated, played.score) == ("+8", True, 0.0)
    assert played.feedback[0].endswith("No legal pair is left.")


def test_n12_refused_pairs_use_up_their_steps() -> None:
    played = play("+5 -5 +2", "0 0", "0 3", "-1 0", "0 1")
    assert played.states[0] == played.states[1] == played.states[2] == played.states[3]
    assert shown(played.states[4]) == "+2"
    assert (played.terminated, played.score, len(played.steps)) == (True, 0.0, 4)


def test_n18_a_root_and_a_negative_number_are_dead() -> None:
    assert setup().game.is_dead(board("sqrt -31.75"))
    assert not setup().game.is_dead(board("sqrt +31.75"))
    assert not setup().game.is_dead(board("sqrt -4 +1"))
    assert play("sqrt -31.75", "0 1").score == 0.0


# Units


@pytest.mark.parametrize(
    ("one", "two", "result"),
    [
        ("+2.7", "floor", "+2"),
        ("-2.7", "floor", "-3"),
        ("+2.2", "ceil", "+3"),
        ("-2.2", "ceil", "-2"),
        ("+2.9999995", "floor", "+3"),
        ("+3.0000005", "ceil", "+3"),
        ("+2.999998", "floor", "+2"),
        ("+3.000002", "ceil", "+4"),
        ("-0.3", "ceil", ""),
        ("+4", "reciprocal", "+0.25"),
        ("-1e6", "square", "+1e+12"),
        ("-1.000001e6", "square", None),
        ("+1e12", "*2", None),
        ("+1e12", "+1", None),
        ("+1e-6", "/2", ""),
        ("+5.0005", "-5", "+0.0005"),
        ("+5.000001", "-5", ""),
        ("+5000.001", "-5000", ""),
        ("+5000.01", "-5000", "+0.0100000000002"),
        ("floor", "ceil", None),
    ],
)
def test_pairs_worked_by_hand(one: str, two: str, result: str | None) -> None:
    for pair in ((unit(one), unit(two)), (unit(two), unit(one))):
        found = combine(*pair)
        assert (None if found is None else " ".join(map(show, found))) == result


def test_a_result_of_zero_may_stay() -> None:
    played = play("floor +0.3 +7 -7", "0 1", "0 1", zero_result_vanishes=False)
    assert shown(played.states[1]) == "+7 -7 +0"
    assert (shown(played.states[2]), played.terminated, played.score) == ("+0", True, 0.0)
    assert play("floor +0.3 +7 -7", "0 1", zero_result_vanishes=True).states[1] == board("+7 -7")
    refused = play("reciprocal +0 +1", "0 1", zero_result_vanishes=False)
    assert "cannot be combined" in refused.feedback[0]
    assert shown(play("ceil -0.3 +1", "0 1", zero_result_vanishes=False).states[1]) == "+1 +0"


def test_a_dead_board_may_be_played_to_the_cap() -> None:
    played = play("+5 +3", "0 1", *["0 1"] * 60, dead_state_ends=False)
    assert (played.terminated, len(played.steps), played.score) == (False, 50, 0.0)


def test_a_refused_action_ends_a_strict_episode_only_when_asked_to() -> None:
    assert play("+1 -1", "0 0", invalid_action="ends_evaluation").terminated
    assert not setup(EXPLORATION, invalid_action="ends_evaluation").on_invalid == "end"


@pytest.mark.parametrize("wrong", [{"dead_state_ends": 2}, {"steps": 3}, {"invalid_action": "end"}])
def test_wrong_switches_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        NullifyOptions(**wrong)


# Generation


def check_solvable(n_boards: int) -> None:
    for phase in Phase:
        for seed in range(n_boards // 2):
            actions = solution(seed, phase)
            played = play_episode(SPEC, None, phase, seed, scripted(actions))
            assert (played.score, len(played.steps)) == (1.0, len(actions)), (phase, seed)


def test_the_construction_path_wins_every_board() -> None:
    check_solvable(200)


@pytest.mark.slow
def test_the_construction_path_wins_every_one_of_many_boards() -> None:
    check_solvable(10_000)


def check_a_win_by_the_text(seed: int) -> bool:
    """Return whether a plan made from the shown digits alone wins with the full values."""
    start = drawn(seed, EXPLORATION)
    plan = find_plan(read(setup().game.observe(start, CLOCK)).units)
    if plan is None:
        return False
    actions = [f"{low} {high}" for low, high in plan]
    played = play_episode(SPEC, None, EXPLORATION, seed, scripted(actions))
    assert (played.score, len(played.steps)) == (1.0, len(actions))
    return True


def test_arithmetic_on_the_text_wins_with_the_full_values() -> None:
    assert sum(check_a_win_by_the_text(seed) for seed in range(60)) > 50


def test_the_drawn_boards_have_the_published_sizes() -> None:
    for phase, (least, most), average in (
        (EXPLORATION, (4, 12), 6.2),
        (EVALUATION, (6, 16), 9.0),
    ):
        sizes = [len(drawn(seed, phase).units) for seed in range(400)]
        assert least <= min(sizes) <= max(sizes) <= most
        spread = (sum((size - mean(sizes)) ** 2 for size in sizes) / len(sizes)) ** 0.5
        assert abs(mean(sizes) - average) < 0.06 + 3 * spread / math.sqrt(len(sizes))


@pytest.mark.parametrize("phase", Phase)
def test_boards_are_won_as_first_built_so_that_none_is_drawn_again(phase: Phase) -> None:
    for seed in range(300):
        seeds = EpisodeSeeds(episode=seed, game="nullify")
        first = boards._build(seeds.stream("construction", 0), CONSTRUCTION_STEPS[phase])
        assert boards.wins(first)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**63 - 1), st.sampled_from(Phase))
def test_a_built_board_holds_an_operator_and_no_idle_unit(seed: int, phase: Phase) -> None:
    built = construct(EpisodeSeeds(episode=seed), CONSTRUCTION_STEPS[phase])
    assert any(isinstance(each, Operator) for each in built)
    for each in built:
        if isinstance(each, Operator):
            assert each.k not in (0, 1) or each.name in units_of_nullify.UNARY
        else:
            assert units_of_nullify.ZERO < abs(each) <= boards.GREATEST
    assert boards.wins(built)


def test_a_construction_that_rounding_breaks_is_noticed() -> None:
    assert boards.wins((5.0, -5.0))
    assert not boards.wins((5.0, -5.001))
    assert not boards.wins((5.0, -5.0, 1.0, -1.0))  # empty before the units are used up
    assert not boards.wins((1.0, SQRT, -1.0))


# Leaks: games.md 8.C


@pytest.mark.parametrize("phase", Phase)
def test_position_tells_nothing_about_the_construction_index(phase: Phase) -> None:
    """Every pair (position, index) of boards of one size is about equally frequent."""
    counts: dict[int, list[list[int]]] = {}
    covariance, variance, n = 0.0, 0.0, 0
    for seed in range(1500):
        seeds = EpisodeSeeds(episode=seed, game="nullify")
        built = construct(seeds, CONSTRUCTION_STEPS[phase])
        order = deal(seeds, len(built))
        assert sorted(order) == list(range(len(built)))
        assert drawn(seed, phase).units == tuple(built[index] for index in order)
        table = counts.setdefault(len(built), [[0] * len(built) for _ in built])
        middle = (len(built) - 1) / 2
        for position, index in enumerate(order):
            table[position][index] += 1
            covariance += (position - middle) * (index - middle)
            variance += (position - middle) ** 2
            n += 1
    assert abs(covariance / variance) < 4 / math.sqrt(n)
    size, table = max(counts.items(), key=lambda item: sum(item[1][0]))
    expected = sum(table[0]) / size
    chi_square = sum((count - expected) ** 2 / expected for row in table for count in row)
    freedom = (size - 1) ** 2
    assert chi_square < freedom + 4 * math.sqrt(2 * freedom)


def test_the_state_holds_the_dealt_units_and_nothing_else() -> None:
    assert [field for field in State.__dataclass_fields__] == ["units"]


def test_neither_feedback_nor_text_names_a_score_or_reward() -> None:
    for seed in range(30):
        played = play_episode(SPEC, None, EXPLORATION, seed, PLAYBOOK.random)
        for text in (*played.observations, *played.feedback):
            assert not any(word in text.lower() for word in ("score", "reward", "point"))


def test_a_canary_verifier_changes_nothing_that_is_seen() -> None:
    class Canary:
        def reward(self, before: object, action: str, after: object) -> float:
            return 90210.5

        def score(self, rewards: object, final: object) -> float:
            return 90210.5

    class CanarySpec:
        def __getattr__(self, name: str) -> Any:
            return getattr(SPEC, name)

        def setup(self, options: Any, phase: Phase) -> Any:
            return replace(SPEC.setup(options, phase), verifier=Canary())

    actions = solution(3, EVALUATION)
    plain = play_episode(SPEC, None, EVALUATION, 3, scripted(actions))
    canary = play_episode(CanarySpec(), NullifyOptions(), EVALUATION, 3, scripted(actions))
    assert (plain.score, canary.score) == (1.0, 90210.5)
    assert (canary.observations, canary.feedback) == (plain.observations, plain.feedback)


def test_rules_say_what_the_game_uses_and_neither_phase_nor_construction() -> None:
    rules = SPEC.rules(NullifyOptions(), EVALUATION)
    assert rules == SPEC.rules(NullifyOptions(), EXPLORATION)
    for fact in ("0.000001", "1,000,000,000,000", "12 significant digits", "50 steps", "0 1"):
        assert fact in rules
    text = (rules + SPEC.instruction(NullifyOptions(), EVALUATION)).lower()
    hidden = ("exploration", "evaluation", "phase", "construction", "shuffle")
    assert not any(word in text for word in hidden)


# Invariants


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**63 - 1), st.sampled_from(Phase), st.booleans())
def test_every_episode_keeps_the_rules(seed: int, phase: Phase, vanishes: bool) -> None:
    options = NullifyOptions(zero_result_vanishes=vanishes)
    played = play_episode(SPEC, options, phase, seed, PLAYBOOK.random)
    again = play_episode(SPEC, options, phase, seed, scripted(played.actions))
    assert again.observations == played.observations
    assert sum(played.rewards) == played.score
    for before, after, text in zip(
        played.states, played.states[1:], played.observations[1:], strict=False
    ):
        if before != after:
            low, high = map(int, played.actions[played.states.index(before)].split())
            kept = [u for i, u in enumerate(before.units) if i not in (low, high)]
            assert list(after.units[: len(kept)]) == kept
            assert len(after.units) - len(kept) in (0, 1)
        assert read(text).render() == text
        assert all(line == line.rstrip() for line in text.split("\n"))
    assert played.terminated == (
        not played.states[-1].units
        or setup(phase, zero_result_vanishes=vanishes).game.is_dead(played.states[-1])
        or played.actions[-1] == "END"
    )


@settings(deadline=None, max_examples=200)
@given(st.one_of(NUMBERS, OPERATORS), st.one_of(NUMBERS, OPERATORS))
def test_any_two_units_combine_as_printed_in_either_order(one: Unit, two: Unit) -> None:
    result = combine(one, two)
    assert result == combine(two, one)
    if result:
        (number,) = result
        assert isinstance(number, float)
        assert units_of_nullify.ZERO < abs(number) <= units_of_nullify.LARGEST

    def mirrored(each: Unit) -> reading.Unit:
        return reading.Operator(each.name, each.k) if isinstance(each, Operator) else each

    assert printed.combine(mirrored(one), mirrored(two)) == result


# Golden traces and the contract


@pytest.mark.parametrize("name", ["nullify.exploration", "nullify.evaluation", "nullify.draws"])
def test_replaying_a_golden_trace_gives_every_recorded_line(name: str) -> None:
    header, lines = read_trace(GOLDEN / f"{name}.jsonl")
    assert header["source"]
    actions = [line["action"] for line in lines if "action" in line]
    assert replay_trace(SPEC, header, actions, board) == lines


def test_nullify_keeps_the_contract_of_games() -> None:
    check_game(SPEC)
