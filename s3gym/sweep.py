"""Many studies side by side, in one store, under one limiter per endpoint."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio

from s3gym.broker import Limits
from s3gym.errors import BudgetExhaustedError, ModelError, PluginError, S3GymError, first_of
from s3gym.events import Event
from s3gym.meter import Meter, described
from s3gym.plans import StudyPlan
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
    """

    failed: dict[str, str]
    refused: dict[str, str]
    paused: tuple[str, ...]
    invalid: tuple[str, ...]


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
    slots = anyio.CapacityLimiter(at_most)
    serial = anyio.CapacityLimiter(1)
    updates = anyio.CapacityLimiter(
        max((plan.training.side_by_side for plan in plans if plan.training), default=1)
    )
    failed: dict[str, str] = {}
    refused: dict[str, str] = {}
    stopped: list[S3GymError] = []
    shared = limits or Meter()
    store.note_provenance(**described(limits))

    async def one(plan: StudyPlan) -> None:
        async with slots:
            try:
                if plan.training is None:
                    await run_study(plan, store, shared, serial=serial, on_event=on_event)
                else:
                    await TrainingRun(
                        plan,
                        plan.training,
                        store,
                        shared,
                        slots=updates,
                        serial=serial,
                        on_event=on_event,
                    ).run()
            except PluginError as error:
                failed[plan.id] = str(error)
            except ModelError as error:
                refused[plan.id] = str(error)
            except BudgetExhaustedError as error:
                stopped.append(error)  # the others stop at their own next call

    try:
        async with watching(block_seconds, interrupt), anyio.create_task_group() as group:
            for plan in plans:
                group.start_soon(one, plan)
    except* S3GymError as errors:
        stopped.append(first_of(errors))
    if stopped:
        raise stopped[0]
    states = {plan.id: store.ledger.status(plan.id) for plan in plans}
    return Outcome(
        failed={name: failed[name] for name in sorted(failed)},
        refused={name: refused[name] for name in sorted(refused)},
        paused=tuple(sorted(name for name, state in states.items() if state == "paused")),
        invalid=tuple(sorted(plan.id for plan in plans if store.ledger.invalid(plan.id))),
    )
