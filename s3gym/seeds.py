"""Where all randomness comes from: one plan of seeds per run, named streams per episode.

A seed is a hash of what it is for, so nothing depends on the order of draws. Draws are built
from uniform numbers alone (``Stream``), not from library functions whose algorithm may change
between Python versions, so golden traces stay valid.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeVar

from s3gym.records import Phase

T = TypeVar("T")
SEED_BITS = 63


def derive(*parts: object) -> int:
    """Return a 63-bit seed that depends on every part and on nothing else."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") >> (64 - SEED_BITS)


class Stream:
    """Uniform draws from one seed, equal on every Python version."""

    __slots__ = ("_uniform",)

    def __init__(self, seed: int) -> None:
        self._uniform = random.Random(seed).random

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return self._uniform()

    def below(self, n: int) -> int:
        """Return an integer in 0..n-1; ``n`` is at least 1."""
        return int(self._uniform() * n)

    def between(self, low: int, high: int) -> int:
        """Return an integer in low..high, both included."""
        return low + self.below(high - low + 1)

    def chance(self, probability: float) -> bool:
        """Return True with the given probability in [0, 1]."""
        return self._uniform() < probability

    def pick(self, items: Sequence[T]) -> T:
        """Return one item, all equally likely."""
        return items[self.below(len(items))]

    def weighted(self, weights: Sequence[float]) -> int:
        """Return an index, drawn in proportion to its weight (at least 0, sum above 0)."""
        goal = self._uniform() * sum(weights)
        for index, weight in enumerate(weights):
            goal -= weight
            if goal < 0:
                return index
        return max(index for index, weight in enumerate(weights) if weight > 0)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order (Fisher-Yates)."""
        result = list(items)
        for index in range(len(result) - 1, 0, -1):
            other = self.below(index + 1)
            result[index], result[other] = result[other], result[index]
        return result

    def sample(self, items: Sequence[T], n: int) -> list[T]:
        """Return ``n`` different items in random order; ``n`` is at most their number."""
        pool = list(items)
        for index in range(n):
            other = index + self.below(len(pool) - index)
            pool[index], pool[other] = pool[other], pool[index]
        return pool[:n]


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeSeeds:
    """The seeds that one episode's game may draw from.

    Attributes:
        episode: The episode's own seed.
        world: The study's world seed: equal for all its episodes, exploration and evaluation,
            and for every arm of a sweep; ``None`` means the printed default world.
        game: Name of the game, part of every stream's key.
    """

    episode: int
    world: int | None = None
    game: str = ""

    def stream(self, name: str, counter: int = 0) -> Stream:
        """Return the named stream; ``counter`` makes later draws pure functions of a state."""
        return Stream(derive("stream", self.game, self.episode, name, counter))

    def world_stream(self, name: str) -> Stream:
        """Return a named stream of the world seed."""
        return Stream(derive("world", self.game, self.world, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedPlan:
    """All seeds of a run. Arms share seeds, repeats share none, the phases can never share one.

    Attributes:
        root: The run's root seed.
        salt: Secret part of every evaluation seed; it stands in the store only.
        fresh_evaluation_seeds: Whether each checkpoint gets evaluation seeds of its own.
    """

    root: int
    salt: str = ""
    fresh_evaluation_seeds: bool = False

    def episode(self, game: str, repeat: int, phase: Phase, index: int, checkpoint: int = 0) -> int:
        """Return an episode's seed, 63 bits; the lowest bit is 1 for evaluation.

        Args:
            game: Name of the game.
            repeat: Zero-based repeat.
            phase: Which phase the episode belongs to.
            index: Zero-based position: of all exploration episodes, or within a checkpoint.
            checkpoint: Only read with ``fresh_evaluation_seeds``.
        """
        evaluation = phase is Phase.EVALUATION
        salt = self.salt if evaluation else ""
        block = checkpoint if evaluation and self.fresh_evaluation_seeds else 0
        drawn = derive("episode", self.root, game, repeat, phase.value, block, index, salt)
        return (drawn >> 1 << 1) | int(evaluation)

    def world(self, game: str, repeat: int) -> int:
        """Return the world seed of a study."""
        return derive("world", self.root, game, repeat)

    def agent(
        self,
        game: str,
        repeat: int,
        phase: Phase,
        index: int,
        step: int,
        checkpoint: int = 0,
    ) -> int:
        """Return the agent's seed for one step; it tells nothing about the game's seeds."""
        return derive("agent", self.root, game, repeat, phase.value, checkpoint, index, step)

    def update(self, game: str, repeat: int, version: int) -> int:
        """Return the seed of an update of weights; it tells nothing about the game's seeds.

        Args:
            game: Name of the game.
            repeat: Zero-based repeat.
            version: Exploration episodes before the update.
        """
        return derive("update", self.root, game, repeat, version)
