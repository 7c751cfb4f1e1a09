"""What the printed rules of Plants-vs-Zombies say about the turn that is about to be played.

``Garden`` collects the plants of one action within the sun at hand, and foresees whether a
zombie gets through in this very turn. New zombies enter after that, so nothing is left to
chance.
"""

from dataclasses import dataclass, field

from s3gym.agents.reading.pvz import Cell, PvzView, Unit
from s3gym.agents.strategies.playbook import Move

SUNFLOWER, PEASHOOTER, TRIPLE, WALLNUT, TORCH, CHILI = "XWSJHF"
COSTS = {SUNFLOWER: 50, PEASHOOTER: 100, TRIPLE: 325, WALLNUT: 50, TORCH: 125, CHILI: 300}
PLANT_HP = {SUNFLOWER: 2, PEASHOOTER: 2, TRIPLE: 2, WALLNUT: 10, TORCH: 2, CHILI: 0}
ATTACKS = {"N": 1, "R": 1, "B": 1, "I": 3}
UNKNOWN_HP = 1_000


@dataclass(slots=True)
class Garden:
    """A view and the plants that are about to be added to it.

    Attributes:
        view: What the text shows.
        sun: Sun that is left.
        plants: Cell -> plant, the planned ones included.
        items: The planned items, in the syntax of the rules.
    """

    view: PvzView
    sun: int = field(init=False)
    plants: dict[Cell, Unit] = field(init=False)
    items: list[str] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.sun = self.view.sun
        self.plants = {plant.cell: plant for plant in self.view.plants}

    def free_cells(self) -> list[Cell]:
        """Return the cells without a plant, row-major."""
        return [
            (row, column)
            for row in range(self.view.rows)
            for column in range(self.view.columns)
            if (row, column) not in self.plants
        ]

    def lane(self, row: int) -> list[Unit]:
        """Return the zombies of a row that no planned chili burns, from the left."""
        if any(plant.letter == CHILI and plant.row == row for plant in self.plants.values()):
            return []
        zombies = [zombie for zombie in self.view.zombies if zombie.row == row]
        return sorted(zombies, key=lambda zombie: zombie.column)

    def affords(self, letter: str) -> bool:
        """Return whether the sun suffices for a plant."""
        return self.sun >= COSTS[letter]

    def plant(self, letter: str, cell: Cell) -> bool:
        """Plan a plant where the cell is free and the sun suffices; return whether it is."""
        if cell in self.plants or not self.affords(letter):
            return False
        self.sun -= COSTS[letter]
        self.plants[cell] = Unit(letter, *cell, PLANT_HP[letter])
        self.items.append(f"{letter} {cell[0]} {cell[1]}")
        return True

    def move(self) -> Move:
        """Return the planned items, worth 1 if this turn will be survived, else 0."""
        return Move(action="; ".join(self.items), self_score=float(self.survives()))

    def survives(self) -> bool:
        """Return whether no zombie gets through in this turn."""
        plants = {cell: plant for cell, plant in self.plants.items() if plant.letter != CHILI}
        left = {cell: _hp(plant, PLANT_HP[plant.letter]) for cell, plant in plants.items()}
        for zombie in self._standing():
            cell = zombie.cell
            if cell in left:
                left[cell] -= ATTACKS[zombie.letter]
                if left[cell] <= 0:
                    del left[cell]
            elif zombie.column == 0:
                return False
        return True

    def _standing(self) -> list[Unit]:
        """Return the zombies that chilis and shooters leave, in the order of entering."""
        queues = {row: self.lane(row) for row in range(self.view.rows)}
        hp = {id(zombie): _hp(zombie, UNKNOWN_HP) for zombie in self.view.zombies}
        torches = [plant for plant in self.plants.values() if plant.letter == TORCH]
        for (row, column), plant in sorted(self.plants.items()):
            if plant.letter not in (PEASHOOTER, TRIPLE):
                continue
            lit = any(torch.row == row and torch.column > column for torch in torches)
            targets = (row,) if plant.letter == PEASHOOTER else (row - 1, row, row + 1)
            for target in targets:
                queue = queues.get(target)
                if queue:
                    hp[id(queue[0])] -= 2 if lit else 1
                    if hp[id(queue[0])] <= 0:
                        queue.pop(0)
        standing = {id(zombie) for queue in queues.values() for zombie in queue}
        return [zombie for zombie in self.view.zombies if id(zombie) in standing]


def _hp(unit: Unit, default: int) -> int:
    return default if unit.hp is None else unit.hp
