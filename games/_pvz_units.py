"""Plants, zombies and waves of Plants-vs-Zombies: the constants that rules and texts share.

Source: letters and names from the S3Gym paper, numbers from games.md 6.A and 6.B.
"""

from dataclasses import dataclass
from typing import NamedTuple

from s3gym.seeds import Stream

HORIZON = 64
START_SUN = 50
SUN_PER_TURN = 25
SUNFLOWER_SUN = 10
SHOT_DAMAGE = 1
TORCH_BONUS = 1
WAVE_EVERY = 5
STAGE_TURNS = 10
HP_PER_STAGE = 4

SUNFLOWER, PEASHOOTER, TRIPLE, WALLNUT, TORCH, CHILI = "XWSJHF"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantKind:
    """What a plant is called, costs in sun, and withstands in hit points.

    Attributes:
        hp: Hit points; 0 for a plant that is gone before a zombie can bite it.
    """

    name: str
    cost: int
    hp: int
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ZombieKind:
    """What a zombie is called and can do.

    Attributes:
        hp: Hit points in stage 0.
        attack: Hit points that it takes from the plant in its cell each turn.
        stage: First stage in which it appears.
    """

    name: str
    hp: int
    attack: int
    stage: int


PLANTS: dict[str, PlantKind] = {
    SUNFLOWER: PlantKind(
        name="Sunflower",
        cost=50,
        hp=2,
        effect=f"gives {SUNFLOWER_SUN} sun every turn, from the turn it is planted",
    ),
    PEASHOOTER: PlantKind(
        name="Peashooter",
        cost=100,
        hp=2,
        effect=f"each turn deals {SHOT_DAMAGE} damage to the first zombie of its row",
    ),
    TRIPLE: PlantKind(
        name="Three-Line Shooter",
        cost=325,
        hp=2,
        effect=f"each turn deals {SHOT_DAMAGE} damage to the first zombie of its row and of each "
        "neighbouring row",
    ),
    WALLNUT: PlantKind(name="Wall-nut", cost=50, hp=10, effect="only blocks"),
    TORCH: PlantKind(name="Torch Stump", cost=125, hp=2, effect=""),
    CHILI: PlantKind(
        name="Fire Chili",
        cost=300,
        hp=0,
        effect="in the turn it is planted removes every zombie of its row, and itself",
    ),
}
"""Letter -> plant, in the order of the rules text. The torch's effect is a switch."""

ZOMBIES: dict[str, ZombieKind] = {
    "N": ZombieKind(name="Regular", hp=4, attack=1, stage=0),
    "R": ZombieKind(name="Roadblock", hp=8, attack=1, stage=1),
    "B": ZombieKind(name="Bucket", hp=12, attack=1, stage=2),
    "I": ZombieKind(name="High-Attack", hp=6, attack=3, stage=2),
}
"""Letter -> zombie, in the order of the rules text."""


class Plant(NamedTuple):
    """A plant on the board; (row, column) zero-based, row 0 on top."""

    letter: str
    row: int
    column: int
    hp: int


class Zombie(NamedTuple):
    """A zombie on the board; (row, column) zero-based, row 0 on top."""

    letter: str
    row: int
    column: int
    hp: int


class Wave(NamedTuple):
    """The zombies that enter at the end of a turn, in spawn order."""

    turn: int
    zombies: tuple[Zombie, ...]


WAVE_TURNS = range(1, HORIZON + 1, WAVE_EVERY)


def stage_of(turn: int) -> int:
    """Return the stage of a wave's turn: 0 first, one more every ``STAGE_TURNS`` turns."""
    return (turn - 1) // STAGE_TURNS


def wave_size(turn: int) -> int:
    """Return how many zombies the wave of a turn brings."""
    return 1 + stage_of(turn)


def zombie_hp(letter: str, turn: int) -> int:
    """Return the hit points of a zombie that enters at the end of a turn."""
    return ZOMBIES[letter].hp + HP_PER_STAGE * stage_of(turn)


def draw_waves(stream: Stream, rows: int, columns: int) -> tuple[Wave, ...]:
    """Draw all zombies of an episode: for each one its row first, then its kind."""
    waves = []
    for turn in WAVE_TURNS:
        letters = [letter for letter, kind in ZOMBIES.items() if kind.stage <= stage_of(turn)]
        zombies = []
        for _ in range(wave_size(turn)):
            row = stream.below(rows)
            letter = stream.pick(letters)
            zombies.append(Zombie(letter, row, columns - 1, zombie_hp(letter, turn)))
        waves.append(Wave(turn, tuple(zombies)))
    return tuple(waves)
