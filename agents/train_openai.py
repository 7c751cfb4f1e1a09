"""A trainer behind the fine-tuning API of OpenAI, or of a server with the same format.

An update uploads a file of examples, creates a job and waits for it. What was asked for is noted
in the update's folder before each request, so that a run that was killed finds its file and its
job again in place of paying twice. The SDK is imported on first use.
"""

import json
import logging
import os
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from s3gym.agents.connection import Connection, checked_table, shown_arguments
from s3gym.agents.openai_chat import OPENAI_URL, SEED_RANGE, OpenAIChat
from s3gym.agents.openai_jobs import (
    Answer,
    Job,
    JobEvent,
    UploadedFile,
    entries,
    read,
)
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ModelError, ServiceError
from s3gym.sft.jsonl import as_messages

T = TypeVar("T")
STATE = "openai.json"
DATA = "examples.jsonl"
PURPOSE = "fine-tune"
TRIES = 5
"""How often a request is made that fails for a reason that may pass."""
ENDED = ("failed", "cancelled")
LONGEST_WAIT = 900.0
"""Longest wait in seconds that a server may ask for; beyond it the update is paused."""
HOUR = 3600.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an update has come: what was asked for, and the ids that came back.

    Attributes:
        update: Hash over everything that fixes the update.
        uploading: An upload was sent.
        file: Id of the uploaded file.
        creating: A job was asked for.
        job: Id of the job.
    """

    update: str
    uploading: bool = False
    file: str = ""
    creating: bool = False
    job: str = ""


class OpenAIFineTune:
    """Supervised fine-tuning by a provider.

    Interrupting a run leaves its job alone; the resumed run waits for it again.

    Args:
        base: Id of the model that a study starts from.
        base_url: Address of a compatible server; ``None`` is OpenAI's own.
        api_key_env: Environment variable that holds the key.
        epochs: How often an update sees each example; the provider's choice when ``None``.
        learning_rate_multiplier: Likewise.
        batch_size: Likewise.
        arguments: Further fields of the request for a job, passed on as they are.
        chat: Further arguments of ``OpenAIChat``, for playing.
        poll_seconds: Time between two looks at a job.
        hours: Longest wait for a job in one run; the job goes on, and a resumed run waits again.
        timeout: Seconds without a byte before a request is given up.

    Attributes:
        name: Names everything that can change the result.

    Raises:
        ConfigError: A value is out of range, or the address is none.
    """

    def __init__(
        self,
        base: str,
        *,
        base_url: str | None = None,
        api_key_env: str | None = None,
        epochs: int | None = None,
        learning_rate_multiplier: float | None = None,
        batch_size: int | None = None,
        arguments: Mapping[str, Any] | None = None,
        chat: Mapping[str, Any] | None = None,
        poll_seconds: float = 15.0,
        hours: float = 24.0,
        timeout: float = 300.0,
    ) -> None:
        self._base = base.removeprefix("openai:")
        if not self._base.strip():
            raise ConfigError(f"trainer openai: expected the id of a model, got {base!r}")
        wanted = {
            "n_epochs": epochs,
            "learning_rate_multiplier": learning_rate_multiplier,
            "batch_size": batch_size,
        }
        self._wanted = {key: value for key, value in wanted.items() if value is not None}
        times = {"poll_seconds": poll_seconds, "hours": hours, "timeout": timeout}
        for key, value in (self._wanted | times).items():
            if not (isinstance(value, (int, float)) and value > 0):
                raise ConfigError(f"trainer openai: expected {key} above 0, got {value!r}")
        self._arguments = checked_table("trainer openai: arguments", arguments)
        self._poll, self._longest = poll_seconds, hours * HOUR
        self._chat: dict[str, Any] = {"base_url": base_url, "api_key_env": api_key_env}
        self._chat |= checked_table("trainer openai: chat", chat)
        self.name = f"openai{shown_arguments(self._wanted | self._arguments)}"
        self._connection = Connection(
            "openai",
            "AsyncOpenAI",
            provider="openai",
            default_url=OPENAI_URL,
            base_url=base_url,
            api_key_env=api_key_env or "OPENAI_API_KEY",
            needs_key=base_url is None or api_key_env is not None,
            timeout=timeout,
        )
        self.chat(ModelRef(location=self._base, hash=""))  # a wrong setting is found now

    def __repr__(self) -> str:
        return f"OpenAIFineTune({self._base!r}, {self.name!r})"

    async def base(self) -> ModelRef:
        self._connection.key()
        return ModelRef(location=self._base, hash=self.fingerprint(self._base))

    def fingerprint(self, location: str) -> str:
        return sha256(location.encode()).hexdigest()

    def chat(self, ref: ModelRef) -> OpenAIChat:
        try:
            return OpenAIChat(ref.location, **self._chat)
        except TypeError as error:
            raise ConfigError(f"trainer openai: chat: {error}") from error

    async def aclose(self) -> None:
        """Close the connections; a later update opens new ones."""
        await self._connection.aclose()

    async def update(
        self, examples: Sequence[Example], base: ModelRef, *, folder: Path, seed: int
    ) -> ModelRef:
        data = data_file(examples)
        update = sha256(
            json.dumps([self.name, base.location, seed]).encode() + b"\n" + data
        ).hexdigest()
        await anyio.to_thread.run_sync(_write, folder / DATA, data)
        steps = _Update(self, folder, await anyio.to_thread.run_sync(_known, folder, update), data)
        await steps.upload()
        await steps.create(self._request(base, seed, update))
        job = await steps.wait(self._poll, self._longest)
        return self._ref(job, base, await steps.losses())

    def _request(self, base: ModelRef, seed: int, update: str) -> dict[str, Any]:
        request: dict[str, Any] = {
            "model": base.location,
            "seed": seed % SEED_RANGE,
            "suffix": f"s3gym-{update[:8]}",
        }
        if self._wanted:
            request["method"] = {
                "type": "supervised",
                "supervised": {"hyperparameters": self._wanted},
            }
        return request

    def _ref(self, job: Job, base: ModelRef, losses: list[float]) -> ModelRef:
        model = job.fine_tuned_model
        if not model or model == base.location:
            what = "names the model that it started from" if model else "names no model"
            raise ServiceError(f"openai: the job {job.id} succeeded, but {what}")
        log: dict[str, Any] = {"losses": losses, "job": job.id}
        if job.trained_tokens is not None:
            log["tokens"] = job.trained_tokens
        machine = {} if job.seconds is None else {"seconds": job.seconds}
        return ModelRef(location=model, hash=self.fingerprint(model), log=log, machine=machine)


class _Update:
    """One update, from request to request."""

    def __init__(self, trainer: OpenAIFineTune, folder: Path, known: Progress, data: bytes) -> None:
        self._connection, self._arguments = trainer._connection, trainer._arguments
        self._poll = trainer._poll
        self._folder, self._known, self._data = folder, known, data

    async def upload(self) -> None:
        """Upload the examples, unless they are there."""
        name = f"s3gym-{self._known.update[:16]}.jsonl"

        async def find(client: Any) -> str:
            listed = client.files.with_raw_response.list
            files = self._listed(UploadedFile, listed, "list of files", purpose=PURPOSE)
            size = len(self._data)
            return await _first(files, lambda file: (file.filename, file.bytes) == (name, size))

        async def send(client: Any) -> str:
            create = client.files.with_raw_response.create
            made = await create(file=(name, self._data), purpose=PURPOSE)
            return self._read(UploadedFile, made, "file").id

        if not self._known.file:
            file = await self._once("uploading", find, send)
            await self._note(file=file)

    async def create(self, request: Mapping[str, Any]) -> None:
        """Create the job, unless it is there."""
        file = self._known.file

        async def find(client: Any) -> str:
            listed = client.fine_tuning.jobs.with_raw_response.list
            jobs = self._listed(Job, listed, "list of jobs")
            return await _first(
                jobs, lambda job: job.training_file == file and job.status not in ENDED
            )

        async def send(client: Any) -> str:
            create = client.fine_tuning.jobs.with_raw_response.create
            made = await create(training_file=file, extra_body=self._arguments or None, **request)
            return self._read(Job, made, "fine-tuning job").id

        if not self._known.job:
            job = await self._once("creating", find, send)
            await self._note(job=job)

    async def _look(self, client: Any) -> Job:
        retrieve = client.fine_tuning.jobs.with_raw_response.retrieve
        job = self._read(Job, await retrieve(self._known.job), "fine-tuning job")
        if job.id != self._known.job:
            raise self._connection.failure(
                f"answered with the job {job.id!r} in place of {self._known.job!r}", retryable=True
            )
        return job

    async def wait(self, poll: float, longest: float) -> Job:
        """Return the job when it has succeeded.

        Raises:
            ServiceError: It failed, was cancelled, or takes too long.
        """
        until = monotonic() + longest
        while True:
            job = await self._patiently(self._look)
            if job.status == "succeeded":
                return job
            if job.status in ENDED:
                # A resumed run shall not wait for it again; the uploaded file still serves.
                await self._note(job="", creating=False)
                said = job.error.get("message") or "no reason given"
                raise ServiceError(
                    f"openai: the fine-tuning job {job.id} {_how(job.status)}: "
                    f"{self._connection.blotted(str(said))}; a resumed run asks for a new job"
                )
            if monotonic() >= until:
                raise ServiceError(
                    f"openai: the fine-tuning job {job.id} is still {job.status!r} after "
                    f"{longest / HOUR:g} hours; it goes on, and a resumed run waits for it again"
                )
            await anyio.sleep(poll)

    async def losses(self) -> list[float]:
        """Return the training losses that the provider tells, oldest first; none where it won't."""

        async def ask(client: Any) -> list[tuple[int, float]]:
            listed = partial(
                client.fine_tuning.jobs.with_raw_response.list_events, self._known.job, limit=100
            )
            events = self._listed(JobEvent, listed, "list of events")
            return [event.loss async for event in events if event.loss is not None]

        try:
            return [loss for _, loss in sorted(await self._connection.ask(ask))]
        except ModelError as error:
            logger.warning("the losses of job %s are not to be had: %s", self._known.job, error)
            return []

    def _read(self, kind: type[Answer], response: Any, expected: str) -> Answer:
        return read(self._connection, kind, response, expected)

    def _listed(
        self, kind: type[Answer], ask: Callable[..., Awaitable[Any]], expected: str, **words: Any
    ) -> AsyncGenerator[Answer, None]:
        return entries(self._connection, kind, ask, expected, **words)

    async def _once(
        self,
        step: str,
        find: Callable[[Any], Awaitable[str]],
        send: Callable[[Any], Awaitable[str]],
    ) -> str:
        """Send a request that must not be sent twice; what may have arrived is looked for."""

        async def tried(client: Any) -> str:
            if getattr(self._known, step):
                found = await find(client)
                if found:
                    return found
            else:
                await self._note(**{step: True})
            return await send(client)

        return await self._patiently(tried)

    async def _patiently(self, call: Callable[[Any], Awaitable[T]]) -> T:
        """Make a request again where its failure may pass.

        Raises:
            ModelError: It did not pass, or never will.
        """
        for _ in range(TRIES - 1):
            try:
                return await self._connection.ask(call)
            except ModelError as error:
                if not error.retryable or (error.retry_after or 0) > LONGEST_WAIT:
                    raise
                logger.info("%s; trying again", error)
                await anyio.sleep(error.retry_after or self._poll)
        return await self._connection.ask(call)

    async def _note(self, **changes: Any) -> None:
        self._known = replace(self._known, **changes)
        text = json.dumps(asdict(self._known), indent=1)
        await anyio.to_thread.run_sync(partial(_write, self._folder / STATE, text.encode()))


async def _first(listed: AsyncGenerator[Any, None], fits: Callable[[Any], bool]) -> str:
    """Return the id of the first entry that fits; empty when there is none."""
    async with aclosing(listed):
        async for entry in listed:
            if fits(entry):
                return str(entry.id)
    return ""


def _how(status: str) -> str:
    return "was cancelled" if status == "cancelled" else "failed"


def data_file(examples: Sequence[Example]) -> bytes:
    """Return examples in the provider's chat format, one JSON object per line.

    Earlier answers in a prompt have the weight 0, because the provider learns every answer.

    Raises:
        ConfigError: An example has a weight, which the format cannot hold.
    """
    lines = []
    for example in examples:
        if example.weight != 1:
            raise ConfigError(
                f"trainer openai: step {example.step} of {example.episode} has the weight "
                f"{example.weight:g}, and the provider's format has none; set weights = 'uniform'"
            )
        lines.append(json.dumps(as_messages(example), ensure_ascii=False))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _known(folder: Path, update: str) -> Progress:
    """Return how far an earlier try came, if it was this update."""
    try:
        found = json.loads((folder / STATE).read_text("utf-8"))
        known = Progress(**found)
    except (OSError, ValueError, TypeError):
        return Progress(update=update)
    return known if known.update == update else Progress(update=update)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; the disk has it when this returns."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except OSError as error:
        raise ServiceError(f"{path}: cannot be written: {error.strerror or error}") from error
