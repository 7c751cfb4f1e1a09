"""A small chess board of 64 letters: who attacks what, and what a move leads to.

Written for looking ahead from a position read as text. Castling and en passant are followed when
they are played, but not found: the list of legal moves in the observation holds them. Pawns that
reach the last row become queens unless the move says otherwise.

Squares are counted 0 to 63, a8 first, row by row; White's pieces are upper case.
"""

from collections.abc import Iterator
from dataclasses import dataclass

Squares = tuple[int, ...]
VALUES = {"P": 1, "N": 3, "B": 3, "R": 5, "Q": 9, "K": 0}
STRAIGHT = ((-1, 0), (1, 0), (0, -1), (0, 1))
DIAGONAL = ((-1, -1), (-1, 1), (1, -1), (1, 1))
LEAPS = ((-2, -1), (-2, 1), (-1, -2), (-1, 2), (1, -2), (1, 2), (2, -1), (2, 1))
EMPTY = "."
SIDE = 8
POINTS = {EMPTY: 0, **VALUES, **{piece.lower(): -value for piece, value in VALUES.items()}}


@dataclass(frozen=True, slots=True)
class Move:
    """From a square to a square; ``piece`` is what a pawn becomes, else empty."""

    start: int
    goal: int
    piece: str = ""


def _walk(square: int, steps: tuple[tuple[int, int], ...], reach: int) -> tuple[Squares, ...]:
    """Return per direction the squares on the way, at most ``reach`` of them."""
    row, column = divmod(square, SIDE)
    rays = []
    for down, right in steps:
        ray = []
        for n in range(1, reach + 1):
            r, c = row + n * down, column + n * right
            if not (0 <= r < SIDE and 0 <= c < SIDE):
                break
            ray.append(r * SIDE + c)
        if ray:
            rays.append(tuple(ray))
    return tuple(rays)


RAYS = {
    "N": [_walk(square, LEAPS, 1) for square in range(64)],
    "B": [_walk(square, DIAGONAL, 7) for square in range(64)],
    "R": [_walk(square, STRAIGHT, 7) for square in range(64)],
    "Q": [_walk(square, STRAIGHT + DIAGONAL, 7) for square in range(64)],
    "K": [_walk(square, STRAIGHT + DIAGONAL, 1) for square in range(64)],
}
WHITE_STRIKES = [_walk(square, ((-1, -1), (-1, 1)), 1) for square in range(64)]
BLACK_STRIKES = [_walk(square, ((1, -1), (1, 1)), 1) for square in range(64)]


def index(name: str) -> int:
    """Return the number of a square: ``a8`` is 0, ``h1`` is 63."""
    return (SIDE - int(name[1])) * SIDE + ord(name[0]) - ord("a")


def write_move(move: Move) -> str:
    """Return a move as UCI text."""
    start, goal = (f"{'abcdefgh'[s % SIDE]}{SIDE - s // SIDE}" for s in (move.start, move.goal))
    return start + goal + move.piece.lower()


def read_move(uci: str) -> Move:
    """Return the move that UCI text such as ``e7e8q`` names."""
    return Move(index(uci[:2]), index(uci[2:4]), uci[4:].upper())


def played(board: str, move: Move) -> str:
    """Return the board after a move, whoever makes it."""
    squares = list(board)
    piece, captured = squares[move.start], squares[move.goal]
    squares[move.start], squares[move.goal] = EMPTY, piece
    kind = piece.upper()
    if kind == "P":
        if (move.start - move.goal) % SIDE and captured == EMPTY:
            squares[move.start // SIDE * SIDE + move.goal % SIDE] = EMPTY
        if move.goal // SIDE in (0, SIDE - 1):
            became = move.piece or "Q"
            squares[move.goal] = became if piece == "P" else became.lower()
    elif kind == "K" and abs(move.start - move.goal) == 2:
        row = move.start // SIDE * SIDE
        corner, beside = (row + 7, row + 5) if move.goal > move.start else (row, row + 3)
        squares[beside], squares[corner] = squares[corner], EMPTY
    return "".join(squares)


def moves(board: str, white: bool, captures_only: bool = False) -> Iterator[Move]:
    """Yield the moves of a side, without regard to its king's safety."""
    for square, piece in enumerate(board):
        if piece == EMPTY or piece.isupper() != white:
            continue
        if piece in "Pp":
            yield from _pawn_moves(board, square, white, captures_only)
            continue
        for ray in RAYS[piece.upper()][square]:
            for goal in ray:
                target = board[goal]
                if target == EMPTY:
                    if not captures_only:
                        yield Move(square, goal)
                    continue
                if target.isupper() != white:
                    yield Move(square, goal)
                break


def _pawn_moves(board: str, square: int, white: bool, captures_only: bool) -> Iterator[Move]:
    ahead, first_row = (-SIDE, 6) if white else (SIDE, 1)
    promotes = 0 <= square + 2 * ahead < 64
    if board[square + ahead] == EMPTY and not (captures_only and promotes):
        yield Move(square, square + ahead)
        if square // SIDE == first_row and board[square + 2 * ahead] == EMPTY:
            yield Move(square, square + 2 * ahead)
    for (goal,) in (WHITE_STRIKES if white else BLACK_STRIKES)[square]:
        if board[goal] != EMPTY and board[goal].isupper() != white:
            yield Move(square, goal)


def is_attacked(board: str, square: int, by_white: bool) -> bool:
    """Return whether a side could take on a square."""
    pawn = "P" if by_white else "p"
    for (near,) in (BLACK_STRIKES if by_white else WHITE_STRIKES)[square]:
        if board[near] == pawn:
            return True
    for kind, attackers in (("N", "N"), ("K", "K"), ("R", "RQ"), ("B", "BQ")):
        seen = attackers if by_white else attackers.lower()
        for ray in RAYS[kind][square]:
            for near in ray:
                if board[near] != EMPTY:
                    if board[near] in seen:
                        return True
                    break
    return False


def in_check(board: str, white: bool) -> bool:
    """Return whether a side's king is attacked."""
    king = board.find("K" if white else "k")
    return king >= 0 and is_attacked(board, king, not white)


def legal_moves(board: str, white: bool) -> Iterator[tuple[Move, str]]:
    """Yield each move that leaves no king in check, with the board after it."""
    for move in moves(board, white):
        after = played(board, move)
        if not in_check(after, white):
            yield move, after


def balance(board: str) -> int:
    """Return White's material minus Black's, in pawns."""
    return sum(map(POINTS.__getitem__, board))
