"""The reference player of Plants-vs-Zombies: sun, walls, chili.

Sunflowers pay for everything; wall-nuts hold the zombies up; a chili burns a lane before it
breaks.

Source: games.md 6.G.
"""

from s3gym.agents.reading.pvz import Unit, read
from s3gym.agents.strategies._pvz_garden import ATTACKS, CHILI, SUNFLOWER, WALLNUT, Garden
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream

CROWD = 4
PAIR = 2


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the plants of this turn."""
    garden = Garden(read(turn.observation.text))
    lanes = sorted(range(garden.view.rows), key=lambda row: _risk(garden, row))
    for row in lanes:
        if garden.affords(CHILI) and _needs_fire(garden, row):
            for column in reversed(range(garden.view.columns)):
                if garden.plant(CHILI, (row, column)):
                    break
    for row in lanes:
        if any(zombie.column == 0 for zombie in garden.lane(row)):
            garden.plant(WALLNUT, (row, 0))
    for row in lanes:
        _wall_up(garden, row)
    emptiest = sorted(range(garden.view.rows), key=lambda row: len(garden.lane(row)))
    for column in range(garden.view.columns - 2):
        for row in emptiest:
            garden.plant(SUNFLOWER, (row, column))
    return garden.move()


def _risk(garden: Garden, row: int) -> tuple[int, int, int]:
    """Rank a lane: the nearest to a breach first, the fuller one among equals."""
    zombies = garden.lane(row)
    nearest = zombies[0].column if zombies else garden.view.columns
    guards = sum(plant.column <= nearest for plant in _plants(garden, row))
    return (nearest + guards, nearest, -len(zombies))


def _needs_fire(garden: Garden, row: int) -> bool:
    """Return whether a lane is about to break, or holds a crowd."""
    zombies = garden.lane(row)
    if any(zombie.column == 0 and zombie.cell not in garden.plants for zombie in zombies):
        return True
    return len(zombies) >= CROWD or (
        len(zombies) >= PAIR and any(_dies(plant, zombies) for plant in _plants(garden, row))
    )


def _dies(plant: Unit, zombies: list[Unit]) -> bool:
    """Return whether the zombies in a plant's cell eat it up in this turn."""
    bites = sum(ATTACKS[zombie.letter] for zombie in zombies if zombie.cell == plant.cell)
    return plant.hp is not None and plant.hp <= bites


def _wall_up(garden: Garden, row: int) -> None:
    """Put a wall-nut before the rightmost plant that the nearest zombie will meet."""
    zombies = garden.lane(row)
    if not zombies:
        return
    nearest = zombies[0].column
    met = [plant for plant in _plants(garden, row) if plant.column < nearest]
    if not met:
        return
    plant = max(met, key=lambda unit: unit.column)
    if plant.letter != WALLNUT and nearest - plant.column <= PAIR:
        garden.plant(WALLNUT, (row, plant.column + 1))


def _plants(garden: Garden, row: int) -> list[Unit]:
    return [plant for cell, plant in sorted(garden.plants.items()) if cell[0] == row]
