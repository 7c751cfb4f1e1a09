"""Model calls inside a study: answered from the store, or sent within limits and recorded.

The key of a call is (study, place, step, purpose, attempt). The hash of the request is kept with
it; a resumed study that asks something else at the same place is an error, never a silent
second payment.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Protocol

from s3gym.answered import storable
from s3gym.calls import CallSite, Purpose
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.deadline import service_time
from s3gym.errors import StoreError
from s3gym.records import Message
from s3gym.store.ledger import request_hash
from s3gym.store.store import Store, now

CHARACTERS_PER_TOKEN = 3
"""For the estimate that a rate of tokens per minute starts from; the usage corrects it."""


class CallMismatchError(StoreError):
    """A recorded call was asked again with another request."""


class Limits(Protocol):
    """Keeps every endpoint's limits, retries and the run's budgets."""

    async def call(
        self, chat: ChatModel, send: Callable[[], Awaitable[Reply]], *, tokens: int
    ) -> Reply:
        """Send a request when the limits of the model's endpoint allow it.

        Args:
            chat: The model.
            send: Makes one attempt.
            tokens: Estimate of the prompt's tokens.
        """
        ...


class StudyBroker:
    """The broker of one episode or one memory version.

    Attributes:
        step: Zero-based step that calls belong to now; set by the play loop.
    """

    def __init__(self, store: Store, limits: Limits, study: str, place: str) -> None:
        self.step = 0
        self._store = store
        self._limits = limits
        self._study = study
        self._place = place
        self._asked: Counter[tuple[int, str]] = Counter()

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
        messages = [replace(message, content=storable(message.content)) for message in messages]
        site = CallSite(study=self._study, place=self._place, step=self.step)
        attempt = self._asked[self.step, purpose]
        self._asked[self.step, purpose] += 1
        asked = request_hash(chat.name, messages, max_tokens, seed)
        known = self._store.ledger.call(site, purpose, attempt)
        if known is not None:
            recorded, reply = known
            if recorded != asked:
                raise CallMismatchError(
                    f"call {purpose} {attempt} of step {site.step} of {site.place}: the request "
                    f"differs from the recorded one; the agent, its settings or its prompts "
                    f"changed since the store was written"
                )
            return reply
        started = now()
        with service_time():
            reply = await self._limits.call(
                chat,
                lambda: chat.complete(messages, max_tokens=max_tokens, seed=seed),
                tokens=sum(len(message.content) for message in messages) // CHARACTERS_PER_TOKEN,
            )
        # A reply that was cut inside a character may end in half of one.
        reply = replace(
            reply,
            text=storable(reply.text),
            model=storable(reply.model),
            request_id=storable(reply.request_id),
        )
        if reply.usage.calls == 0:
            reply = replace(reply, usage=replace(reply.usage, calls=1))
        with self._store.transaction():
            self._store.ledger.add_call(
                site,
                purpose,
                attempt,
                chat=chat.name,
                layout=layout,
                request_hash=asked,
                messages=messages,
                seed=seed,
                max_tokens=max_tokens,
                reply=reply,
            )
            seconds = (now() - started).total_seconds()
            self._store.note_time("call", f"{site.place}#{site.step}", started, seconds)
        return reply
