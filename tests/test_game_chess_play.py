"""Chess with latent rules: actions, options, texts, leaks, players."""

import time
from string import ascii_letters, ascii_uppercase
from typing import Any

import pytest
from chess_boards import board
from episodes import mean_and_error, play_episode, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.reading.chess import read, read_action, write_action
from s3gym.agents.reference.chess import choose as reference
from s3gym.agents.strategies.chess import PLAYBOOK, visible_outcome
from s3gym.contracts.game import Clock, NoVerifier
from s3gym.errors import ProtocolBreachError
from s3gym.games import _chess_motion as motion
from s3gym.games import chess
from s3gym.games.chess import SPEC, ChessOptions, State, read_prediction
from s3gym.records import Phase

CLOCK = Clock(step=1, max_steps=5)
EVALUATION = SPEC.setup(ChessOptions(), Phase.EVALUATION)
EXPLORATION = SPEC.setup(ChessOptions(), Phase.EXPLORATION)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("A:(1,2), b:(3,4)", {"A": (1, 2), "B": (3, 4)}),
        (" a : ( 1 , 2 )\n;\tC:(03,004)", {"A": (1, 2), "C": (3, 4)}),
        ("A:(1,2), a:(5,6)", {"A": (5, 6)}),
        ("A:(-1,99)", {"A": (-1, 99)}),
        ("A:(1,99999999999)", {"A": (1, -1)}),
        ("A:(1_0,2)", {}),
        ("A:(1e1,2)", {}),
        ("A:(1.0,2)", {}),
        ("A:(١,٢)", {}),
        ("A:(１,２)", {}),
        ("Ａ:(1,2)", {}),
        ("xA:(1,2)", {}),
        ("A:((1,2))", {}),
        ("A:(1,2", {}),
        ("\u202eA:(1,2)\x00", {"A": (1, 2)}),
        ("", {}),
        ("hello", {}),
    ],
)
def test_an_action_is_read_by_the_documented_grammar(
    action: str, expected: dict[str, motion.Cell]
) -> None:
    assert read_prediction(action) == expected


MONSTERS = {
    "letters": "A" * 10_000_000,
    "items": "A:(1,2)," * 1_250_000,
    "opening": "A:(" * 3_300_000,
    "blanks": "A" + " " * 10_000_000,
    "nested": "(" * 5_000_000 + ")" * 5_000_000,
    "digits": "A:(" + "9" * 10_000_000,
    "just short enough": ("A:(" + "9" * 400) * 24,
    "blanks in the limit": "A:(" + " " * 9_990,
}


@pytest.mark.parametrize("name", sorted(MONSTERS))
def test_a_monstrous_action_is_an_empty_prediction_in_no_time(name: str) -> None:
    state, action = board(6), MONSTERS[name]
    began = time.process_time()
    after = EVALUATION.game.apply(state, action).state
    assert EVALUATION.verifier.reward(state, action, after) == 0.0
    assert time.process_time() - began < 0.5
    assert after.step == 1


ITEMS = st.builds(
    "{}:({},{})".format,
    st.sampled_from(ascii_letters + "é１"),
    st.integers(-3, 20),
    st.integers(-3, 20) | st.sampled_from(["1_0", "٣", "1e999", "-0", ""]),
)
ACTIONS = st.text(max_size=60) | st.lists(ITEMS, max_size=30).map(", ".join)


def any_action_is_taken(action: str) -> None:
    state = board(7)
    done = EVALUATION.game.apply(state, action)
    assert done.state.step == 1
    reward = EVALUATION.verifier.reward(state, action, done.state)
    assert 0.0 <= reward <= 1.0
    if not read_prediction(action):
        assert reward == 0.0


@settings(deadline=None, max_examples=200)
@given(action=ACTIONS)
def test_any_text_is_taken_as_an_action(action: str) -> None:
    any_action_is_taken(action)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(action=ACTIONS)
def test_any_of_many_texts_is_taken_as_an_action(action: str) -> None:
    any_action_is_taken(action)


@given(
    cells=st.dictionaries(
        st.sampled_from(ascii_uppercase), st.tuples(st.integers(0, 14), st.integers(0, 14))
    )
)
def test_a_written_action_reads_back(cells: dict[str, motion.Cell]) -> None:
    assert read_prediction(write_action(cells)) == cells
    assert read_action(write_action(cells)) == cells


def test_the_paper_denominator_divides_by_fifteen() -> None:
    options = ChessOptions(denominator=15)
    assert ChessOptions.model_validate({"denominator": "15"}) == options
    played = play_episode(SPEC, options, Phase.EVALUATION, 2, reference)
    assert played.rewards == [22 / 15] * 5
    assert played.score == pytest.approx(22 / 15)
    assert SPEC.setup(options, Phase.EVALUATION).reward_range == (0.0, 22 / 15)
    assert "divided by 15" in SPEC.rules(options, Phase.EVALUATION)


@pytest.mark.parametrize(
    "values", [{"denominator": 0}, {"denominator": 22}, {"letter_table": "any"}, {"pieces": 3}]
)
def test_a_wrong_option_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChessOptions.model_validate(values)


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**63 - 1), step=st.integers(0, 5), phase=st.sampled_from(list(Phase)))
def test_an_observation_reads_back_to_itself(seed: int, step: int, phase: Phase) -> None:
    drawn = board(seed, phase)
    state = State(tracks=drawn.tracks, step=step)
    text = EVALUATION.game.observe(state, CLOCK)
    view = read(text)
    assert view.render() == text
    assert all(line == line.rstrip() for line in text.split("\n"))
    assert view.made == step
    assert view.first_frame == step
    for label, track in state.tracks:
        assert view.history(label) == track[step : step + motion.HISTORY]


@pytest.mark.parametrize("text", ["", "Board", "Board 15x15, 2 pieces, prediction 1 of 5\nFrame 0"])
def test_another_text_is_no_observation(text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        read(text)


def test_a_frame_with_two_pieces_on_a_cell_is_not_drawn() -> None:
    with pytest.raises(ProtocolBreachError, match=r"'A' and 'B' share cell \(1,2\)"):
        chess.draw_frame({"A": (1, 2), "B": (1, 2)})


@pytest.mark.parametrize("phase", list(Phase))
def test_the_rules_name_the_constants_and_no_family(phase: Phase) -> None:
    rules = SPEC.rules(ChessOptions(), phase)
    assert f"{chess.PIECES[phase]} pieces" in rules
    assert f"divided by {chess.PIECES[phase]}" in rules
    assert f"{motion.SIZE} rows and {motion.SIZE} columns" in rules
    assert f"{motion.HISTORY} most recent frames" in rules
    words = set(rules.lower().replace(".", " ").split())
    assert not words & set(motion.FAMILIES)
    assert phase.value not in rules.lower()


def test_nothing_visible_depends_on_the_verifier_or_on_being_right() -> None:
    state = board(13)
    right = write_action({label: track[motion.HISTORY] for label, track in state.tracks})
    wrong = write_action({label: (0, 0) for label, _ in state.tracks})
    done_right, done_wrong = (EVALUATION.game.apply(state, x) for x in (right, wrong))
    assert done_right == done_wrong
    assert NoVerifier(value=90210.5).reward(state, right, done_right.state) == 90210.5
    text = EVALUATION.game.observe(done_right.state, CLOCK) + done_right.feedback
    assert "score" not in text.lower()
    assert "reward" not in text.lower()


def test_the_future_is_not_shown() -> None:
    state = board(14)
    shown = EVALUATION.game.observe(state, CLOCK)
    hidden = State(
        tracks=tuple((x, (*t[: motion.HISTORY], *[(0, 0)] * 5)) for x, t in state.tracks)
    )
    assert EVALUATION.game.observe(hidden, CLOCK) == shown


def test_the_order_of_the_text_does_not_tell_who_depends() -> None:
    state = board(15)
    letters = [label.upper() for label, _ in state.tracks]
    assert letters == sorted(letters)


ANCHORS = {
    "stay": 0.084,
    "repeat-last": 0.256,
    "shortest-period": 0.511,
    "random": 1 / 225,
}


def is_near(name: str, seeds: range) -> None:
    choose = PLAYBOOK.random if name == "random" else PLAYBOOK.strategies[name]

    def score(seed: int) -> float:
        played = play_episode(SPEC, None, Phase.EVALUATION, seed, choose)
        assert visible_outcome(played.steps) == pytest.approx(played.score)
        return played.score

    mean, error = mean_and_error(score, seeds)
    assert abs(mean - ANCHORS[name]) <= 3 * error


@pytest.mark.parametrize("name", sorted(ANCHORS))
def test_a_plain_strategy_reaches_its_level(name: str) -> None:
    is_near(name, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ANCHORS))
def test_a_plain_strategy_reaches_its_level_over_100_episodes(name: str) -> None:
    is_near(name, range(100, 200))


def test_ending_at_once_scores_nothing() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, scripted([]))
    assert (played.score, played.rewards) == (0.0, [0.0])


def test_the_visible_outcome_of_an_ended_episode_counts_the_missing_steps() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, reference)
    assert visible_outcome(played.steps[:2]) == pytest.approx(0.4)
    assert PLAYBOOK.outcome(played.observations[-1]) == 0.0


def test_a_strategy_scores_itself_without_looking_ahead() -> None:
    for choose in PLAYBOOK.strategies.values():
        scores = play_episode(SPEC, None, Phase.EVALUATION, 17, choose).self_scores
        assert all(score is not None and 0 <= score <= 1 for score in scores)
