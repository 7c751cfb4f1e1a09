"""EndpointLimits: retries, waits, concurrency and rates, without an endpoint."""

import logging
from collections.abc import Callable

import anyio
import pytest

from s3gym.budget import Budget
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ConfigError, ModelError
from s3gym.limits import EndpointLimits, Limits, LimitSettings, Rate
from s3gym.meter import Meter
from s3gym.records import Usage
from s3gym.testing.fakes import ScriptedChat

QUICK = LimitSettings(first_wait=0.001, longest_wait=0.004)
BUSY = ModelError("busy", retryable=True, status=429)
BROKEN = ModelError("broken", retryable=True, status=503)
LOST = ModelError("connection lost", retryable=True)
WRONG = ModelError("no such model", retryable=False, status=404)


class Clock:
    """A clock that tests set, and that a wait moves on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.waits: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def endpoint(clock: Callable[[], float] | None = None, **changes: float) -> EndpointLimits:
    settings = LimitSettings(**{"first_wait": 0.001, "longest_wait": 0.004, **changes})  # type: ignore[arg-type] # numbers only
    return EndpointLimits("test", settings, clock=clock or Clock())


async def ask(limits: EndpointLimits, *script: str | Exception) -> tuple[Reply, int]:
    chat = ScriptedChat(script)
    reply = await limits.call(lambda: chat.complete([], max_tokens=1))
    return reply, len(chat.requests)


@pytest.mark.parametrize("error", [BUSY, BROKEN, LOST])
async def test_a_passing_failure_is_tried_again(error: ModelError) -> None:
    reply, attempts = await ask(endpoint(), error, error, "fine")
    assert (reply.text, attempts) == ("fine", 3)


async def test_a_lasting_failure_is_raised_at_once() -> None:
    chat = ScriptedChat([WRONG, "fine"])
    with pytest.raises(ModelError, match="no such model") as caught:
        await endpoint().call(lambda: chat.complete([], max_tokens=1))
    assert caught.value is WRONG
    assert len(chat.requests) == 1


async def test_a_bug_is_not_tried_again() -> None:
    chat = ScriptedChat([KeyError("bug"), "fine"])
    with pytest.raises(KeyError):
        await endpoint().call(lambda: chat.complete([], max_tokens=1))
    assert len(chat.requests) == 1


async def test_an_outage_is_given_up_at_the_deadline_and_says_so() -> None:
    clock = Clock()

    async def fail() -> Reply:
        clock.now += 2.0
        raise BROKEN

    with pytest.raises(ModelError, match=r"gave up after 3 attempts in 6 s: broken") as caught:
        await endpoint(clock, deadline_seconds=5).call(fail)
    assert caught.value.retryable
    assert caught.value.status == 503


async def test_the_wait_that_was_asked_for_is_kept_for_that_call() -> None:
    asked = ModelError("busy", retryable=True, retry_after=0.04, status=429)
    limits = EndpointLimits("test", QUICK)
    begun = anyio.current_time()
    await ask(limits, asked, "fine")
    assert anyio.current_time() - begun >= 0.04
    begun = anyio.current_time()
    await ask(limits, "fine")
    assert anyio.current_time() - begun < 0.03


async def test_a_wait_beyond_the_deadline_is_not_begun() -> None:
    asked = ModelError("busy", retryable=True, retry_after=3600.0, status=429)
    with pytest.raises(ModelError, match="which asks to wait 3600 s: busy"):
        await ask(endpoint(), asked, "fine")


async def test_an_attempt_that_hangs_is_cut_off_and_tried_again() -> None:
    attempts = 0

    async def hang_once() -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            await anyio.sleep_forever()
        return "fine"

    assert await endpoint(attempt_seconds=0.01).call(hang_once) == "fine"


async def test_cancellation_passes_through_and_gives_the_place_back() -> None:
    limits = endpoint(start=1, most=1)
    with anyio.move_on_after(0.01) as scope:
        await limits.call(anyio.sleep_forever)
    assert scope.cancelled_caught
    assert (await ask(limits, "fine"))[1] == 1


async def test_a_429_halves_the_concurrency_and_success_grows_it_again() -> None:
    clock = Clock()
    limits = endpoint(clock, start=8)
    await ask(limits, BUSY, "fine")
    assert limits.concurrency == 4
    for _ in range(3):
        await ask(limits, "fine")
    assert limits.concurrency == 5
    for _ in range(5):
        await ask(limits, "fine")
    assert limits.concurrency == 6


async def test_before_the_first_429_every_success_grows_it_up_to_the_cap() -> None:
    limits = endpoint(start=2, most=4)
    for expected in (3, 4, 4):
        await ask(limits, "fine")
        assert limits.concurrency == expected


async def test_calls_that_fail_together_halve_it_once() -> None:
    clock = Clock()
    limits = endpoint(clock, start=8)
    together = anyio.Event()
    under_way = 0

    async def fail_together() -> Reply:
        nonlocal under_way
        under_way += 1
        if under_way == 6:
            clock.now += 1
            together.set()
        await together.wait()
        raise ModelError("busy", retryable=False, status=429)

    async def call() -> None:
        with pytest.raises(ModelError):
            await limits.call(fail_together)

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(call)
    assert limits.concurrency == 4


async def test_concurrency_never_falls_below_one() -> None:
    clock = Clock()
    limits = endpoint(clock, start=2)
    for _ in range(3):
        clock.now += 1
        await ask(limits, BUSY, "fine")
    assert limits.concurrency >= 1
    assert (await ask(limits, "fine"))[0].text == "fine"


async def test_5xx_pauses_growth_for_a_while() -> None:
    clock = Clock()
    limits = endpoint(clock, start=2, growth_pause=10)
    await ask(limits, BROKEN, "fine")
    assert limits.concurrency == 2
    clock.now += 11
    await ask(limits, "fine")
    assert limits.concurrency == 3


async def test_changes_of_concurrency_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="s3gym.limits")
    await ask(endpoint(start=8), "fine", BUSY)
    limits = endpoint(start=8)
    await ask(limits, BUSY, "fine")
    assert "test: 9 concurrent calls instead of 8: success" in caplog.text
    assert "test: 4 concurrent calls instead of 8: 429" in caplog.text


async def test_no_more_calls_than_places_are_under_way() -> None:
    limits = EndpointLimits("test", LimitSettings(start=2, most=2))
    under_way, seen = 0, []

    async def work() -> None:
        nonlocal under_way
        under_way += 1
        seen.append(under_way)
        await anyio.sleep(0.001)
        under_way -= 1

    async with anyio.create_task_group() as group:
        for _ in range(9):
            group.start_soon(limits.call, work)
    assert max(seen) == 2
    assert len(seen) == 9


async def test_a_call_that_waits_to_try_again_holds_no_place() -> None:
    limits = EndpointLimits("test", LimitSettings(start=1, most=1))
    waiting = ModelError("busy", retryable=True, retry_after=0.04, status=503)
    order: list[str] = []

    async def call(name: str, *script: str | Exception) -> None:
        await ask(limits, *script)
        order.append(name)

    async with anyio.create_task_group() as group:
        group.start_soon(call, "waits", waiting, "fine")
        await anyio.sleep(0.01)
        group.start_soon(call, "passes", "fine")
    assert order == ["passes", "waits"]


async def test_requests_keep_to_their_rate() -> None:
    clock = Clock()
    rate = Rate(30, clock=clock, sleep=clock.sleep)
    for _ in range(4):
        await rate.take(1)
    assert clock.waits == pytest.approx([2.0, 2.0, 2.0])


async def test_a_burst_is_at_most_a_second_of_the_rate() -> None:
    clock = Clock()
    rate = Rate(600, clock=clock, sleep=clock.sleep)
    clock.now += 3600
    for _ in range(11):
        await rate.take(1)
    assert clock.waits == pytest.approx([0.1], rel=0.02)


@pytest.mark.parametrize("per_minute", [1, 7, 60, 61, 200, 600])
async def test_no_minute_holds_more_than_the_rate_and_work_gets_nearly_all_of_it(
    per_minute: int,
) -> None:
    clock = Clock()
    rate = Rate(per_minute, clock=clock, sleep=clock.sleep)
    taken = []
    for _ in range(3 * per_minute):
        await rate.take(1)
        taken.append(clock.now)
    in_minute = [sum(at <= other < at + 60 - 1e-6 for other in taken) for at in taken]
    assert max(in_minute) <= per_minute
    assert in_minute[per_minute] >= 0.97 * per_minute - 1


async def test_tokens_that_an_estimate_missed_are_paid_back_by_the_next_call() -> None:
    clock = Clock()
    settings = LimitSettings(tpm=6000)
    limits = EndpointLimits("test", settings, clock=clock, sleep=clock.sleep)

    async def call() -> Reply:
        return Reply(text="", usage=Usage(calls=1, input_tokens=250, output_tokens=50))

    await limits.call(call, tokens=100)
    assert clock.waits == []
    await limits.call(call, tokens=100)
    assert clock.waits == pytest.approx([3.0], rel=0.02)


def test_chats_with_one_endpoint_share_its_limits() -> None:
    limits = Limits()
    one, two = ScriptedChat([], endpoint="a"), ScriptedChat([], endpoint="a", name="two")
    other = ScriptedChat([], endpoint="b")
    assert limits.of(one) is limits.of(two)
    assert limits.of(one) is not limits.of(other)


def test_a_chat_may_say_how_much_it_bears() -> None:
    chat = ScriptedChat([])
    chat.most_concurrent = 1  # type: ignore[attr-defined] # optional attribute of a chat model
    limits = Limits().of(chat)
    assert (limits.concurrency, limits.settings.most) == (1, 1)


@pytest.mark.parametrize("changes", [{"start": 0}, {"rpm": 0.0}, {"start": 9, "most": 8}])
def test_limits_out_of_range_are_refused(changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        LimitSettings(**changes)


async def test_a_budget_is_checked_before_every_attempt_and_charged_with_the_reply() -> None:
    budget = Budget(max_tokens=10)
    meter = Meter(Limits(QUICK), budget)
    paid = Reply(text="fine", usage=Usage(calls=1, input_tokens=10))
    chat = ScriptedChat([BUSY, paid, "never"])
    assert await meter.call(chat, lambda: chat.complete([], max_tokens=1), tokens=1) is paid
    with pytest.raises(BudgetExhaustedError):
        await meter.call(chat, lambda: chat.complete([], max_tokens=1), tokens=1)
    assert len(chat.requests) == 2
    assert budget.spent.calls == 1
