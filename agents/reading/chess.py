"""Reading the observation text of chess (latent rules).

Grammar, one line each unless said::

    Board <rows>x<columns>, <n> pieces, prediction <k> of <last>
        (after the last one instead: all <last> predictions made)
    Current Game State:
    seven times, oldest first:
        Frame <number>
        <rows> lines of <columns> characters: "." or the letter of a piece

Cells are (row, column), zero-based, row 0 on top.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

Cell = tuple[int, int]
Frame = Mapping[str, Cell]
HEADER = re.compile(
    r"Board ([0-9]{1,3})x([0-9]{1,3}), ([0-9]{1,3}) pieces, "
    r"(?:prediction ([0-9]{1,3}) of ([0-9]{1,3})|all ([0-9]{1,3}) predictions made)"
)
STATE_HEADER = "Current Game State:"
FRAME = re.compile(r"Frame ([0-9]{1,6})")
EMPTY = "."


@dataclass(frozen=True, slots=True, kw_only=True)
class ChessView:
    """What an observation shows.

    Attributes:
        made: Predictions made so far.
        predictions: Predictions of an episode.
        first_frame: Number of the oldest frame shown.
        frames: Label -> cell, oldest frame first.
    """

    rows: int
    columns: int
    n_pieces: int
    made: int
    predictions: int
    first_frame: int
    frames: tuple[Frame, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the labels of the newest frame, by letter."""
        return tuple(sorted(self.frames[-1], key=str.upper))

    def history(self, label: str) -> tuple[Cell, ...]:
        """Return the cells of one piece, oldest first."""
        return tuple(frame[label] for frame in self.frames)

    def render(self) -> str:
        """Return the observation that reads as this view: ``read(text).render() == text``."""
        number = (
            f"prediction {self.made + 1} of {self.predictions}"
            if self.made < self.predictions
            else f"all {self.predictions} predictions made"
        )
        lines = [
            f"Board {self.rows}x{self.columns}, {self.n_pieces} pieces, {number}",
            STATE_HEADER,
        ]
        for index, frame in enumerate(self.frames):
            lines.append(f"Frame {self.first_frame + index}")
            at = {cell: label for label, cell in frame.items()}
            lines.extend(
                "".join(at.get((row, column), EMPTY) for column in range(self.columns))
                for row in range(self.rows)
            )
        return "\n".join(lines)


def read(text: str) -> ChessView:
    """Read an observation.

    Raises:
        ValueError: The text does not keep the grammar.
    """
    header, *lines = text.split("\n")
    found = HEADER.fullmatch(header)
    if found is None or lines[:1] != [STATE_HEADER]:
        raise ValueError(f"expected the header of a chess observation, got {header[:80]!a}")
    rows, columns, n_pieces = (int(found[group]) for group in (1, 2, 3))
    predictions = int(found[5] or found[6])
    blocks = lines[1:]
    if not blocks or len(blocks) % (rows + 1):
        raise ValueError(f"expected frames of {rows + 1} lines each, got {len(blocks)} lines")
    numbers, frames = [], []
    for start in range(0, len(blocks), rows + 1):
        title = FRAME.fullmatch(blocks[start])
        if title is None:
            raise ValueError(f"expected 'Frame <number>', got {blocks[start][:80]!a}")
        numbers.append(int(title[1]))
        frames.append(_read_frame(blocks[start + 1 : start + 1 + rows], columns, n_pieces))
    if numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"expected frames in order, got {numbers}")
    if any(frame.keys() != frames[0].keys() for frame in frames):
        raise ValueError("expected the same pieces in all frames")
    view = ChessView(
        rows=rows,
        columns=columns,
        n_pieces=n_pieces,
        made=int(found[4]) - 1 if found[4] else predictions,
        predictions=predictions,
        first_frame=numbers[0],
        frames=tuple(frames),
    )
    if view.render() != text:
        raise ValueError("expected a consistent chess observation")
    return view


def _read_frame(lines: list[str], columns: int, n_pieces: int) -> Frame:
    cells = {}
    for row, line in enumerate(lines):
        if len(line) != columns:
            raise ValueError(f"expected {columns} characters, got {line[:80]!a}")
        for column, label in enumerate(line):
            if label == EMPTY:
                continue
            if not (label.isascii() and label.isalpha()) or label in cells:
                raise ValueError(f"expected each letter once, got {label!a} in row {row}")
            cells[label] = (row, column)
    if len(cells) != n_pieces:
        raise ValueError(f"expected {n_pieces} pieces, got {len(cells)}")
    return cells


def write_action(cells: Mapping[str, Cell]) -> str:
    """Return the action that predicts these cells, in the order given."""
    return ", ".join(f"{label}:({row},{column})" for label, (row, column) in cells.items())


ITEM = re.compile(r"([A-Za-z]):\(([0-9]{1,3}),([0-9]{1,3})\)")


def read_action(action: str) -> dict[str, Cell]:
    """Return the cells of an action that ``write_action`` wrote, by upper-case letter."""
    return {
        found[1].upper(): (int(found[2]), int(found[3])) for found in ITEM.finditer(action[:10_000])
    }
