"""The limits and the budget of a whole sweep, kept in one place for all its workers.

Concurrency, rates, retries and caps are those of ``s3gym.limits`` and ``s3gym.budget``: every call
of a worker is a call here, whose attempts are made by the worker. A worker writes letters and gets
permits. One that falls silent loses its permits. Knows nothing of Ray.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import anyio
from anyio.abc import TaskGroup

from s3gym.budget import NOTHING, Budget, Price, Spent
from s3gym.cluster.letters import Answer, Ask, Failure, Letter, Outcome, Report, failure
from s3gym.contracts.chat import Reply
from s3gym.errors import S3GymError
from s3gym.events import Event
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter

ANSWER_SECONDS = 10.0
"""How long a letter waits for a permit before it is answered without one."""
SILENT_SECONDS = 45.0
"""After so long without a letter a session's permits are given to others."""
GRACE_SECONDS = 3.0
"""How long a restarted limiter listens to who has permits before it gives any out."""
MARGIN = 0.98
"""Part of a rate that is handed out: permits do not travel all equally fast."""
ATTEMPT_MARGIN = 30.0
"""Seconds beyond an attempt's own deadline, which the worker keeps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSettings:
    """What a sweep is held to, as plain data.

    Attributes:
        limits: Limits of every endpoint.
        max_usd: As in ``Budget``; likewise the others.
    """

    limits: LimitSettings = field(default_factory=LimitSettings)
    max_usd: float | None = None
    max_tokens: int | None = None
    max_hours: float | None = None
    prices: Mapping[str, Price] = field(default_factory=dict)

    def meter(self, *, drained: bool = False) -> Meter:
        """Return a meter that keeps them for workers.

        Args:
            drained: It takes the place of a lost one.
        """
        limits = self.limits
        held = replace(
            limits,
            rpm=None if limits.rpm is None else MARGIN * limits.rpm,
            tpm=None if limits.tpm is None else MARGIN * limits.tpm,
            attempt_seconds=limits.attempt_seconds + ATTEMPT_MARGIN,
        )
        budget = Budget(
            max_usd=self.max_usd,
            max_tokens=self.max_tokens,
            max_hours=self.max_hours,
            prices=self.prices,
        )
        return Meter(Limits(held, drained=drained), budget)


def settings_of(meter: Meter) -> MeterSettings:
    """Return what a meter keeps, as plain data."""
    budget = meter.budget
    return MeterSettings(
        limits=meter.limits.settings,
        max_usd=budget.max_usd,
        max_tokens=budget.max_tokens,
        max_hours=budget.max_hours,
        prices=dict(budget.prices),
    )


@dataclass(slots=True, kw_only=True)
class _Permit:
    """A call of a worker, as it stands here."""

    ask: Ask
    attempt: int
    given: bool = False
    adopted: bool = False
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    settled: anyio.Event = field(default_factory=anyio.Event)
    outcome: Outcome | None = None
    refusal: Failure | None = None

    def settle(self, outcome: Outcome) -> None:
        """Take in how the attempt that is under way ended."""
        self.given, self.outcome = False, outcome
        self.settled.set()


@dataclass(slots=True)
class _Session:
    """A worker's run of one study."""

    number: int = 0
    heard: float = 0.0
    late: bool = False
    told: set[Event] = field(default_factory=set)
    permits: dict[int, _Permit] = field(default_factory=dict)
    news: anyio.Event = field(default_factory=anyio.Event)

    def wake(self) -> None:
        """Let the letter that waits for an answer look again."""
        self.news.set()
        self.news = anyio.Event()


class Limiter:
    """Gives out permits to the sessions of a sweep.

    Args:
        meter: Limits and budget.
        again: It takes the place of a lost one: it listens before it gives out anything.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        meter: Meter,
        *,
        again: bool = False,
        clock: Callable[[], float] = time.monotonic,
        grace_seconds: float = GRACE_SECONDS,
        silent_seconds: float = SILENT_SECONDS,
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self.meter = meter
        self._clock = clock
        self._grace = grace_seconds if again else 0.0
        self._silent, self._answer_seconds = silent_seconds, answer_seconds
        self._sessions: dict[str, _Session] = {}
        self._spent: dict[str, Spent] = {}
        self._changed: set[str] = set()
        self._events: list[Event] = []
        self._letters = 0
        self._stopping = self._closed = False
        self._entered: set[str] = set()
        self._runs: dict[str, str | None] = {}
        self._new_runs: list[tuple[str, str | None]] = []
        self._begun, self._open = anyio.Event(), anyio.Event()
        self._group: TaskGroup | None = None

    async def serve(self, before: Spent, spent: Mapping[str, Spent]) -> None:
        """Give out permits until cancelled; nothing is given out before.

        Args:
            before: What was spent before the sweep was started or resumed.
            spent: Session -> what it spent since, as far as the driver knows.
        """
        self.meter.budget.add(before)
        for name in sorted(spent):
            self.meter.budget.add(spent[name])
        self._spent.update(spent)
        async with anyio.create_task_group() as group:
            self._group = group
            self._begun.set()
            await anyio.sleep(self._grace)
            self._open.set()
            while True:
                await anyio.sleep(self._silent / 4)
                self._forget_silent()

    def stop(self) -> None:
        """Tell every session to begin nothing new."""
        self._stopping = True
        for session in self._sessions.values():
            session.wake()

    def close(self) -> tuple[str, ...]:
        """Let in no further study; return those that were let in, which go on."""
        self._closed = True
        return tuple(sorted(self._entered))

    def report(self) -> Report:
        """Return what is new for the driver."""
        report = Report(
            events=tuple(self._events),
            spent=tuple((name, self._spent[name]) for name in sorted(self._changed)),
            runs=tuple(self._new_runs),
            letters=self._letters,
        )
        self._new_runs.clear()
        self._events.clear()
        self._changed.clear()
        return report

    async def exchange(self, letter: Letter) -> Answer:
        """Take a letter in; answer when there is a permit for it, or after a while."""
        self._letters += 1
        await self._begun.wait()
        session = self._session(letter)
        if letter.number <= session.number:
            return Answer(number=letter.number, stale=True)
        session.number, session.heard = letter.number, self._clock()
        session.wake()  # the letter that waits is overtaken
        self._note_run(letter)
        self._take_in(letter, session)
        if letter.leaving:
            del self._sessions[letter.session]
            return Answer(number=letter.number)
        if not letter.asks:
            return self._answer(letter, session)
        with anyio.move_on_after(self._answer_seconds):
            while session.number == letter.number and not self._has_news(letter, session):
                await session.news.wait()
        return self._answer(letter, session)

    def _session(self, letter: Letter) -> _Session:
        session = self._sessions.get(letter.session)
        if session is None:
            late = self._closed and letter.study not in self._entered
            session = self._sessions[letter.session] = _Session(late=late)
            if not late:
                self._entered.add(letter.study)
        return session

    def _note_run(self, letter: Letter) -> None:
        """Let the driver know which session runs a study, and when one is over."""
        run = None if letter.leaving else letter.session
        if self._runs.get(letter.study) != run:
            self._runs[letter.study] = run
            self._new_runs.append((letter.study, run))

    def _take_in(self, letter: Letter, session: _Session) -> None:
        before = self._spent.get(letter.session, NOTHING)
        if letter.spent != before:
            self.meter.budget.add(letter.spent.minus(before))
            self._spent[letter.session] = letter.spent
            self._changed.add(letter.session)
        self._events.extend(event for event in letter.events if event not in session.told)
        session.told.update(letter.events)
        for outcome in letter.outcomes:
            permit = session.permits.get(outcome.id)
            if permit is not None and permit.given and permit.attempt == outcome.attempt:
                permit.settle(outcome)
        for ask in letter.held:
            if ask.id not in session.permits:  # given out before this limiter was restarted
                self._begin(
                    session, _Permit(ask=ask, attempt=ask.attempt, given=True, adopted=True)
                )
        for ask in letter.asks:
            if ask.id not in session.permits:
                self._begin(session, _Permit(ask=ask, attempt=ask.attempt - 1))
        named = {ask.id for ask in (*letter.held, *letter.asks)}
        named |= {outcome.id for outcome in letter.outcomes}
        for gone in [number for number in session.permits if number not in named]:
            session.permits.pop(gone).scope.cancel()

    def _begin(self, session: _Session, permit: _Permit) -> None:
        if self._group is not None:
            session.permits[permit.ask.id] = permit
            self._group.start_soon(self._call, session, permit)

    async def _call(self, session: _Session, permit: _Permit) -> None:
        """Take one call of a worker through the limits of its endpoint."""
        ask = permit.ask

        async def attempt() -> Reply:
            return await self._attempt(session, permit)

        with permit.scope:
            if not permit.adopted:
                await self._open.wait()
            try:
                await self.meter.limits.of(ask.card).call(attempt, tokens=ask.tokens)
            except S3GymError as error:
                permit.refusal = failure(error)
                session.wake()
            else:
                session.permits.pop(ask.id, None)

    async def _attempt(self, session: _Session, permit: _Permit) -> Reply:
        """Let the worker make an attempt, and wait for what it came to."""
        if permit.adopted:
            permit.adopted = False
        else:
            self.meter.budget.check(permit.ask.card)
            permit.settled, permit.outcome = anyio.Event(), None
            permit.attempt += 1
            permit.given = True
            session.wake()
        await permit.settled.wait()
        outcome = permit.outcome or Outcome(id=permit.ask.id, attempt=permit.attempt)
        if outcome.failure is not None:
            raise outcome.failure.error()
        return Reply(text="", usage=outcome.usage)

    def _answer(self, letter: Letter, session: _Session) -> Answer:
        permits, refused = [], []
        for ask in letter.asks:
            permit = session.permits.get(ask.id)
            if permit is None:
                continue
            if permit.refusal is not None:
                refused.append((ask.id, permit.refusal))
            elif permit.given and permit.attempt == ask.attempt:
                permits.append((ask.id, ask.attempt))
        return Answer(
            number=letter.number,
            permits=tuple(permits),
            refused=tuple(refused),
            stop=self._stopping or session.late,
        )

    def _has_news(self, letter: Letter, session: _Session) -> bool:
        answer = self._answer(letter, session)
        return bool(answer.permits or answer.refused or (answer.stop and not letter.stopping))

    def _forget_silent(self) -> None:
        """Give the permits of sessions that fell silent to others."""
        latest = self._clock() - self._silent
        for name in [name for name, one in self._sessions.items() if one.heard < latest]:
            for permit in self._sessions.pop(name).permits.values():
                permit.scope.cancel()
