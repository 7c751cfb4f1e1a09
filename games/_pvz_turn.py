"""One turn of Plants-vs-Zombies on a mutable working copy of the board.

The parts of a turn in their order: ``place``, ``burn``, ``bloom``, ``shoot``, ``march``. Knows
nothing of sun per turn, waves and verifiers.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from s3gym.games._pvz_units import (
    CHILI,
    PEASHOOTER,
    PLANTS,
    SHOT_DAMAGE,
    SUNFLOWER,
    SUNFLOWER_SUN,
    TORCH,
    TORCH_BONUS,
    TRIPLE,
    ZOMBIES,
    Plant,
    Zombie,
)
from s3gym.games._spec import BLANKS
from s3gym.text import shorten

TorchRule = Literal["shooter_row", "target_row"]
MAX_ITEMS = 200
MAX_ITEM = 60
MAX_NAMED = 5
SYNTAX = "LETTER ROW COLUMN"
INTEGER = re.compile(r"[+-]?[0-9]+")
BLANK = re.compile(rf"[{BLANKS}]+")


@dataclass(slots=True, kw_only=True)
class Field:
    """The board while a turn is played.

    Attributes:
        plants: Cell (row, column) -> plant.
        zombies: In spawn order.
        breached: Row that a zombie left on the left side, or ``None``.
    """

    rows: int
    columns: int
    sun: int
    plants: dict[tuple[int, int], Plant]
    zombies: list[Zombie]
    breached: int | None = None


def place(field: Field, action: str) -> str:
    """Plant what an action names, left to right, and say what was planted and refused.

    Each item is accepted or refused alone. At most ``MAX_ITEMS`` items are read.
    """
    items = action.split(";", MAX_ITEMS)
    unread = items.pop().count(";") + 1 if len(items) > MAX_ITEMS else 0
    planted: list[str] = []
    refused: list[str] = []
    for item in items:
        text = item.strip(BLANKS)
        if not text:
            continue
        plant = _affordable(field, text)
        if isinstance(plant, str):
            refused.append(f"Refused {shorten(text, 30)}: {plant}.")
            continue
        field.sun -= PLANTS[plant.letter].cost
        field.plants[plant.row, plant.column] = plant
        planted.append(f"{plant.letter} {plant.row} {plant.column}")
    return " ".join(_placement_report(planted, refused, unread))


def _placement_report(planted: list[str], refused: list[str], unread: int) -> Iterable[str]:
    if planted:
        named = "; ".join(planted[:MAX_NAMED])
        more = len(planted) - MAX_NAMED
        yield f"Planted {named}{f' and {more} more' if more > 0 else ''}."
    else:
        yield "Planted nothing."
    yield from refused[:MAX_NAMED]
    if len(refused) > MAX_NAMED:
        yield f"Refused {len(refused) - MAX_NAMED} more."
    if unread:
        yield f"Only the first {MAX_ITEMS} items were read."


def _affordable(field: Field, text: str) -> Plant | str:
    """Return the plant that an item names, or the reason why it is refused."""
    tokens = BLANK.split(text) if len(text) <= MAX_ITEM else []
    if len(tokens) != 3:
        return f"expected {SYNTAX}"
    letter = tokens[0]
    if letter not in PLANTS:
        return f"expected one of the letters {', '.join(PLANTS)}"
    if not all(INTEGER.fullmatch(token) for token in tokens[1:]):
        return "ROW and COLUMN must be integers"
    row, column = int(tokens[1]), int(tokens[2])
    if not (0 <= row < field.rows and 0 <= column < field.columns):
        return f"rows are 0 to {field.rows - 1}, columns 0 to {field.columns - 1}"
    if (row, column) in field.plants:
        return "the cell holds a plant"
    kind = PLANTS[letter]
    if field.sun < kind.cost:
        return f"it costs {kind.cost} sun and {field.sun} are left"
    return Plant(letter, row, column, kind.hp)


def burn(field: Field) -> None:
    """Let each chili remove the zombies of its row, and itself."""
    chilis = [cell for cell, plant in field.plants.items() if plant.letter == CHILI]
    if not chilis:
        return
    burnt = {row for row, _ in chilis}
    field.zombies = [zombie for zombie in field.zombies if zombie.row not in burnt]
    for cell in chilis:
        del field.plants[cell]


def bloom(field: Field) -> None:
    """Let each sunflower give its sun."""
    sunflowers = sum(plant.letter == SUNFLOWER for plant in field.plants.values())
    field.sun += SUNFLOWER_SUN * sunflowers


def shoot(field: Field, torch: TorchRule) -> None:
    """Let the shooters fire in row-major order, each shot at the first zombie of a row.

    The first zombie has the smallest column, on either side of the shooter; among equals the
    one that entered earliest. It disappears at once when it has no hit points left.
    """
    shooters = sorted(
        cell for cell, plant in field.plants.items() if plant.letter in (PEASHOOTER, TRIPLE)
    )
    if not shooters or not field.zombies:
        return
    torches: dict[int, int] = {}
    for (row, column), plant in field.plants.items():
        if plant.letter == TORCH:
            torches[row] = max(column, torches.get(row, -1))
    hp = [zombie.hp for zombie in field.zombies]
    queues = _queues(field)
    for row, column in shooters:
        single = field.plants[row, column].letter == PEASHOOTER
        for target in (row,) if single else (row - 1, row, row + 1):
            queue = queues.get(target)
            if not queue:
                continue
            torch_row = target if torch == "target_row" else row
            lit = torches.get(torch_row, -1) > column
            hp[queue[-1]] -= SHOT_DAMAGE + TORCH_BONUS * lit
            if hp[queue[-1]] <= 0:
                queue.pop()
    field.zombies = [
        zombie if left == zombie.hp else zombie._replace(hp=left)
        for zombie, left in zip(field.zombies, hp, strict=True)
        if left > 0
    ]


def _queues(field: Field) -> dict[int, list[int]]:
    """Return row -> positions in ``zombies``, the first zombie of the row last."""
    queues: dict[int, list[int]] = {}
    for index, zombie in enumerate(field.zombies):
        queues.setdefault(zombie.row, []).append(index)
    for queue in queues.values():
        queue.sort(key=lambda index: (-field.zombies[index].column, -index))
    return queues


def march(field: Field) -> None:
    """Let the zombies bite or walk, in spawn order, until one gets through."""
    for index, zombie in enumerate(field.zombies):
        cell = (zombie.row, zombie.column)
        plant = field.plants.get(cell)
        if plant is not None:
            left = plant.hp - ZOMBIES[zombie.letter].attack
            if left > 0:
                field.plants[cell] = plant._replace(hp=left)
            else:
                del field.plants[cell]
        elif zombie.column == 0:
            field.breached = zombie.row
            return
        else:
            field.zombies[index] = zombie._replace(column=zombie.column - 1)
