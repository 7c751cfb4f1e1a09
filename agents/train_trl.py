"""A trainer that updates weights on this machine by TRL (extra ``train``): LoRA or all weights.

The update runs in a child process: memory is given back when it ends, and an interrupted run ends
it at once. It writes into a folder of its own; weights come to their place by one rename, so that
a half-written update is never mistaken for a finished one.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
import anyio.abc
import anyio.to_thread
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from s3gym.agents._outside import stopped
from s3gym.agents.connection import checked_table
from s3gym.agents.hf_chat import HFChat
from s3gym.agents.hf_device import checked_device, computing_threads, one_gpu
from s3gym.agents.hf_weights import (
    Weights,
    find_weights,
    must_be_installed,
    read_json,
    weights_hash,
)
from s3gym.agents.trl_worker import UNWRITABLE
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ServiceError

WORKER = "s3gym.agents.trl_worker"
PLACE = "weights"
RECORD = "update.json"
PREFIX = "hf:"
VISIBLE = "CUDA_VISIBLE_DEVICES"
SHOWN = 600
"""Characters of a failed worker's output that its error shows."""
Method = Literal["lora", "full"]


class TRLSettings(BaseModel):
    """How weights are updated.

    Attributes:
        method: ``lora`` trains a small adapter, which is all that is kept of an update; ``full``
            trains and keeps every weight.
        rank: Rank of the adapter.
        alpha: Scale of the adapter, over its rank.
        learning_rate: Constant; 2e-4 with ``lora``, 2e-5 with ``full`` when ``None``.
        epochs: How often an update sees each example.
        steps: Most optimiser steps of an update; ends it before ``epochs`` do.
        batch: Examples that are computed together; a GPU with room is faster with more.
        accumulate: Batches per optimiser step.
        max_length: Longest example, in tokens; longer ones are left out. The model's context when
            ``None``.
        checkpointing: Compute again in place of keeping, to save memory.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    method: Method = "lora"
    rank: Annotated[int, Field(ge=1)] = 8
    alpha: Annotated[float, Field(gt=0)] = 16
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    epochs: Annotated[int, Field(ge=1)] = 1
    steps: Annotated[int, Field(ge=1)] | None = None
    batch: Annotated[int, Field(ge=1)] = 1
    accumulate: Annotated[int, Field(ge=1)] = 4
    max_length: Annotated[int, Field(ge=8)] | None = None
    checkpointing: bool = False

    @property
    def rate(self) -> float:
        """The learning rate, defaults filled in."""
        return self.learning_rate or (2e-4 if self.method == "lora" else 2e-5)

    @property
    def shown(self) -> str:
        """Everything that can change the result, for a name."""
        adapter = f" rank={self.rank} alpha={self.alpha:g}" if self.method == "lora" else ""
        more = {"steps": self.steps, "max_length": self.max_length}
        limits = "".join(f" {name}={value}" for name, value in more.items() if value is not None)
        return (
            f"{self.method}{adapter} lr={self.rate:g} epochs={self.epochs} "
            f"batch={self.batch * self.accumulate}{limits}"
        )


class TRLTrainer:
    """Supervised fine-tuning on this machine.

    With equal examples, weights and seed an update gives equal weights on a CPU; on a GPU as far
    as its kernels allow.

    Args:
        base: Folder of a model or adapter, as ``hf:FOLDER`` or the folder itself.
        device: ``auto`` (a GPU in bf16 where there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        threads: Threads that compute on a CPU; all cores but one when ``None``.
        template: Further arguments of the chat template.
        chat: Further arguments of ``HFChat``, for playing.
        hub: Let ``base`` be an id on the hub, and fetch it.
        settings: What ``TRLSettings`` takes.

    Raises:
        ConfigError: A setting is unknown or out of range, or the base is no model.
    """

    def __init__(
        self,
        base: str | Path,
        *,
        device: str = "auto",
        threads: int | None = None,
        template: Mapping[str, Any] | None = None,
        chat: Mapping[str, Any] | None = None,
        hub: bool = False,
        **settings: Any,
    ) -> None:
        try:
            self.settings = TRLSettings(**settings)
        except ValidationError as error:
            raise ConfigError(f"trainer trl: {_fault(error)}") from None
        self._base, self._hub = str(base).removeprefix(PREFIX), hub
        self._device, self._threads = checked_device(device), computing_threads(threads)
        self._template = checked_table("trainer trl: template", template)
        self._chat = _checked_chat(chat)
        shown = "".join(f" {key}={value}" for key, value in sorted(self._template.items()))
        self.name = f"trl {self.settings.shown}{shown}"
        if not hub:
            find_weights(self._base)

    def __repr__(self) -> str:
        return f"TRLTrainer({self._base!r}, {self.name!r})"

    async def base(self) -> ModelRef:
        must_be_installed("torch", "transformers", "peft", "trl", "datasets")
        weights = await anyio.to_thread.run_sync(self._found, self._base)
        found = await anyio.to_thread.run_sync(weights_hash, weights)
        return ModelRef(location=str(weights.location), hash=found)

    def fingerprint(self, location: str) -> str:
        return weights_hash(self._found(location))

    def chat(self, ref: ModelRef) -> HFChat:
        weights = self._found(ref.location)
        settings: dict[str, Any] = {
            "device": self._device,
            "threads": self._threads,
            "template": self._template,
        } | self._chat
        label = f"{weights.model.name}@{ref.hash[:12]}"
        try:
            return HFChat(weights.location, model=weights.model, label=label, **settings)
        except TypeError as error:
            raise ConfigError(f"trainer trl: chat: {error}") from error

    async def update(
        self, examples: Sequence[Example], base: ModelRef, *, folder: Path, seed: int
    ) -> ModelRef:
        weights = await anyio.to_thread.run_sync(self._found, base.location)
        job = self._job(examples, base, seed)
        done = await anyio.to_thread.run_sync(self._finished, folder, job)
        if done is not None:
            return done
        try:
            work = Path(await anyio.to_thread.run_sync(_fresh, folder))
            await anyio.to_thread.run_sync(_write_job, work, examples, self._order(weights, seed))
            await self._run(work)
            return await anyio.to_thread.run_sync(self._settled, work, folder, job)
        except OSError as error:
            raise ServiceError(
                f"{self.name}: {folder}: {error.strerror or error}; the weights before stay as "
                f"they are"
            ) from error

    def _found(self, location: str) -> Weights:
        """Return what lies at a location; an adapter of ours belongs to our base's model."""
        model = None
        if location != self._base:
            own = find_weights(self._base, hub=self._hub)
            model = own.model
        return find_weights(location, model=model, hub=self._hub)

    def _job(self, examples: Sequence[Example], base: ModelRef, seed: int) -> str:
        """Return a hash over everything that fixes the new weights."""
        rows = [_row(example) for example in examples]
        text = json.dumps([self.name, base.hash, seed, rows], sort_keys=True)
        return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def _order(self, weights: Weights, seed: int) -> dict[str, Any]:
        return self.settings.model_dump() | {
            "model": str(weights.model),
            "adapter": None if weights.adapter is None else str(weights.adapter),
            "learning_rate": self.settings.rate,
            "device": self._gpu()[0],
            "threads": self._threads,
            "template": self._template,
            "seed": seed,
        }

    def _gpu(self) -> tuple[str, str]:
        return one_gpu(self._device, os.environ.get(VISIBLE))

    def _finished(self, folder: Path, job: str) -> ModelRef | None:
        """Return the update that an earlier try finished, when it is this one and whole."""
        place = folder / PLACE
        try:
            record = read_json(place / RECORD)
            if record.get("job") != job or self.fingerprint(str(place)) != record["hash"]:
                return None
            return ModelRef(
                location=str(place),
                hash=record["hash"],
                log=record["log"],
                machine=record["machine"],
            )
        except (ConfigError, KeyError):
            return None

    def _settled(self, work: Path, folder: Path, job: str) -> ModelRef:
        """Bring finished weights to their place; the disk has them before the name says so."""
        made, place = work / PLACE, folder / PLACE
        result = read_json(work / "result.json")
        ref = ModelRef(
            location=str(place),
            hash=weights_hash(self._found(str(made))),
            log=result["log"],
            machine=result["machine"],
        )
        record = {"job": job, "hash": ref.hash, "log": ref.log, "machine": ref.machine}
        (made / RECORD).write_text(json.dumps(record, indent=1, sort_keys=True), encoding="utf-8")
        for path in [*made.iterdir(), made]:
            _sync(path)
        made.rename(place)
        _sync(folder)
        shutil.rmtree(work, ignore_errors=True)
        return ref

    async def _run(self, work: Path) -> None:
        """Run the worker to its end.

        Raises:
            ConfigError: It says that the user can mend it.
            ServiceError: It failed otherwise, or was killed.
        """
        words = [sys.executable, "-P", "-m", WORKER, str(work / "job.json")]
        with await anyio.to_thread.run_sync((work / "output.txt").open, "wb") as output:
            process = await anyio.open_process(
                words,
                stdin=subprocess.PIPE,  # its end tells an orphaned worker to stop
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"CUBLAS_WORKSPACE_CONFIG": ":4096:8", VISIBLE: self._gpu()[1]},
            )
            try:
                code = await process.wait()
            finally:
                await stopped(process)
        if code:
            raise await anyio.to_thread.run_sync(self._failure, work, code)

    def _failure(self, work: Path, code: int) -> ConfigError | ServiceError:
        told = _told(work / "error.json")
        kept = "; the weights before stay as they are"
        if code == UNWRITABLE:
            return ServiceError(
                f"{self.name}: the disk is full or cannot be written to, so the new weights could "
                f"not be saved{kept}"
            )
        if told:
            kind = ConfigError if told.get("kind") == "config" else ServiceError
            return kind(f"{self.name}: {told.get('message')}{kept}")
        if code == -signal.SIGKILL:
            return ServiceError(
                f"{self.name}: the update was killed, most likely because memory ran out; lower "
                f"'batch' or 'max_length', or take a smaller model{kept}"
            )
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        said = " ".join((work / "output.txt").read_text("utf-8", "replace").split())[-SHOWN:]
        return ServiceError(f"{self.name}: the update {how}: {said}{kept}")


def _checked_chat(given: object) -> dict[str, Any]:
    """Return arguments of ``HFChat``; a wrong one is found before anything is trained."""
    arguments = checked_table("trainer trl: chat", given)
    try:
        signature(HFChat).bind("", model=None, label=None, **arguments)
    except TypeError as error:
        raise ConfigError(f"trainer trl: chat: {error}") from error
    return arguments


def _row(example: Example) -> dict[str, Any]:
    return {
        "messages": [{"role": one.role, "content": one.content} for one in example.messages],
        "answer": example.answer,
        "weight": example.weight,
        "episode": example.episode,
        "step": example.step,
    }


def _write_job(work: Path, examples: Sequence[Example], order: Mapping[str, Any]) -> None:
    rows = [_row(example) for example in examples]
    (work / "job.json").write_text(json.dumps({"order": order, "examples": rows}), "utf-8")


def _told(file: Path) -> Mapping[str, Any]:
    """Return what a failed worker told; nothing where it could not even write that."""
    try:
        return read_json(file)
    except ConfigError:
        return {}


def _fresh(folder: Path) -> str:
    """Clear what earlier tries left, and return a new folder for this one."""
    folder.mkdir(parents=True, exist_ok=True)
    for rest in folder.iterdir():
        if rest.is_dir() and not rest.is_symlink():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            rest.unlink()
    return tempfile.mkdtemp(prefix="try-", dir=folder)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _fault(error: ValidationError) -> str:
    fault = error.errors(include_url=False)[0]
    where = ".".join(map(str, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        known = ", ".join(TRLSettings.model_fields)
        return f"there is no setting {where!r}; there are {known}"
    return f"{where}: {fault['msg']}, got {fault['input']!r}"
