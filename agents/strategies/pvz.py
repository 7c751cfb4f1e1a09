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
    return _filled(turn, SUNFLOWER)


def peashooters(turn: Turn, stream: Stream) -> Move:
    """Put a peashooter on every cell that the sun pays for, column by column from the left."""
    return _filled(turn, PEASHOOTER)


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


def _filled(turn: Turn, letter: str) -> Move:
    garden = Garden(read(turn.observation.text))
    for cell in sorted(garden.free_cells(), key=lambda cell: (cell[1], cell[0])):
        garden.plant(letter, cell)
    return garden.move()


PLAYBOOK = Playbook(
    strategies={"peashooters": peashooters, "sunflowers": sunflowers, "wait": wait},
    random=random_plant,
    outcome=outcome,
)
