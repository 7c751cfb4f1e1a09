"""Real chess against a fixed opponent: reading, options, engines, players."""

import ast
import sys
import textwrap
from pathlib import Path
from typing import Any

import chess
import pytest
from chess_boards import at, drawn
from episodes import Played, mean_and_error, play_episode
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.chess_duel import render_svg
from s3gym.agents.reading import chess_board
from s3gym.agents.reading.chess_duel import read, squares
from s3gym.agents.reference.chess_duel import choose as reference
from s3gym.agents.strategies.chess_duel import PLAYBOOK
from s3gym.contracts.game import Clock
from s3gym.errors import ConfigError, MissingExtraError, ServiceError
from s3gym.games import chess_duel
from s3gym.games._chess_opponent import MATE
from s3gym.games.chess_duel import SPEC, ChessDuelOptions, State, points
from s3gym.records import Phase
from s3gym.seeds import Stream

GOLDEN = Path(__file__).parent / "golden"
CLOCK = Clock(step=1, max_steps=40)
EVALUATION = SPEC.setup(ChessDuelOptions(), Phase.EVALUATION)
EXPLORATION = SPEC.setup(ChessDuelOptions(), Phase.EXPLORATION)
FIRST = chess.STARTING_FEN


def walk(seed: int, n: int) -> State:
    """Return the state after up to ``n`` random legal steps."""
    state, stream = drawn(seed), Stream(seed)
    for _ in range(n):
        moves = sorted(move.uci() for move in chess.Board(state.fen).legal_moves)
        done = EVALUATION.game.apply(state, stream.pick(moves))
        state = done.state
        if done.terminated:
            break
    return state


@settings(deadline=None, max_examples=15)
@given(seed=st.integers(0, 2**63 - 1), n=st.integers(0, 15), listed=st.booleans())
def test_an_observation_reads_back_to_itself(seed: int, n: int, listed: bool) -> None:
    state = walk(seed, n)
    game = SPEC.setup(ChessDuelOptions(list_moves=listed), Phase.EVALUATION).game
    text = game.observe(state, Clock(step=3, max_steps=40))
    view = read(text)
    assert view.render() == text
    assert all(line == line.rstrip() for line in text.split("\n"))
    board = chess.Board(state.fen)
    assert view.board == squares(board.fen())
    assert view.over == bool(state.result)
    if listed and not state.result:
        assert set(view.legal or ()) == {move.uci() for move in board.legal_moves}
    else:
        assert view.legal is None


def test_a_board_that_differs_from_its_fen_is_refused() -> None:
    text = EVALUATION.game.observe(at(FIRST), CLOCK)
    with pytest.raises(ValueError, match="different positions"):
        read(text.replace("2 P P P P P P P P 2", "2 P P P . P P P P 2"))
    with pytest.raises(ValueError, match="expected"):
        read("hello")


@settings(deadline=None, max_examples=40)
@given(seed=st.integers(0, 2**63 - 1), n=st.integers(0, 60))
def test_the_agents_own_board_agrees_with_the_library(seed: int, n: int) -> None:
    board, stream = chess.Board(), Stream(seed)
    for _ in range(n):
        moves = sorted(board.legal_moves, key=chess.Move.uci)
        if not moves:
            break
        before, move = squares(board.fen()), stream.pick(moves)
        board.push(move)
        assert chess_board.played(before, chess_board.read_move(move.uci())) == squares(board.fen())
    found = {
        (move.start, move.goal)
        for move, _ in chess_board.legal_moves(squares(board.fen()), board.turn)
    }
    assert found == {
        (chess_board.index(move.uci()[:2]), chess_board.index(move.uci()[2:4]))
        for move in board.legal_moves
        if not board.is_castling(move) and not board.is_en_passant(move)
    }
    assert chess_board.in_check(squares(board.fen()), board.turn) == board.is_check()


def test_the_picture_is_the_one_that_was_looked_at() -> None:
    fen = "r2qkbnr/1p1npppp/3pb3/8/4PP1q/8/PPPPN1PP/RNBQKB1R w KQkq - 0 1"
    text = EVALUATION.game.observe(at(fen), CLOCK)
    assert render_svg(text) == (GOLDEN / "chess_duel.svg").read_text(encoding="utf-8")


def test_the_strategies_know_the_printed_scale() -> None:
    from s3gym.agents.strategies import chess_duel as plain

    assert (plain.MATE, plain.SCALE) == (MATE, chess_duel.SCALE)
    assert plain.MOST_MATERIAL == chess_duel.MOST_MATERIAL


def test_the_rules_name_the_constants() -> None:
    for phase in Phase:
        rules = SPEC.rules(ChessDuelOptions(), phase)
        least, greatest = chess_duel.AHEAD[phase]
        assert f"{least} to {greatest} pawns" in rules
        assert f"divided by {chess_duel.SCALE}" in rules
        assert f"{chess_duel.MAX_STEPS} of your moves" in rules
        assert phase.value not in rules
    assert "ends the game" in SPEC.rules(ChessDuelOptions(), Phase.EVALUATION)
    assert "costs a step" in SPEC.rules(ChessDuelOptions(), Phase.EXPLORATION)
    engine = SPEC.rules(ChessDuelOptions(opponent="my-engine"), Phase.EVALUATION)
    assert "an outside chess engine at depth 6" in engine


@pytest.mark.parametrize("values", [{"opponent": ""}, {"engine_depth": 0}, {"depth": 3}])
def test_a_wrong_option_is_refused(values: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ChessDuelOptions.model_validate(values)


def test_without_the_library_the_game_is_listed_and_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)
    assert SPEC.name == "chess_duel"
    assert SPEC.rules(SPEC.options(), Phase.EVALUATION)
    with pytest.raises(MissingExtraError, match=r"chess_duel .* pip install 's3gym\[chess\]'"):
        SPEC.setup(SPEC.options(), Phase.EVALUATION)


def test_the_library_is_imported_in_one_file_and_never_with_it() -> None:
    root = Path(chess_duel.__file__).parents[1]
    folders = [root / name for name in ("games", "agents", "memory", "s3gym")]
    users = set()
    for path in (file for folder in folders for file in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if any(name.partition(".")[0] == "chess" for name in names):
                users.add(path.relative_to(root).as_posix())
    assert users == {"games/chess_duel.py"}


ENGINE = """
    #!{python}
    import sys
    import chess
    board = chess.Board()
    for line in sys.stdin:
        words = line.split()
        if words[:1] == ["uci"]:
            print("id name first-move\\nuciok", flush=True)
        elif words[:1] == ["isready"]:
            print("readyok", flush=True)
        elif words[:1] == ["position"]:
            board = chess.Board(" ".join(words[2:8]) if words[1] == "fen" else chess.STARTING_FEN)
            for move in words[words.index("moves") + 1 :] if "moves" in words else []:
                board.push_uci(move)
        elif words[:1] == ["go"]:
            assert words[1:] == ["depth", "2"]
            print("bestmove", min(move.uci() for move in board.legal_moves), flush=True)
        elif words[:1] == ["quit"]:
            break
"""


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.write_text(textwrap.dedent(ENGINE).strip().format(python=sys.executable) + "\n")
    path.chmod(0o755)
    return path


def test_an_engine_given_by_path_plays_black(engine: Path) -> None:
    options = ChessDuelOptions(opponent=str(engine), engine_depth=2)
    game = SPEC.setup(options, Phase.EVALUATION).game
    done = game.apply(at(FIRST), "e4")
    assert done.feedback == "You played e4 (e2e4). Black replied a5 (a7a5)."
    assert game.apply(at(FIRST), "e4") == done


def test_an_engine_that_is_not_there_is_a_wrong_option() -> None:
    options = ChessDuelOptions(opponent="no-such-engine")
    with pytest.raises(ConfigError, match="got 'no-such-engine'"):
        SPEC.setup(options, Phase.EVALUATION)


@pytest.mark.parametrize("does", ["raise SystemExit(3)", "print('bestmove h1h1')"])
def test_an_engine_that_fails_is_a_failed_service(tmp_path: Path, does: str) -> None:
    path = tmp_path / "engine"
    path.write_text(f"#!{sys.executable}\n{does}\n")
    path.chmod(0o755)
    game = SPEC.setup(ChessDuelOptions(opponent=str(path)), Phase.EVALUATION).game
    with pytest.raises(ServiceError, match="failed"):
        game.apply(at(FIRST), "e4")


SPREAD = {"random": 0.215, "reference": 0.213}
"""Standard deviation of an episode's score, in game points."""


def level(name: str, seeds: range) -> tuple[float, float]:
    choose = {"random": PLAYBOOK.random, "reference": reference, **PLAYBOOK.strategies}[name]

    def score(seed: int) -> float:
        played = play_episode(SPEC, None, Phase.EVALUATION, seed, choose)
        assert all(-1 <= reward <= 1 for reward in played.rewards)
        start, end = points(played.states[0]), points(played.states[-1])
        assert played.score == pytest.approx((end - start) / chess_duel.SCALE)
        assert PLAYBOOK.outcome(played.observations[-1]) == pytest.approx(end / chess_duel.SCALE)
        return played.score

    return mean_and_error(score, seeds)


def is_near(name: str, seeds: range) -> None:
    mean, _ = level(name, seeds)
    anchor = SPEC.anchors.random if name == "random" else SPEC.anchors.reference
    assert abs(mean - anchor) <= 3 * SPREAD[name] / len(seeds) ** 0.5


@pytest.mark.parametrize(("name", "n_episodes"), [("random", 20), ("reference", 4)])
def test_a_player_reaches_its_level(name: str, n_episodes: int) -> None:
    is_near(name, range(1000, 1000 + n_episodes))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random", "reference"])
def test_a_player_reaches_its_level_over_100_episodes(name: str) -> None:
    is_near(name, range(2000, 2100))


def judged(played: Played) -> float:
    """Return the mean distance of self-score and reward."""
    pairs = zip(played.self_scores, played.rewards, strict=True)
    return sum(abs((own or 0.0) - reward) for own, reward in pairs) / len(played.rewards)


def test_the_reference_player_judges_itself_nearly_rightly() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 4, reference)
    assert judged(played) < 0.05


@pytest.mark.parametrize("name", sorted(PLAYBOOK.strategies))
def test_a_strategy_plays_legal_moves_whether_they_are_listed_or_not(name: str) -> None:
    for listed in (True, False):
        options = ChessDuelOptions(list_moves=listed)
        choose = PLAYBOOK.strategies[name]
        played = play_episode(SPEC, options, Phase.EVALUATION, 7, choose)
        assert not any("illegal" in text or "expected" in text for text in played.feedback)
        assert all(score is not None and abs(score) <= 1 for score in played.self_scores)


def test_capturing_first_takes_the_queen() -> None:
    fen = "k7/8/8/8/8/q6r/1P4P1/K7 w - - 0 1"
    played = play_episode(
        SPEC, None, Phase.EVALUATION, 1, PLAYBOOK.strategies["capture-first"], start=at(fen)
    )
    assert played.actions[0] == "b2a3"
    assert played.self_scores[0] == 9 / 60


def test_the_careful_strategy_sees_a_mate() -> None:
    fen = "6k1/5ppp/8/8/8/8/5PPP/R5K1 w - - 0 1"
    played = play_episode(
        SPEC, None, Phase.EVALUATION, 1, PLAYBOOK.strategies["careful"], start=at(fen)
    )
    assert played.actions == ["a1a8"]
    assert played.self_scores == played.rewards == [35 / 60]
