"""Reading the observation text of chess_duel, by hand: no chess library is needed.

Grammar, one line each unless said::

    Step <step> of <max steps>: <status>
    Current Game State:
      a b c d e f g h
    eight times, from row 8 to row 1:
        <row> <eight squares, one blank between> <row>
      a b c d e f g h
    FEN: <position in Forsyth-Edwards notation>
    Legal moves (<count>): <moves in UCI, one blank between>       (may be missing)

A status is ``White to move``, ``White to move, in check``, or how the game ended. A square is "."
or a piece letter, upper case White. Squares are counted 0 to 63, a8 first, row by row.
"""

import re
from dataclasses import dataclass

STEP = re.compile(r"Step ([0-9]{1,6}) of ([0-9]{1,6}): ([A-Za-z :,-]{1,60})")
STATE_HEADER = "Current Game State:"
FILES = "  a b c d e f g h"
ROW = re.compile(r"([1-8])((?: [.KQRBNPkqrbnp]){8}) ([1-8])")
FEN = re.compile(
    r"FEN: ([KQRBNPkqrbnp1-8/]{15,71} [wb] (?:-|[KQkq]{1,4}) (?:-|[a-h][36]) "
    r"[0-9]{1,4} [0-9]{1,4})"
)
MOVES = re.compile(r"Legal moves \(([0-9]{1,3})\): ((?:[a-h][1-8][a-h][1-8][qrbn]? ?)*)")
EMPTY = "."
TO_MOVE = "White to move"
IN_CHECK = "White to move, in check"
WON, LOST = "Checkmate: White wins", "Checkmate: Black wins"
SIDE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ChessDuelView:
    """What an observation shows.

    Attributes:
        step: Number of the step about to be played, or of the last one.
        status: Who is to move, or how the game ended.
        board: 64 squares, a8 first.
        fen: The position in Forsyth-Edwards notation.
        legal: White's legal moves in UCI; ``None`` when they are not listed.
    """

    step: int
    max_steps: int
    status: str
    board: str
    fen: str
    legal: tuple[str, ...] | None

    @property
    def over(self) -> bool:
        """Return whether the rules have ended the game."""
        return self.status not in (TO_MOVE, IN_CHECK)

    def render(self) -> str:
        """Return the observation that reads as this view: ``read(text).render() == text``."""
        lines = [f"Step {self.step} of {self.max_steps}: {self.status}", STATE_HEADER, FILES]
        for index in range(SIDE):
            row = " ".join(self.board[SIDE * index : SIDE * (index + 1)])
            lines.append(f"{SIDE - index} {row} {SIDE - index}")
        lines += [FILES, f"FEN: {self.fen}"]
        if self.legal is not None:
            lines.append(f"Legal moves ({len(self.legal)}): {' '.join(self.legal)}")
        return "\n".join(lines)


def read(text: str) -> ChessDuelView:
    """Read an observation.

    Raises:
        ValueError: The text does not keep the grammar, or board and FEN differ.
    """
    lines = text.split("\n")
    if len(lines) not in (13, 14) or [lines[1], lines[2], lines[11]] != [
        STATE_HEADER,
        FILES,
        FILES,
    ]:
        raise ValueError(f"expected a chess_duel observation, got {text[:80]!a}")
    header, position = STEP.fullmatch(lines[0]), FEN.fullmatch(lines[12])
    rows = [ROW.fullmatch(line) for line in lines[3:11]]
    if header is None or position is None:
        raise ValueError(f"expected step and FEN lines, got {lines[0][:80]!a}, {lines[12][:80]!a}")
    board = ""
    for number, row in zip(range(SIDE, 0, -1), rows, strict=True):
        if row is None or row[1] != str(number) or row[3] != str(number):
            raise ValueError(f"expected row {number} of the board")
        board += row[2].replace(" ", "")
    if board != squares(position[1]):
        raise ValueError("board and FEN show different positions")
    legal = None
    if len(lines) == 14:
        found = MOVES.fullmatch(lines[13])
        legal = tuple(found[2].split()) if found else ()
        if found is None or len(legal) != int(found[1]) or found[2] != " ".join(legal):
            raise ValueError(f"expected the legal moves, got {lines[13][:80]!a}")
    view = ChessDuelView(
        step=int(header[1]),
        max_steps=int(header[2]),
        status=header[3],
        board=board,
        fen=position[1],
        legal=legal,
    )
    if view.render() != text:
        raise ValueError("expected a consistent chess_duel observation")
    return view


def squares(fen: str) -> str:
    """Return the 64 squares of a position, a8 first."""
    placement = fen.partition(" ")[0].replace("/", "")
    return "".join(EMPTY * int(sign) if sign.isdigit() else sign for sign in placement)
