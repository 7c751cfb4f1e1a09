"""Real chess: the agent plays White from a drawn position against a fixed opponent.

Observation: step and status, the board (row 8 on top, upper case White), the position as FEN, the
             legal moves in UCI.
Actions:     one move in UCI (``e2e4``, ``e7e8q``) or SAN (``Nf3``, ``exd5``, ``O-O``).
Reward:      change of White's points over the agent's move and Black's reply, divided by 60, in
             game points [-1, 1]. Points of a position: White's material minus Black's in pawns
             (pawn 1, knight 3, bishop 3, rook 5, queen 9), at most 20 either way; 40 when Black
             is mated, -40 when White is, 0 when the game is drawn.
Score:       the sum of its rewards, in game points [-1, 1].
Ends:        on mate, stalemate, bare material, the third repetition, or 50 moves of both sides
             without capture or pawn move; the runner truncates after ``MAX_STEPS`` steps.
Phases:      exploration starts far ahead and refuses an illegal move with the reason; evaluation
             starts a little ahead, and an illegal move ends it.
Source:      not in the S3Gym paper; the rules are those of chess (FIDE), the rest is ours.

Needs the extra ``chess``; the library is imported when a game is set up. With the built-in
opponent ``apply`` is pure. An engine of one's own runs anew for every move, at a fixed depth.
"""

import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import Field

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import (
    ConfigError,
    InvalidActionError,
    MissingExtraError,
    ProtocolBreachError,
    ServiceError,
)
from s3gym.games._chess_opponent import BY_TYPE, MATE, balance, best_reply
from s3gym.games._spec import InvalidAction, StandardSpec, on_invalid, plain, refusal
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, Stream

if TYPE_CHECKING:
    import chess

MAX_STEPS = 40
MOST_MATERIAL = 20
SCALE = MATE + MOST_MATERIAL
AHEAD: Mapping[Phase, tuple[int, int]] = {Phase.EXPLORATION: (9, 14), Phase.EVALUATION: (2, 4)}
"""Phase -> least and greatest lead of White at the start, in pawns."""

OPENING_PLIES = 10
MAX_ATTEMPTS = 1_000
REPETITIONS = 3
FIFTY_MOVES = 100
BUILTIN = "builtin"
WHITE_WINS = "Checkmate: White wins"
BLACK_WINS = "Checkmate: Black wins"
EXPECTED = "a move in UCI (e2e4, e7e8q) or SAN (Nf3, exd5, e8=Q, O-O)"
LONGEST_ACTION = 32
UCI = re.compile(r"[a-h][1-8][a-h][1-8][qrbnQRBN]?")
SAN = re.compile(r"([KQRBN]?)([a-h]?)([1-8]?)[x-]?([a-h][1-8])(?:=?([QRBN]))?|[O0]-[O0](?:-[O0])?")
MARKS = "+#!?"
NAMES = ("pawn", "knight", "bishop", "rook", "queen")


class ChessDuelOptions(Options):
    """Switches of chess_duel."""

    opponent: str = Field(
        default=BUILTIN,
        min_length=1,
        description="who plays Black: 'builtin', or the path of a UCI engine (then episodes are "
        "only as reproducible as that engine)",
    )
    engine_depth: int = Field(
        default=6, ge=1, le=30, description="search depth of a UCI engine, in half-moves"
    )
    list_moves: bool = Field(default=True, description="whether the state lists the legal moves")
    invalid_action: InvalidAction = Field(
        default="ends_evaluation",
        description="an illegal move ends a strict episode, or is a lost step there, too",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A position with White to move, or a finished game.

    Attributes:
        fen: The position, in Forsyth-Edwards notation.
        seen: Positions since the last capture or pawn move, this one included, each as the
            first four fields of its FEN: what the repetition rule looks at.
        result: How the game ended, in words; empty while it goes on.
    """

    fen: str
    seen: tuple[str, ...]
    result: str = ""


@dataclass(frozen=True, slots=True)
class Engine:
    """A UCI engine, started anew for each move so that it remembers nothing.

    Attributes:
        path: Of the executable.
        depth: Search depth in half-moves.
    """

    path: str
    depth: int

    def reply(self, board: "chess.Board") -> "chess.Move":
        import chess.engine

        try:
            with chess.engine.SimpleEngine.popen_uci(self.path) as engine:
                move = engine.play(board, chess.engine.Limit(depth=self.depth)).move
        except (OSError, TimeoutError, chess.engine.EngineError) as error:
            raise ServiceError(f"the chess engine {self.path!r} failed: {error}") from error
        if move is None:
            raise ServiceError(f"the chess engine {self.path!r} gave no move for {board.fen()}")
        return move


@dataclass(frozen=True, slots=True, kw_only=True)
class ChessDuel:
    """The rules, for one opponent and one range of leads.

    Attributes:
        engine: Plays Black; ``None`` is the built-in opponent.
        ahead: Least and greatest lead of White at the start, in pawns.
        list_moves: Whether observations list the legal moves.
    """

    ahead: tuple[int, int]
    engine: Engine | None = None
    list_moves: bool = True

    def start(self, seeds: EpisodeSeeds) -> State:
        for attempt in range(MAX_ATTEMPTS):
            fen = _draw_position(seeds.stream("position", attempt), self.ahead)
            if fen is not None:
                return State(fen=fen, seen=(_key(fen),))
        raise ProtocolBreachError(f"no chess position in {MAX_ATTEMPTS} attempts")

    def observe(self, state: State, clock: Clock) -> str:
        import chess

        board = chess.Board(state.fen)
        status = "White to move, in check" if board.is_check() else "White to move"
        lines = [
            f"Step {clock.step} of {clock.max_steps}: {state.result or status}",
            "Current Game State:",
            "  a b c d e f g h",
        ]
        for rank, row in zip(range(8, 0, -1), str(board).split("\n"), strict=True):
            lines.append(f"{rank} {row} {rank}")
        lines += ["  a b c d e f g h", f"FEN: {state.fen}"]
        if self.list_moves and not state.result:
            moves = sorted(move.uci() for move in board.legal_moves)
            lines.append(f"Legal moves ({len(moves)}): {' '.join(moves)}")
        return "\n".join(lines)

    def apply(self, state: State, action: str) -> Transition[State]:
        import chess

        board = chess.Board(state.fen)
        move = read_move(board, action)
        feedback = f"You played {board.san(move)} ({move.uci()})."
        after = _played(board, move, state.seen)
        if not after.result:
            reply = best_reply(board) if self.engine is None else self.engine.reply(board)
            feedback += f" Black replied {board.san(reply)} ({reply.uci()})."
            after = _played(board, reply, after.seen)
        if after.result:
            feedback += f" {after.result}."
        return Transition(state=after, feedback=feedback, terminated=bool(after.result))


def _draw_position(stream: Stream, ahead: tuple[int, int]) -> str | None:
    """Play random legal moves, then take Black's pieces away until White leads enough.

    Returns:
        The FEN of a legal position that is not finished, White to move and not in check; or
        ``None`` when this draw leads to none.
    """
    import chess

    board = chess.Board()
    for _ in range(OPENING_PLIES):
        moves = sorted(board.legal_moves, key=chess.Move.uci)
        if not moves:
            return None
        board.push(stream.pick(moves))
    least, greatest = ahead
    while (lead := balance(board.board_fen())) < least:
        removable = [
            square
            for square in chess.SquareSet(board.occupied_co[chess.BLACK])
            if 0 < BY_TYPE[board.piece_type_at(square) or 0] <= greatest - lead
        ]
        if not removable:
            return None
        board.remove_piece_at(stream.pick(removable))
    board.castling_rights = board.clean_castling_rights()
    board.halfmove_clock, board.fullmove_number = 0, 1
    fits = least <= lead <= greatest and board.is_valid() and not board.is_check()
    return board.fen() if fits and not board.is_game_over() else None


def _played(board: "chess.Board", move: "chess.Move", seen: tuple[str, ...]) -> State:
    """Play a move on the board and return the state that it leads to."""
    if board.is_zeroing(move):
        seen = ()
    board.push(move)
    seen = (*seen, _key(board.fen()))
    return State(fen=board.fen(), seen=seen, result=_result(board, seen))


def _key(fen: str) -> str:
    return " ".join(fen.split(" ")[:4])


def _result(board: "chess.Board", seen: tuple[str, ...]) -> str:
    """Return how the game has ended, in words; empty while it goes on."""
    if not any(board.generate_legal_moves()):
        if not board.is_check():
            return "Draw by stalemate"
        return BLACK_WINS if board.turn else WHITE_WINS
    if board.is_insufficient_material():
        return "Draw by insufficient material"
    if seen.count(seen[-1]) >= REPETITIONS:
        return "Draw by repetition"
    if board.halfmove_clock >= FIFTY_MOVES:
        return "Draw by the fifty-move rule"
    return ""


def read_move(board: "chess.Board", action: str) -> "chess.Move":
    """Return the legal move that an action names.

    UCI is tried first. In SAN the marks ``+ # ! ?`` at the end are ignored, ``0-0`` castles as
    ``O-O`` does, and blanks around the move do not count. Squares are lower case.

    Raises:
        InvalidActionError: The action names no move, more than one, or an illegal one; the
            message says why.
    """
    import chess

    text = plain(action, EXPECTED, LONGEST_ACTION).rstrip(MARKS)
    if UCI.fullmatch(text):
        named = text.lower()
        for move in board.legal_moves:
            if move.uci() == named:
                return move
        raise InvalidActionError(f"{text} is illegal: {_why_not(board, named)}")
    found = SAN.fullmatch(text)
    if found is None:
        raise refusal(action, EXPECTED)
    try:
        return board.parse_san(text)
    except chess.AmbiguousMoveError:
        raise InvalidActionError(
            f"{text} is ambiguous: name the file or the rank that the piece comes from"
        ) from None
    except (chess.IllegalMoveError, chess.InvalidMoveError):
        reason = _why_not_san(board, found) if found[4] else "you cannot castle there now"
        raise InvalidActionError(f"{text} is illegal: {reason}") from None


def _why_not(board: "chess.Board", uci: str) -> str:
    """Return why White may not play a move given in UCI."""
    import chess

    piece = board.piece_at(chess.parse_square(uci[:2]))
    if piece is None:
        return f"there is no piece on {uci[:2]}"
    if piece.color != board.turn:
        return f"the piece on {uci[:2]} is Black's"
    legal = {move.uci() for move in board.legal_moves}
    if f"{uci}q" in legal:
        return f"name the promotion piece, for example {uci}q"
    if uci[:4] in legal:
        return "nothing promotes there"
    if uci in {move.uci() for move in board.pseudo_legal_moves}:
        return "it would leave your king in check"
    return f"the {chess.piece_name(piece.piece_type)} on {uci[:2]} cannot go to {uci[2:4]}"


def _why_not_san(board: "chess.Board", found: re.Match[str]) -> str:
    """Return why no White piece may play a move given in SAN."""
    import chess

    kind = chess.PIECE_SYMBOLS.index(found[1].lower()) if found[1] else chess.PAWN
    goal = chess.parse_square(found[4])
    for move in board.pseudo_legal_moves:
        if move.to_square != goal or board.piece_type_at(move.from_square) != kind:
            continue
        if bool(move.promotion) != bool(found[5]):
            return "name the promotion piece" if move.promotion else "nothing promotes there"
        if not board.is_legal(move):
            return "it would leave your king in check"
    return f"no {chess.piece_name(kind)} of yours can go to {found[4]} like that"


def points(state: State) -> int:
    """Return what a position is worth to White, in pawns (see the module's ``Reward``)."""
    if state.result:
        return {WHITE_WINS: MATE, BLACK_WINS: -MATE}.get(state.result, 0)
    return max(-MOST_MATERIAL, min(MOST_MATERIAL, balance(state.fen.split(" ")[0])))


@dataclass(frozen=True, slots=True)
class ChessDuelVerifier:
    """What a move is worth; the rules never call it."""

    def reward(self, before: State, action: str, after: State) -> float:
        return (points(after) - points(before)) / SCALE

    def score(self, rewards: Sequence[float], final: State) -> float:
        return math.fsum(rewards)


def rules_text(options: ChessDuelOptions, phase: Phase) -> str:
    """Return the rules, built from the constants that the verifier uses."""
    least, greatest = AHEAD[phase]
    worth = ", ".join(f"{name} {value}" for name, value in zip(NAMES, BY_TYPE[1:], strict=False))
    opponent = (
        "a fixed program that looks at its own move and your next capture"
        if options.opponent == BUILTIN
        else f"an outside chess engine at depth {options.engine_depth}, which is not part of this "
        "game"
    )
    refused = (
        "ends the game"
        if on_invalid(options.invalid_action, phase) == "end"
        else "is refused with the reason and costs a step"
    )
    listed = " and lists the legal moves in UCI" if options.list_moves else ""
    return (
        f"Chess by the usual rules. You play White, {least} to {greatest} pawns of material ahead "
        f"at the start; Black is {opponent}. The game ends on checkmate, stalemate, insufficient "
        f"material, when a position stands {REPETITIONS} times, after "
        f"{FIFTY_MOVES // 2} moves of each side without capture or pawn move, or after "
        f"{MAX_STEPS} of your moves.\n"
        "The state shows the board from White's side (upper case White, lower case Black, '.' "
        f"empty), the position as FEN{listed}.\n"
        "Action: one move in UCI (e2e4, e7e8q, e1g1 to castle) or SAN (Nf3, exd5, e8=Q, O-O). "
        f"Anything else, and any illegal move, {refused}.\n"
        f"Points of a position: your material minus Black's ({worth}), limited to "
        f"{MOST_MATERIAL} either way; {MATE} if Black is checkmated, -{MATE} if you are, 0 if the "
        "game is drawn. The reward of an action is the change of the points from before your move "
        f"to after Black's reply, divided by {SCALE}. Your score is the sum of the rewards."
    )


def make_setup(options: ChessDuelOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: another lead at the start, another policy for refused moves.

    Raises:
        MissingExtraError: The library ``chess`` is not installed.
        ConfigError: There is no engine at the path given as opponent.
    """
    try:
        import chess  # noqa: F401 - only whether it is there
    except ImportError:
        raise MissingExtraError("the game chess_duel", "chess") from None
    if options.opponent != BUILTIN and shutil.which(options.opponent) is None:
        raise ConfigError(
            f"opponent: expected {BUILTIN!r} or a UCI engine's path, got {options.opponent!r}"
        )
    return Setup(
        game=ChessDuel(
            ahead=AHEAD[phase],
            engine=None
            if options.opponent == BUILTIN
            else Engine(options.opponent, options.engine_depth),
            list_moves=options.list_moves,
        ),
        verifier=ChessDuelVerifier(),
        max_steps=MAX_STEPS,
        on_invalid=on_invalid(options.invalid_action, phase),
        reward_range=(-1.0, 1.0),
        score_range=(-1.0, (MATE - AHEAD[phase][0]) / SCALE),
    )


SPEC = StandardSpec(
    name="chess_duel",
    version=1,
    options=ChessDuelOptions,
    anchors=Anchors(
        random=-0.627, reference=0.499, ceiling=(MATE - AHEAD[Phase.EVALUATION][0]) / SCALE
    ),
    rules_text=rules_text,
    make_setup=make_setup,
)
