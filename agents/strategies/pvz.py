"""Plain strategies for Plants-vs-Zombies. They know the printed rules and what the text shows.

A self-score is exact by the rules: 1 for a turn that will be survived, 0 for the lethal one.
"""

from s3gym.agents.reading.pvz import read
from s3gym.agents.strategies._pvz_garden import COSTS, PEASHOOTER, SUNFLOWER, Garden
from s3gym.agents.strategies.playbook import Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream


def wait(turn: Turn, stream: Stream) -> Move:
    """Plant nothing."""
    return Garden(read(turn.observation.text)).move()


def sunflowers(turn: Turn, stream: Stream) -> Move:
    """Put a sunflower on every cell that the sun pays for, column by column from the left."""
    garden = Garden(read(turn.observation.text))
    for cell in sorted(garden.free_cells(), key=lambda cell: (cell[1], cell[0])):
        garden.plant(SUNFLOWER, cell)
    return garden.move()


def peashooters(turn: Turn, stream: Stream) -> Move:
    """Put peashooters, from the left, into the lane with most zombies per peashooter."""
    garden = Garden(read(turn.observation.text))
    for cell in sorted(garden.free_cells(), key=lambda cell: cell[1]):
        row = min(range(garden.view.rows), key=lambda lane: _strength(garden, lane))
        if cell[0] == row:
            garden.plant(PEASHOOTER, cell)
    return garden.move()


def random_plant(turn: Turn, stream: Stream) -> Move:
    """Half of the time plant something affordable on a free cell, all choices equally likely."""
    garden = Garden(read(turn.observation.text))
    letters = [letter for letter in COSTS if garden.affords(letter)]
    cells = garden.free_cells()
    if stream.chance(0.5) and letters and cells:
        garden.plant(stream.pick(letters), stream.pick(cells))
    return garden.move()


def outcome(text: str) -> float:
    """Return how many turns have visibly been survived."""
    return float(read(text).survived)


def _strength(garden: Garden, row: int) -> int:
    """Return how many peashooters a lane has beyond its zombies."""
    plants = [plant for plant in garden.plants.values() if plant.row == row]
    return sum(plant.letter == PEASHOOTER for plant in plants) - len(garden.lane(row))


PLAYBOOK = Playbook(
    strategies={"peashooters": peashooters, "sunflowers": sunflowers, "wait": wait},
    random=random_plant,
    outcome=outcome,
)
