"""The default agent: a chat model that reads a turn and answers by the response contract."""

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from s3gym import calls
from s3gym.agents.answers import AnswerScore, Contract
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError
from s3gym.records import LAYOUTS, Decision, Layout, Message, Turn

WORTH = {"no_action": 0, "truncated": 0, "refused": 0, "no_score": 1}
"""Statuses that lack something, by how much of an answer they hold; all others hold it all."""


class ModelAgent:
    """Plays with a chat model; every decision depends on its turn alone.

    A reply that hit the token limit is ``truncated``: it is neither read nor asked again, for a
    cut action may be another legal action. A refusal is ``refused``.

    Args:
        model: Any ``ChatModel``.
        contract: How replies are asked for and read.
        layout: ``"paper"`` or ``"cached"``; the same content in another order.
        reask: How often a reply without an action or a self-score is asked for again, the fault
            named exactly. The paper does not ask again.

    Attributes:
        chat: The chat model as it was given; memories may write with it.
        model: The chat model, held to the contract.

    Raises:
        ConfigError: A value is out of range, or the contract does not fit the model.

    Source: S3Gym paper, response contract and direct layout.
    """

    stateless = True

    def __init__(
        self,
        model: ChatModel,
        contract: Contract | None = None,
        layout: Layout = "paper",
        reask: int = 0,
    ) -> None:
        if layout not in LAYOUTS:
            raise ConfigError(f"expected layout {' or '.join(map(repr, LAYOUTS))}, got {layout!r}")
        if reask < 0:
            raise ConfigError(f"expected reask of at least 0, got {reask!r}")
        self.contract: Contract = AnswerScore() if contract is None else contract
        self.chat = model
        self.model = self.contract.bind(model)
        self.layout, self.reask = layout, reask

    @property
    def name(self) -> str:
        """The name of the chat model."""
        return self.model.name

    def __repr__(self) -> str:
        return f"ModelAgent({self.name!r}, layout={self.layout!r}, reask={self.reask})"

    def with_chat(self, chat: ChatModel) -> Self:
        """Return the same agent with another chat model.

        Raises:
            ConfigError: The contract does not fit the model.
        """
        twin = copy(self)
        twin.chat, twin.model = chat, self.contract.bind(chat)
        return twin

    def prompt(self, turn: Turn) -> list[Message]:
        """Return the messages that ``act`` sends for a turn."""
        return self.contract.teach(turn.messages(self.layout))

    async def act(self, turn: Turn) -> Decision:
        messages = self.prompt(turn)
        reply = await calls.complete(
            self.model,
            messages,
            purpose="act",
            layout=self.layout if self.contract.as_rendered else "custom",
            max_tokens=turn.max_tokens,
            seed=turn.seed,
        )
        best = latest = self._read(reply)
        for _ in range(self.reask):
            fault = self.contract.fault(latest)
            if not fault:
                break
            messages = again(messages, latest.raw, fault, self.contract.reminder)
            reply = await calls.complete(
                self.model, messages, purpose="reask", max_tokens=turn.max_tokens, seed=turn.seed
            )
            latest = self._read(reply)
            best = better(best, latest, fault)
        return best

    def _read(self, reply: Reply) -> Decision:
        if reply.finish == "length":
            return Decision(action="", status="truncated", raw=reply.text, usage=reply.usage)
        if reply.finish == "refusal":
            return Decision(action="", status="refused", raw=reply.text, usage=reply.usage)
        return replace(self.contract.read(reply.text), usage=reply.usage)

    async def aclose(self) -> None:
        """Close the chat model, where it can be closed."""
        close = getattr(self.model, "aclose", None)
        if close is not None:
            await close()


def again(messages: Sequence[Message], reply: str, fault: str, reminder: str) -> list[Message]:
    """Return a prompt that shows a model its faulty reply and asks for a better one."""
    asked = list(messages)
    if reply.strip():
        asked.append(Message("assistant", reply))
    asked.append(Message("user", f"Your last reply cannot be used: {fault}. {reminder}"))
    return asked


def better(first: Decision, second: Decision, fault: str) -> Decision:
    """Return the decision that holds more of an answer, with what both of them cost."""
    usage = first.usage + second.usage
    if WORTH.get(second.status, 2) < WORTH.get(first.status, 2):
        return replace(first, usage=usage)
    return replace(
        second,
        usage=usage,
        status="repaired" if second.status == "ok" else second.status,
        repairs=(*first.repairs, *second.repairs, f"asked again: {fault}"),
    )
