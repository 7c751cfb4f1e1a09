"""Real chess against a fixed opponent: rules and rewards by hand, refused moves, traces."""

import json
import time
from pathlib import Path
from typing import Any

import chess
import pytest
from chess_boards import at, drawn
from episodes import play_episode, scripted
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.agents.pictures.chess_duel import render_svg
from s3gym.agents.reading.chess_duel import ChessDuelView, read
from s3gym.contracts.game import Clock, Transition
from s3gym.errors import InvalidActionError, ProtocolBreachError
from s3gym.games import chess_duel
from s3gym.games._chess_opponent import best_reply
from s3gym.games.chess_duel import SPEC, ChessDuelOptions, State, points
from s3gym.records import Phase

GOLDEN = Path(__file__).parent / "golden"
CLOCK = Clock(step=1, max_steps=40)
EVALUATION = SPEC.setup(ChessDuelOptions(), Phase.EVALUATION)
EXPLORATION = SPEC.setup(ChessDuelOptions(), Phase.EXPLORATION)
FIRST = chess.STARTING_FEN


def play(fen: str, action: str) -> tuple[Transition[State], float]:
    """Play one action; return what it did and its reward."""
    before = at(fen)
    done = EVALUATION.game.apply(before, action)
    return done, EVALUATION.verifier.reward(before, action, done.state)


@pytest.mark.parametrize(
    ("fen", "action", "result", "reward"),
    [
        pytest.param(
            "6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1",
            "Ra8#",
            "Checkmate: White wins",
            (40 - 5) / 60,
            id="back-rank mate, a rook ahead",
        ),
        pytest.param(
            "rnbqkbnr/pppp1ppp/8/4p3/8/5P2/PPPPP1PP/RNBQKBNR w KQkq - 0 2",
            "g2g4",
            "Checkmate: Black wins",
            -40 / 60,
            id="fool's mate",
        ),
        pytest.param(
            "7k/8/5K2/6Q1/8/8/8/8 w - - 0 1",
            "Qg6",
            "Draw by stalemate",
            -9 / 60,
            id="stalemate throws a queen away",
        ),
        pytest.param(
            "k7/8/8/8/8/8/4p3/4K3 w - - 0 1",
            "Kxe2",
            "Draw by insufficient material",
            1 / 60,
            id="bare kings",
        ),
        pytest.param(
            "k7/8/8/8/8/8/8/K6R w - - 99 80",
            "h1h2",
            "Draw by the fifty-move rule",
            -5 / 60,
            id="fifty moves",
        ),
        pytest.param("8/P6k/8/8/8/8/8/K7 w - - 0 1", "a8=Q", "", 8 / 60, id="promotion"),
        pytest.param("8/P6k/8/8/8/8/7P/K7 w - - 0 1", "a7a8n", "", 2 / 60, id="underpromotion"),
        pytest.param("k7/8/8/3pP3/8/8/8/K7 w - d6 0 1", "exd6", "", 1 / 60, id="en passant"),
        pytest.param(
            "k7/8/8/8/8/8/PPPPPPPP/K2RRQQQ w - - 0 1",
            "a2a3",
            "",
            0.0,
            id="more than twenty pawns count as twenty",
        ),
    ],
)
def test_a_move_does_and_pays_what_was_worked_out_by_hand(
    fen: str, action: str, result: str, reward: float
) -> None:
    done, paid = play(fen, action)
    assert done.state.result == result
    assert done.terminated == bool(result)
    assert ("Black replied" in done.feedback) == (result in ("", "Checkmate: Black wins"))
    assert paid == pytest.approx(reward)


@pytest.mark.parametrize("action", ["e1g1", "O-O", "0-0", " O-O! "])
def test_castling_has_three_spellings(action: str) -> None:
    done, _ = play("r3k3/8/8/8/8/8/7P/4K2R w K - 0 1", action)
    assert done.feedback.startswith("You played O-O (e1g1).")


def test_the_third_time_a_position_stands_draws() -> None:
    fen = "k7/pp6/8/8/8/8/6R1/K7 w - - 0 1"
    moved = chess.Board(fen)
    moved.push_uci("g2h2")
    key = " ".join(moved.fen().split(" ")[:4])
    assert not EVALUATION.game.apply(at(fen, key), "g2h2").terminated
    done = EVALUATION.game.apply(at(fen, key, key), "g2h2")
    assert done.state.result == "Draw by repetition"


def test_a_capture_forgets_the_positions_before_it() -> None:
    done, _ = play("k7/8/8/8/3p4/8/8/K2R4 w - - 7 9", "Rxd4")
    assert len(done.state.seen) == 2


@pytest.mark.parametrize(
    ("fen", "points_by_hand"),
    [
        (FIRST, 0),
        ("k7/8/8/8/8/8/8/KQ6 w - - 0 1", 9),
        ("kq6/r7/8/8/8/8/8/KBN5 w - - 0 1", -8),
        ("kqqq4/8/8/8/8/8/8/K7 w - - 0 1", -20),
    ],
)
def test_points_are_material_within_limits(fen: str, points_by_hand: int) -> None:
    assert points(at(fen)) == points_by_hand


@pytest.mark.parametrize(
    ("fen", "expected"),
    [
        pytest.param("k7/8/8/3q4/8/3R4/8/K7 b - - 0 1", {"d5d3"}, id="takes a free rook"),
        pytest.param("k7/8/8/8/8/4r3/r7/6K1 b - - 0 1", {"e3e1"}, id="mates"),
        pytest.param("k7/8/8/8/8/8/4p3/K7 b - - 0 1", {"e2e1q"}, id="makes a queen"),
        pytest.param("k7/8/8/8/3pP3/8/8/K7 b - e3 0 1", {"d4e3"}, id="takes in passing"),
    ],
)
def test_the_opponent_plays_the_obvious_move(fen: str, expected: set[str]) -> None:
    board = chess.Board(fen)
    move = best_reply(board)
    assert move.uci() in expected
    assert board.fen() == fen


def test_the_opponent_leaves_a_defended_pawn_and_saves_its_queen() -> None:
    board = chess.Board("k7/8/8/3q4/8/3P4/2P5/K2R4 b - - 0 1")
    move = best_reply(board)
    assert move.uci() != "d5d3"
    board.push(move)
    queen = next(iter(board.pieces(chess.QUEEN, chess.BLACK)))
    assert not board.is_attacked_by(chess.WHITE, queen)


def test_the_opponent_has_no_move_in_a_finished_game() -> None:
    with pytest.raises(ProtocolBreachError):
        best_reply(chess.Board("k7/1Q6/1K6/8/8/8/8/8 b - - 0 1"))


def test_the_opponent_is_a_function_of_the_position() -> None:
    board = chess.Board(drawn(3).fen)
    board.push(next(iter(board.legal_moves)))
    assert len({best_reply(chess.Board(board.fen())) for _ in range(3)}) == 1


@pytest.mark.parametrize(
    ("fen", "action", "reason"),
    [
        (FIRST, "", "expected a move in UCI"),
        (FIRST, "hello", "expected a move in UCI"),
        (FIRST, "E2E4", "expected a move in UCI"),
        (FIRST, "ｅ2e4", "expected a move in UCI"),
        (FIRST, "e2e٤", "expected a move in UCI"),
        (FIRST, "0000", "expected a move in UCI"),
        (FIRST, "--", "expected a move in UCI"),
        (FIRST, "e2-e4-e5", "expected a move in UCI"),
        (FIRST, "e4e5", "there is no piece on e4"),
        (FIRST, "e7e5", "the piece on e7 is Black's"),
        (FIRST, "e2e2", "the pawn on e2 cannot go to e2"),
        (FIRST, "e2e5", "the pawn on e2 cannot go to e5"),
        (FIRST, "e2e4q", "nothing promotes there"),
        (FIRST, "Ne5", "no knight of yours can go to e5"),
        (FIRST, "exd5", "no pawn of yours can go to d5"),
        (FIRST, "e4=Q", "nothing promotes there"),
        (FIRST, "O-O", "you cannot castle there now"),
        (FIRST, "e1g1", "the king on e1 cannot go to g1"),
        ("8/P6k/8/8/8/8/8/K7 w - - 0 1", "a7a8", "name the promotion piece, for example a7a8q"),
        ("8/P6k/8/8/8/8/8/K7 w - - 0 1", "a8", "name the promotion piece"),
        ("k3r3/8/8/8/8/8/4N3/4K3 w - - 0 1", "e2c3", "would leave your king in check"),
        ("k3r3/8/8/8/8/8/4N3/4K3 w - - 0 1", "Nc3", "would leave your king in check"),
        ("k7/8/8/8/8/8/8/KN3N2 w - - 0 1", "Nd2", "is ambiguous"),
        ("r3k3/8/8/8/8/8/7P/4K2R w K - 0 1", "e1h1", "cannot go to h1"),
    ],
)
def test_a_refused_move_names_the_reason(fen: str, action: str, reason: str) -> None:
    with pytest.raises(InvalidActionError) as caught:
        EXPLORATION.game.apply(at(fen), action)
    assert reason in str(caught.value)


def test_an_illegal_move_costs_a_step_in_exploration() -> None:
    played = play_episode(SPEC, None, Phase.EXPLORATION, 1, scripted(["e9e9", "a1a1"]))
    assert played.observations[1].split("\n")[1:] == played.observations[0].split("\n")[1:]
    assert played.rewards[:2] == [0.0, 0.0]
    assert len(played.steps) == 3  # END is the third


def test_the_first_illegal_move_ends_evaluation() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, scripted(["e9e9", "a1a1"]))
    assert (len(played.steps), played.rewards, played.score) == (1, [0.0], 0.0)
    assert played.terminated
    lenient = ChessDuelOptions(invalid_action="noop")
    assert SPEC.setup(lenient, Phase.EVALUATION).on_invalid == "noop"


MONSTERS = [
    "e2e4" * 2_500_000,
    "(" * 10_000_000,
    "\x00",
    "e2e4\x00",
    "\u202ee2e4",
    "1e999",
    "-0",
    "1_0",
    "N" * 31,
    "+#!?" * 8,
    "x" * 32,
    "e2e4 " + "?" * 10_000_000,
]


@pytest.mark.parametrize("action", MONSTERS, ids=lambda action: repr(action[:12]))
def test_a_monstrous_action_is_refused_in_no_time(action: str) -> None:
    state, began = drawn(2), time.process_time()
    with pytest.raises(InvalidActionError) as caught:
        EVALUATION.game.apply(state, action)
    assert time.process_time() - began < 0.1
    assert len(str(caught.value)) < 700


def takes_or_refuses(action: str) -> None:
    state = at("r3k2r/pP4pp/8/3pP3/8/2N3N1/PPP2PPP/R3K2R w KQkq d6 0 1")
    try:
        done = EVALUATION.game.apply(state, action)
    except InvalidActionError:
        return
    assert chess.Board(done.state.fen).is_valid()
    assert -1.0 <= EVALUATION.verifier.reward(state, action, done.state) <= 1.0


NEARLY_MOVES = st.text(alphabet="abcdefghKQRBN12345678xO0-=+#!? ", max_size=9)


@settings(deadline=None, max_examples=200)
@given(action=st.text(max_size=12) | NEARLY_MOVES)
def test_any_text_is_a_move_or_refused(action: str) -> None:
    takes_or_refuses(action)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(action=st.text(max_size=12) | NEARLY_MOVES)
def test_any_of_many_texts_is_a_move_or_refused(action: str) -> None:
    takes_or_refuses(action)


def test_uci_and_san_name_the_same_moves() -> None:
    board = chess.Board(drawn(5).fen)
    for move in list(board.legal_moves):
        assert chess_duel.read_move(board, move.uci()) == move
        assert chess_duel.read_move(board, board.san(move)) == move


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**63 - 1), phase=st.sampled_from(list(Phase)))
def test_every_position_is_legal_unfinished_and_ahead(seed: int, phase: Phase) -> None:
    state = drawn(seed, phase)
    board = chess.Board(state.fen)
    least, greatest = chess_duel.AHEAD[phase]
    assert board.is_valid()
    assert board.turn
    assert not board.is_check()
    assert not board.is_game_over()
    assert least <= points(state) <= greatest
    assert drawn(seed, phase) == state


def replay(header: dict[str, Any], actions: list[str]) -> list[dict[str, Any]]:
    start = at(header["fen"]) if "fen" in header else None
    played = play_episode(
        SPEC,
        ChessDuelOptions(**header["options"]),
        Phase(header["phase"]),
        header["seed"],
        scripted(actions),
        header["world"],
        start,
    )
    return [
        {"action": action, "feedback": feedback, "reward": reward, "text": text}
        for action, feedback, reward, text in zip(
            played.actions, played.feedback, played.rewards, played.observations[1:], strict=True
        )
    ]


@pytest.mark.parametrize(
    "trace", sorted(GOLDEN.glob("chess_duel.*.jsonl")), ids=lambda path: path.stem
)
def test_replaying_a_golden_trace_gives_every_recorded_line(trace: Path) -> None:
    header, *lines = map(json.loads, trace.read_text(encoding="utf-8").splitlines())
    assert header["source"]
    assert replay(header, [line["action"] for line in lines]) == lines


def test_the_golden_traces_are_there() -> None:
    assert len(list(GOLDEN.glob("chess_duel.*.jsonl"))) >= 5


def test_a_view_of_another_game_is_refused_by_the_picture() -> None:
    assert isinstance(read(EVALUATION.game.observe(at(FIRST), CLOCK)), ChessDuelView)
    with pytest.raises(ValueError, match="expected"):
        render_svg("Board 15x15")
