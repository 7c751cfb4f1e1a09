"""Model calls inside a study: answered from the store, or sent within limits and recorded.

The key of a call is (study, place, step, purpose, attempt). The hash of the request is kept with
it; a resumed study that asks something else at the same place is an error, never a silent
second payment. A failure that a memory made its peace with is kept, too: asked again on resume, the
model could answer, and the memory would become another one than the study went on with.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from s3gym.asked import Asked, check_reply, check_request
from s3gym.calls import CallSite, Purpose
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.deadline import service_time
from s3gym.errors import ModelError, StoreError
from s3gym.halt import check_halt
from s3gym.precedence import give_way
from s3gym.records import Message, Phase
from s3gym.store.hashes import request_hash
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
        gave_way: Whether others could go on since this was set back by the play loop.
    """

    def __init__(
        self,
        store: Store,
        limits: Limits,
        study: str,
        place: str,
        phase: Phase = Phase.EXPLORATION,
    ) -> None:
        self.step = 0
        self.gave_way = False
        self._store = store
        self._limits = limits
        self._study = study
        self._place = place
        self._phase = phase
        self._asked: Counter[tuple[int, str]] = Counter()
        self._resumed = store.ledger.has_calls(study, place)
        self._failed: list[Callable[[], None]] = []

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
        given = check_request(
            chat, messages, purpose=purpose, layout=layout, max_tokens=max_tokens, seed=seed
        )
        purpose, messages = given.purpose, given.messages
        site = CallSite(study=self._study, place=self._place, step=self.step)
        attempt = self._asked[self.step, purpose]
        self._asked[self.step, purpose] += 1
        asked = request_hash(given.chat, messages, max_tokens, seed)
        known = self._store.ledger.call(site, purpose, attempt) if self._resumed else None
        if known is not None:
            recorded, reply = known
            if recorded != asked:
                raise CallMismatchError(
                    f"call {purpose} {attempt} of step {site.step} of {site.place}: the request "
                    f"differs from the recorded one; the agent, its settings or its prompts "
                    f"changed since the store was written"
                )
            if isinstance(reply, ModelError):
                raise reply
            return reply

        def keep(outcome: Reply | ModelError) -> None:
            self._store.ledger.add_call(
                site,
                purpose,
                attempt,
                chat=given.chat,
                layout=given.layout,
                request_hash=asked,
                messages=messages,
                seed=seed,
                max_tokens=max_tokens,
                reply=outcome,
            )

        check_halt()
        started = now()
        with service_time():
            try:
                reply = check_reply(given.chat, await self._sent(chat, given))
            except ModelError as error:
                failure = error
                self._failed.append(lambda: keep(failure))
                raise
            seconds = (now() - started).total_seconds()
            self._store.note_time("call", f"{site.place}#{site.step}", started, seconds)
            with self._store.soon():
                keep(reply)
            await give_way(self._phase)
        self.gave_way = True
        return reply

    def keep_failures(self) -> None:
        """Keep the calls that failed, once what asked for them went on without an answer."""
        for keep in self._failed:
            keep()
        self._failed.clear()

    async def _sent(self, chat: ChatModel, given: Asked) -> Reply:
        """Send a request; a timeout is a failed call."""

        async def attempt() -> Reply:
            self._store.commit()  # what others wrote while this one waited, too
            return await chat.complete(given.messages, max_tokens=given.max_tokens, seed=given.seed)

        try:
            return await self._limits.call(
                chat,
                attempt,
                tokens=sum(len(item.content) for item in given.messages) // CHARACTERS_PER_TOKEN,
            )
        except TimeoutError as error:
            raise ModelError(f"{given.chat} timed out", retryable=True) from error
