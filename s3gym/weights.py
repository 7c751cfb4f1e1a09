"""The weights of one training study: its updates, what a store keeps of them, and who plays.

An update is finished when its row is committed, and a finished one is never made again. Weights
that are files lie beside the store in ``STORE.weights``; the store names them relative to that
folder and by hash, so both can be moved together. Weights that are gone or damaged fail their own
study and no other.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import anyio

from s3gym.broker import Limits, StudyBroker
from s3gym.calls import brokered
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.contracts.trainer import ModelRef
from s3gym.errors import ConfigError, PluginError, ServiceError, StoreError
from s3gym.halt import check_halt
from s3gym.oracle import with_labels
from s3gym.parts import AgentPart
from s3gym.plans import StudyPlan
from s3gym.records import Message
from s3gym.seams import called, close_part, shown
from s3gym.sft import Dataset, Explored, build_sft_asking
from s3gym.store.chain import canonical
from s3gym.store.explored import load_explored
from s3gym.store.file import disk_errors
from s3gym.store.store import Store, now
from s3gym.store.updates import UpdateRow
from s3gym.trainer_seam import base_weights, check_ref, fingerprint, heard, label_of
from s3gym.training import Training

INSIDE = "./"
"""What the name of weights in the store's own folder starts with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """Weights as a study knows them.

    Attributes:
        number: Exploration episodes before their update; 0 for the base.
        made: Number of the version whose update made them; lower where updates left them as
            they were.
    """

    number: int
    made: int
    ref: ModelRef


class VersionChat:
    """A chat model of one version, under a name without a path; checks its weights once."""

    def __init__(
        self, chat: ChatModel, name: str, check: Callable[[], Awaitable[None]] | None
    ) -> None:
        self.name = name
        self._chat, self._check, self._lock = chat, check, anyio.Lock()

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        found = getattr(self._chat, attribute)
        if attribute == "with_schema":
            return lambda schema: VersionChat(found(schema), self.name, self._check)
        return found

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return the model's reply.

        Raises:
            ModelError: The call failed.
            PluginError: The weights are not those of the record.
        """
        async with self._lock:
            if self._check is not None:
                await self._check()
                self._check = None
        return await self._chat.complete(messages, max_tokens=max_tokens, seed=seed)


class Weights:
    """Makes, keeps and checks the versions of one study's weights.

    Args:
        plan: The study.
        training: How it trains.
        slots: Taken for each update.
    """

    def __init__(
        self,
        plan: StudyPlan,
        training: Training,
        store: Store,
        limits: Limits,
        slots: anyio.CapacityLimiter,
    ) -> None:
        self._plan, self._training = plan, training
        self._store, self._limits, self._slots = store, limits, slots
        self._root = weights_folder(store.path)
        self._label = label_of(training.trainer)
        self._known = store.updates.of(plan.id)
        self._sound: set[int] = {0}
        self._parts: dict[int, AgentPart] = {}

    async def base(self) -> Version:
        """Return the base weights.

        Raises:
            PluginError: There are none, or they are not those of the record.
        """
        try:
            ref = await base_weights(self._training.trainer)
        except ConfigError as error:
            raise PluginError(f"{self._label}: {error}") from error
        known = self._known.get(0)
        if known is not None and known.weights != ref.hash:
            raise PluginError(
                f"the base weights of {self._label} differ from the record: "
                f"expected hash {known.weights}, found {ref.hash}"
            )
        if known is None:
            self._keep(self._row(0, location=base_name(ref), weights=ref.hash, log=ref.log))
        return Version(number=0, made=0, ref=ref)

    async def update(self, number: int, *, start: Version, explorer: Version) -> Version:
        """Return the weights after an update; a recorded one is taken from the store.

        Args:
            number: Exploration episodes so far.
            start: The weights to start from.
            explorer: The weights that explored last.

        Raises:
            ServiceError: Trainer or model could not be reached, or failed and may succeed later.
            PluginError: The trainer misbehaved, or the weights are not those of the record.
            StoreError: The recorded update started from another version.
        """
        known = self._known.get(number)
        if known is None:
            known = await self._updated(number, start, explorer)
        elif (known.start, known.start_hash) != (start.number, start.ref.hash):
            raise StoreError(
                f"{self._plan.id}: the recorded update {number} started from version "
                f"{known.start}, this run would start it from version {start.number}"
            )
        if known.outcome == "unchanged":
            return replace(start, number=number)
        ref = ModelRef(location=self._absolute(known.location), hash=known.weights, log=known.log)
        return Version(number=number, made=number, ref=ref)

    def part(self, version: Version) -> AgentPart:
        """Return the agent that plays with a version's weights; equal weights share one."""
        if version.made not in self._parts:
            agent, trainer = self._plan.agent, self._training.trainer
            with_chat = agent.with_chat
            if with_chat is None:
                raise PluginError(f"agent {agent.name!r} plays with no chat model")
            inner = called(self._label, "chat", lambda: trainer.chat(version.ref))
            base = agent.chat.name if agent.chat is not None else agent.name
            chat = VersionChat(
                inner, f"{base}@u{version.made:03d}", lambda: self._must_be_sound(version)
            )
            player = called(f"agent {agent.name!r}", "with_chat", lambda: with_chat(chat))
            self._parts[version.made] = replace(
                agent, make=lambda: player, chat=chat, shared=True, serial=False
            )
        return self._parts[version.made]

    async def close(self) -> None:
        """Close every chat model, so that its memory is free."""
        parts, self._parts = self._parts, {}
        for part in parts.values():
            await close_part(part.chat)

    async def _updated(self, number: int, start: Version, explorer: Version) -> UpdateRow:
        plan = self._plan
        explored = explored_for(plan, self._training, self._store, number)
        broker = StudyBroker(self._store, self._limits, plan.id, f"{plan.id}/u{number:03d}")
        with brokered(broker):
            data = await self._examples(explored, number, explorer)
        row = self._row(
            number,
            start=start.number,
            start_hash=start.ref.hash,
            explorer=explorer.number,
            sources=tuple(item.episode.id for item in explored),
            examples=data.hash,
            n_examples=len(data.examples),
            chosen=chosen(data),
        )
        if data.examples:
            started = now()
            ref = await self._trained(data, number, start)
            row = replace(
                row,
                outcome="trained",
                location=self._inside(ref.location),
                weights=ref.hash,
                log=ref.log,
            )
            seconds = (now() - started).total_seconds()
            self._store.note_time("update", f"{plan.id}/u{number:03d}", started, seconds)
            self._store.note_provenance(**{f"update {plan.id}/u{number:03d}": dict(ref.machine)})
            self._sound.add(number)
        self._keep(row, broker)
        return row

    async def _examples(
        self, explored: Sequence[Explored], number: int, explorer: Version
    ) -> Dataset:
        plan, part = self._plan, self.part(explorer)
        if part.chat is None or part.teaching is None:
            raise PluginError(f"agent {part.name!r} does not say how examples are made of it")
        teaching, label = part.teaching, f"agent {part.name!r}"
        return await build_sft_asking(
            explored,
            self._training.policy,
            chat=part.chat,
            prompt=lambda turn: called(label, "prompt", lambda: teaching.prompt(turn)),
            form=teaching.form,
            max_tokens=plan.schedule.reply_tokens,
            seed=update_seed(plan, number),
        )

    async def _trained(self, data: Dataset, number: int, start: Version) -> ModelRef:
        """Train; the weights that play are closed first, so that there is room."""
        plan, trainer = self._plan, self._training.trainer
        await self._must_be_sound(start)
        await self.close()
        folder = self._root.joinpath(*map(_folder_name, plan.id.split("/")), f"u{number:03d}")
        with disk_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
        async with self._slots:
            check_halt()  # it may have waited long for its turn
            try:
                answer = await heard(
                    self._label,
                    f"update {number}",
                    lambda: trainer.update(
                        data.examples, start.ref, folder=folder, seed=update_seed(plan, number)
                    ),
                    self._training.update_seconds,
                )
                ref = check_ref(self._label, answer)
                found = await fingerprint(trainer, ref.location)
                before = await fingerprint(trainer, start.ref.location)
            except ConfigError as error:
                raise PluginError(f"{self._label}: {error}") from error
        if before != start.ref.hash:
            raise PluginError(
                f"{self._label} changed the weights that it started from, in update {number}: "
                f"expected hash {start.ref.hash}, found {before} at {start.ref.location}"
            )
        if found != ref.hash:
            raise PluginError(
                f"{self._label} gave weights of hash {shown(ref.hash, 80)} in update {number}, "
                f"but finds {found} at {ref.location}"
            )
        return ref

    async def _must_be_sound(self, version: Version) -> None:
        """Check once that a version's weights are those of the record."""
        if version.made in self._sound:
            return
        where = f"the weights of update {version.made} at {version.ref.location}"
        try:
            found = await fingerprint(self._training.trainer, version.ref.location)
        except (ConfigError, ServiceError) as error:
            raise PluginError(
                f"{where} cannot be read: {error}; put them back: an update that is finished is "
                f"not made again"
            ) from error
        if found != version.ref.hash:
            raise PluginError(
                f"{where} differ from the record: expected hash {version.ref.hash}, found {found}"
            )
        self._sound.add(version.made)

    def _row(self, number: int, **values: Any) -> UpdateRow:
        given = {
            "outcome": "unchanged" if number else "base",
            "location": "",
            "weights": values.get("start_hash", ""),
        } | values
        return UpdateRow(
            study=self._plan.id,
            version=number,
            trainer=self._training.trainer.name,
            policy=canonical(self._training.policy.model_dump(mode="json")),
            **given,
        )

    def _keep(self, row: UpdateRow, broker: StudyBroker | None = None) -> None:
        with self._store.transaction():
            if broker is not None:
                broker.keep_failures()
            self._store.updates.add(row)
        self._known[row.version] = row

    def _inside(self, location: str) -> str:
        """Return a location as the store names it."""
        for root, path in (
            (self._root, Path(location)),
            (self._root.resolve(), Path(location).resolve()),
        ):
            if path.is_absolute() and path.is_relative_to(root) and path.exists():
                return f"{INSIDE}{path.relative_to(root).as_posix()}"
        return location

    def _absolute(self, name: str) -> str:
        """Return a location as the trainer knows it.

        Raises:
            PluginError: The name leads to files that are not this study's own.
        """
        path = self._root / name
        if name.startswith(INSIDE):
            if path.resolve().is_relative_to(self._root.resolve()):
                return str(path)
        elif not path.exists():  # a provider's id, not a path
            return name
        raise PluginError(f"the store names weights at {name!r}, outside of {self._root}")


def weights_folder(store: Path) -> Path:
    """Return the folder beside a store that holds its weights."""
    return store.absolute().with_name(f"{store.name}.weights")


def _folder_name(part: str) -> str:
    """Return a part of an id as a folder's name, also one such as ``..``."""
    return part if part.strip(".") else f"_{part}"


def base_name(ref: ModelRef) -> str:
    """Return how a store names base weights: without the path, where they are files."""
    path = Path(ref.location)
    return path.resolve().name if path.exists() else ref.location


def update_seed(plan: StudyPlan, number: int) -> int:
    """Return the seed of an update and of the calls that its examples take."""
    return plan.seeds.update(plan.game.name, plan.repeat, number)


def explored_for(plan: StudyPlan, training: Training, store: Store, number: int) -> list[Explored]:
    """Return the recorded exploration episodes that an update is given."""
    first = 1 if training.takes_all else number - plan.schedule.evaluate_every + 1
    found = load_explored(store.connection, plan.id, first=first, last=number)
    if plan.oracle != "reward":
        return found
    return [
        with_labels(item, [verdict for verdict, _ in store.verdicts.verdicts(item.episode.id)])
        for item in found
    ]


def chosen(data: Dataset) -> dict[str, Any]:
    """Return what became of the steps that an update looked at."""
    return {
        "dropped": data.reasons,
        "kept": data.origins,
        "thresholds": dict(sorted(data.thresholds.items())),
    }
