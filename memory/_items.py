"""The items of a vector memory: what they say and how well they went."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from s3gym.memory._outcomes import one_line, outcome
from s3gym.prompts import closing_line, number, step_lines
from s3gym.records import Episode, Step

MAX_ACTIONS = 64
NEUTRAL = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """What one row of the vectors stands for.

    Attributes:
        text: What is recalled.
        same: Equal for items that say the same, whatever their episode.
        steps: The step, or the first and the last step of the episode.
        self_score: Of the step, in game points; ``None`` for an episode.
        outcome: Sum of the episode's self-scores, in game points, or ``None``.
    """

    kind: Literal["step", "episode"]
    episode: str
    text: str
    same: tuple[str, ...]
    steps: tuple[Step, ...]
    self_score: float | None
    outcome: float | None


def step_item(episode: Episode, step: Step) -> Item:
    """Return a step as an item: its pair of lines and what came of it."""
    heard, answered = step_lines(step)
    lines = [f"Episode {episode.ordinal}, step {step.index + 1}:", heard, answered]
    return Item(
        kind="step",
        episode=episode.id,
        text="\n".join([*lines, closing_line(step)]),
        same=(heard, answered, closing_line(step)),
        steps=(step,),
        self_score=None if step.decision.status == "end" else step.decision.self_score,
        outcome=outcome(episode),
    )


def episode_item(episode: Episode) -> Item:
    """Return an episode as an item: its opening, its first 64 actions and how it ended."""
    first, last = episode.steps[0], episode.steps[-1]
    total = number(outcome(episode))
    actions = ", ".join(one_line(step.decision.action) for step in episode.steps[:MAX_ACTIONS])
    more = len(episode.steps) - MAX_ACTIONS
    body = [
        step_lines(first)[0],
        f"Actions: {actions}" + (f", and {more} more" if more > 0 else ""),
        closing_line(last),
    ]
    size = f"{len(episode.steps)} steps"
    head = f"Episode {episode.ordinal}, {size}, self-scored outcome {total}:"
    return Item(
        kind="episode",
        episode=episode.id,
        text="\n".join([head, *body]),
        same=(size, total, *body),
        steps=(first,) if first is last else (first, last),
        self_score=None,
        outcome=outcome(episode),
    )


def midranks(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return each value's rank in [0, 1], ties sharing one; 0.5 for a missing value."""
    known = np.array([value for value in values if value is not None], dtype=float)
    ranks = np.full(len(values), NEUTRAL)
    if len(known):
        low = np.searchsorted(np.sort(known), known, "left")
        high = np.searchsorted(np.sort(known), known, "right")
        present = [index for index, value in enumerate(values) if value is not None]
        ranks[present] = (low + high) / (2 * len(known))
    return ranks


def qualities(items: Sequence[Item]) -> NDArray[np.float64]:
    """Return how well each item went, in [0, 1], by self-scores alone.

    An episode: its rank by the sum of its self-scores. A step: the mean of its own rank among
    all steps and its episode's rank. A missing self-score counts as the middle.
    """
    outcomes: dict[str, float | None] = {item.episode: item.outcome for item in items}
    by_episode = dict(zip(outcomes, midranks(list(outcomes.values())), strict=True))
    own = midranks([item.self_score for item in items])
    return np.array(
        [
            by_episode[item.episode]
            if item.kind == "episode"
            else (by_episode[item.episode] + own[index]) / 2
            for index, item in enumerate(items)
        ],
        dtype=float,
    )
