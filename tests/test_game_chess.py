"""Chess with latent rules: hand-worked rows C1 to C24, families, worlds, invariants, traces."""

import json
from itertools import pairwise
from pathlib import Path
from string import ascii_uppercase
from typing import Any

import pytest
from chess_boards import board
from episodes import play_episode, scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.agents.pictures.chess import render_svg
from s3gym.agents.reading.chess import read, write_action
from s3gym.agents.reference.chess import choose as reference
from s3gym.contracts.game import Clock
from s3gym.games import _chess_motion as motion
from s3gym.games import chess
from s3gym.games._chess_generator import PRINTED_TABLE, letter_table
from s3gym.games._chess_solver import independent_futures, solve
from s3gym.games.chess import SPEC, ChessOptions, State
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, SeedPlan

GOLDEN = Path(__file__).parent / "golden"
LEADER = ((5, 5), (6, 7), (6, 7), (7, 7))
CLOCK = Clock(step=1, max_steps=5)
EVALUATION = SPEC.setup(ChessOptions(), Phase.EVALUATION)
EXPLORATION = SPEC.setup(ChessOptions(), Phase.EXPLORATION)


def roam(start: motion.Cell, program: motion.Program, label: str, n: int) -> motion.Track:
    border = motion.wrapped if label.isupper() else motion.reflected
    return motion.roam(start, program, border)[:n]


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
