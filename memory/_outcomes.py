"""How episodes went, judged from the agent's own side: no verifier is known here.

The outcome of an episode is the *sum* of its self-scores. A step's score alone would praise a
greedy move that spoils the rest of its episode.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import fsum, inf

from s3gym.prompts import number
from s3gym.records import Episode
from s3gym.text import shorten

STRATEGY = re.compile(r"\bstrategy:\s*([a-z0-9][a-z0-9-]*)", re.IGNORECASE)
OPENING_ACTIONS = 6
SHOWN_CHARACTERS = 120


def self_scores(episode: Episode) -> list[float]:
    """Return the self-scores of an episode; steps without one and END steps are left out."""
    return [
        step.decision.self_score
        for step in episode.steps
        if step.decision.self_score is not None and step.decision.status != "end"
    ]


def mean_self_score(episode: Episode) -> float:
    """Return the mean self-score of an episode's steps, in game points.

    ``-inf`` when no step was judged, so that such an episode ranks last instead of as 0.
    """
    judged = self_scores(episode)
    return fsum(judged) / len(judged) if judged else -inf


def outcome(episode: Episode) -> float | None:
    """Return the sum of the self-scores, in game points; ``None`` when no step was judged."""
    judged = self_scores(episode)
    return fsum(judged) if judged else None


def label(episode: Episode) -> str:
    """Name what was played: the strategy that the notes name, else the usual action.

    Returns:
        ``strategy: NAME``; else ``mostly: ACTION`` when one action makes up half of the steps or
        more; else ``mixed actions``.
    """
    names = [
        match[1].lower() for step in episode.steps if (match := STRATEGY.search(step.decision.note))
    ]
    if names:
        return f"strategy: {Counter(names).most_common(1)[0][0]}"
    actions = Counter(step.decision.action for step in episode.steps)
    if actions:
        action, count = actions.most_common(1)[0]
        if 2 * count >= len(episode.steps):
            return f"mostly: {one_line(action)}"
    return "mixed actions"


def one_line(text: str) -> str:
    """Return text as one line of at most about 120 characters."""
    plain = " ".join(text[: 4 * SHOWN_CHARACTERS].split())
    return plain if len(plain) <= SHOWN_CHARACTERS else shorten(plain, SHOWN_CHARACTERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """What is needed of an episode to compare it with others.

    Attributes:
        outcome: Sum of the self-scores, in game points, or ``None``.
        ending: The last feedback, in one line.
        words: The agent's last own words that name no strategy, in one line.
    """

    id: str
    ordinal: int
    label: str
    outcome: float | None
    n_steps: int
    opening: tuple[str, ...]
    ending: str
    words: str

    def line(self) -> str:
        """Return the digest in one line."""
        return (
            f"Episode {self.ordinal}: {self.label}, {self.n_steps} steps, self-scored outcome "
            f"{number(self.outcome)}, ended with: {self.ending or 'nothing said'}"
        )


def digest(episode: Episode) -> Digest:
    """Return an episode's digest."""
    words = [step.decision.note for step in episode.steps if step.decision.note]
    own = [note for note in words if not STRATEGY.search(note)]
    return Digest(
        id=episode.id,
        ordinal=episode.ordinal,
        label=label(episode),
        outcome=outcome(episode),
        n_steps=len(episode.steps),
        opening=tuple(one_line(step.decision.action) for step in episode.steps[:OPENING_ACTIONS]),
        ending=one_line(episode.steps[-1].outcome.feedback) if episode.steps else "",
        words=one_line(own[-1]) if own else "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Episodes in which the same was played, as far as they were judged.

    Attributes:
        mean: Mean outcome, in game points.
        count: Judged episodes, at least 1.
    """

    label: str
    mean: float
    count: int

    def line(self) -> str:
        """Return the group in the words that agents look for."""
        mean = number(self.mean)
        return f"{self.label} (mean self-scored outcome {mean} over {self.count} episodes)"


def groups(digests: Iterable[Digest]) -> list[Group]:
    """Return the judged groups, the best mean outcome first, equal ones by label."""
    outcomes: dict[str, list[float]] = {}
    for item in digests:
        if item.outcome is not None:
            outcomes.setdefault(item.label, []).append(item.outcome)
    found = [
        Group(label=name, mean=fsum(values) / len(values), count=len(values))
        for name, values in outcomes.items()
    ]
    return sorted(found, key=lambda group: (-group.mean, group.label))


def overall_mean(digests: Sequence[Digest]) -> float:
    """Return the mean outcome of the judged episodes, in game points; 0 when there is none."""
    judged = [item.outcome for item in digests if item.outcome is not None]
    return fsum(judged) / len(judged) if judged else 0.0
