"""What may not be seen: the values of the verifier's side.

The learner's side (agents, memory, prompts, training data) never imports this module; an
import contract checked in CI says so.
"""

from dataclasses import dataclass

from s3gym.records import Episode, Phase


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The verifier's judgement of one step.

    Attributes:
        reward: In game points; 0.0 for a refused action and for END.
        legal: False when the rules refused the action.
        terminated: The rules ended the episode at this step.
        truncated: The step cap ended it.
    """

    reward: float
    legal: bool
    terminated: bool
    truncated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedEpisode:
    """An episode with everything that was withheld from the agent.

    Attributes:
        verdicts: One per step of ``episode``.
        score: The verifier's value of the episode, in game points.
        seed: The episode's seed.
        checkpoint: Exploration episodes before it; only for evaluation episodes.
    """

    episode: Episode
    verdicts: tuple[Verdict, ...]
    score: float
    seed: int
    phase: Phase
    checkpoint: int | None = None
