"""Reading pvz' observation text.

Grammar, line by line::

    Current Game State:
    <head>, sun <s>
    Row <r>: <cell>|<cell>|...      for each row, 0 on top
    Plants: <units>                 row-major; both lines are missing when the game is
    Zombies: <units>                set to hide hit points

    <head>   Turn <t> of <T>            the turn about to be played
             Lost in turn <t> of <T>    a zombie got through in that turn
             All <T> turns survived
    <cell>   . when empty, else the plant's letter and the letters of the zombies, in the
             order in which they entered
    <units>  none, or <letter> (<row>,<column>) HP <h> separated by "; "; zombies in the
             order in which they entered

Rows and columns are zero-based. Plants are X W S J H F, zombies N R B I.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

Cell = tuple[int, int]
HEADER = "Current Game State:"
EMPTY, BAR, NONE = ".", "|", "none"
HEAD = re.compile(
    r"(?:Turn (?P<turn>[0-9]{1,9}) of (?P<turns>[0-9]{1,9})"
    r"|(?P<lost>Lost in turn) (?P<last>[0-9]{1,9}) of (?P<of>[0-9]{1,9})"
    r"|All (?P<all>[0-9]{1,9}) turns survived), sun (?P<sun>[0-9]{1,9})"
)
ROW = re.compile(r"Row ([0-9]{1,3}): ((?:\.|[XWSJHF]?[NRBI]*)(?:\|(?:\.|[XWSJHF]?[NRBI]*))*)")
UNIT = re.compile(r"([XWSJHFNRBI]) \(([0-9]{1,3}),([0-9]{1,3})\) HP ([0-9]{1,9})")
PLANT_LETTERS, ZOMBIE_LETTERS = "XWSJHF", "NRBI"


class Unit(NamedTuple):
    """A plant or a zombie.

    Attributes:
        hp: Hit points, or ``None`` when the text does not show them.
    """

    letter: str
    row: int
    column: int
    hp: int | None

    @property
    def cell(self) -> Cell:
        """Where it stands, (row, column)."""
        return (self.row, self.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class PvzView:
    """What one text shows.

    Attributes:
        turn: One-based turn about to be played; the lethal one when ``lost``; one more than
            ``max_turns`` when all are survived.
        max_turns: Turns of the episode.
        rows: Rows of the board.
        columns: Columns of the board.
        plants: Row-major.
        zombies: In the order in which they entered; row-major without hit points.
        shows_hp: Whether the text lists hit points.
    """

    turn: int
    max_turns: int
    lost: bool
    sun: int
    rows: int
    columns: int
    plants: tuple[Unit, ...]
    zombies: tuple[Unit, ...]
    shows_hp: bool = True

    @property
    def survived(self) -> int:
        """Turns survived so far."""
        return self.turn - 1

    def render(self) -> str:
        """Return the text that this was read from."""
        if self.lost:
            head = f"Lost in turn {self.turn} of {self.max_turns}"
        elif self.turn > self.max_turns:
            head = f"All {self.max_turns} turns survived"
        else:
            head = f"Turn {self.turn} of {self.max_turns}"
        cells = [[""] * self.columns for _ in range(self.rows)]
        for unit in (*self.plants, *self.zombies):
            cells[unit.row][unit.column] += unit.letter
        lines = [HEADER, f"{head}, sun {self.sun}"]
        for index, row in enumerate(cells):
            lines.append(f"Row {index}: {BAR.join(cell or EMPTY for cell in row)}")
        if self.shows_hp:
            lines += [f"Plants: {_listed(self.plants)}", f"Zombies: {_listed(self.zombies)}"]
        return "\n".join(lines)


def _listed(units: tuple[Unit, ...]) -> str:
    return "; ".join(f"{u.letter} ({u.row},{u.column}) HP {u.hp}" for u in units) or NONE


@lru_cache(maxsize=2048)
def read(text: str) -> PvzView:
    """Read an observation.

    Raises:
        ValueError: The text breaks the grammar.
    """
    lines = text.split("\n")
    head = HEAD.fullmatch(lines[1]) if len(lines) > 2 and lines[0] == HEADER else None
    rows = [match[2] for match in map(ROW.fullmatch, lines[2:]) if match]
    if head is None or not rows:
        raise ValueError("expected the observation text of pvz")
    cells = [row.split(BAR) for row in rows]
    plants, zombies = _units_of_cells(cells)
    tail = lines[2 + len(rows) :]
    if tail:
        plants, zombies = _units_of_lists(tail)
    view = PvzView(
        turn=int(head["turn"] or head["last"] or int(head["all"]) + 1),
        max_turns=int(head["turns"] or head["of"] or head["all"]),
        lost=head["lost"] is not None,
        sun=int(head["sun"]),
        rows=len(rows),
        columns=len(cells[0]),
        plants=plants,
        zombies=zombies,
        shows_hp=bool(tail),
    )
    if any(unit.row >= view.rows or unit.column >= view.columns for unit in (*plants, *zombies)):
        raise ValueError("expected units on the board in the observation text of pvz")
    if view.render() != text:
        raise ValueError("expected a consistent observation text of pvz")
    return view


def _units_of_cells(cells: list[list[str]]) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return plants and zombies, without hit points, row-major."""
    units = [
        Unit(letter, row, column, None)
        for row, line in enumerate(cells)
        for column, cell in enumerate(line)
        for letter in cell.replace(EMPTY, "")
    ]
    return (
        tuple(unit for unit in units if unit.letter in PLANT_LETTERS),
        tuple(unit for unit in units if unit.letter in ZOMBIE_LETTERS),
    )


def _units_of_lists(tail: list[str]) -> tuple[tuple[Unit, ...], tuple[Unit, ...]]:
    """Return plants and zombies of the two lines that show hit points."""
    found = []
    for line, title in zip(tail, ("Plants: ", "Zombies: "), strict=False):
        shown = line.removeprefix(title)
        matches = [] if shown == NONE else [UNIT.fullmatch(item) for item in shown.split("; ")]
        found.append(
            tuple(Unit(m[1], int(m[2]), int(m[3]), int(m[4])) for m in matches if m is not None)
        )
    if len(found) != 2:
        raise ValueError("expected two lists in the observation text of pvz")
    return found[0], found[1]
