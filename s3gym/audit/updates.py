"""Weights: each update learned from exploration alone, and each episode was played with its own.

Needs no weights and no model: examples are made again from recorded episodes, and what a policy
asked of the model is answered from recorded calls.
"""

import json
import sqlite3
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from s3gym.audit.findings import Audit
from s3gym.calls import CallSite, Purpose, brokered
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ModelError, ProtocolBreachError, StoreError
from s3gym.oracle import with_labels
from s3gym.parts import Teachings
from s3gym.records import Message, Phase
from s3gym.schedule import Schedule
from s3gym.seeds import SeedPlan
from s3gym.sft import Dataset, Explored, SFTPolicy, build_sft_asking
from s3gym.store.chain import canonical
from s3gym.store.explored import load_explored
from s3gym.store.hashes import request_hash
from s3gym.store.ledger import Ledger
from s3gym.store.updates import OUTCOMES, UpdateLog, UpdateRow
from s3gym.store.verdicts import VerdictLog
from s3gym.text import shorten

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Study:
    """What an audit knows of a training study."""

    id: str
    game: str
    repeat: int
    spec: Mapping[str, Any]
    updates: Mapping[int, UpdateRow]

    @property
    def schedule(self) -> Schedule:
        return Schedule(**self.spec["schedule"])

    @property
    def training(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.spec["training"]
        return found

    def first(self, version: int) -> int:
        """Return the ordinal of the first episode that an update was given."""
        all_of_them = self.training["experience"] == "all"
        return 1 if all_of_them else version - self.schedule.evaluate_every + 1

    def made(self, version: int) -> int:
        """Return the version whose update made these weights."""
        row = self.updates[version]
        while row.outcome == "unchanged" and row.start < row.version:
            row = self.updates[row.start]
        return row.version


def training_studies(db: sqlite3.Connection) -> list[_Study]:
    """Return the studies that train, by id."""
    log = UpdateLog(db)
    found = []
    for study, game, repeat, text in db.execute(
        "SELECT id, game, repeat, spec FROM studies ORDER BY id"
    ).fetchall():
        spec = json.loads(text)
        if "training" in spec:
            found.append(
                _Study(id=study, game=game, repeat=repeat, spec=spec, updates=log.of(study))
            )
    return found


def check_update_rows(db: sqlite3.Connection, audit: Audit) -> None:
    """Every finished training study has its updates, and no other study has any."""
    trained = {study.id: study for study in training_studies(db)}
    for study, version in db.execute("SELECT study, version FROM updates ORDER BY 1, 2").fetchall():
        owner = trained.get(study)
        if owner is None:
            audit.fail("completeness", f"updates {study} {version}", "belongs to no training study")
        elif version not in owner.schedule.checkpoints:
            audit.fail("completeness", f"updates {study} {version}", "no checkpoint is there")
    for study in trained.values():
        sealed = db.execute("SELECT 1 FROM seals WHERE study = ?", (study.id,)).fetchone()
        for version in study.schedule.checkpoints:
            if sealed and version not in study.updates:
                audit.fail("completeness", f"updates {study.id} {version}", "the row is missing")


def check_update_chain(db: sqlite3.Connection, audit: Audit) -> None:
    """Every update says what its specification says, and starts from weights that there were."""
    for study in training_studies(db):
        policy = canonical(study.training["policy"])
        for version, row in study.updates.items():
            audit.count("chain")
            for fault in _row_faults(study, row, policy):
                audit.fail("chain", f"updates {study.id} {version}", fault)


def _row_faults(study: _Study, row: UpdateRow, policy: str) -> list[str]:
    if row.outcome not in OUTCOMES or (row.outcome == "base") != (row.version == 0):
        return [f"there is no outcome {shorten(row.outcome)} there"]
    faults = []
    if (row.trainer, row.policy) != (study.training["trainer"], policy):
        faults.append("its trainer or policy is not that of its study")
    if row.version == 0:
        return faults
    start, explorer = study.updates.get(row.start), study.updates.get(row.explorer)
    if start is None or row.start >= row.version or row.start_hash != start.weights:
        faults.append("it starts from weights that were not there")
    if explorer is None or row.explorer >= row.version:
        faults.append("its explorer played with weights that were not there")
    if study.training["start"] == "base" and row.start:
        faults.append("it does not start from the base")
    if row.outcome == "unchanged" and (row.weights != row.start_hash or row.n_examples):
        faults.append("its weights are not unchanged")
    if row.outcome == "trained" and not row.n_examples:
        faults.append("it was trained on nothing")
    return faults


def check_update_examples(db: sqlite3.Connection, audit: Audit, teachings: Teachings) -> None:
    """Every update's examples are those that its study's exploration episodes give."""
    secrets = dict(db.execute("SELECT key, value FROM secrets").fetchall())
    seeds = SeedPlan(root=int(secrets.get("root_seed", 0)), salt=secrets.get("salt", ""))
    for study in training_studies(db):
        if study.training["prompts"] not in teachings and len(study.updates) > 1:
            audit.warn(
                "isolation",
                f"updates {study.id}",
                "examples not made again: their prompts were built by an agent of its own",
            )
        for version, row in study.updates.items():
            if not version:
                continue
            audit.count("isolation")
            where = f"updates {study.id} {version}"
            explored = _explored(db, study, version)
            if row.sources != tuple(item.episode.id for item in explored):
                audit.fail(
                    "isolation",
                    where,
                    "its sources are not the exploration episodes of its study before it",
                )
            if study.training["prompts"] not in teachings:
                continue
            try:
                data = _examples(db, study, row, explored, teachings, seeds)
            except (StoreError, ModelError, ProtocolBreachError) as error:
                audit.fail("isolation", where, f"cannot be made again: {shorten(str(error))}")
                continue
            if (data.hash, len(data.examples)) != (row.examples, row.n_examples):
                audit.fail(
                    "isolation", where, "its examples differ from what its exploration gives"
                )
        _check_players(db, audit, study)


def _explored(db: sqlite3.Connection, study: _Study, version: int) -> list[Explored]:
    found = load_explored(db, study.id, first=study.first(version), last=version)
    if study.spec.get("oracle") != "reward":
        return found
    log = VerdictLog(db)
    return [
        with_labels(item, [verdict for verdict, _ in log.verdicts(item.episode.id)])
        for item in found
    ]


def _examples(
    db: sqlite3.Connection,
    study: _Study,
    row: UpdateRow,
    explored: Sequence[Explored],
    teachings: Teachings,
    seeds: SeedPlan,
) -> Dataset:
    teaching = teachings[study.training["prompts"]]
    recorded = _Recorded(db, study.id, f"{study.id}/u{row.version:03d}")
    with brokered(recorded):
        data = _now(
            build_sft_asking(
                explored,
                SFTPolicy(**study.training["policy"]),
                chat=_Nobody(),
                prompt=teaching.prompt,
                form=teaching.form,
                max_tokens=study.schedule.reply_tokens,
                seed=seeds.update(study.game, study.repeat, row.version),
            )
        )
    recorded.must_be_used_up()
    return data


def asked_again(db: sqlite3.Connection, teachings: Teachings) -> frozenset[str]:
    """Return the studies whose calls for examples are made again by ``check_update_examples``."""
    return frozenset(
        study.id for study in training_studies(db) if study.training["prompts"] in teachings
    )


def _now(making: Coroutine[Any, Any, T]) -> T:
    """Return what a coroutine gives that waits for nothing."""
    try:
        making.send(None)
    except StopIteration as done:
        value: T = done.value
        return value
    making.close()
    raise ProtocolBreachError("examples were made with a wait in between")


class _Nobody:
    """Stands where a chat model would: an audit has none."""

    name = "nobody"

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        raise ProtocolBreachError("an audit asked a model")


class _Recorded:
    """Answers the calls of an update from the store, each checked against its request."""

    def __init__(self, db: sqlite3.Connection, study: str, place: str) -> None:
        self._db, self._ledger = db, Ledger(db)
        self._study, self._place = study, place
        self._asked: dict[str, int] = {}

    async def complete(
        self,
        chat: ChatModel,
        messages: Sequence[Message],
        *,
        purpose: Purpose,
        layout: str,
        max_tokens: int,
        seed: int | None,
    ) -> Reply:
        attempt = self._asked.get(purpose, 0)
        self._asked[purpose] = attempt + 1
        known = self._ledger.call(CallSite(study=self._study, place=self._place), purpose, attempt)
        where = f"call {purpose} {attempt} of {self._place}"
        if known is None:
            raise StoreError(f"{where} is missing")
        (name,) = self._db.execute(
            "SELECT chat FROM calls WHERE study = ? AND place = ? AND step = 0 AND purpose = ? "
            "AND attempt = ?",
            (self._study, self._place, purpose, attempt),
        ).fetchone()
        asked, reply = known
        if asked != request_hash(name, messages, max_tokens, seed):
            raise StoreError(f"{where} asked something else")
        if isinstance(reply, ModelError):
            raise reply
        return reply

    def must_be_used_up(self) -> None:
        """Raise ``StoreError`` when the store holds calls that no example asked for."""
        (held,) = self._db.execute(
            "SELECT count(*) FROM calls WHERE study = ? AND place = ?", (self._study, self._place)
        ).fetchone()
        if held != sum(self._asked.values()):
            raise StoreError(f"{held - sum(self._asked.values())} calls of {self._place} too many")


def _check_players(db: sqlite3.Connection, audit: Audit, study: _Study) -> None:
    """Every episode was played with the weights of its place."""
    for place, phase, ordinal, checkpoint, chat in db.execute(
        "SELECT DISTINCT e.id, e.phase, e.ordinal, e.checkpoint, c.chat FROM calls c "
        "JOIN episodes e ON e.study = c.study AND (e.id = c.place OR c.place LIKE e.id || '~%') "
        "WHERE c.study = ? ORDER BY e.id, c.chat",
        (study.id,),
    ).fetchall():
        if phase == Phase.EXPLORATION:
            every = study.schedule.evaluate_every
            update = study.updates.get(-(-ordinal // every) * every)
            version = None if update is None else update.explorer
        else:
            version = checkpoint
        if version is None or version not in study.updates:
            continue  # not recorded yet, or missing, which completeness finds
        audit.count("isolation")
        if not str(chat).endswith(f"@u{study.made(version):03d}"):
            audit.fail("isolation", f"episodes {place}", f"was played with the weights of {chat}")
