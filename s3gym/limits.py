"""How hard an endpoint is pressed: its concurrency, its rates, and the one retry layer.

Knows nothing of SDKs, stores and games: it calls a function that raises ``ModelError``.
"""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import anyio
import stamina

from s3gym.budget import Named
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError

T = TypeVar("T")
Sleep = Callable[[float], Awaitable[None]]
TOO_MANY = 429
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSettings:
    """What the user may set per endpoint.

    Attributes:
        start: Concurrent calls at first.
        most: Most concurrent calls, whatever the endpoint bears.
        rpm: Most requests per minute, or ``None``.
        tpm: Most tokens per minute, prompt and new ones together, or ``None``.
        attempt_seconds: Deadline of one attempt.
        deadline_seconds: From the first attempt of a call to when it is given up.
        first_wait: Seconds of the first wait between attempts; it doubles.
        longest_wait: Longest wait, unless the endpoint asks for more.
        growth_pause: Seconds without growth after an answer of 5xx.
    """

    start: int = 8
    most: int = 64
    rpm: float | None = None
    tpm: float | None = None
    attempt_seconds: float = 300.0
    deadline_seconds: float = 540.0
    first_wait: float = 0.5
    longest_wait: float = 30.0
    growth_pause: float = 10.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ConfigError(f"expected {name} above 0, got {value!r}")
        if self.start > self.most:
            raise ConfigError(f"expected start of at most {self.most}, got {self.start}")


class EndpointLimits:
    """Limits and retries of one endpoint.

    Concurrency adapts: an answer of 429 halves it, once for all calls that were under way
    together; success grows it, by one per call until the first 429 and then by one per full
    round; 5xx pauses growth. Changes are logged. A call that waits to try again holds no place.

    Args:
        endpoint: Name for the log.
        settings: What the user set.
        clock: Seconds that only go forward.
        sleep: Waits for the rates; waits between attempts are stamina's.
    """

    def __init__(
        self,
        endpoint: str,
        settings: LimitSettings | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self.endpoint = endpoint
        self.settings = settings or LimitSettings()
        self._clock = clock
        self._places = anyio.CapacityLimiter(self.settings.start)
        self._requests = Rate(self.settings.rpm, clock=clock, sleep=sleep)
        self._tokens = Rate(self.settings.tpm, clock=clock, sleep=sleep)
        self._retrying = stamina.AsyncRetryingCaller(
            attempts=None,
            timeout=None,
            wait_initial=self.settings.first_wait,
            wait_max=self.settings.longest_wait,
            wait_jitter=self.settings.first_wait,
        )
        self._growing_fast = True
        self._successes = 0
        self._last_cut = self._growth_from = clock()

    def drain(self) -> None:
        """Start with no burst and one place: another limiter of this endpoint was lost."""
        self._requests.drain()
        self._tokens.drain()
        self._places.total_tokens = 1

    @property
    def concurrency(self) -> int:
        """Calls that may be under way at the same time now."""
        return int(self._places.total_tokens)

    async def call(self, function: Callable[[], Awaitable[T]], *, tokens: int = 0) -> T:
        """Call a function, again where its ``ModelError`` is retryable.

        Args:
            function: Makes one attempt.
            tokens: Estimate of what the call takes from ``tpm``; corrected by the usage of the
                ``Reply``, if it is one.

        Raises:
            ModelError: The endpoint refused for good, or stayed down until the deadline.
        """
        trial = _Trial()
        try:
            return await self._attempt(function, tokens, trial)
        except ModelError as error:
            seen = [error]

        async def attempt() -> T:
            if seen:
                raise seen.pop()  # what the first attempt came to: now the waits begin
            return await self._attempt(function, tokens, trial)

        try:
            return await self._retrying(lambda error: self._again(error, trial), attempt)
        except ModelError as error:
            if not error.retryable:
                raise
            raise self._given_up(error, trial) from error

    async def _attempt(
        self, function: Callable[[], Awaitable[T]], tokens: int, trial: "_Trial"
    ) -> T:
        await self._requests.take(1)
        await self._tokens.take(tokens)
        place = object()
        try:  # without giving way to others, where there is room
            self._places.acquire_on_behalf_of_nowait(place)
        except anyio.WouldBlock:
            await self._places.acquire_on_behalf_of(place)
        began = self._clock()
        trial.attempts += 1
        if trial.attempts == 1:
            trial.first = began
        try:
            result = await self._in_time(function)
        except ModelError as error:
            self._failed(error, began)
            raise
        finally:
            self._places.release_on_behalf_of(place)
        self._succeeded()
        if isinstance(result, Reply):
            usage = result.usage
            self._tokens.correct(usage.input_tokens + usage.output_tokens - tokens)
        return result

    async def _in_time(self, function: Callable[[], Awaitable[T]]) -> T:
        seconds = self.settings.attempt_seconds
        with anyio.move_on_after(seconds):
            return await function()
        raise ModelError(f"{self.endpoint} gave no full answer in {seconds:g} s", retryable=True)

    def _again(self, error: Exception, trial: "_Trial") -> bool | float:
        """Say whether, or after how many seconds, to try again."""
        if not isinstance(error, ModelError) or not error.retryable:
            return False
        left = trial.first + self.settings.deadline_seconds - self._clock()
        if error.retry_after is None:
            return left > 0
        return error.retry_after if error.retry_after < left else False

    def _given_up(self, error: ModelError, trial: "_Trial") -> ModelError:
        seconds = self._clock() - trial.first
        asked = f", which asks to wait {error.retry_after:g} s" if error.retry_after else ""
        return ModelError(
            f"gave up after {trial.attempts} attempts in {seconds:.0f} s{asked}: {error}",
            retryable=True,
            retry_after=error.retry_after,
            status=error.status,
        )

    def _failed(self, error: ModelError, began: float) -> None:
        if error.status == TOO_MANY:
            self._growing_fast, self._successes = False, 0
            if began >= self._last_cut:
                self._last_cut = self._clock()
                self._resize(max(1, self.concurrency // 2), "429")
        elif error.status is not None and error.status >= 500:
            self._growth_from = self._clock() + self.settings.growth_pause
            self._successes = 0

    def _succeeded(self) -> None:
        if self.concurrency >= self.settings.most or self._clock() < self._growth_from:
            return
        self._successes += 1
        if self._growing_fast or self._successes >= self.concurrency:
            self._successes = 0
            self._resize(self.concurrency + 1, "success")

    def _resize(self, places: int, reason: str) -> None:
        before, self._places.total_tokens = self.concurrency, places
        level = logging.INFO if places < before else logging.DEBUG
        logger.log(
            level,
            "%s: %d concurrent calls instead of %d: %s",
            self.endpoint,
            places,
            before,
            reason,
        )


@dataclass(slots=True)
class _Trial:
    """How one call is going."""

    attempts: int = 0
    first: float = 0.0


class Rate:
    """An amount per minute, at most a second's worth of it at once.

    In no minute, wherever it begins, is more taken than the amount: what a burst may take comes out
    of it. Whoever takes more than there is waits until it is paid back, so
    callers pass in order.

    Args:
        per_minute: The amount, or ``None`` for no limit.
        clock: Seconds that only go forward.
        sleep: How to wait.
    """

    def __init__(
        self,
        per_minute: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Sleep = anyio.sleep,
    ) -> None:
        self._clock, self._sleep = clock, sleep
        self._burst = max(1.0, (per_minute or 0.0) / 60)
        self._per_second = None if per_minute is None else (per_minute + 1 - self._burst) / 60
        self._left, self._filled = self._burst, clock()

    async def take(self, amount: float) -> None:
        """Take an amount, after the wait that it needs."""
        if self._per_second is None:
            return
        self._fill(self._per_second)
        self._left -= amount
        if self._left < 0:
            await self._sleep(-self._left / self._per_second)

    def correct(self, amount: float) -> None:
        """Take what an estimate fell short by, without a wait; give back where it is negative."""
        self._left -= amount

    def drain(self) -> None:
        """Take all that is there."""
        self._left, self._filled = min(self._left, 0.0), self._clock()

    def _fill(self, per_second: float) -> None:
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._filled) * per_second)
        self._filled = now


class Limits:
    """The limits of all endpoints of a run; chats with one endpoint share them.

    A chat model may say with ``most_concurrent`` how many calls it bears at once.

    Args:
        settings: What the user set.
        drained: Other limits of the same endpoints were in force just before these.
        clock: Seconds that only go forward.
    """

    def __init__(
        self,
        settings: LimitSettings | None = None,
        *,
        drained: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.settings = settings or LimitSettings()
        self._drained, self._clock = drained, clock
        self._endpoints: dict[str, EndpointLimits] = {}

    def of(self, chat: Named) -> EndpointLimits:
        """Return the limits of a chat model's endpoint."""
        endpoint = str(getattr(chat, "endpoint", "") or chat.name)
        if endpoint not in self._endpoints:
            most = min(self.settings.most, getattr(chat, "most_concurrent", self.settings.most))
            start = min(self.settings.start, most)
            settings = replace(self.settings, start=start, most=most)
            self._endpoints[endpoint] = EndpointLimits(endpoint, settings, clock=self._clock)
            if self._drained:
                self._endpoints[endpoint].drain()
        return self._endpoints[endpoint]
