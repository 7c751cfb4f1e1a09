"""Reference player of minesweeper: exact probabilities of mines, from the text alone.

Opens a cell that cannot be a mine; without one it flags a certain mine; without one it opens the
cell that is least likely a mine, corners first. When only so many steps are left as there are
certain mines without a flag, it flags them.

Source: games.md 2.I.
"""

from s3gym.agents.reading.minesweeper import FLAGGED, UNKNOWN, MinesweeperView, read
from s3gym.agents.reference._mine_risks import mine_risks
from s3gym.agents.strategies.minesweeper import STOP, flag, uncover
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the best move; the stream is not needed."""
    view = read(turn.observation.text)
    risks = mine_risks(view)
    right_flags = sum(risks[cell] for cell in view.cells(FLAGGED))
    unknown = view.cells(UNKNOWN)
    certain = [cell for cell in unknown if risks[cell] == 1.0]
    if view.flags >= view.mines:
        certain = []
    steps_left = view.max_steps - view.step + 1
    if certain and steps_left <= len(certain):
        return flag(view, certain[0], 1.0)
    if not unknown:
        return STOP
    best = min(unknown, key=lambda cell: (risks[cell], not is_corner(view, cell), cell))
    if certain and risks[best] > 0.0:
        return flag(view, certain[0], 1.0)
    if risks[best] == 1.0:
        return STOP
    return uncover(view, best, risks[best], right_flags)


def is_corner(view: MinesweeperView, cell: int) -> bool:
    """Return whether a cell lies in a corner of the board."""
    return len(view.neighbours(cell)) == 3
