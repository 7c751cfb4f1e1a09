"""Many studies side by side, in one store, under one limiter per endpoint."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import anyio

from s3gym.broker import Limits
from s3gym.errors import BudgetExhaustedError, ModelError, PluginError, S3GymError, first_of
from s3gym.events import Event
from s3gym.meter import Meter, described
from s3gym.plans import StudyPlan
from s3gym.precedence import exploration_first
from s3gym.store.store import Store
from s3gym.study import run_study
from s3gym.training_study import TrainingRun
from s3gym.watchdog import watching

SIDE_BY_SIDE = 16
BLOCK_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the studies of a run ended.

    Attributes:
        failed: Study -> why its plug-in failed it.
        refused: Study -> why a service refused it for good, for example a wrong key.
        paused: Studies that a service paused.
        invalid: Studies with at least one invalid point.
        unkept: Study -> why its own store, the shard of a sweep's folder, could not be written to.
    """

    failed: dict[str, str]
    refused: dict[str, str]
    paused: tuple[str, ...]
    invalid: tuple[str, ...]
    unkept: dict[str, str] = field(default_factory=dict)


def add_studies(store: Store, plans: Sequence[StudyPlan]) -> None:
    """Keep the specifications of new studies."""
    with store.transaction():
        for plan in plans:
            store.ledger.add_study(
                plan.id,
                game=plan.game.name,
                game_version=plan.game.version,
                agent=plan.agent.name,
                memory=plan.memory.name,
                repeat=plan.repeat,
                spec=plan.spec(),
            )


async def run_sweep(
    plans: Sequence[StudyPlan],
    store: Store,
    *,
    limits: Limits | None = None,
    at_most: int = SIDE_BY_SIDE,
    on_event: Callable[[Event], None] | None = None,
    block_seconds: float = BLOCK_SECONDS,
    interrupt: Callable[[str], None] | None = None,
) -> Outcome:
    """Run or resume studies; a plug-in that fails ends its own study and no other.

    Args:
        plans: The studies; the store must hold their rows.
        store: Open for writing.
        limits: Limits of the model endpoints.
        at_most: Studies that run at the same time.
        on_event: Told what happens.
        block_seconds: How long a plug-in may hold the event loop before it is named.
        interrupt: See ``watching``.

    Raises:
        StoreError: The disk failed.
        BudgetExhaustedError: A budget of the run is used up.
    """
    shared = limits or Meter()
    store.note_provenance(**described(limits))

    updates = update_slots(plans)

    async def one(plan: StudyPlan, serial: anyio.CapacityLimiter) -> None:
        await play_study(plan, store, shared, serial=serial, updates=updates, on_event=on_event)

    async with store.keeping():
        failed, refused = await side_by_side(
            plans, one, at_most=at_most, block_seconds=block_seconds, interrupt=interrupt
        )
    states = {plan.id: store.ledger.status(plan.id) for plan in plans}
    return Outcome(
        failed=failed,
        refused=refused,
        paused=tuple(sorted(name for name, state in states.items() if state == "paused")),
        invalid=tuple(sorted(plan.id for plan in plans if store.ledger.invalid(plan.id))),
    )


def update_slots(plans: Sequence[StudyPlan]) -> anyio.CapacityLimiter:
    """Return what the updates of a run's training studies are taken from."""
    trained = [plan.training.side_by_side for plan in plans if plan.training]
    return anyio.CapacityLimiter(max(trained, default=1))


async def play_study(
    plan: StudyPlan,
    store: Store,
    limits: Limits,
    *,
    serial: anyio.CapacityLimiter | None = None,
    updates: anyio.CapacityLimiter | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> None:
    """Run or resume a study on its pathway. Takes and raises what ``run_study`` does.

    Args:
        plan: What to run; the store must hold its study row.
        store: Open for writing.
        limits: Limits of the model endpoints, shared by all studies of a run.
        serial: Taken for each episode of a serial agent.
        updates: Taken for each update of weights.
        on_event: Told what happens.
    """
    if plan.training is None:
        await run_study(plan, store, limits, serial=serial, on_event=on_event)
        return
    slots = updates or update_slots([plan])
    await TrainingRun(
        plan, plan.training, store, limits, slots=slots, serial=serial, on_event=on_event
    ).run()


async def side_by_side(
    plans: Sequence[StudyPlan],
    run: Callable[[StudyPlan, anyio.CapacityLimiter], Awaitable[None]],
    *,
    at_most: int = SIDE_BY_SIDE,
    block_seconds: float = BLOCK_SECONDS,
    interrupt: Callable[[str], None] | None = None,
) -> tuple[dict[str, str], dict[str, str]]:
    """Run studies at the same time; one that fails ends no other.

    Args:
        plans: The studies.
        run: Runs one; it is given what the episodes of serial agents take.
        at_most: Studies that run at the same time.
        block_seconds: How long a plug-in may hold the event loop before it is named.
        interrupt: See ``watching``.

    Returns:
        Why studies failed, and why a service refused studies, by id in order.

    Raises:
        StoreError: The disk failed.
        BudgetExhaustedError: A budget of the run is used up.
        PluginError: A plug-in left the event loop in a state in which no study can go on.
    """
    slots = anyio.CapacityLimiter(at_most)
    serial = anyio.CapacityLimiter(1)
    failed: dict[str, str] = {}
    refused: dict[str, str] = {}
    stopped: list[S3GymError] = []

    async def one(plan: StudyPlan) -> None:
        async with slots:
            try:
                await run(plan, serial)
            except PluginError as error:
                failed[plan.id] = str(error)
            except ModelError as error:
                refused[plan.id] = str(error)
            except BudgetExhaustedError as error:
                stopped.append(error)  # the others stop at their own next call

    try:
        with exploration_first():
            async with watching(block_seconds, interrupt), anyio.create_task_group() as group:
                for plan in plans:
                    group.start_soon(one, plan)
    except* S3GymError as errors:
        stopped.append(first_of(errors))
    except* RuntimeError as errors:  # scopes in disorder end all tasks, and nobody can go on
        culprit = _culprit(errors)
        if culprit is None:
            raise
        if len(plans) == 1:
            failed[plans[0].id] = str(culprit)
        else:
            stopped.append(culprit)
    if stopped:
        raise stopped[0]
    return dict(sorted(failed.items())), dict(sorted(refused.items()))


def _culprit(error: BaseException | None) -> PluginError | None:
    """Return the plug-in's mistake that an error came of, if it did."""
    if error is None or isinstance(error, PluginError):
        return error
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    origins = (_culprit(origin) for origin in (*inner, error.__cause__, error.__context__))
    return next((origin for origin in origins if origin is not None), None)
