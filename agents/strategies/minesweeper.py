"""Plain strategies for minesweeper. They know the printed rules and read the text alone.

A self-score is the expected change of the standing: a flag gives its chance of being right over
the number of mines, uncovering gives something only when it may win the game at once.
"""

from s3gym.agents.reading.minesweeper import FLAGGED, MINE, UNKNOWN, MinesweeperView, read
from s3gym.agents.strategies.playbook import Chooser, Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream

VERBS = ("uncover", "flag", "unflag")
OPEN = tuple("012345678")
STOP = Move(action="END", self_score=0.0)


def density(view: MinesweeperView) -> float:
    """Return the share of mines among the cells that are not open, in [0, 1]."""
    closed = len(view.cells(UNKNOWN, FLAGGED))
    return view.remaining / closed if closed else 0.0


def uncover(view: MinesweeperView, cell: int, risk: float, right_flags: float) -> Move:
    """Return the move that opens a cell.

    Args:
        view: The state.
        cell: An unknown cell.
        risk: Its probability of being a mine, in [0, 1].
        right_flags: How many flags are expected to be right.
    """
    gain = (view.remaining - right_flags) / view.mines if view.still_safe == 1 else 0.0
    return Move(action=f"uncover {view.name(cell)}", self_score=round((1 - risk) * gain, 6))


def flag(view: MinesweeperView, cell: int, risk: float) -> Move:
    """Return the move that flags an unknown cell with a given risk of being a mine, in [0, 1]."""
    return Move(action=f"flag {view.name(cell)}", self_score=round(risk / view.mines, 6))


def random_verb_and_cell(turn: Turn, stream: Stream) -> Move:
    """Draw a verb and a cell, whether or not the rules accept them."""
    view = read(turn.observation.text)
    verb, cell = stream.pick(VERBS), stream.below(len(view.marks))
    mark, risk = view.marks[cell], density(view)
    if verb == "uncover" and mark == UNKNOWN:
        return uncover(view, cell, risk, view.flags * risk)
    if verb == "flag" and mark == UNKNOWN and view.flags < view.mines:
        return flag(view, cell, risk)
    loss = risk / view.mines if verb == "unflag" and mark == FLAGGED else 0.0
    return Move(action=f"{verb} {view.name(cell)}", self_score=round(-loss, 6) + 0.0)


def blind_uncover(turn: Turn, stream: Stream) -> Move:
    """Open any unknown cell, without a look at the numbers."""
    view = read(turn.observation.text)
    unknown = view.cells(UNKNOWN)
    if not unknown:
        return STOP
    risk = density(view)
    return uncover(view, stream.pick(unknown), risk, view.flags * risk)


def blind_flags(turn: Turn, stream: Stream) -> Move:
    """Put all flags on any unknown cells first, then open any others."""
    view = read(turn.observation.text)
    unknown = view.cells(UNKNOWN)
    if view.flags >= view.mines or not unknown:
        return blind_uncover(turn, stream)
    return flag(view, stream.pick(unknown), density(view))


def deduce(view: MinesweeperView) -> tuple[set[int], set[int]]:
    """Return the cells that single numbers prove to be safe and to be mines.

    Flags are not believed. A number whose closed neighbours must all be mines marks them; one
    that has all its mines frees the rest; both are repeated until nothing new is found.
    """
    safe: set[int] = set()
    mined: set[int] = set()
    numbers = [
        (int(view.marks[cell]), [near for near in view.neighbours(cell)])
        for cell in view.cells(*OPEN)
    ]
    known = -1
    while known != len(safe) + len(mined):
        known = len(safe) + len(mined)
        for number, around in numbers:
            exploded = sum(view.marks[cell] == MINE for cell in around)
            closed = {cell for cell in around if view.marks[cell] in (UNKNOWN, FLAGGED)} - safe
            missing = number - exploded
            if len(closed) == missing:
                mined |= closed
            elif len(closed & mined) == missing:
                safe |= closed - mined
    return safe, mined


def single_cell(turn: Turn, stream: Stream) -> Move:
    """Open what one number proves safe, else flag what one number proves a mine, else guess."""
    view = read(turn.observation.text)
    safe, mined = deduce(view)
    right_flags = sum(view.marks[cell] == FLAGGED for cell in mined)
    unknown = view.cells(UNKNOWN)
    proven_safe = [cell for cell in unknown if cell in safe]
    if proven_safe:
        return uncover(view, proven_safe[0], 0.0, right_flags)
    proven_mines = [cell for cell in unknown if cell in mined]
    if proven_mines and view.flags < view.mines:
        return flag(view, proven_mines[0], 1.0)
    guesses = [cell for cell in unknown if cell not in mined]
    if not guesses:
        return STOP
    open_ended = len(view.cells(UNKNOWN, FLAGGED)) - len(safe) - len(mined)
    risk = (view.remaining - len(mined)) / open_ended
    return uncover(view, stream.pick(guesses), min(1.0, max(0.0, risk)), right_flags)


def outcome(text: str) -> float:
    """Return how well an episode visibly went, 0 to 1.

    All safe cells open: unexploded mines / mines. A loss, which shows every mine: flags on mines /
    mines, as wrong flags alone stay visible. All flags in use on what is left of the mines: taken
    for a win. Otherwise the share of safe cells that are open.
    """
    view = read(text)
    if not view.remaining:
        return (view.flags - len(view.cells(FLAGGED))) / view.mines
    if not view.still_safe or view.flags == view.remaining:
        return view.remaining / view.mines
    return len(view.cells(*OPEN)) / (len(view.marks) - view.mines)


STRATEGIES: dict[str, Chooser] = {
    "blind-flags": blind_flags,
    "blind-uncover": blind_uncover,
    "single-cell": single_cell,
}
PLAYBOOK = Playbook(strategies=STRATEGIES, random=random_verb_and_cell, outcome=outcome)
