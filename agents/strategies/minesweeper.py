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
Demand = tuple[frozenset[int], int]
"""Closed cells and how many mines are among them."""


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


def demands(view: MinesweeperView) -> set[Demand]:
    """Return what each open number still asks of the closed cells around it."""
    found = set()
    for cell in view.cells(*OPEN):
        around = view.neighbours(cell)
        exploded = sum(view.marks[near] == MINE for near in around)
        closed = frozenset(near for near in around if view.marks[near] in (UNKNOWN, FLAGGED))
        found.add((closed, int(view.marks[cell]) - exploded))
    return found


def deduce(view: MinesweeperView, compare: bool = False) -> tuple[set[int], set[int]]:
    """Return the cells that the numbers prove to be safe and to be mines. Flags are not believed.

    A number whose closed neighbours must all be mines marks them; one that has all its mines frees
    the rest; both are repeated until nothing new is found.

    Args:
        view: The state.
        compare: Whether to compare numbers too: where one asks of a part of another's cells, the
            other's remaining cells hold the difference.
    """
    safe: set[int] = set()
    mined: set[int] = set()
    asked = demands(view)
    while True:
        asked = {
            (cells - safe - mined, missing - len(cells & mined)) for cells, missing in asked
        } - {(frozenset[int](), 0)}
        new_safe = {cell for cells, missing in asked if missing == 0 for cell in cells}
        new_mined = {cell for cells, missing in asked if missing == len(cells) for cell in cells}
        differences = {
            (large - small, more - less)
            for small, less in asked
            for large, more in asked
            if compare and small < large
        } - asked
        if not (new_safe or new_mined or differences):
            return safe, mined
        safe, mined, asked = safe | new_safe, mined | new_mined, asked | differences


def single_cell(turn: Turn, stream: Stream) -> Move:
    """Open what one number proves safe, else flag what one number proves a mine, else guess."""
    view = read(turn.observation.text)
    safe, mined = deduce(view)
    move = play_proven(view, safe, mined)
    guesses = [cell for cell in view.cells(UNKNOWN) if cell not in mined]
    if move is not None or not guesses:
        return move or STOP
    return uncover(view, stream.pick(guesses), open_risk(view, safe, mined), flags_on(view, mined))


def two_numbers(turn: Turn, stream: Stream) -> Move:
    """Compare numbers with one another too, and guess where the numbers ask least."""
    view = read(turn.observation.text)
    safe, mined = deduce(view, compare=True)
    move = play_proven(view, safe, mined)
    guesses = [cell for cell in view.cells(UNKNOWN) if cell not in mined]
    if move is not None or not guesses:
        return move or STOP
    risks = dict.fromkeys(guesses, open_risk(view, safe, mined))
    asked: dict[int, float] = {}
    for cells, missing in demands(view):
        left = cells - safe - mined
        for cell in left:
            share = (missing - len(cells & mined)) / len(left)
            asked[cell] = max(share, asked.get(cell, 0.0))
    risks.update((cell, share) for cell, share in asked.items() if cell in risks)
    least = min(risks.values())
    cell = stream.pick([cell for cell in guesses if risks[cell] == least])
    return uncover(view, cell, least, flags_on(view, mined))


def play_proven(view: MinesweeperView, safe: set[int], mined: set[int]) -> Move | None:
    """Return the move that opens a safe cell, else flags a mine; ``None`` without either."""
    unknown = view.cells(UNKNOWN)
    for cell in unknown:
        if cell in safe:
            return uncover(view, cell, 0.0, flags_on(view, mined))
    for cell in unknown:
        if cell in mined and view.flags < view.mines:
            return flag(view, cell, 1.0)
    return None


def flags_on(view: MinesweeperView, mined: set[int]) -> int:
    """Return how many flags stand on proven mines."""
    return sum(view.marks[cell] == FLAGGED for cell in mined)


def open_risk(view: MinesweeperView, safe: set[int], mined: set[int]) -> float:
    """Return the share of mines among the closed cells of which nothing is proven, in [0, 1]."""
    unproven = len(view.cells(UNKNOWN, FLAGGED)) - len(safe) - len(mined)
    return min(1.0, max(0.0, (view.remaining - len(mined)) / unproven)) if unproven else 0.0


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
    "two-numbers": two_numbers,
}
PLAYBOOK = Playbook(strategies=STRATEGIES, random=random_verb_and_cell, outcome=outcome)
