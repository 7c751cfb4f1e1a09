"""One run of a study whose experience goes into weights.

Between two checkpoints everything plays with the same weights: the evaluation of the checkpoint
beside the exploration that follows it. Both end before the next update, so that one model at a
time is in memory. Evaluation is never read back, except by the variants, which say so.
"""

from collections.abc import Callable, Iterable

import anyio
from anyio.abc import TaskGroup

from s3gym.broker import Limits
from s3gym.contracts.memory import Memory
from s3gym.errors import BudgetExhaustedError, ProtocolBreachError, ServiceError
from s3gym.events import Event
from s3gym.parts import AgentPart
from s3gym.plans import StudyPlan
from s3gym.records import Phase
from s3gym.store.store import Store
from s3gym.study import StudyRun
from s3gym.training import Training
from s3gym.weights import Version, Weights


class TrainingRun(StudyRun):
    """Explores, updates, evaluates, at each checkpoint.

    Args:
        plan: The study.
        training: How it trains.
        slots: Taken for each update; shared by the studies of a run.
    """

    def __init__(
        self,
        plan: StudyPlan,
        training: Training,
        store: Store,
        limits: Limits,
        *,
        slots: anyio.CapacityLimiter,
        serial: anyio.CapacityLimiter | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        super().__init__(plan, store, limits, serial=serial, on_event=on_event)
        self.training = training
        self.weights = Weights(plan, training, store, limits, slots)
        self.versions: dict[int, Version] = {}
        self.explorer: Version | None = None

    async def _explore(self, memory: Memory, group: TaskGroup) -> None:
        """Go from checkpoint to checkpoint; ``group`` is not used, so that updates can wait."""
        try:
            await self._cycle(memory)
        except (ServiceError, BudgetExhaustedError) as error:
            if not self._stops(error):
                self.paused = str(error)
        finally:
            await self.weights.close()

    async def _cycle(self, memory: Memory) -> None:
        plan, every = self.plan, self.plan.schedule.evaluate_every
        base = newest = self.explorer = await self.weights.base()
        self.versions[0] = base
        for checkpoint in plan.schedule.checkpoints:
            if checkpoint:
                start = base if self.training.start == "base" else newest
                version = await self.weights.update(checkpoint, start=start, explorer=self.explorer)
                self.tell(Event(kind="update", study=plan.id, ordinal=checkpoint))
                self.versions[checkpoint] = newest = self.explorer = version
            last = min(checkpoint + every, plan.schedule.exploration_episodes)
            ahead = range(checkpoint + 1, last + 1)
            if self.training.variant == "plain":
                async with anyio.create_task_group() as beside:
                    beside.start_soon(self._evaluate, checkpoint, memory.freeze(), [])
                    await self._ahead(memory, ahead)
            else:
                await self._evaluate(checkpoint, memory.freeze(), [])
                if self._ended():
                    return
                self._must_be_valid(checkpoint)
                newest = self._chosen(checkpoint, newest)
                await self._ahead(memory, ahead)
            if self._ended():
                return

    async def _ahead(self, memory: Memory, ordinals: Iterable[int]) -> None:
        """Explore up to the next checkpoint; an outage pauses, evaluation beside it goes on."""
        try:
            for ordinal in ordinals:
                if self._ended():
                    return
                await self._explore_one(memory, ordinal)
        except (ServiceError, BudgetExhaustedError) as error:
            if not self._stops(error):
                self.paused = str(error)

    def _ended(self) -> bool:
        return not (self.paused is None and self.spent is None and self.refused is None)

    def _must_be_valid(self, checkpoint: int) -> None:
        """Stop where a variant has no score to go by; a resume evaluates the point again."""
        for point, reason in self.store.ledger.invalid(self.plan.id):
            if point == checkpoint:
                raise ServiceError(
                    f"the variant {self.training.variant} needs a valid checkpoint {point}: "
                    f"{reason}"
                )

    def _chosen(self, checkpoint: int, newest: Version) -> Version:
        """Choose by evaluation scores who explores; return what the next update starts from."""
        curve = dict(self.store.verdicts.curve(self.plan.id))
        reached = [point for point in sorted(self.versions) if point <= checkpoint]
        if self.training.variant == "keep_best":
            best = max(reached, key=lambda point: (curve[point], point))
            self.explorer = self.versions[best]
            return newest
        if checkpoint:
            before = self._start_of(checkpoint)
            if curve[checkpoint] < curve[before]:
                newest = self.versions[before]
        self.explorer = newest
        return newest

    def _start_of(self, checkpoint: int) -> int:
        return self.store.updates.of(self.plan.id)[checkpoint].start

    def _part(self, phase: Phase, checkpoint: int | None) -> AgentPart:
        if phase is Phase.EXPLORATION:
            if self.plan.explorer is not None:
                return self.plan.explorer
            version = self.explorer
        else:
            version = self.versions[checkpoint or 0]
        if version is None:
            raise ProtocolBreachError(f"{self.plan.id}: explores without weights")
        return self.weights.part(version)
