"""Plain strategies for chess_duel: from the board and the legal moves that the text shows.

Self-scores follow the printed rules: the change of White's points that the strategy itself
expects from its move, divided by 60.
"""

from collections.abc import Callable

from s3gym.agents.reading import chess_board
from s3gym.agents.reading.chess_board import VALUES, Move, balance, played
from s3gym.agents.reading.chess_duel import LOST, WON, ChessDuelView, read
from s3gym.agents.strategies import playbook
from s3gym.agents.strategies.playbook import Chooser, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream

MATE = 40
MOST_MATERIAL = 20
SCALE = MATE + MOST_MATERIAL
END = "END"
Worth = Callable[[str, Move], float]


def points(board: str) -> int:
    """Return what a position that goes on is worth to White, in pawns."""
    return max(-MOST_MATERIAL, min(MOST_MATERIAL, balance(board)))


def listed(view: ChessDuelView) -> tuple[str, ...]:
    """Return White's legal moves in UCI, worked out from the board when they are not listed."""
    if view.legal is not None:
        return view.legal
    return tuple(
        chess_board.write_move(move) for move, _ in chess_board.legal_moves(view.board, True)
    )


def captured(board: str, move: Move) -> float:
    """Return the material that a move wins at once, in pawns."""
    return balance(played(board, move)) - balance(board)


def careful(board: str, move: Move) -> float:
    """Return what a move wins, less what Black can then win by one capture, in pawns.

    A capture of a protected piece costs Black the piece that takes. A mate is worth its points.
    """
    after = played(board, move)
    replies = list(chess_board.legal_moves(after, False))
    if not replies:
        mated = chess_board.in_check(after, False)
        return (MATE if mated else 0) - points(board)
    worst = 0.0
    for reply, last in replies:
        lost = balance(after) - balance(last)
        if lost > 0 and chess_board.is_attacked(last, reply.goal, True):
            lost -= VALUES[after[reply.start].upper()]
        worst = max(worst, lost)
    return balance(after) - balance(board) - worst


def forward(board: str, move: Move) -> float:
    """Return how far a move goes up the board, in rows."""
    return move.start // chess_board.SIDE - move.goal // chess_board.SIDE


def _best(worth: Worth, expected: Worth) -> Chooser:
    """Return the strategy that plays the move of most worth; ties are drawn."""

    def choose(turn: Turn, stream: Stream) -> playbook.Move:
        view = read(turn.observation.text)
        values = {uci: worth(view.board, chess_board.read_move(uci)) for uci in listed(view)}
        if not values:
            return playbook.Move(action=END, self_score=0.0)
        most = max(values.values())
        uci = stream.pick([uci for uci, value in values.items() if value == most])
        change = expected(view.board, chess_board.read_move(uci))
        return playbook.Move(action=uci, self_score=max(-1.0, min(1.0, change / SCALE)))

    return choose


def outcome(text: str) -> float:
    """Return how the visible end looks, in game points: the points of the position over 60.

    A won game is worth 40/60, a lost one -40/60, a drawn one 0, any other its material.
    """
    try:
        view = read(text)
    except ValueError:
        return 0.0
    if view.over:
        return {WON: MATE, LOST: -MATE}.get(view.status, 0) / SCALE
    return points(view.board) / SCALE


PLAYBOOK = Playbook(
    strategies={
        "capture-first": _best(captured, captured),
        "careful": _best(careful, careful),
        "forward": _best(forward, captured),
    },
    random=_best(lambda board, move: 0.0, captured),
    outcome=outcome,
)
