"""A transformers model in this process (extra ``train``), named ``hf:FOLDER``.

Replies of calls that are under way together are written together. A reply depends on its prompt,
its seed and the settings. It does not depend on what else was asked, up to float rounding: where
two tokens are equally likely to the last digits, a batch of another size may choose the other
one. With ``parallel=1`` replies are the same to the letter.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from s3gym.agents.connection import shown_arguments, visible
from s3gym.agents.hf_device import checked_device, computing_threads
from s3gym.agents.hf_engine import Engine, Job, Sampling
from s3gym.agents.hf_queue import Queue, Waiting
from s3gym.agents.hf_weights import Weights, find_weights, must_be_installed
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import Message, Usage
from s3gym.seeds import Stream, derive

ENDPOINT = "hf:this-process"
"""All models of a process share its cores or its GPU, so they share their limits."""


@dataclass(frozen=True, slots=True)
class _Key:
    """What a loaded model is shared by."""

    weights: Weights
    device: str
    threads: int
    kept_tokens: int
    parallel: int
    hub: bool


@dataclass(slots=True)
class _Ask:
    messages: Sequence[Message]
    arguments: Mapping[str, Any]
    max_tokens: int
    sampling: Sampling
    seed: int


class HFChat:
    """A folder of weights that is loaded when it is first needed.

    The folder is a model in the format of transformers, or a PEFT adapter over one. Weights are
    read from safetensors alone, code that a checkpoint brings along is not run, and the network
    stays off.

    Args:
        path: Folder of the model or adapter.
        temperature: Sampling temperature; 0 takes the most likely token. 1 when ``None``.
        top_p: Nucleus sampling; off when ``None``.
        top_k: Samples from so many tokens only; off when ``None``.
        parallel: Calls that are answered together.
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, ``mps``.
        threads: Threads that compute on a CPU; all cores but one when ``None``.
        kept_tokens: Tokens of prompts that are kept in memory for prompts that begin alike.
        template: Further arguments of the chat template, for example
            ``{"enable_thinking": False}``.
        model: Folder of the model that an adapter belongs to, where it was moved.
        label: Stands in ``name`` in place of the folder's name.
        hub: Let ``path`` be an id on the hub, and fetch it.

    Attributes:
        name: ``hf:FOLDER`` and every setting that can change an answer.
        endpoint: The same for all: they share the machine.
        most_concurrent: The value of ``parallel``.

    Raises:
        ConfigError: The folder is no model that can be chatted with, or a value is out of range.
    """

    endpoint = ENDPOINT

    def __init__(
        self,
        path: str | Path,
        *,
        temperature: float | None = None,
        top_p: float | None = None,
        top_k: int | None = None,
        parallel: int = 8,
        device: str = "auto",
        threads: int | None = None,
        kept_tokens: int = 16_384,
        template: Mapping[str, Any] | None = None,
        model: str | Path | None = None,
        label: str | None = None,
        hub: bool = False,
    ) -> None:
        self.path = str(path)
        self._sampling = _sampling(temperature, top_p, top_k)
        if parallel < 1 or kept_tokens < 0:
            raise ConfigError(
                f"expected parallel of at least 1 and kept_tokens of at least 0, got {parallel} "
                f"and {kept_tokens}"
            )
        self.most_concurrent = parallel
        self._template = dict(template or {})
        settings = {"temperature": temperature, "top_p": top_p, "top_k": top_k} | self._template
        shown = {name: value for name, value in settings.items() if value is not None}
        self.model = label or Path(path).name or str(path)
        self.name = f"hf:{self.model}{shown_arguments(shown)}"
        self._model = None if model is None else Path(model)
        self._device, self._threads = checked_device(device), computing_threads(threads)
        self._kept_tokens, self._hub = kept_tokens, hub
        if not hub:
            _ = self._weights  # a wrong folder is found before anything runs

    def __repr__(self) -> str:
        return f"HFChat({self.name!r})"

    def check_key(self) -> None:
        """Check that the libraries are installed; a folder of weights needs no key.

        Raises:
            MissingExtraError: They are not.
        """
        must_be_installed("torch", "transformers")

    @cached_property
    def _weights(self) -> Weights:
        return find_weights(self.path, model=self._model, hub=self._hub)

    @property
    def _key(self) -> _Key:
        return _Key(
            self._weights,
            self._device,
            self._threads,
            self._kept_tokens,
            self.most_concurrent,
            self._hub,
        )

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        ask = _Ask(messages, self._template, max_tokens, self._sampling, seed or 0)
        reply: Reply = await _QUEUE.ask(self._key, ask)
        return Reply(text=reply.text, finish=reply.finish, usage=reply.usage, model=self.model)

    async def aclose(self) -> None:
        """Unload the model; a later call loads it again."""
        _QUEUE.forget(self._key)


def _sampling(temperature: float | None, top_p: float | None, top_k: int | None) -> Sampling:
    if temperature is not None and not 0 <= temperature <= 100:
        raise ConfigError(f"expected temperature from 0 to 100, got {temperature!r}")
    if top_p is not None and not 0 < top_p <= 1:
        raise ConfigError(f"expected top_p above 0 and at most 1, got {top_p!r}")
    if top_k is not None and top_k < 1:
        raise ConfigError(f"expected top_k of at least 1, got {top_k!r}")
    return Sampling(
        temperature=1.0 if temperature is None else temperature,
        top_p=1.0 if top_p is None else top_p,
        top_k=top_k or 0,
    )


def _load(key: _Key) -> Engine:
    try:
        return Engine(
            key.weights,
            device=key.device,
            threads=key.threads,
            kept_tokens=key.kept_tokens,
            hub=key.hub,
        )
    except ConfigError as error:  # found while a study runs: a call that fails for good
        raise ModelError(str(error), retryable=False) from error


def _work(engine: Engine, batch: list[Waiting[_Ask]]) -> list[Any]:
    """Answer requests together; one that cannot be answered at all gets its own error."""
    jobs: list[Job | None] = []
    for request in batch:
        try:
            jobs.append(_job(engine, request))
        except ModelError as error:
            request.error = error
            jobs.append(None)
    engine.answer([job for job in jobs if job is not None])
    return [None if job is None else _reply(engine, job) for job in jobs]


def _job(engine: Engine, request: Waiting[_Ask]) -> Job:
    ask = request.body
    ids, cuts = engine.prompt(ask.messages, ask.arguments)
    room = engine.context - len(ids)
    if room < 1:
        raise ModelError(
            f"a prompt of {len(ids)} tokens does not fit the model's context of {engine.context}",
            retryable=False,
        )
    return Job(
        ids=ids,
        cuts=cuts,
        max_tokens=min(ask.max_tokens, room),
        sampling=ask.sampling,
        stream=Stream(derive("hf", ask.seed)),
        dropped=lambda: request.dropped,
    )


def _reply(engine: Engine, job: Job) -> Reply:
    stopped = job.finish == "stop"
    # No cached_tokens: what was kept depends on what else ran, and usage is part of the record.
    text = engine.tokenizer.decode(job.written, skip_special_tokens=True)
    return Reply(
        text=visible(text),
        finish=job.finish or "other",
        usage=Usage(
            calls=1,
            input_tokens=len(job.ids),
            output_tokens=len(job.written) + stopped,
        ),
    )


_QUEUE: Queue[_Ask] = Queue(_load, _work, lambda key: key.parallel)
