"""Laying out a turn as chat messages: the paper's order and a cache-friendly one.

Knows nothing of games, verifiers and stores. Both layouts carry the same content.

Source: S3Gym paper, prompt appendix (direct and summary layouts); the wording is ours.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from s3gym.records import Decision, Layout, Message, Step, Turn

BASE_INSTRUCTION = (
    "You are playing a text game, one action at a time. Work out the best next action from the "
    "rules, the history and the current state, and estimate the immediate reward that the "
    "game's verifier will give for exactly that action."
)

RESPONSE_CONTRACT = (
    "You may reason first. The last line of your reply must be exactly:\n"
    "Answer: <ACTION>, Score: <SELF-SCORE>\n"
    "<ACTION> is one action in the syntax of the rules. <SELF-SCORE> is one number: your estimate "
    "of the immediate reward of that action, in game points (it may be negative or fractional; it "
    "is not a confidence). If you think that the episode is over, or want to stop, reply:\n"
    "Answer: END, Score: 0"
)

EARLIER_HEADER = "What you remember from earlier episodes:"
CURRENT_HEADER = "The current episode so far:"
RULES_HEADER = "Rules:"


def number(value: float | None) -> str:
    """Show a self-score in at most 9 significant digits; ``none`` when it is missing."""
    return "none" if value is None else f"{value:.9g}"


def answer_line(decision: Decision) -> str:
    """Return the decision as the contract's last line; a missing self-score is left out.

    A word in its place would be copied by models as if it were a score.
    """
    if decision.self_score is None:
        return f"Answer: {decision.action}"
    return f"Answer: {decision.action}, Score: {number(decision.self_score)}"


def step_lines(step: Step) -> tuple[str, str]:
    """Return a step as the paper's pair: what the environment said, what the agent answered."""
    observation = step.observation
    heard = (
        f"{observation.feedback}\n{observation.text}"
        if observation.feedback
        else (observation.text)
    )
    return f"Env: {heard}", f"LLM: {answer_line(step.decision)}"


def serialise(steps: Iterable[Step]) -> str:
    """Return steps in the paper's direct form, oldest first, one line pair per step."""
    return "\n".join("\n".join(step_lines(step)) for step in steps)


def closing_line(step: Step) -> str:
    """Return what the environment said after an episode's last step."""
    outcome = step.outcome
    heard = f"{outcome.feedback}\n{outcome.text}" if outcome.feedback else outcome.text
    return f"Env: {heard}"


def render(turn: Turn, layout: Layout) -> list[Message]:
    """Return the messages of a turn. See ``Turn.messages``."""
    if layout == "paper":
        return _paper(turn)
    if layout == "cached":
        return _cached(turn)
    raise ValueError(f"expected layout 'paper' or 'cached', got {layout!r}")


def _system(turn: Turn) -> str:
    return f"{turn.instruction}\n\n{RESPONSE_CONTRACT}"


def _now(turn: Turn) -> str:
    observation = turn.observation
    return (
        f"{observation.feedback}\n\n{observation.text}"
        if observation.feedback
        else (observation.text)
    )


@lru_cache(maxsize=64)
def _earlier(text: str) -> str:
    """Return a recollection as it is shown; all turns of an episode share the one long string."""
    return f"{EARLIER_HEADER}\n{text}"


def _paper(turn: Turn) -> list[Message]:
    from s3gym.records import Message

    messages = [Message("system", _system(turn))]
    if turn.recollection.text:
        messages.append(Message("user", _earlier(turn.recollection.text)))
    if turn.trail:
        messages.append(Message("user", f"{CURRENT_HEADER}\n{serialise(turn.trail)}"))
    messages.append(Message("user", f"{RULES_HEADER}\n{turn.rules}\n\n{_now(turn)}"))
    return messages


def _cached(turn: Turn) -> list[Message]:
    from s3gym.records import Message

    messages = [Message("system", f"{_system(turn)}\n\n{RULES_HEADER}\n{turn.rules}", stable=True)]
    if turn.recollection.text:
        messages.append(Message("user", _earlier(turn.recollection.text), stable=True))
    for step in turn.trail:
        heard = step.observation
        text = f"{heard.feedback}\n\n{heard.text}" if heard.feedback else heard.text
        messages.append(Message("user", text))
        messages.append(Message("assistant", answer_line(step.decision)))
    messages.append(Message("user", _now(turn)))
    return messages
