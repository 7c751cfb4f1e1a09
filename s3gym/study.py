"""One study: a game, an agent and a memory under one schedule and one repeat.

Exploration is sequential, because each episode changes what the next one reads. The evaluation
of a checkpoint runs on a frozen view beside the exploration that follows. Running and resuming
are one path: what the store already has is loaded instead of played.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

import anyio
from anyio.abc import TaskGroup

from s3gym.answered import check_reader, check_snapshot
from s3gym.broker import Limits, StudyBroker
from s3gym.calls import brokered
from s3gym.contracts.agent import Agent, Forkable
from s3gym.contracts.memory import Memory, MemoryReader
from s3gym.errors import (
    BudgetExhaustedError,
    ModelError,
    PluginError,
    S3GymError,
    ServiceError,
    first_of,
)
from s3gym.events import Event
from s3gym.oracle import with_rewards
from s3gym.owners import forks_of, fresh_copy, note_not_isolated, own_agent
from s3gym.parts import AgentPart
from s3gym.plans import StudyPlan, plan_episode
from s3gym.play import Player, play_episode
from s3gym.records import Episode, Phase
from s3gym.seams import called, close_part, guarded, uncancelled
from s3gym.store.store import Store


async def run_study(
    plan: StudyPlan,
    store: Store,
    limits: Limits,
    *,
    serial: anyio.CapacityLimiter | None = None,
    on_event: Callable[[Event], None] | None = None,
) -> None:
    """Run or resume a study to its end, and seal it.

    A service that stays down during exploration leaves the study ``paused`` and during
    evaluation leaves an invalid point; both are taken up by the next resume.

    Args:
        plan: What to run; the store must hold its study row.
        store: Open for writing.
        limits: Limits of the model endpoints, shared by all studies of a run.
        serial: Taken for each episode of a serial agent.
        on_event: Told what happens.

    Raises:
        PluginError: Agent, memory or game misbehaved; the study is marked ``failed``.
        ModelError: A service refused for good, for example a wrong key; likewise.
        BudgetExhaustedError: A budget of the run is used up; the study is ``paused``.
        StoreError: The disk failed, or the record does not fit what is run.
    """
    await StudyRun(plan, store, limits, serial=serial, on_event=on_event).run()


class StudyRun:
    """One run of a study whose experience goes into a memory."""

    def __init__(
        self,
        plan: StudyPlan,
        store: Store,
        limits: Limits,
        *,
        serial: anyio.CapacityLimiter | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        self.plan, self.store, self.limits = plan, store, limits
        self.serial, self.tell = serial, on_event or (lambda event: None)
        self.paused: str | None = None
        self.refused: ModelError | None = None
        self.spent: BudgetExhaustedError | None = None
        self.owner: Forkable | None = None

    async def run(self) -> None:
        """Run or resume it. See ``run_study``."""
        plan, ledger = self.plan, self.store.ledger
        if ledger.status(plan.id) == "done" and not ledger.invalid(plan.id):
            return
        self._mark("running")
        self.tell(Event(kind="study", study=plan.id))
        memory: Memory | None = None
        failure: PluginError | None = None
        try:
            memory = called(self._memory_label, "its construction", plan.memory.make)
            check_reader(self._memory_label, memory)
            async with anyio.create_task_group() as group:
                with uncancelled():
                    await self._explore(memory, group)
        except* PluginError as failures:
            failure = first_of(failures)
        finally:
            await close_part(memory)
            if self.owner is not plan.agent.forkable:
                await close_part(self.owner)
        if failure is not None:
            self._mark("failed", str(failure))
            self.tell(Event(kind="failed", study=plan.id, note=str(failure)))
            raise PluginError(f"{plan.id}: {failure}") from failure
        if self.refused is not None:
            self._mark("failed", str(self.refused))
            self.tell(Event(kind="failed", study=plan.id, note=str(self.refused)))
            raise self.refused
        if self.spent is not None:
            self._mark("paused", str(self.spent))
            raise self.spent
        if self.paused is not None:
            self._mark("paused", self.paused)
            self.tell(Event(kind="paused", study=plan.id, note=self.paused))
            return
        with self.store.transaction():
            self.store.verdicts.seal(plan.id)
            ledger.set_status(plan.id, "done")
        self.tell(Event(kind="done", study=plan.id))

    def _mark(self, status: str, note: str = "") -> None:
        with self.store.transaction():
            self.store.ledger.set_status(self.plan.id, status, note)

    async def _explore(self, memory: Memory, group: TaskGroup) -> None:
        """Explore episode by episode; start each checkpoint's evaluation beside it."""
        plan = self.plan
        isolated = called(
            self._memory_label, "isolated", lambda: bool(getattr(memory, "isolated", True))
        )
        if not isolated and plan.memory.isolated:
            note_not_isolated(self.store, plan.id)
        beside = isolated and plan.agent.isolated and not plan.agent.serial
        try:
            self.owner = await own_agent(
                plan.agent, plan.id, plan.schedule.memory_seconds, must_learn=plan.memory.own
            )
            for ordinal in range(plan.schedule.exploration_episodes + 1):
                if self.spent is not None or self.refused is not None:
                    return
                if ordinal:
                    await self._explore_one(memory, ordinal)
                if ordinal not in plan.schedule.checkpoints:
                    continue
                view = called(self._memory_label, "freeze", lambda: memory.freeze())
                check_reader(self._memory_label, view)
                forks = await self._forks(plan.schedule.evaluation_episodes)
                if beside:
                    group.start_soon(self._evaluate, ordinal, view, forks)
                else:
                    await self._evaluate(ordinal, view, forks)
        except (ServiceError, BudgetExhaustedError) as error:
            if not self._stops(error):
                self.paused = str(error)

    def _stops(self, error: S3GymError) -> bool:
        """Return whether an error ends the study: calls under way elsewhere still finish."""
        if isinstance(error, BudgetExhaustedError):
            self.spent = error
        elif isinstance(error, ModelError) and not error.retryable:
            self.refused = error
        return self.spent is not None or self.refused is not None

    async def _explore_one(self, memory: Memory, ordinal: int) -> None:
        plan = self.plan
        forks = [] if plan.explorer else await self._forks(1)
        episode = await self._play(
            Phase.EXPLORATION, ordinal, None, memory, forks[0] if forks else None
        )
        self.tell(Event(kind="episode", study=plan.id, ordinal=ordinal))
        if plan.oracle == "judge":
            log = self.store.verdicts.verdicts(episode.id)
            episode = with_rewards(episode, [verdict for verdict, _ in log])
        seconds = plan.schedule.memory_seconds
        learn = self.owner.learn if self.owner is not None else plan.agent.learn
        label = self._memory_label
        place = f"{plan.id}/m{ordinal:03d}"
        broker = StudyBroker(self.store, self.limits, plan.id, place)
        with brokered(broker):
            if plan.memory.own and learn is not None:
                await guarded(self._agent_label, "learn", lambda: learn(episode), seconds)
            await guarded(label, "record", lambda: memory.record(episode), seconds)
            await guarded(
                label,
                "consolidate",
                lambda: memory.consolidate(episode.rules, plan.schedule.memory_tokens),
                seconds,
            )
        given = called(label, "describe", lambda: _described(memory))
        snapshot = None if given is None else check_snapshot(label, given[0])
        with self.store.transaction():
            broker.keep_failures()
            if snapshot is not None:
                self.store.ledger.add_memory_version(plan.id, ordinal, snapshot)

    async def _forks(self, n: int) -> list[Agent]:
        seconds = self.plan.schedule.memory_seconds
        return await forks_of(self.owner, self._agent_label, seconds, n)

    async def _evaluate(
        self, checkpoint: int, reader: MemoryReader, forks: Sequence[Agent]
    ) -> None:
        """Play the strict episodes of a checkpoint; an outage leaves the point invalid."""
        plan = self.plan
        reasons: dict[int, str] = {}

        async def play(index: int) -> None:
            fork = forks[index] if forks else None
            try:
                with uncancelled():
                    await self._play(Phase.EVALUATION, index + 1, checkpoint, reader, fork)
            except (ServiceError, BudgetExhaustedError) as error:
                self._stops(error)
                reasons[index] = str(error)

        if plan.agent.serial:
            for index in range(plan.schedule.evaluation_episodes):
                await play(index)
        else:
            async with anyio.create_task_group() as group:
                for index in range(plan.schedule.evaluation_episodes):
                    group.start_soon(play, index)
        if self.spent is not None or self.refused is not None:
            return
        with self.store.transaction():
            if reasons:
                reason = "; ".join(reasons[index] for index in sorted(reasons))
                self.store.ledger.set_invalid(plan.id, checkpoint, reason)
            else:
                self.store.ledger.clear_invalid(plan.id, checkpoint)
        kind = "invalid" if reasons else "checkpoint"
        self.tell(Event(kind=kind, study=plan.id, ordinal=checkpoint))

    async def _play(
        self,
        phase: Phase,
        ordinal: int,
        checkpoint: int | None,
        reader: MemoryReader,
        fork: Agent | None,
    ) -> Episode:
        plan = self.plan
        part = self._part(phase, checkpoint)
        made: list[Agent] = []

        async def player() -> Player:
            seconds = plan.schedule.memory_seconds
            agent = await fresh_copy(fork, self._agent_label, seconds)
            if agent is None:
                agent = called(self._agent_label, "its construction", part.make)
                made.append(agent)
            return Player(
                label=self._agent_label,
                agent=agent,
                stateless=part.stateless,
                memory_label=self._memory_label,
                reader=reader,
                counter=plan.counter,
            )

        episode_plan = plan_episode(plan, phase, ordinal, checkpoint)
        async with AsyncExitStack() as stack:
            if self.serial is not None and part.serial:
                await stack.enter_async_context(self.serial)
            try:
                return await play_episode(episode_plan, player, self.store, self.limits)
            finally:
                if not part.shared:
                    for agent in made:
                        await close_part(agent)

    def _part(self, phase: Phase, checkpoint: int | None) -> AgentPart:
        """Return who plays an episode."""
        explorer = self.plan.explorer if phase is Phase.EXPLORATION else None
        return explorer or self.plan.agent

    @property
    def _agent_label(self) -> str:
        return f"agent {self.plan.agent.name!r}"

    @property
    def _memory_label(self) -> str:
        return f"memory {self.plan.memory.name!r}"


def _described(memory: Memory) -> tuple[object] | None:
    """Return what a memory says of itself, if it can."""
    describe = getattr(memory, "describe", None)
    return None if describe is None else (describe(),)
