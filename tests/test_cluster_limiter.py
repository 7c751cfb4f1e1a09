"""The limiter of a sweep and its workers' side, without Ray: letters go through a function."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import anyio
import pytest

from s3gym.budget import NOTHING, Price, Spent
from s3gym.cluster import permits
from s3gym.cluster.letters import Answer, Ask, Failure, Letter, Outcome, card
from s3gym.cluster.limiter import (
    GRACE_SECONDS,
    SILENT_SECONDS,
    Limiter,
    MeterSettings,
    settings_of,
)
from s3gym.cluster.permits import EVENT_SECONDS, SharedLimits, UnreachableError
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import BudgetExhaustedError, ConfigError, ModelError
from s3gym.events import Event
from s3gym.halt import Halt
from s3gym.limits import LimitSettings
from s3gym.records import Usage
from s3gym.testing.fakes import ScriptedChat

ENDPOINT = "http://model.test/v1"
FAST = LimitSettings(start=4, most=8, first_wait=0.001, longest_wait=0.002)


class Sweep:
    """A limiter that can be lost and restarted, as the driver does it."""

    def __init__(
        self, settings: MeterSettings, silent_seconds: float = 45.0, grace_seconds: float = 0.05
    ) -> None:
        self.settings, self.silent, self.grace = settings, silent_seconds, grace_seconds
        self.limiter: Limiter | None = None
        self.scope = anyio.CancelScope()
        self.spent: dict[str, Spent] = {}
        self.before = NOTHING
        self.posted: Counter[str] = Counter()
        self.lose_answers = 0
        self.deaf: set[str] = set()

    def start(self, group: anyio.abc.TaskGroup, *, again: bool = False) -> Limiter:
        meter = self.settings.meter(drained=again)
        limiter = Limiter(
            meter,
            again=again,
            grace_seconds=self.grace,
            silent_seconds=self.silent,
            answer_seconds=0.5,
        )
        self.limiter, self.scope = limiter, anyio.CancelScope()

        async def serve() -> None:
            with self.scope:
                await limiter.serve(self.before, self.spent)

        group.start_soon(serve)
        return limiter

    def lose(self) -> None:
        """End the limiter as a dead process ends: what it knew is gone, but for the reports."""
        if self.limiter is not None:
            self.spent.update(self.limiter.report().spent)
        self.limiter = None
        self.scope.cancel()

    async def post(self, letter: Letter) -> Answer:
        self.posted[letter.session] += 1
        limiter = self.limiter
        if limiter is None or letter.session in self.deaf:
            raise UnreachableError("gone")
        answer = await limiter.exchange(letter)
        if self.limiter is not limiter:
            raise UnreachableError("gone")
        if self.lose_answers:
            self.lose_answers -= 1
            raise UnreachableError("the answer was lost")
        return answer

    def worker(self, name: str, halt: Halt | None = None) -> SharedLimits:
        return SharedLimits(
            self.post,
            session=name,
            study="s",
            settings=self.settings,
            halt=halt,
            patience_seconds=0.6,
        )


@asynccontextmanager
async def running(sweep: Sweep, *workers: SharedLimits) -> AsyncIterator[anyio.abc.TaskGroup]:
    async with anyio.create_task_group() as group:
        sweep.start(group)
        for worker in workers:
            group.start_soon(worker.correspond)
        try:
            yield group
        finally:
            group.cancel_scope.cancel()


class Endpoint:
    """Counts what is under way; answers after a while."""

    def __init__(self, seconds: float = 0.005) -> None:
        self.seconds = seconds
        self.now = self.most = self.calls = 0
        self.script: list[ModelError] = []
        self.gate = anyio.Event()
        self.gate.set()
        self.chat: ChatModel = ScriptedChat([], name="openai:m", endpoint=ENDPOINT)

    async def send(self) -> Reply:
        self.calls += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await anyio.sleep(self.seconds)
            await self.gate.wait()
        finally:
            self.now -= 1
        if self.script:
            raise self.script.pop(0)
        return Reply(text="fine", usage=Usage(calls=1, input_tokens=8, output_tokens=2))

    async def ask(self, limits: SharedLimits) -> Reply:
        return await limits.call(self.chat, self.send, tokens=8)


async def together(*calls: Callable[[], Awaitable[object]]) -> list[str]:
    """Make calls at once; return how each ended."""
    ends: list[str] = []

    async def one(call: Callable[[], Awaitable[object]]) -> None:
        try:
            await call()
            ends.append("fine")
        except (BudgetExhaustedError, ModelError, ConfigError) as error:
            ends.append(type(error).__name__)

    async with anyio.create_task_group() as group:
        for call in calls:
            group.start_soon(one, call)
    return ends


async def test_workers_share_the_places_of_an_endpoint() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=replace(FAST, start=2, most=2))), Endpoint()
    workers = [sweep.worker(f"w{number}") for number in range(4)]
    async with running(sweep, *workers):
        with anyio.fail_after(5):
            ends = await together(*(lambda w=w: endpoint.ask(w) for w in workers * 5))
    assert ends == ["fine"] * 20
    assert endpoint.most == 2


async def test_a_call_costs_about_a_letter() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=FAST)), Endpoint(seconds=0.03)
    worker = sweep.worker("w")
    async with running(sweep, worker):
        for _ in range(10):
            await endpoint.ask(worker)
    assert endpoint.calls == 10
    assert sweep.posted["w"] <= 13


async def test_a_429_of_one_worker_halves_the_places_of_all() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=replace(FAST, start=8))), Endpoint()
    one, two = sweep.worker("one"), sweep.worker("two")
    endpoint.script = [ModelError("busy", retryable=True, status=429)]
    async with running(sweep, one, two):
        await endpoint.ask(one)
        limiter = sweep.limiter
        assert limiter is not None
        await anyio.sleep(0.03)
        assert limiter.meter.limits.of(endpoint.chat).concurrency == 4
        await endpoint.ask(two)
    assert endpoint.calls == 3


async def test_an_error_that_no_retry_cures_reaches_the_worker_as_it_was() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=FAST)), Endpoint()
    worker = sweep.worker("w")
    endpoint.script = [ModelError("wrong key", retryable=False, status=401)]
    async with running(sweep, worker):
        with pytest.raises(ModelError, match="wrong key") as caught:
            await endpoint.ask(worker)
    assert (caught.value.retryable, caught.value.status) == (False, 401)


async def test_a_budget_of_tokens_is_one_for_all_workers() -> None:
    settings = MeterSettings(limits=replace(FAST, start=1, most=1), max_tokens=45)
    sweep, endpoint = Sweep(settings), Endpoint()
    workers = [sweep.worker(f"w{number}") for number in range(3)]
    async with running(sweep, *workers):
        ends = await together(*(lambda w=w: endpoint.ask(w) for w in workers * 4))
    assert Counter(ends) == {"fine": 5, "BudgetExhaustedError": 7}
    assert endpoint.calls == 5


async def test_a_budget_of_money_needs_a_price() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=FAST, max_usd=1.0)), Endpoint()
    worker = sweep.worker("w")
    async with running(sweep, worker):
        with pytest.raises(ConfigError, match="the price of 'openai:m' is not known"):
            await endpoint.ask(worker)
    assert endpoint.calls == 0


async def test_money_is_counted_with_the_users_prices() -> None:
    prices = {"openai:m": Price(input=1e6, output=1e6)}
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1), max_usd=25, prices=prices))
    endpoint, worker = Endpoint(), sweep.worker("w")
    async with running(sweep, worker):
        ends = await together(*[lambda: endpoint.ask(worker)] * 5)
        assert Counter(ends) == {"fine": 3, "BudgetExhaustedError": 2}


async def test_answers_that_are_lost_change_nothing() -> None:
    settings = MeterSettings(limits=replace(FAST, start=1, most=1), max_tokens=10_000)
    sweep, endpoint = Sweep(settings), Endpoint()
    worker = sweep.worker("w")
    endpoint.script = [ModelError("busy", retryable=True, status=503)]
    async with running(sweep, worker):
        for _ in range(2):
            sweep.lose_answers = 2
            with anyio.fail_after(5):
                await endpoint.ask(worker)
        await worker.leave()
        assert sweep.limiter is not None
        assert sweep.limiter.meter.budget.spent.tokens == 20
    assert endpoint.calls == 3
    assert endpoint.most == 1


async def test_a_silent_worker_gives_its_permits_back() -> None:
    limits = replace(FAST, start=1, most=1)
    sweep = Sweep(MeterSettings(limits=limits), silent_seconds=0.2)
    endpoint = Endpoint(seconds=30)
    dead, alive = sweep.worker("dead"), sweep.worker("alive")
    async with running(sweep, alive, dead) as group:
        group.start_soon(endpoint.ask, dead)
        await anyio.sleep(0.05)
        assert endpoint.now == 1
        sweep.deaf.add("dead")
        other = Endpoint()
        with anyio.fail_after(3):
            await other.ask(alive)


async def test_a_call_that_is_given_up_frees_its_place() -> None:
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1)))
    endpoint, worker = Endpoint(seconds=30), sweep.worker("w")
    async with running(sweep, worker):
        with anyio.move_on_after(0.05):
            await endpoint.ask(worker)
        endpoint.seconds = 0.0
        with anyio.fail_after(2):
            await endpoint.ask(worker)


async def test_a_worker_that_leaves_frees_its_places_and_has_told_what_it_spent() -> None:
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1)))
    endpoint, leaver, other = Endpoint(), sweep.worker("leaver"), sweep.worker("other")
    async with running(sweep, other) as group:
        async with anyio.create_task_group() as study:
            study.start_soon(leaver.correspond)
            await endpoint.ask(leaver)
            study.cancel_scope.cancel()
        await leaver.leave()
        assert sweep.limiter is not None
        assert sweep.limiter.meter.budget.spent.tokens == 10
        with anyio.fail_after(2):
            await endpoint.ask(other)
        group.cancel_scope.cancel()


async def test_a_restarted_limiter_counts_what_is_under_way_and_what_was_spent() -> None:
    settings = MeterSettings(limits=replace(FAST, start=3, most=3), max_tokens=55)
    sweep, endpoint = Sweep(settings), Endpoint(seconds=0.0)
    workers = [sweep.worker(f"w{number}") for number in range(3)]
    async with running(sweep, *workers) as group:
        endpoint.gate = anyio.Event()
        for worker in workers:
            group.start_soon(endpoint.ask, worker)
        with anyio.fail_after(5):
            while endpoint.now < 3:
                await anyio.sleep(0.01)
        sweep.lose()
        sweep.start(group, again=True)

        async def release() -> None:
            await anyio.sleep(0.05)
            endpoint.gate.set()

        group.start_soon(release)
        ends = await together(*(lambda w=w: endpoint.ask(w) for w in workers * 2))
    assert endpoint.most == 3
    # 30 tokens before: the cap of 55 stands at the sixth call, or just after with calls under way.
    assert 3 <= Counter(ends)["fine"] <= 5
    assert set(ends) == {"fine", "BudgetExhaustedError"}


async def test_a_restarted_limiter_listens_before_it_gives_out_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert permits.IDLE_SECONDS < GRACE_SECONDS < SILENT_SECONDS
    monkeypatch.setattr(permits, "IDLE_SECONDS", 0.1)
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1)), grace_seconds=0.5)
    endpoint, slow, quick = Endpoint(seconds=1.0), sweep.worker("slow"), sweep.worker("quick")
    async with running(sweep, slow, quick) as group:
        group.start_soon(endpoint.ask, slow)
        await anyio.sleep(0.03)
        sweep.deaf.add("slow")
        sweep.lose()
        sweep.start(group, again=True)
        group.start_soon(endpoint.ask, quick)
        await anyio.sleep(0.05)
        sweep.deaf.clear()
        with anyio.fail_after(5):
            while endpoint.calls < 2:
                await anyio.sleep(0.02)
    assert endpoint.most == 1


async def test_an_outcome_that_is_told_twice_counts_once() -> None:
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1)))
    chat = card(ScriptedChat([], name="openai:m", endpoint=ENDPOINT), "w")
    busy = Failure(kind="model", message="busy", retryable=True, status=503)

    def ask(number: int, attempt: int) -> Ask:
        return Ask(id=number, attempt=attempt, card=chat, tokens=1)

    told = (Outcome(id=1, attempt=1, failure=busy),)
    async with running(sweep):
        first = await sweep.post(Letter(session="w", number=1, asks=(ask(1, 1),)))
        again = await sweep.post(Letter(session="w", number=2, asks=(ask(1, 2),), outcomes=told))
        other = await sweep.post(
            Letter(session="w", number=3, held=(ask(1, 2),), asks=(ask(2, 1),), outcomes=told)
        )
    assert (first.permits, again.permits, other.permits) == (((1, 1),), ((1, 2),), ())


async def test_a_restarted_limiter_begins_with_an_empty_bucket() -> None:
    sweep = Sweep(MeterSettings(limits=replace(FAST, rpm=600)))
    endpoint, worker = Endpoint(seconds=0.0), sweep.worker("w")
    async with running(sweep, worker) as group:
        await together(*[lambda: endpoint.ask(worker)] * 10)
        sweep.lose()
        sweep.start(group, again=True)
        began = anyio.current_time()
        await endpoint.ask(worker)
        await endpoint.ask(worker)
        assert anyio.current_time() - began > 0.15


async def test_what_the_driver_knows_survives_a_worker_that_is_gone() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=FAST, max_tokens=25)), Endpoint()
    first, second = sweep.worker("first"), sweep.worker("second")
    async with running(sweep, first, second) as group:
        await endpoint.ask(first)
        await endpoint.ask(first)
        await anyio.sleep(0.05)
        sweep.lose()
        sweep.deaf.add("first")
        sweep.start(group, again=True)
        ends = await together(*[lambda: endpoint.ask(second)] * 1)
        ends += await together(*[lambda: endpoint.ask(second)] * 1)
    assert ends == ["fine", "BudgetExhaustedError"]


async def test_calls_wait_for_a_limiter_that_is_away_but_not_for_ever() -> None:
    sweep, endpoint = Sweep(MeterSettings(limits=FAST)), Endpoint()
    worker = sweep.worker("w")
    async with running(sweep, worker):
        sweep.lose()
        with pytest.raises(ModelError, match="limiter is away") as caught:
            await endpoint.ask(worker)
    assert caught.value.retryable


async def test_a_stop_reaches_every_worker_with_its_next_answer() -> None:
    sweep, halts = Sweep(MeterSettings(limits=FAST)), [Halt(), Halt()]
    workers = [sweep.worker(f"w{n}", halt) for n, halt in enumerate(halts)]
    async with running(sweep, *workers):
        await anyio.sleep(0.03)
        assert sweep.limiter is not None
        sweep.limiter.stop()
        for worker in workers:
            worker.tell(Event(kind="episode", study="s"))
        await anyio.sleep(EVENT_SECONDS + 0.05)
        assert [halt.asked for halt in halts] == [True, True]
        before = sweep.posted["w0"]
        await anyio.sleep(0.05)
        assert sweep.posted["w0"] <= before + 1


async def test_a_closed_limiter_lets_no_further_study_begin_and_names_those_that_did() -> None:
    limiter = Limiter(MeterSettings().meter())

    async def told_to_stop(session: str, number: int, study: str) -> bool:
        return (await limiter.exchange(Letter(session=session, number=number, study=study))).stop

    async with anyio.create_task_group() as group:
        group.start_soon(limiter.serve, NOTHING, {})
        assert not await told_to_stop("w1", 1, "begun")
        assert limiter.close() == ("begun",)
        assert not await told_to_stop("w1", 2, "begun")
        assert await told_to_stop("w2", 1, "late")
        assert not await told_to_stop("w3", 1, "begun")  # its worker was lost
        assert limiter.close() == ("begun",)
        group.cancel_scope.cancel()


async def test_the_driver_learns_which_session_runs_a_study_also_from_a_restarted_limiter() -> None:
    limiters = [Limiter(MeterSettings().meter(), again=again) for again in (False, True)]
    first, second = limiters
    async with anyio.create_task_group() as group:
        for limiter in limiters:
            group.start_soon(limiter.serve, NOTHING, {})
        await first.exchange(Letter(session="w1", number=1, study="s"))
        await first.exchange(Letter(session="w1", number=2, study="s"))
        assert first.report().runs == (("s", "w1"),)
        assert first.report().runs == ()
        await second.exchange(Letter(session="w2", number=1, study="s"))
        await second.exchange(Letter(session="w2", number=2, study="s", leaving=True))
        assert second.report().runs == (("s", "w2"), ("s", None))
        group.cancel_scope.cancel()


async def test_events_reach_the_driver_once_also_when_an_answer_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(permits, "EVENT_SECONDS", 0.01)
    monkeypatch.setattr(permits, "RETRY_SECONDS", 0.01)
    sweep = Sweep(MeterSettings())
    worker = sweep.worker("w")
    async with running(sweep, worker):
        sweep.lose_answers = 1
        worker.tell(Event(kind="episode", study="s", ordinal=1))
        worker.tell(Event(kind="episode", study="s", ordinal=2))
        while sweep.lose_answers:
            await anyio.sleep(0.01)
        await worker.leave()
        assert sweep.limiter is not None
        told = [event.ordinal for event in sweep.limiter.report().events]
    assert sorted(told) == [1, 2]
    assert sweep.limiter.report().events == ()


async def test_a_model_in_the_workers_process_shares_its_limits_with_nobody() -> None:
    sweep = Sweep(MeterSettings(limits=replace(FAST, start=1, most=1)))
    endpoint = Endpoint(seconds=0.05)
    endpoint.chat = ScriptedChat([], name="local:m.gguf", endpoint="m.gguf")
    workers = [sweep.worker("one"), sweep.worker("two")]
    async with running(sweep, *workers):
        await together(*(lambda w=w: endpoint.ask(w) for w in workers * 2))
    assert endpoint.most == 2


def test_what_a_meter_keeps_travels_as_plain_data() -> None:
    given = MeterSettings(limits=FAST, max_usd=3.0, prices={"m": Price(input=1, output=2)})
    kept = settings_of(given.meter())
    assert kept.max_usd == 3.0
    assert kept.prices == given.prices
    assert kept.limits.most == FAST.most
