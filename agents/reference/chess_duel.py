"""Reference player of chess_duel: looks at its move, every reply, and the captures after it.

It reads the board, the legal moves and the earlier positions from text, and needs no chess
library. Never a learner.
"""

from s3gym.agents.reading import chess_board
from s3gym.agents.reading.chess_board import EMPTY, SIDE, VALUES, balance, played
from s3gym.agents.reading.chess_duel import read
from s3gym.agents.strategies.chess_duel import END, MATE, SCALE, listed, points
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream

QUIET_DEPTH = 3
ENDGAME = 9
INFINITE = 1_000.0


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the move with the best worst case."""
    view = read(turn.observation.text)
    earlier = {read(step.observation.text).board for step in turn.trail} | {view.board}
    options = []
    for uci in listed(view):
        after = played(view.board, chess_board.read_move(uci))
        options.append((balance(after), uci, after))
    options.sort(key=lambda option: (-option[0], option[1]))
    best, action, expected = -INFINITE, END, points(view.board)
    for _, uci, after in options:
        value, worth = _worst_case(after, best, earlier)
        if value > best:
            best, action, expected = value, uci, worth
    change = expected - points(view.board)
    return Move(action=action, self_score=change / SCALE)


def _worst_case(board: str, alpha: float, earlier: set[str]) -> tuple[float, int]:
    """Search a position with Black to move; stops once its value is below ``alpha``.

    Returns:
        The value, and the points of the position after Black's best reply, both in pawns.
    """
    replies = sorted(
        chess_board.legal_moves(board, white=False), key=lambda reply: balance(reply[1])
    )
    if not replies:
        return (MATE, MATE) if chess_board.in_check(board, white=False) else (0.0, 0)
    worst, expected = INFINITE, board
    for _, after in replies:
        value = _to_move(after, alpha, worst, earlier)
        if value < worst:
            worst, expected = value, after
        if worst <= alpha:
            break
    return worst, -MATE if worst <= -MATE else points(expected)


def _to_move(board: str, alpha: float, beta: float, earlier: set[str]) -> float:
    """Return the value of a position with White to move."""
    if chess_board.in_check(board, white=True):
        if not any(True for _ in chess_board.legal_moves(board, white=True)):
            return -MATE
    value = _quiet(board, True, alpha, beta, QUIET_DEPTH)
    return min(value, 0.0) if board in earlier else value


def _quiet(board: str, white: bool, alpha: float, beta: float, depth: int) -> float:
    """Return the value after the captures that are worth making; alpha-beta search."""
    value = _standing(board)
    if depth == 0 or (value >= beta if white else value <= alpha):
        return value
    captures = [
        (VALUES.get(board[move.goal].upper(), 0), -VALUES[board[move.start].upper()], move)
        for move in chess_board.moves(board, white, captures_only=True)
    ]
    captures.sort(key=lambda capture: capture[:2], reverse=True)
    for _, _, move in captures:
        if board[move.goal] in "Kk":
            return MATE if white else -MATE
        after = _quiet(played(board, move), not white, alpha, beta, depth - 1)
        value = max(value, after) if white else min(value, after)
        if white:
            alpha = max(alpha, value)
        else:
            beta = min(beta, value)
        if alpha >= beta:
            break
    return value


def _from_centre(square: int) -> int:
    """Return the distance from the middle, in half squares, 2 to 14."""
    return abs(2 * (square // SIDE) - 7) + abs(2 * (square % SIDE) - 7)


def _worth(piece: str, square: int) -> float:
    """Return what one of White's pieces is worth on a square, in pawns."""
    value = float(VALUES[piece])
    if piece == "P":
        return value + 0.02 * (SIDE - 2 - square // SIDE) ** 2
    return value + 0.01 * (14 - _from_centre(square)) if piece in "NB" else value


WORTH = {piece: [_worth(piece, square) for square in range(SIDE * SIDE)] for piece in VALUES} | {
    piece.lower(): [-_worth(piece, square ^ 56) for square in range(SIDE * SIDE)]
    for piece in VALUES
}
"""Piece -> square -> worth to White; Black's side is White's, upside down."""


def _standing(board: str) -> float:
    """Return material in pawns, with a little for advanced pawns and a cornered king."""
    value, defenders = 0.0, 0
    for square, piece in enumerate(board):
        if piece != EMPTY:
            value += WORTH[piece][square]
            defenders += piece > "a"
    if defenders <= ENDGAME:
        white, black = board.find("K"), board.find("k")
        value += 0.06 * _from_centre(black) - 0.03 * _apart(white, black)
    return value


def _apart(one: int, other: int) -> int:
    """Return the distance of two squares in rows and columns together."""
    return abs(one // SIDE - other // SIDE) + abs(one % SIDE - other % SIDE)
