"""The engine of one machine: the studies of a sweep's folder side by side in this process."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from s3gym.api import Point, Result, Sweep
from s3gym.broker import Limits
from s3gym.cluster.lease import TTL, HeldError
from s3gym.cluster.shards import SweepFolder
from s3gym.errors import BudgetExhaustedError, StoreError, first_of
from s3gym.events import Event
from s3gym.halt import check_halt
from s3gym.meter import Meter, described
from s3gym.plans import StudyPlan
from s3gym.seams import close_part
from s3gym.sweep import Outcome, play_study, side_by_side, update_slots
from s3gym.trainer_seam import base_weights

SECONDS_BETWEEN_TRIES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderResult(Result):
    """What a run left in a sweep's folder."""

    def curves(self) -> dict[str, list[Point]]:
        """Return the learning curve of every study: [(checkpoint, mean score | None), ...]."""
        folder = SweepFolder.open(self.store)
        return {study: [*folder.status_of(study).curve] for study in self.studies}


async def run_folder(
    folder: SweepFolder,
    sweep: Sweep,
    *,
    config: Mapping[str, Any] | None = None,
    address: str | None = None,
    ttl: float = TTL,
) -> Result:
    """Run or resume the studies of a folder in this process.

    Args:
        folder: Made for this sweep.
        sweep: What to run, with its limits and whom it tells what happens.
        config: Not needed here: the sweep has all parts.
        address: Not needed here: there is no cluster.
        ttl: Seconds after which another worker may take a shard of this process, if it goes
            silent.

    Returns:
        What came out. A study whose shard failed or has another writer stands in
        ``outcome.unkept``; the others are unharmed.

    Raises:
        ConfigError: The sweep is not the folder's.
        BudgetExhaustedError: A budget of the run is used up.
    """
    folder.guard(sweep)
    if sweep.training is not None:
        await base_weights(sweep.training.trainer)
    plans = folder.plans(sweep)
    limits = sweep.limits or Meter()
    updates = update_slots(plans)
    unkept: dict[str, str] = {}
    spent: list[BudgetExhaustedError] = []

    async def one(plan: StudyPlan, serial: anyio.CapacityLimiter) -> None:
        if folder.status_of(plan.id).done:
            return
        check_halt()
        if spent:
            raise spent[0]
        try:
            await run_shard(
                folder,
                plan,
                limits,
                owner=f"process {os.getpid()}",
                ttl=ttl,
                serial=serial,
                updates=updates,
                on_event=sweep.on_event,
            )
        except StoreError as error:
            unkept[plan.id] = str(error)
        except BudgetExhaustedError as error:
            spent.append(error)  # studies that have not begun need no shard
            raise

    try:
        failed, refused = await side_by_side(
            plans, one, at_most=sweep.at_most, interrupt=sweep.interrupt
        )
    finally:
        await close_chats(plans)
        if sweep.training is not None:
            await close_part(sweep.training.trainer)
    return folder_result(folder, failed=failed, refused=refused, unkept=unkept)


async def run_shard(
    folder: SweepFolder,
    plan: StudyPlan,
    limits: Limits,
    *,
    owner: str,
    ttl: float = TTL,
    serial: anyio.CapacityLimiter | None = None,
    updates: anyio.CapacityLimiter | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> None:
    """Run or resume one study in its shard.

    A worker that holds the shard and went silent is waited for until its lease is over.

    Args:
        folder: ``folder.plans`` gave the plan.
        plan: The study.
        limits: Limits of the model endpoints, shared by all studies of a run.
        owner: Name of this worker, for messages.
        ttl: Seconds after which another worker may take the shard if this one goes silent.
        serial: See ``play_study``.
        updates: See ``play_study``.
        on_event: Told what happens.

    Raises:
        HeldError: Another worker holds the shard and is alive.
        LostError: Another worker took it over.
        S3GymError: As ``play_study``.
    """

    async def run() -> None:
        with folder.writer(plan.id, owner=owner, ttl=ttl) as store:
            store.note_provenance(**described(limits))
            await play_study(plan, store, limits, serial=serial, updates=updates, on_event=on_event)

    async def run_when_free() -> None:
        until: float | None = None
        while True:
            try:
                return await run()
            except HeldError as error:
                now = anyio.current_time()
                until = now + error.seconds if until is None else until
                if now >= until:  # its lease was renewed meanwhile
                    raise
                await anyio.sleep(min(SECONDS_BETWEEN_TRIES, error.seconds))

    fault: StoreError | None = None
    try:
        await run_when_free()
    except* StoreError as errors:  # what fails below leaves the study's task group in a group
        fault = first_of(errors)
    if fault is not None:
        raise fault


def folder_result(
    folder: SweepFolder,
    *,
    failed: Mapping[str, str],
    refused: Mapping[str, str],
    unkept: Mapping[str, str],
) -> Result:
    """Return what an engine left in a folder: ids of studies -> why they did not get on."""
    states = folder.status()
    return FolderResult(
        store=folder.path,
        root=folder.root_of(states),
        outcome=Outcome(
            failed=dict(sorted(failed.items())),
            refused=dict(sorted(refused.items())),
            paused=tuple(sorted(state.study for state in states if state.status == "paused")),
            invalid=tuple(sorted(state.study for state in states if state.invalid)),
            unkept=dict(sorted(unkept.items())),
        ),
        studies=folder.studies,
    )


async def close_chats(plans: list[StudyPlan]) -> None:
    """Close the chat models of plans, each once."""
    chats = [chat for plan in plans for chat in (plan.agent.chat, plan.memory.chat)]
    for chat in {id(chat): chat for chat in chats}.values():
        await close_part(chat)
