"""The one way by which agents and memories call a model.

Inside a study a broker is active: it answers from the store what was already paid for, commits
every call before the next one leaves, and keeps limits and budgets. Outside a study there is
none and the call goes straight to the model, so agents and memories work anywhere.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, Protocol

from s3gym.contracts.chat import ChatModel, Reply
from s3gym.records import Message

Purpose = Literal["act", "reask", "memory", "embed", "correct", "sample"]


APART = "proxy"
"""Study, place and layout of the calls that ``s3gym proxy`` records: they belong to no study."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSite:
    """Where a call comes from; with ``purpose`` and a counter it is the call's key.

    Attributes:
        study: Id of the study.
        place: Id of the episode, or of the memory version being consolidated.
        step: Zero-based step; 0 for memory.
    """

    study: str
    place: str
    step: int = 0


class Broker(Protocol):
    """What a study puts between its plug-ins and the models."""

    async def complete(
        self,
        chat: ChatModel,
        messages: Sequence[Message],
        *,
        purpose: Purpose,
        layout: str,
        max_tokens: int,
        seed: int | None,
    ) -> Reply:
        """Answer from the record, or call the model and record it."""
        ...


_broker: ContextVar[Broker | None] = ContextVar("s3gym_broker", default=None)


async def complete(
    chat: ChatModel,
    messages: Sequence[Message],
    *,
    purpose: Purpose,
    layout: str = "custom",
    max_tokens: int,
    seed: int | None = None,
) -> Reply:
    """Call a model through the study's broker, if there is one.

    Args:
        chat: The model.
        messages: The prompt.
        purpose: What the call is for; part of its key in the store.
        layout: Name of the layout that made the messages, so that an audit can render them again.
        max_tokens: Most new tokens.
        seed: Passed on where the endpoint takes one.

    Raises:
        ModelError: The call failed for good.
        BudgetExhaustedError: A budget of the run is used up.
    """
    broker = _broker.get()
    if broker is None:
        return await chat.complete(messages, max_tokens=max_tokens, seed=seed)
    return await broker.complete(
        chat, messages, purpose=purpose, layout=layout, max_tokens=max_tokens, seed=seed
    )


def active_broker() -> Broker | None:
    """Return the broker of the running study, or ``None`` outside of one."""
    return _broker.get()


@contextmanager
def brokered(broker: Broker) -> Iterator[None]:
    """Make a broker the active one for the calls made inside."""
    token = _broker.set(broker)
    try:
        yield
    finally:
        _broker.reset(token)
