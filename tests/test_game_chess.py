"""Chess with latent rules: hand-worked rows of games.md 1.K, invariants, leaks, anchors."""

import json
import time
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from string import ascii_letters, ascii_uppercase
from typing import Any

import pytest
from episodes import mean_and_error, play_episode, scripted
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.chess import render_svg
from s3gym.agents.reading.chess import read, read_action, write_action
from s3gym.agents.reference.chess import choose as reference
from s3gym.agents.strategies.chess import PLAYBOOK, visible_outcome
from s3gym.contracts.game import Clock, NoVerifier
from s3gym.errors import ProtocolBreachError
from s3gym.games import _chess_motion as motion
from s3gym.games import chess
from s3gym.games._chess_generator import PRINTED_TABLE, letter_table
from s3gym.games._chess_solver import independent_futures, solve
from s3gym.games.chess import SPEC, ChessOptions, State, read_prediction
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, SeedPlan

GOLDEN = Path(__file__).parent / "golden"
LEADER = ((5, 5), (6, 7), (6, 7), (7, 7))
CLOCK = Clock(step=1, max_steps=5)
EVALUATION = SPEC.setup(ChessOptions(), Phase.EVALUATION)
EXPLORATION = SPEC.setup(ChessOptions(), Phase.EXPLORATION)


@lru_cache
def board(seed: int, phase: Phase = Phase.EVALUATION, world: int | None = None) -> State:
    state = SPEC.setup(ChessOptions(), phase).game.start(
        EpisodeSeeds(episode=seed, world=world, game="chess")
    )
    assert isinstance(state, State)
    return state


def roam(start: motion.Cell, program: motion.Program, label: str, n: int) -> motion.Track:
    border = motion.wrapped if label.isupper() else motion.reflected
    return motion.roam(start, program, border)[:n]


# games.md 1.K


def test_c1_an_upper_case_glider_wraps() -> None:
    expected = ((0, 13), (1, 14), (2, 0), (3, 1), (4, 2))
    assert roam((0, 13), motion.glide((1, 1)), "W", 5) == expected


def test_c2_a_lower_case_glider_is_reflected() -> None:
    expected = ((0, 13), (1, 14), (2, 13), (3, 12), (4, 11))
    assert roam((0, 13), motion.glide((1, 1)), "w", 5) == expected


def test_c4_a_zigzag_flips_its_axis_at_odd_moves() -> None:
    expected = ((7, 7), (8, 9), (9, 7), (10, 9), (11, 7))
    assert roam((7, 7), motion.zigzag((1, 2), "column"), "L", 5) == expected


def test_c6_a_turning_piece_goes_round_clockwise() -> None:
    expected = ((1, 1), (1, 4), (4, 4), (4, 1), (1, 1))
    assert roam((1, 1), motion.turn((0, 3), "cw"), "D", 5) == expected


def test_c8_a_stopping_piece_rests_where_its_pattern_says() -> None:
    expected = ((1, 4), (0, 4), (14, 4), (14, 4), (13, 4), (12, 4), (12, 4))
    assert roam((1, 4), motion.stop((-1, 0), "110", 0), "H", 7) == expected


def test_c9_an_accelerating_piece_moves_farther_each_time() -> None:
    track = roam((2, 0), motion.accel((0, 1), (0, 1)), "E", 7)
    assert [column for _, column in track] == [0, 1, 3, 6, 10, 0, 6]
    assert {row for row, _ in track} == {2}


def test_c11_a_pendulum_comes_back() -> None:
    track = roam((3, 3), motion.pend((1, 0), 2, 0), "A", 7)
    assert [row for row, _ in track] == [3, 4, 5, 4, 3, 4, 5]
    assert {column for _, column in track} == {3}


def test_c13_a_triple_repeats_three_vectors() -> None:
    expected = ((0, 0), (0, 1), (1, 1), (0, 3), (0, 4), (1, 4), (0, 6))
    assert roam((0, 0), motion.triple((0, 1), (1, 0), (-1, 2)), "B", 7) == expected


@pytest.mark.parametrize(
    ("family", "upper", "start", "expected"),
    [
        pytest.param("echo", True, (2, 14), ((2, 14), (2, 14), (3, 1), (3, 1), (4, 1)), id="C14"),
        pytest.param(
            "echo", False, (2, 14), ((2, 14), (2, 14), (1, 12), (1, 12), (0, 12)), id="C15"
        ),
        pytest.param("mirror", False, (2, 2), ((2, 2), (1, 4), (1, 4), (0, 4)), id="C17"),
        pytest.param("chase", False, (0, 14), ((0, 14),) * 4, id="C19"),
    ],
)
def test_a_dependent_piece_follows_its_leader_by_hand(
    family: str, upper: bool, start: motion.Cell, expected: motion.Track
) -> None:
    # The echo rows need the leader's cell of one frame more, which never shows in them.
    leader = (*LEADER, (0, 0))[: len(expected)]
    assert motion.follow(family, upper, start, leader) == expected


def test_c20_half_of_twelve_pieces_right_pays_one_half() -> None:
    state = board(3, Phase.EXPLORATION)
    target = {label: track[motion.HISTORY] for label, track in state.tracks}
    labels = list(target)
    wrong = {label: (target[label][0], (target[label][1] + 1) % 15) for label in labels[6:8]}
    action = write_action({label: target[label] for label in labels[:6]} | wrong)
    after = EXPLORATION.game.apply(state, action).state
    assert EXPLORATION.verifier.reward(state, action, after) == 0.5


def test_c21_all_right_five_times_is_a_perfect_episode() -> None:
    state = board(4)
    actions = [
        write_action({label: track[frame] for label, track in state.tracks})
        for frame in range(motion.HISTORY, motion.FRAMES)
    ]
    played = play_episode(SPEC, None, Phase.EVALUATION, 4, scripted(actions))
    assert played.rewards == [1.0] * 5
    assert played.score == 1.0
    assert played.terminated
    assert len(played.steps) == 5


@pytest.mark.parametrize("phase", list(Phase))
def test_c24_an_unreadable_answer_costs_a_step_and_the_world_goes_on(phase: Phase) -> None:
    played = play_episode(SPEC, None, phase, 5, scripted(["hello"]))
    assert played.rewards[0] == 0.0
    before, after = read(played.observations[0]), read(played.observations[1])
    assert (before.made, after.made) == (0, 1)
    assert "prediction 2 of 5" in played.observations[1]
    assert after.frames[:-1] == before.frames[1:]


# The families


def test_the_families_have_the_printed_sizes() -> None:
    sizes = {family: len(found) for family, found in motion.programs().items()}
    assert sizes == {
        "glide": 24,
        "zigzag": 16,
        "turn": 96,
        "stop": 192,
        "accel": 200,
        "pend": 240,
        "triple": 13_800,
    }


def test_the_table_has_the_printed_letters() -> None:
    by_family = {
        family: "".join(sorted(x for x in PRINTED_TABLE if PRINTED_TABLE[x] == family))
        for family in motion.FAMILIES
    }
    assert by_family == {
        "glide": "GMW",
        "zigzag": "LOZ",
        "turn": "DKY",
        "stop": "HTX",
        "accel": "EJS",
        "pend": "AFU",
        "triple": "BNV",
        "echo": "PR",
        "mirror": "CQ",
        "chase": "I",
    }


# The world


def test_the_world_permutes_the_letters_alike_in_both_phases() -> None:
    tables = [letter_table(EpisodeSeeds(episode=seed, world=9, game="chess")) for seed in (2, 3)]
    assert tables[0] == tables[1]
    assert sorted(tables[0].values()) == sorted(PRINTED_TABLE.values())
    assert letter_table(EpisodeSeeds(episode=2, game="chess")) == PRINTED_TABLE


def test_no_letter_belongs_to_one_family_in_all_worlds() -> None:
    worlds = [
        letter_table(EpisodeSeeds(episode=0, world=world, game="chess")) for world in range(60)
    ]
    for letter in ascii_uppercase:
        assert len({table[letter] for table in worlds}) >= 6


def test_the_letters_of_a_world_move_by_its_table() -> None:
    seeds = EpisodeSeeds(episode=8, world=77, game="chess")
    table = letter_table(seeds)
    state = EVALUATION.game.start(seeds)
    for label, track in state.tracks:
        family = table[label.upper()]
        if family in motion.DEPENDENT:
            leaders = [other for name, other in state.tracks if name != label]
            tracks = [motion.follow(family, label.isupper(), track[0], x) for x in leaders]
        else:
            border = motion.wrapped if label.isupper() else motion.reflected
            programs = motion.programs()[family]
            tracks = [motion.roam(track[0], program, border) for program in programs]
        assert track in tracks


# Invariants


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**63 - 1), world=st.none() | st.integers(0, 2**63 - 1))
def test_every_board_keeps_the_invariants(seed: int, world: int | None) -> None:
    for phase, n_pieces in chess.PIECES.items():
        state = board(seed, phase, world)
        assert len(state.tracks) == n_pieces
        letters = [label.upper() for label, _ in state.tracks]
        assert len(set(letters)) == n_pieces
        assert set(letters) <= set(ascii_uppercase)
        for _, track in state.tracks:
            assert len(track) == motion.FRAMES
            assert all(0 <= part < motion.SIZE for cell in track for part in cell)
            assert len(set(track[: motion.HISTORY])) >= 2
        for frame in range(motion.FRAMES):
            assert len({track[frame] for _, track in state.tracks}) == n_pieces


@settings(deadline=None, max_examples=20)
@given(root=st.integers(0, 2**63 - 1), index=st.integers(0, 29))
def test_one_episode_number_gives_unrelated_boards_in_the_phases(root: int, index: int) -> None:
    plan = SeedPlan(root=root)
    explored, evaluated = (
        set(board(plan.episode("chess", 0, phase, index), phase).tracks) for phase in Phase
    )
    assert len(explored & evaluated) <= 2  # a glider may start alike by chance


def test_equal_seeds_give_equal_boards() -> None:
    assert board(11) == board(11)
    assert board(11) != board(12)


def every_future(history: motion.Track) -> set[tuple[motion.Cell, ...]]:
    """Return what the plain search through all programs finds."""
    futures = set()
    for programs in motion.programs().values():
        for program in programs:
            for border in motion.BORDERS:
                if motion.roam(history[0], program[:6], border) == history:
                    futures.add(motion.roam(history[0], program, border)[motion.HISTORY :])
    return futures


def test_the_indexed_search_finds_what_a_search_through_all_programs_finds() -> None:
    for _, track in board(21).tracks[:3]:
        history = track[: motion.HISTORY]
        assert independent_futures(history) == every_future(history)
    near_a_wall = tuple((0, column) for column in range(6, 13))
    assert len(every_future(near_a_wall)) > 1
    assert independent_futures(near_a_wall) == every_future(near_a_wall)


def solves(seeds: range) -> None:
    for seed in seeds:
        for phase in Phase:
            played = play_episode(SPEC, None, phase, seed, reference, world=seed)
            assert played.rewards == [1.0] * 5
            assert played.self_scores == [1.0] * 5
            assert played.score == 1.0


def test_the_reference_player_is_always_right() -> None:
    solves(range(20))


@pytest.mark.slow
def test_the_reference_player_is_always_right_in_300_episodes() -> None:
    solves(range(1000, 1300))


def test_the_reference_player_is_right_with_a_family_drawn_for_every_piece() -> None:
    for seed in range(5):
        options = ChessOptions(letter_table="random")
        assert play_episode(SPEC, options, Phase.EVALUATION, seed, reference).score == 1.0


def test_a_piece_without_an_explanation_is_left_out() -> None:
    odd = ((0, 0), (7, 7), (1, 3), (9, 9), (2, 2), (14, 0), (3, 8))
    assert solve({"A": odd}) == {}


# Actions


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


# Options


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


# Texts


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


# Leaks (games.md 8.C)


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


# Anchors (games.md 1.J) and strategies

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


# Golden traces and pictures


def replay(header: dict[str, Any], actions: list[str]) -> list[dict[str, Any]]:
    options, phase = ChessOptions(**header["options"]), Phase(header["phase"])
    start = None
    if "tracks" in header:
        tracks = header["tracks"].items()
        start = State(tracks=tuple((x, tuple(tuple(cell) for cell in t)) for x, t in tracks))
    played = play_episode(
        SPEC, options, phase, header["seed"], scripted(actions), header["world"], start
    )
    return [
        {"action": action, "feedback": feedback, "reward": reward, "text": text}
        for action, feedback, reward, text in zip(
            actions, played.feedback, played.rewards, played.observations[1:], strict=True
        )
    ]


@pytest.mark.parametrize("trace", sorted(GOLDEN.glob("chess.*.jsonl")), ids=lambda path: path.stem)
def test_replaying_a_golden_trace_gives_every_recorded_line(trace: Path) -> None:
    header, *lines = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
    assert header["source"]
    assert replay(header, [line["action"] for line in lines]) == lines


def test_the_golden_traces_are_there() -> None:
    assert len(list(GOLDEN.glob("chess.*.jsonl"))) >= 2


def test_the_picture_is_the_one_that_was_looked_at() -> None:
    text = EXPLORATION.game.observe(board(1, Phase.EXPLORATION), CLOCK)
    expected = (GOLDEN / "chess.svg").read_text(encoding="utf-8")
    assert render_svg(text) == expected
    assert render_svg(read(text).render()) == expected


def test_frames_follow_each_other_in_the_picture_of_every_step() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 3, reference)
    titles = [render_svg(text).split("Frame ")[1].split(":")[0] for text in played.observations]
    assert [int(b) - int(a) for a, b in pairwise(titles)] == [1] * 5
