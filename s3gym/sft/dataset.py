"""What examples are made of, and the examples with the reason for every step left out."""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from s3gym.contracts.trainer import Example
from s3gym.records import Episode, Phase, Status, Step, Turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Explored:
    """An exploration episode with everything that its prompts were made of.

    Attributes:
        episode: As the agent lived it.
        instruction: System text of its turns.
        max_steps: Step cap of the episode.
        labels: What stands in for the self-scores, one per step; set by oracle arms alone. The
            prompts still show what the agent said.
    """

    episode: Episode
    instruction: str
    max_steps: int
    labels: tuple[float, ...] | None = None

    def turn(self, step: Step) -> Turn:
        """Return the turn in which a step was decided, without what a memory recalled."""
        return Turn(
            episode=self.episode.id,
            game=self.episode.game,
            phase=Phase.EXPLORATION,
            rules=self.episode.rules,
            instruction=self.instruction,
            observation=step.observation,
            trail=self.episode.steps[: step.index],
            index=step.index,
            max_steps=self.max_steps,
        )

    def score(self, step: Step) -> float | None:
        """Return the score by which a step is chosen, in game points."""
        return step.decision.self_score if self.labels is None else self.labels[step.index]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Where an example comes from, or why a step gave none.

    Attributes:
        ordinal: One-based position of the episode among those of its study.
        status: How the recorded reply kept the response contract.
        self_score: The score that decided, in game points.
        action: The recorded action.
        origin: How the answer came about; ``""`` for a step that gave no example.
        reason: Why there is no example; ``""`` for one.
    """

    game: str
    episode: str
    ordinal: int
    step: int
    status: Status
    self_score: float | None
    action: str
    origin: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """Training examples in order of episodes and steps.

    Attributes:
        sources: One per example, in the same order.
        dropped: One per step that gave no example.
        thresholds: Per game, the lowest self-score that was high enough, in game points.
    """

    examples: tuple[Example, ...] = ()
    sources: tuple[Choice, ...] = ()
    dropped: tuple[Choice, ...] = ()
    thresholds: Mapping[str, float] = field(default_factory=dict)

    @property
    def hash(self) -> str:
        """SHA-256 over the examples' canonical rows, in hexadecimal."""
        rows = "\n".join(_canonical(example_row(example)) for example in self.examples)
        return sha256(rows.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def reasons(self) -> dict[str, int]:
        """Return how many steps each reason left out, by reason."""
        return dict(sorted(Counter(choice.reason for choice in self.dropped).items()))

    @property
    def origins(self) -> dict[str, int]:
        """Return how many examples came about in each way, by origin."""
        return dict(sorted(Counter(choice.origin for choice in self.sources).items()))


def example_row(example: Example) -> dict[str, Any]:
    """Return everything that an example consists of, JSON-safe."""
    return {
        "messages": [[message.role, message.content] for message in example.messages],
        "answer": example.answer,
        "weight": example.weight,
        "episode": example.episode,
        "step": example.step,
        "origin": example.origin,
    }


def example_hash(example: Example) -> str:
    """Return the SHA-256 of one example's canonical row, in hexadecimal."""
    return sha256(_canonical(example_row(example)).encode("utf-8", "surrogatepass")).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
