"""Oracle arms: what if one of the three abilities were perfect? Outside the protocol, on purpose.

``judge``: memory is given the verifier's rewards in place of the agent's self-scores.
``explorer``: the reference player explores, the agent is evaluated.
``reward``: training examples are chosen by, and teach, the verifier's rewards.

A rise over the plain arm shows that judging, or testing, is what holds the agent back. The
recorded steps keep what the agent said; only the copy that goes to memory or training is changed.
Such studies say so in their specification, their audit warns, and reports mark them.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from s3gym.errors import ProtocolBreachError
from s3gym.records import Episode
from s3gym.sft.dataset import Explored
from s3gym.verdict import Verdict

Oracle = Literal["judge", "explorer", "reward"]
ORACLES: tuple[Oracle, ...] = get_args(Oracle)


def with_rewards(episode: Episode, verdicts: Sequence[Verdict]) -> Episode:
    """Return a copy of an episode whose self-scores are the verifier's rewards.

    Args:
        episode: A finished exploration episode.
        verdicts: One per step.

    Raises:
        ProtocolBreachError: There are more or fewer verdicts than steps.
    """
    _check_length(episode, verdicts)
    return replace(
        episode,
        steps=tuple(
            replace(step, decision=replace(step.decision, self_score=verdict.reward))
            for step, verdict in zip(episode.steps, verdicts, strict=True)
        ),
    )


def with_labels(explored: Explored, verdicts: Sequence[Verdict]) -> Explored:
    """Return a copy for training whose scores are the verifier's rewards.

    The prompts made of it show the self-scores that the agent gave, as it saw them.

    Args:
        explored: A finished exploration episode.
        verdicts: One per step.

    Raises:
        ProtocolBreachError: There are more or fewer verdicts than steps.
    """
    _check_length(explored.episode, verdicts)
    return replace(explored, labels=tuple(verdict.reward for verdict in verdicts))


def _check_length(episode: Episode, verdicts: Sequence[Verdict]) -> None:
    if len(verdicts) != len(episode.steps):
        raise ProtocolBreachError(
            f"{episode.id}: {len(episode.steps)} steps, but {len(verdicts)} verdicts"
        )
