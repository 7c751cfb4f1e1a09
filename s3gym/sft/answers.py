"""The answer that an example teaches: the agent's own words where they are clean."""

from dataclasses import replace
from typing import Protocol

from s3gym.prompts import answer_line, number
from s3gym.records import Decision
from s3gym.replies import parse_reply


class AnswerFormat(Protocol):
    """A response contract as far as examples need it."""

    def read(self, reply: str) -> Decision:
        """Return the decision that a complete reply holds; never raises."""
        ...

    def write(self, decision: Decision) -> str:
        """Return a decision as the shortest reply that keeps the contract."""
        ...


class LastLine:
    """The paper's contract: the last line is ``Answer: <ACTION>, Score: <SELF-SCORE>``."""

    def read(self, reply: str) -> Decision:
        """Return the decision that a complete reply holds."""
        return parse_reply(reply)

    def write(self, decision: Decision) -> str:
        """Return the answer line and nothing else."""
        return answer_line(decision)


def answer_text(decision: Decision, form: AnswerFormat) -> str | None:
    """Return the text of the assistant's message that holds a decision.

    The raw reply, reasoning included, where its status is ``ok`` and it says just this action and
    this self-score; else the clean answer of the contract. ``None`` where the contract cannot
    hold the decision: no self-score, or an action that would be read as another one.

    Args:
        decision: What the example teaches; its self-score may be an oracle's.
        form: The contract that the prompt teaches.
    """
    if decision.status == "end" and decision.self_score is None:
        decision = replace(decision, self_score=0.0)
    if decision.raw and decision.status in ("ok", "end") and _says(decision.raw, decision, form):
        return decision.raw
    clean = form.write(decision)
    return clean if _says(clean, decision, form) else None


def _says(text: str, decision: Decision, form: AnswerFormat) -> bool:
    """Return whether a text keeps the contract and is read as the decision."""
    read = form.read(text)
    return (
        read.status in ("ok", "end")
        and read.action == decision.action
        and read.self_score is not None
        and decision.self_score is not None
        and number(read.self_score) == number(decision.self_score)
    )
