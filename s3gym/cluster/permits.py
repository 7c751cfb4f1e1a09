"""A worker's side of the limiter: asks for permits, makes the attempts, says how they ended.

While a call waits for a permit a letter is under way, so the limiter can answer at once. An ask
is written at once; how a call ended waits a moment, because the next ask is near.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import anyio

from s3gym.budget import Budget, counted
from s3gym.cluster.letters import Answer, Ask, Card, Failure, Letter, Outcome, card, failure
from s3gym.cluster.limiter import MeterSettings
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ModelError, S3GymError
from s3gym.events import Event
from s3gym.halt import Halt
from s3gym.telemetry import traced

OUTCOME_SECONDS = 0.02
EVENT_SECONDS = 0.5
RETRY_SECONDS = 0.25
IDLE_SECONDS = 2.0
"""How often a worker shows that it lives while it waits for no permit."""
PATIENCE_SECONDS = 120.0
"""How long calls wait for a limiter that cannot be reached."""
LEAVE_SECONDS = 5.0

Post = Callable[[Letter], Awaitable[Answer]]


class UnreachableError(S3GymError):
    """The limiter cannot be reached now; it may be about to be restarted."""


@dataclass(slots=True, kw_only=True)
class _Call:
    """A call of this worker."""

    id: int
    card: Card
    tokens: int
    attempt: int = 1
    held: bool = False
    refusal: Failure | None = None
    news: anyio.Event = field(default_factory=anyio.Event)

    def ask(self) -> Ask:
        """Return it as the limiter knows it."""
        return Ask(id=self.id, attempt=self.attempt, card=self.card, tokens=self.tokens)


class SharedLimits:
    """Limits and budget that all workers of a sweep share; what a broker sends its calls through.

    Args:
        post: Sends a letter to the limiter; raises ``UnreachableError``.
        session: Names the worker and the run of one study on it; never used twice.
        study: The study.
        settings: What the sweep is held to.
        description: What a store keeps about it; see ``Meter.describe``.
        halt: Set when the sweep is stopped.
        patience_seconds: How long calls wait for a limiter that cannot be reached.
    """

    def __init__(
        self,
        post: Post,
        *,
        session: str,
        study: str,
        settings: MeterSettings,
        description: dict[str, Any] | None = None,
        halt: Halt | None = None,
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> None:
        self.session, self.study = session, study
        self._post, self._settings, self._patience = post, settings, patience_seconds
        self._description, self._halt = description or {}, halt or Halt()
        self._budget = Budget(prices=settings.prices)
        self._calls: dict[int, _Call] = {}
        self._outcomes: list[Outcome] = []
        self._events: list[Event] = []
        self._ids, self._numbers = count(1), count(1)
        self._under_way = 0
        self._due: float | None = None
        self._lost_since: float | None = None
        self._wake = anyio.Event()
        self._known = anyio.Event()

    def describe(self) -> dict[str, Any]:
        """Return what the sweep is held to and priced by."""
        return self._description

    def tell(self, event: Event) -> None:
        """Let the driver know what happened."""
        self._events.append(event)
        self._write_in(EVENT_SECONDS)

    async def call(
        self, chat: ChatModel, send: Callable[[], Awaitable[Reply]], *, tokens: int
    ) -> Reply:
        """Send a request whenever the limiter permits an attempt, and report what it used.

        Raises:
            BudgetExhaustedError: A cap of the sweep is reached; nothing was sent.
            ModelError: The endpoint refused for good, or stayed down until its deadline; or the
                limiter did.
        """
        call = _Call(id=next(self._ids), card=card(chat, self.session), tokens=tokens)
        self._calls[call.id] = call
        try:
            while True:
                await self._permitted(call)
                try:
                    reply = await self._in_time(chat, send)
                except ModelError as error:
                    self._ended(call, failure=failure(error))
                    continue
                self._budget.charge(chat, reply)
                self._ended(call, reply=reply)
                return reply
        finally:
            del self._calls[call.id]
            self._write_in(OUTCOME_SECONDS)

    async def _permitted(self, call: _Call) -> None:
        self._write_in(0.0)
        while not call.held:
            if call.refusal is not None:
                raise call.refusal.error()
            await call.news.wait()
            call.news = anyio.Event()

    async def _in_time(self, chat: ChatModel, send: Callable[[], Awaitable[Reply]]) -> Reply:
        seconds = self._settings.limits.attempt_seconds
        with anyio.move_on_after(seconds):
            return counted(await traced(chat, send))
        raise ModelError(f"{chat.name} gave no full answer in {seconds:g} s", retryable=True)

    def _ended(
        self, call: _Call, reply: Reply | None = None, failure: Failure | None = None
    ) -> None:
        outcome = Outcome(id=call.id, attempt=call.attempt, failure=failure)
        if reply is not None:
            outcome = replace(outcome, usage=reply.usage)
        self._outcomes.append(outcome)
        call.held, call.attempt = False, call.attempt + 1

    async def correspond(self) -> None:
        """Write letters until cancelled; runs beside the study."""
        async with anyio.create_task_group() as group:
            self._write_in(0.0)
            while True:
                left = self._left()
                if left <= 0:
                    self._due = None
                    group.start_soon(self._exchange, self._letter())
                    continue
                self._wake = anyio.Event()
                with anyio.move_on_after(left):
                    await self._wake.wait()

    async def introduced(self) -> None:
        """Wait until the limiter knows of this session, and this session of a stop."""
        with anyio.move_on_after(self._patience):
            await self._known.wait()

    async def leave(self) -> None:
        """Give everything back and tell what was not told yet; call it when the study is over."""
        self._calls.clear()
        with anyio.move_on_after(LEAVE_SECONDS, shield=True):
            while True:
                try:
                    await self._post(replace(self._letter(), leaving=True))
                except UnreachableError:
                    await anyio.sleep(RETRY_SECONDS)
                else:
                    return

    def _write_in(self, seconds: float) -> None:
        due = anyio.current_time() + seconds
        self._due = due if self._due is None else min(due, self._due)
        self._wake.set()

    def _left(self) -> float:
        return float("inf") if self._due is None else self._due - anyio.current_time()

    def _letter(self) -> Letter:
        calls = self._calls.values()
        return Letter(
            session=self.session,
            number=next(self._numbers),
            study=self.study,
            asks=tuple(call.ask() for call in calls if not call.held),
            held=tuple(call.ask() for call in calls if call.held),
            outcomes=tuple(self._outcomes),
            spent=replace(self._budget.spent, hours=0.0),
            events=tuple(self._events),
            stopping=self._halt.asked,
        )

    async def _exchange(self, letter: Letter) -> None:
        self._under_way += 1
        try:
            answer = await self._post(letter)
        except UnreachableError as error:
            self._unreachable(error)
            return
        finally:
            self._under_way -= 1
        self._lost_since = None
        self._take_in(letter, answer)
        if not self._under_way:
            waiting = any(not call.held for call in self._calls.values())
            self._write_in(0.0 if waiting and not self._halt.asked else IDLE_SECONDS)

    def _take_in(self, letter: Letter, answer: Answer) -> None:
        if answer.stale:
            return
        self._known.set()
        arrived = {*letter.outcomes, *letter.events}
        self._outcomes = [one for one in self._outcomes if one not in arrived]
        self._events = [one for one in self._events if one not in arrived]
        if answer.stop:
            self._halt.asked = True
        for number, attempt in answer.permits:
            call = self._calls.get(number)
            if call is not None and not call.held and call.attempt == attempt:
                call.held = True
                call.news.set()
        for number, why in answer.refused:
            self._refuse(self._calls.get(number), why)

    def _refuse(self, call: _Call | None, why: Failure) -> None:
        if call is not None and not call.held:
            call.refusal = why
            call.news.set()

    def _unreachable(self, error: UnreachableError) -> None:
        """Write again soon; give up the calls that wait when that has been tried for long."""
        now = anyio.current_time()
        self._lost_since = now if self._lost_since is None else self._lost_since
        if now - self._lost_since > self._patience:
            why = Failure(
                kind="model", message=f"the sweep's limiter is away: {error}", retryable=True
            )
            for call in self._calls.values():
                self._refuse(call, why)
        self._write_in(RETRY_SECONDS)
