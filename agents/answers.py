"""Response contracts: how an agent is told to answer, and how its answer is read.

``AnswerScore`` is the paper's last line; ``JsonContract`` asks for a JSON object instead, where
the endpoint can hold the model to a schema.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from s3gym.contracts.chat import ChatModel
from s3gym.errors import ConfigError
from s3gym.prompts import RESPONSE_CONTRACT, answer_line
from s3gym.records import MOST_POINTS, Decision, Message, Status
from s3gym.replies import ANSWER, SCORE, is_end, parse_reply
from s3gym.text import shorten


class Contract(Protocol):
    """How an agent's replies are asked for and read."""

    @property
    def as_rendered(self) -> bool:
        """Whether ``teach`` leaves the messages of a ``Turn`` as they are."""
        ...

    def bind(self, model: ChatModel) -> ChatModel:
        """Return the model, held to the contract where the endpoint can do that.

        Raises:
            ConfigError: The contract needs something that the model cannot do.
        """
        ...

    def teach(self, messages: Sequence[Message]) -> list[Message]:
        """Return the messages of a ``Turn`` with this contract's instructions in them."""
        ...

    def read(self, reply: str) -> Decision:
        """Return the decision that a complete reply holds; never raises."""
        ...

    def write(self, decision: Decision) -> str:
        """Return a decision as the shortest reply that keeps this contract."""
        ...

    def fault(self, decision: Decision) -> str:
        """Say exactly what a reply lacks; empty when it holds an action and a self-score."""
        ...

    @property
    def reminder(self) -> str:
        """What to ask for after a fault."""
        ...


class AnswerScore:
    """The paper's contract: the last line is ``Answer: <ACTION>, Score: <SELF-SCORE>``.

    Source: S3Gym paper, response contract.
    """

    as_rendered = True
    reminder = (
        "Reply with one line and nothing else, in exactly this form:\n"
        "Answer: <ACTION>, Score: <SELF-SCORE>"
    )

    def bind(self, model: ChatModel) -> ChatModel:
        return model

    def teach(self, messages: Sequence[Message]) -> list[Message]:
        return list(messages)

    def read(self, reply: str) -> Decision:
        return parse_reply(reply)

    def write(self, decision: Decision) -> str:
        return answer_line(decision)

    def fault(self, decision: Decision) -> str:
        if decision.status == "no_action":
            if not decision.raw.strip():
                return "it was empty"
            return "no line of it begins with 'Answer:'"
        if decision.status == "no_score":
            line = _answer_line(decision.raw)
            scores = list(SCORE.finditer(line))
            if not scores:
                return f"its answer line holds no 'Score:': {shorten(line)}"
            after = line[scores[-1].end() :].strip()
            return f"what follows 'Score:' is not a plain number: {shorten(after)}"
        return ""


def _answer_line(reply: str) -> str:
    """Return the line of the last ``Answer:``."""
    start = [match.start() for match in ANSWER.finditer(reply)][-1]
    return reply[start:].partition("\n")[0].strip()


class JsonAnswer(BaseModel):
    """What the JSON contract asks a model for."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    action: Annotated[str, Field(description="one action in the syntax of the rules, or END")]
    self_score: Annotated[
        float,
        Field(description="estimate of the immediate reward of that action, in game points"),
    ]


class JsonContract:
    """Structured output: one JSON object ``{"action": ..., "self_score": ...}``.

    The instructions differ from those of the layouts, so prompts are recorded as ``custom``.
    """

    as_rendered = False
    instruction = (
        'Reply with one JSON object and nothing else: {"action": <ACTION>, '
        '"self_score": <SELF-SCORE>}. <ACTION> is a string: one action in the syntax of the '
        "rules. <SELF-SCORE> is one number: your estimate of the immediate reward of that action, "
        "in game points (it may be negative or fractional; it is not a confidence). If you think "
        'that the episode is over, or want to stop, reply: {"action": "END", "self_score": 0}'
    )
    reminder = 'Reply with one JSON object and nothing else: {"action": "...", "self_score": 0.0}'

    def bind(self, model: ChatModel) -> ChatModel:
        with_schema = getattr(model, "with_schema", None)
        if with_schema is None:
            raise ConfigError(
                f"the contract 'json' needs a chat model with structured output (a method "
                f"with_schema), and {model.name!r} has none; use the contract 'line' (AnswerScore)"
            )
        bound: ChatModel = with_schema(JsonAnswer)
        return bound

    def teach(self, messages: Sequence[Message]) -> list[Message]:
        return [
            replace(message, content=message.content.replace(RESPONSE_CONTRACT, self.instruction))
            if message.role == "system"
            else message
            for message in messages
        ]

    def read(self, reply: str) -> Decision:
        try:
            answer = JsonAnswer.model_validate_json(reply)
        except ValidationError:
            return self._search(reply)
        return self._decision(answer.action, answer.self_score, reply)

    def write(self, decision: Decision) -> str:
        return json.dumps(
            {"action": decision.action, "self_score": decision.self_score}, ensure_ascii=False
        )

    def _search(self, reply: str) -> Decision:
        """Read what can be read of a reply that is not exactly the object asked for."""
        repairs: tuple[str, ...] = ()
        start, end = reply.find("{"), reply.rfind("}")
        if start > 0 or reply[end + 1 :].strip():
            repairs = ("text around the JSON object",)
        found = _json_object(reply[start : end + 1]) if start >= 0 else None
        if found is None or not isinstance(found.get("action"), str):
            return Decision(action="", status="no_action", raw=reply)
        try:
            answer = JsonAnswer.model_validate(
                {"action": found["action"], "self_score": found.get("self_score")}
            )
        except ValidationError:
            return self._decision(str(found["action"]), None, reply, repairs)
        if len(found) > len(JsonAnswer.model_fields):
            repairs = (*repairs, "unknown keys in the JSON object")
        return self._decision(answer.action, answer.self_score, reply, repairs)

    def _decision(
        self, action: str, score: float | None, reply: str, repairs: tuple[str, ...] = ()
    ) -> Decision:
        if score is not None and abs(score) > MOST_POINTS:
            score = None
        status: Status = "repaired" if repairs else "ok"
        if is_end(action):
            status = "end"
        elif score is None:
            status = "no_score"
        return Decision(
            action=action.strip(),
            self_score=None if score is None else score + 0.0,
            status=status,
            raw=reply,
            repairs=repairs,
        )

    def fault(self, decision: Decision) -> str:
        if decision.status == "no_action":
            if not decision.raw.strip():
                return "it was empty"
            return "it holds no JSON object with a string 'action'"
        if decision.status == "no_score":
            return "the 'self_score' of its JSON object is missing or not a finite number"
        return ""


def _json_object(text: str) -> dict[str, object] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return cast("dict[str, object]", found) if isinstance(found, dict) else None
