"""From a configuration to a sweep: parts by name, models with their limits and budgets."""

import json
import os
import sqlite3
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from s3gym.agents.answers import AnswerScore, JsonContract
from s3gym.agents.chat_names import chat_model, is_chat_name
from s3gym.agents.replay_chat import ReplayChat
from s3gym.api import Sweep
from s3gym.budget import Budget, RecordedChat
from s3gym.catalog import find_game, model_part
from s3gym.cli.interrupt import interrupting
from s3gym.cli.training import recorded_training, training_of
from s3gym.config import ModelConfig, RunConfig, validated
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError, StoreError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.parts import AgentPart
from s3gym.records import Usage
from s3gym.sealed.seal import Seal
from s3gym.store import file
from s3gym.store.hashes import request_hash
from s3gym.store.ledger import ANSWERED, recorded_replies
from s3gym.store.verdicts import VerdictLog
from s3gym.text import shorten

NOT_RESULTS = frozenset({"rpm", "tpm", "concurrency", "deadline_seconds", "api_key_env"})
"""Model settings that change no result and so are no part of a study's specification."""


@dataclass(slots=True, kw_only=True)
class Wiring:
    """A sweep, ready to run, and its meter."""

    sweep: Sweep
    meter: Meter


def wire(
    config: RunConfig,
    replay: Path | None = None,
    *,
    offline: bool = False,
    agents: Sequence[AgentPart] = (),
) -> Wiring:
    """Return the sweep of a configuration.

    Args:
        config: What to run.
        replay: A store that answers all model calls; its seeds are taken when none is given.
        offline: No key needs to be there, because nothing will be sent.
        agents: Agents in place of those that the configuration names.

    Raises:
        ConfigError: A part or an option is wrong.
    """
    seal = sealed_with(config)
    if seal is None or any(":" in name for name in config.game):
        find_own_modules()
    model = config.model
    chats = _Chats(model, replay, offline=offline)
    moved = config.training.recorded.get("agent")
    playing: Sequence[AgentPart | str] = agents or [
        _agent(name, moved or name, chats, model) if is_chat_name(name) else name
        for name in config.agent
    ]
    meter = Meter(Limits(_limits(model)), _budget(config))
    for agent in playing:
        if isinstance(agent, AgentPart) and agent.chat is not None:
            meter.budget.check(agent.chat)
    memory_chat = chats.of(model.memory_model) if model.memory_model else None
    if memory_chat is not None:
        meter.budget.check(memory_chat)
    seed, salt = config.seed, None
    if replay is not None and seed is None:
        seed, salt = recorded_seeds(replay)
    settings = model.model_dump(exclude_defaults=True, exclude=set(NOT_RESULTS))
    kept: dict[str, Any] = {"model": settings} if settings else {}
    training = training_of(config, chats.settings)
    if training is not None:
        if replay is not None:
            raise ConfigError("--replay: a training study needs its weights, not recorded replies")
        kept["training"] = recorded_training(config.training)
    sweep = Sweep(
        games=[find_game(name) for name in config.game],
        agents=playing,
        memories=config.memory,
        memory_chat=memory_chat,
        repeats=config.repeats,
        schedule=config.schedule,
        seed=seed,
        salt=salt,
        store=config.store,
        options={find_game(name).name: values for name, values in config.games.items()},
        limits=meter,
        at_most=config.jobs,
        oracle=config.oracle,
        settings=kept,
        seal=seal,
        training=training,
    )
    return Wiring(sweep=sweep, meter=meter)


def sweep_of(config: dict[str, Any]) -> Sweep:
    """Return the sweep of a configuration in a worker's process, whose signals are ours.

    Args:
        config: Plain data, as a folder keeps it.

    Raises:
        ConfigError: A part or an option is wrong, or a key is missing here.
    """
    sweep = wire(validated(RunConfig, config, "the sweep's configuration")).sweep
    sweep.interrupt = _WORKER.enter_context(interrupting())
    return sweep


_WORKER = ExitStack()
"""Closed by nobody: a worker breaks off plug-ins as long as it lives."""


def recorded_seeds(store: Path) -> tuple[int, str]:
    """Return the root seed and the salt of a store; raises ``StoreError`` without them."""
    db = file.open_reader(store)
    try:
        log = VerdictLog(db)
        root, salt = log.secret("root_seed"), log.secret("salt")
    finally:
        db.close()
    if root is None or salt is None:
        raise StoreError(f"{store}: its seeds are missing")
    return int(root), salt


def sealed_with(config: RunConfig) -> Seal | None:
    """Return how a configuration seals its run, if it does."""
    if not (config.sealed or config.sealed_user or config.sealed_python):
        return None
    return Seal(user=config.sealed_user, python=config.sealed_python)


class _Chats:
    """Makes chat models: real ones, or ones that answer from a store."""

    def __init__(self, model: ModelConfig, replay: Path | None, *, offline: bool) -> None:
        self._model, self._offline = model, offline or replay is not None
        self._replies: dict[str, Reply] | None = None
        if replay is not None:
            db = file.open_learner(replay)
            try:
                self._replies = recorded_replies(db)
            finally:
                db.close()

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of every chat model, where they are given."""
        model = self._model
        settings = {
            "temperature": model.temperature,
            "top_p": model.top_p,
            "effort": model.effort,
            "thinking_tokens": model.thinking_tokens,
        }
        return {key: value for key, value in settings.items() if value is not None}

    def of(self, name: str) -> ChatModel:
        """Return the chat model of a name."""
        model = self._model
        chat = chat_model(
            name,
            model.base_url,
            model.api_key_env,
            settings=self.settings,
            offline=self._offline,
        )
        if self._replies is None:
            return chat
        return ReplayChat(chat.name, self._replies, request_hash)


def _agent(name: str, origin: str, chats: _Chats, model: ModelConfig) -> AgentPart:
    contract = JsonContract() if model.contract == "json" else AnswerScore()
    return model_part(
        chats.of(name), origin=origin, layout=model.layout, contract=contract, reask=model.reask
    )


def _limits(model: ModelConfig) -> LimitSettings:
    return LimitSettings(
        start=min(8, model.concurrency),
        most=model.concurrency,
        rpm=model.rpm,
        tpm=model.tpm,
        deadline_seconds=model.deadline_seconds,
    )


def _budget(config: RunConfig) -> Budget:
    caps = config.budget
    return Budget(
        max_usd=caps.usd,
        max_tokens=None if caps.tokens is None else int(caps.tokens),
        max_hours=caps.hours,
        prices=caps.prices,
    )


def held_to(db: sqlite3.Connection) -> dict[str, Any]:
    """Return the limits and the budget that a store's run was given last."""
    rows = db.execute("SELECT key, value FROM provenance WHERE key IN ('limits', 'budget')")
    found = {key: json.loads(value) for key, value in rows}
    for key, value in found.items():
        if not isinstance(value, dict):
            raise StoreError(f"provenance {key}: expected a table, got {shorten(value)}")
    return found


def charge_recorded(meter: Meter, store: Path, base_url: str | None) -> None:
    """Count what a store's calls cost already, so that a resumed run keeps its budget."""
    db = file.open_learner(store)
    try:
        for name, model, *tokens in _recorded_usage(db):
            usage = Usage(
                calls=1,
                input_tokens=tokens[0],
                cached_tokens=tokens[1],
                output_tokens=tokens[2],
                reasoning_tokens=tokens[3],
            )
            meter.budget.charge(
                RecordedChat(name, base_url), Reply(text="", usage=usage, model=model)
            )
    finally:
        db.close()


def _recorded_usage(db: sqlite3.Connection) -> sqlite3.Cursor:
    return db.execute(
        "SELECT chat, model, input_tokens, cached_tokens, output_tokens, reasoning_tokens "
        f"FROM calls WHERE {ANSWERED} ORDER BY study, place, step, purpose, attempt"
    )


def find_own_modules() -> None:
    """Let ``module:attribute`` name a module of the current folder, as ``python -m`` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
