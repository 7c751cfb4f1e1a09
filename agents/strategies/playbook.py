"""What a game's strategies offer: moves chosen from text, and the outcome that text shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from s3gym.records import Step, Turn
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
        outcome_of_steps: The same from all steps of an episode, for games whose last
            observation does not show it.
    """

    strategies: Mapping[str, Chooser]
    random: Chooser
    outcome: Callable[[str], float]
    outcome_of_steps: Callable[[Sequence[Step]], float] | None = None

    def visible_outcome(self, steps: Sequence[Step]) -> float:
        """Return how well a finished episode visibly went."""
        if self.outcome_of_steps is not None:
            return self.outcome_of_steps(steps)
        return self.outcome(steps[-1].outcome.text)
