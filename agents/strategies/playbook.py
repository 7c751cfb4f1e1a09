"""What a game's strategies offer: moves chosen from text, and the outcome that text shows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from s3gym.records import Turn
from s3gym.seeds import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """An action with the reward that the printed rules let one expect, in game points."""

    action: str
    self_score: float


Chooser = Callable[[Turn, Stream], Move]
"""A strategy: from a turn's visible text and trail, and a random stream, to a move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Playbook:
    """A game's named strategies.

    Attributes:
        strategies: Name -> strategy. Names hold lower-case letters and hyphens only.
        random: Uniform random play, the anchor "random" of games.md table 8.A.
        outcome: From the text of an episode's last observation to how well it visibly went
            (higher is better; in game points where the text shows them).
    """

    strategies: Mapping[str, Chooser]
    random: Chooser
    outcome: Callable[[str], float]
