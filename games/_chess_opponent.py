"""The built-in opponent of chess_duel: a small, fixed search for Black.

It knows a board by its methods alone, so that the library behind it is imported in
``chess_duel.py`` and nowhere else.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar

from s3gym.errors import ProtocolBreachError

VALUES: Mapping[str, int] = {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9, "k": 0}
"""Piece -> what it is worth, in pawns."""

BY_TYPE = (0, *VALUES.values())
"""The same by piece type, 1 (pawn) to 6 (king); 0 for none."""

MATE = 40


class Move(Protocol):
    """A move: squares are 0 (a1) to 63 (h8), the promotion a piece type."""

    @property
    def from_square(self) -> int: ...
    @property
    def to_square(self) -> int: ...
    @property
    def promotion(self) -> int | None: ...
    def uci(self) -> str: ...


M = TypeVar("M", bound=Move)


class Board(Protocol[M]):
    """What the search asks of a board; ``turn`` is True for White."""

    @property
    def turn(self) -> bool: ...
    def generate_legal_moves(self) -> Iterable[M]: ...
    def generate_legal_captures(self) -> Iterable[M]: ...
    def piece_type_at(self, square: int, /) -> int | None: ...
    def is_en_passant(self, move: M, /) -> bool: ...
    def is_attacked_by(self, color: bool, square: int, /) -> bool: ...
    def is_check(self) -> bool: ...
    def board_fen(self) -> str: ...
    def push(self, move: M, /) -> None: ...
    def pop(self) -> object: ...


def balance(placement: str) -> int:
    """Return White's material minus Black's, in pawns; from the first field of a FEN."""
    return sum(
        VALUES[symbol.lower()] * (1 if symbol.isupper() else -1)
        for symbol in placement
        if symbol.isalpha()
    )


def best_reply(board: Board[M]) -> M:
    """Return Black's move.

    It mates when it can; else it takes the most for what White could win back by one capture.
    Ties go to the move that ends nearer to the centre, then to the first in UCI order.

    Raises:
        ProtocolBreachError: Black has no move.
    """
    best, most = None, 0.0
    for move in sorted(board.generate_legal_moves(), key=lambda move: move.uci()):
        rank, file = divmod(move.to_square, 8)
        away = (abs(2 * file - 7) + abs(2 * rank - 7)) / 100
        value = _gain(board, move) - away - _threat_after(board, move)
        if best is None or value > most:
            best, most = move, value
    if best is None:
        raise ProtocolBreachError(f"Black is asked for a move and has none: {board.board_fen()}")
    return best


def _gain(board: Board[M], move: M) -> int:
    """Return what a move captures and promotes, in pawns."""
    captured = BY_TYPE[board.piece_type_at(move.to_square) or 0]
    promoted = BY_TYPE[move.promotion] - 1 if move.promotion else 0
    return captured + promoted + int(board.is_en_passant(move))


def _threat_after(board: Board[M], move: M) -> int:
    """Return what White can win by one capture after Black's move, in pawns.

    Taking a defended piece costs the piece that takes. Minus ``MATE`` when White is mated; when
    White is stalemated, its lead is what it loses.
    """
    board.push(move)
    worst = 0
    for answer in board.generate_legal_captures():
        won = _gain(board, answer)
        if board.is_attacked_by(not board.turn, answer.to_square):
            won -= BY_TYPE[board.piece_type_at(answer.from_square) or 0]
        worst = max(worst, won)
    if not any(True for _ in board.generate_legal_moves()):
        worst = -MATE if board.is_check() else -balance(board.board_fen())
    board.pop()
    return worst
