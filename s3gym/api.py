"""What a user's program calls: ``Study`` for one cell, ``Sweep`` for many.

Both put plans together, open the store, run, and give back a ``Result`` that reads the store.
"""

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from socket import socket
from typing import Any

import anyio

from s3gym.broker import Limits
from s3gym.catalog import TRAINING, find_agent, find_game, find_memory
from s3gym.config import validated
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.contracts.game import GameSpec, Options
from s3gym.errors import ConfigError, StoreError
from s3gym.events import Event
from s3gym.fitting import check_knows, check_numbers, check_oracle, check_parts, check_training
from s3gym.oracle import Oracle
from s3gym.parts import AgentPart, MemoryPart
from s3gym.plans import StudyPlan, default_store, difference, seed_plan
from s3gym.provenance import provenance
from s3gym.proxy.server import Serving, listening
from s3gym.proxy.turns import Turns
from s3gym.records import Phase
from s3gym.schedule import Schedule
from s3gym.sealed.parts import reached, sealed_parts, sealed_plan, sealed_store
from s3gym.sealed.seal import Seal
from s3gym.seams import close_part
from s3gym.store import file
from s3gym.store.store import Store
from s3gym.store.verdicts import VerdictLog, store_root
from s3gym.sweep import SIDE_BY_SIDE, Outcome, add_studies, run_sweep
from s3gym.tokens import token_counter
from s3gym.trainer_seam import base_weights
from s3gym.training import Training

Point = tuple[int, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run left: its store, and how its studies ended.

    Attributes:
        store: Path of the store; report and audit read it.
        root: Hash over all sealed studies; ``None`` while any is unfinished.
        outcome: Failed, paused and invalid studies.
        studies: Ids of the studies, in the order in which they were planned.
    """

    store: Path
    root: str | None
    outcome: Outcome
    studies: tuple[str, ...]

    def curves(self) -> dict[str, list[Point]]:
        """Return the learning curve of every study: [(checkpoint, mean score | None), ...]."""
        with _reading(self.store) as log:
            return {study: [*log.curve(study)] for study in self.studies}

    @property
    def curve(self) -> list[Point]:
        """The mean learning curve over all studies: [(checkpoint, mean score | None), ...]."""
        sums: dict[int, list[float]] = {}
        for points in self.curves().values():
            for checkpoint, score in points:
                if score is not None:
                    sums.setdefault(checkpoint, []).append(score)
        return [
            (checkpoint, sum(sums[checkpoint]) / len(sums[checkpoint]))
            for checkpoint in sorted(sums)
        ]


class _reading:
    def __init__(self, path: Path) -> None:
        self._connection = file.open_reader(path)

    def __enter__(self) -> VerdictLog:
        return VerdictLog(self._connection)

    def __exit__(self, *details: object) -> None:
        self._connection.close()


@dataclass(kw_only=True)
class Sweep:
    """Games x agents x memories x repeats, in one store.

    Args:
        games: Names or ``GameSpec`` values.
        agents: Names, classes, factories, instances or functions of a turn.
        memories: Names, classes or factories; ``training`` puts experience into weights instead.
        repeats: Studies per cell; each has seeds of its own.
        schedule: Budget of each study.
        seed: Root seed; drawn when it is missing.
        store: File to write; by default a new one under ``runs/``.
        options: Game name -> its switches.
        limits: Limits of model endpoints, and the run's budget; see ``s3gym.meter``.
        memory_chat: Chat model that writes summaries and insights; by default the agent's own.
        at_most: Studies side by side.
        on_event: Told what happens.
        settings: Further settings that fix the results; kept in every study's specification.
        oracle: ``"judge"``, ``"explorer"`` or ``"reward"``: outside the protocol, see
            ``s3gym.oracle``.
        seal: Run agents and memories in processes of their own, which never see game, verifier
            and store.
        training: How the training pathway trains; it joins the memories when it is not there.
    """

    games: Sequence[str | GameSpec] = ("trust",)
    agents: Sequence[object] = ("strategist",)
    memories: Sequence[object] = ("none", "history")
    repeats: int = 3
    schedule: Schedule = field(default_factory=Schedule)
    seed: int | None = None
    salt: str | None = None
    store: str | Path | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    limits: Limits | None = None
    memory_chat: ChatModel | None = None
    at_most: int = SIDE_BY_SIDE
    on_event: Callable[[Event], None] | None = None
    interrupt: Callable[[str], None] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    oracle: Oracle | None = None
    seal: Seal | None = None
    training: Training | None = None
    _sealed: tuple[list[AgentPart], list[MemoryPart]] | None = field(
        default=None, init=False, repr=False, compare=False
    )
    _turns: Turns | None = field(default=None, init=False, repr=False, compare=False)

    def plans(self) -> list[StudyPlan]:
        """Return the plan of every study, without touching a disk.

        Raises:
            ConfigError: A name, option or part is wrong, or two parts share a name.
        """
        check_numbers(self.schedule, self.repeats, self.seed, self.at_most)
        games = [find_game(game) for game in self.games]
        agents, memories = self._parts()
        check_parts(games, agents, memories)
        check_oracle(self.oracle, memories, self.training, sealed=self.seal is not None)
        check_training(self.training, agents, memories)
        unknown = sorted(set(self.options) - {game.name for game in games})
        if unknown:
            raise ConfigError(f"games.{unknown[0]}: this game is not part of the run")
        explorer = find_agent("reference") if self.oracle == "explorer" else None
        if explorer is not None:
            check_knows(explorer, games)
        seeds = seed_plan(self.seed, self.salt, self.schedule, sealed=self.seal is not None)
        options = {game.name: playable(game, self.options.get(game.name, {})) for game in games}
        plans = [
            StudyPlan(
                game=game,
                options=options[game.name],
                agent=agent,
                memory=memory.written_by(self.memory_chat or agent.chat),
                repeat=repeat,
                schedule=self.schedule,
                seeds=seeds,
                counter=token_counter(),
                settings=json.dumps(dict(self.settings), sort_keys=True),
                oracle=self.oracle,
                explorer=explorer,
                training=self.training if memory.trains else None,
            )
            for game in games
            for agent in agents
            for memory in memories
            for repeat in range(self.repeats)
        ]
        if self.seal is None:
            return plans
        plans = [sealed_plan(self.seal, plan) for plan in plans]
        if self._turns is None:
            return plans
        return [replace(plan, agent=self._turns.around(plan.agent)) for plan in plans]

    def _parts(self) -> tuple[list[AgentPart], list[MemoryPart]]:
        """Return agents and memories; sealed ones are loaded in a child process alone."""
        if self.seal is None:
            agents = [find_agent(agent) for agent in self.agents]
            found = [find_memory(memory) for memory in self.memories]
            if self.training is not None and not any(memory.trains for memory in found):
                found.append(find_memory(TRAINING))
            return agents, found
        if self.training is not None or TRAINING in self.memories:
            raise ConfigError(
                "training: a training study cannot be sealed, because its trainer works in this "
                "process; leave one of them out"
            )
        if self._sealed is None:
            self._sealed = sealed_parts(self.seal, self.agents, self.memories)
        return self._sealed

    async def run(self) -> Result:
        """Run every study into a new store and return what came out.

        Raises:
            ConfigError: Something about the run is wrong; nothing was written.
            StoreError: The store exists or cannot be written.
        """
        plans = self.plans()
        path = Path(self.store) if self.store is not None else default_store(plans)
        file.must_be_new(path)
        if self.training is not None:
            await base_weights(self.training.trainer)
        with Store.create(path) if self.seal is None else sealed_store(self.seal, path) as store:
            with store.transaction():
                store.verdicts.set_secret("root_seed", str(plans[0].seeds.root))
                store.verdicts.set_secret("salt", plans[0].seeds.salt)
            store.note_provenance(**provenance())
            add_studies(store, plans)
            return await self._finish(plans, store)

    async def resume(self) -> Result:
        """Take up an unfinished store with the same parts, or add studies to it.

        Raises:
            ConfigError: The store holds a study that these parts do not fit.
            StoreError: There is no such store, or another process writes to it.
        """
        if self.store is None:
            raise ConfigError("resume needs the path of a store")
        if self.seal is not None:
            self.seal.guard(Path(self.store))
        if self.training is not None:
            await base_weights(self.training.trainer)
        with Store.open(self.store) as store:
            plans = fitting_plans(self, store)
            return await self._finish(plans, store)

    async def _finish(self, plans: Sequence[StudyPlan], store: Store) -> Result:
        try:
            outcome = await run_sweep(
                plans,
                store,
                limits=self.limits,
                at_most=self.at_most,
                on_event=self.on_event,
                interrupt=self.interrupt,
            )
        finally:
            chats = [chat for plan in plans for chat in (plan.agent.chat, plan.memory.chat)]
            for chat in {id(chat): chat for chat in chats}.values():
                await close_part(chat)
            if self.training is not None:
                await close_part(self.training.trainer)
        return Result(
            store=store.path,
            root=store_root(store.connection),
            outcome=outcome,
            studies=tuple(plan.id for plan in plans),
        )

    @asynccontextmanager
    async def proxy(
        self,
        *,
        openai: str | None = None,
        anthropic: str | None = None,
        port: int = 0,
        listener: socket | None = None,
        replies: Mapping[str, Reply] | None = None,
    ) -> AsyncIterator[str]:
        """Put a proxy between the agents' apps and their models, for the runs inside.

        What an app asks there is metered, limited, recorded and resumed, streams included; one
        episode is played at a time. OpenAI's SDK wants ``URL/v1``, Anthropic's ``URL``.

        Args:
            openai: Address of the real server behind the OpenAI paths; default
                ``OPENAI_BASE_URL`` as it is when this is entered, else OpenAI's own.
            anthropic: The same for the Anthropic paths.
            port: Port on loopback; 0 takes a free one.
            listener: A listening socket in place of a port.
            replies: Recorded replies that answer all calls, by the hash of their request.

        Yields:
            The URL.

        Raises:
            MissingExtraError: The server's packages are not installed.
            ConfigError: An address or an agent is wrong.
        """
        if self.training is not None:
            if listener is not None:
                listener.close()
            raise ConfigError("training: what a trainer's weights answer does not go by a proxy")
        turns, agents, seal = Turns(replies), self.agents, self.seal
        keys = {} if seal is None else dict(os.environ)
        sock = listener or listening(port)
        async with Serving(
            turns.answer,
            openai=openai,
            anthropic=anthropic,
            listener=sock,
            keys=keys,
            offline=replies is not None,
        ) as on:
            if seal is None:
                self.agents = [turns.around(find_agent(agent)) for agent in agents]
            else:
                self.seal, self._turns = reached(seal, on.url), turns
            try:
                yield on.url
            finally:
                self.agents, self.seal, self._turns = agents, seal, None

    def run_sync(self) -> Result:
        """Run without an event loop of one's own. See ``run``."""
        return in_a_loop(self.run)

    def resume_sync(self) -> Result:
        """Resume without an event loop of one's own. See ``resume``."""
        return in_a_loop(self.resume)


def in_a_loop(start: Callable[[], Awaitable[Result]]) -> Result:
    """Run in an event loop of its own; raises ``ConfigError`` where one runs already."""
    with suppress(anyio.NoEventLoopError):
        anyio.get_current_task()
        raise ConfigError("an event loop runs here, as in a notebook: 'await' run or resume")
    return anyio.run(start)


class Study(Sweep):
    """One game, one agent and one memory, repeated.

    Args:
        game: Name or ``GameSpec``.
        agent: Name, class, factory, instance or function of a turn.
        memory: Name, class or factory; default ``"none"``, or with ``training`` the training
            pathway.
        others: What ``Sweep`` takes: ``schedule``, ``seed``, ``repeats``, ``store``, ...
    """

    def __init__(
        self, *, game: str | GameSpec, agent: object, memory: object = None, **others: Any
    ) -> None:
        if memory is None:
            memory = "none" if others.get("training") is None else TRAINING
        super().__init__(games=(game,), agents=(agent,), memories=(memory,), **others)


def game_options(game: GameSpec, values: Mapping[str, Any], source: str = "options") -> Options:
    """Return a game's switches; raises ``ConfigError`` that names the wrong one."""
    options = validated(game.options, values, source, f"games.{game.name}")
    if not isinstance(options, Options):
        raise ConfigError(f"game {game.name!r}: its options are no Options")
    return options


def playable(game: GameSpec, values: Mapping[str, Any]) -> Options:
    """Return a game's switches, once it is certain that both phases can be set up with them.

    Raises:
        ConfigError: A switch is wrong, or what the game needs is not installed.
    """
    options = game_options(game, values)
    for phase in Phase:
        game.setup(options, phase)
    return options


def fitting_plans(sweep: Sweep, store: Store) -> list[StudyPlan]:
    """Return the plans of a sweep with the store's seeds; new ones are added to the store.

    Raises:
        ConfigError: A recorded study has another specification than its plan.
    """
    root, salt = store.verdicts.secret("root_seed"), store.verdicts.secret("salt")
    if root is None or not root.isdecimal() or salt is None:
        raise StoreError(f"{store.path}: its seeds are missing or damaged")
    sweep.seed, sweep.salt = int(root), salt
    plans = sweep.plans()
    known = dict(store.connection.execute("SELECT id, spec FROM studies").fetchall())
    for plan in plans:
        recorded = known.get(plan.id)
        if recorded is not None and recorded != plan.spec():
            raise ConfigError(f"{store.path}: {plan.id}: {difference(recorded, plan.spec())}")
    add_studies(store, [plan for plan in plans if plan.id not in known])
    return plans
