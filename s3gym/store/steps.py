"""A step as a row of the learner's table, and back.

Knows nothing of verdicts and scores.
"""

import json
from collections.abc import Sequence
from typing import Any, cast

from s3gym.records import Decision, Observation, Status, Step, Usage
from s3gym.store.chain import canonical


def _usage_text(usage: Usage) -> str:
    if not usage.calls:
        return "{}"
    return canonical(
        {
            "calls": usage.calls,
            "input_tokens": usage.input_tokens,
            "cached_tokens": usage.cached_tokens,
            "output_tokens": usage.output_tokens,
            "reasoning_tokens": usage.reasoning_tokens,
        }
    )


def step_row(episode: str, step: Step, recollection: str) -> tuple[Any, ...]:
    """Return the hashed columns of a step, in the table's order."""
    decision, outcome = step.decision, step.outcome
    return (
        episode,
        step.index,
        decision.action,
        decision.self_score,
        decision.note,
        decision.status,
        canonical(decision.repairs) if decision.repairs else "[]",
        decision.raw,
        _usage_text(decision.usage),
        recollection,
        outcome.text,
        outcome.feedback,
        int(outcome.done),
    )


def step_of(row: Sequence[Any], observation: Observation) -> Step:
    """Return the step of a row, given the observation before it."""
    usage = json.loads(row[8])
    return Step(
        index=row[1],
        observation=observation,
        decision=Decision(
            action=row[2],
            self_score=row[3],
            note=row[4],
            status=cast(Status, row[5]),
            repairs=tuple(json.loads(row[6])),
            raw=row[7],
            usage=Usage(**usage),
        ),
        outcome=Observation(text=row[10], feedback=row[11], done=bool(row[12])),
    )
