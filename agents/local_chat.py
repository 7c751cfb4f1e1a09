"""A GGUF model in this process: llama.cpp through ``xllamacpp`` (extra ``local``)."""

import os
import threading
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import anyio
from pydantic import BaseModel, ValidationError

from s3gym.agents.connection import shown_arguments
from s3gym.agents.openai_chat import Completion, as_reply
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, MissingExtraError, ModelError
from s3gym.records import Message

SEED_RANGE = 2**31


class LocalChat:
    """A model file that is loaded when it is first needed, and runs in worker threads.

    llama.cpp opens a port of its own on the loopback interface while the model is loaded.

    Args:
        path: The GGUF file; it brings its own chat template.
        context_tokens: Tokens that a prompt and its reply may hold together.
        parallel: Calls that are answered at the same time; each has its own context.
        threads: Threads that compute; all cores but one when ``None``, because llama.cpp slows
            down many times over when it has to share its cores.
        temperature: Sampling temperature; llama.cpp's default when ``None``.
        top_p: Nucleus sampling; llama.cpp's default when ``None``.
        arguments: Further fields of the request, as llama.cpp names them.

    Attributes:
        name: ``local:FILE`` and every setting that can change an answer.
        most_concurrent: The value of ``parallel``.

    Raises:
        ConfigError: The file is not there, or a number is below 1.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        context_tokens: int = 8192,
        parallel: int = 1,
        threads: int | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self.path = Path(path).expanduser()
        if not self.path.is_file():
            raise ConfigError(f"expected a GGUF file, and there is none at {str(path)!r}")
        if context_tokens < 1 or parallel < 1:
            raise ConfigError(
                f"expected context_tokens and parallel of at least 1, got {context_tokens} and "
                f"{parallel}"
            )
        self.arguments = dict(arguments or {})
        if temperature is not None:
            self.arguments["temperature"] = temperature
        if top_p is not None:
            self.arguments["top_p"] = top_p
        self.most_concurrent, self._context_tokens = parallel, context_tokens
        self.model = self.path.stem
        self.name = f"local:{self.path.name}{shown_arguments(self.arguments)}"
        self.endpoint = f"local:{self.path.name}"
        cores = max(1, (os.cpu_count() or 1) - 1)
        self._engine = _Engine(self.path, context_tokens, parallel, threads or cores)

    def __repr__(self) -> str:
        return f"LocalChat({self.name!r})"

    def check_key(self) -> None:
        """Check that the engine is installed; a model file needs no key.

        Raises:
            MissingExtraError: It is not.
        """
        _xllamacpp()

    def with_schema(self, schema: type[BaseModel]) -> Self:
        """Return a copy that answers with a JSON object of the schema; the model is shared."""
        other = copy(self)
        other.name = f"{self.name} schema={schema.__name__}"
        other.arguments = self.arguments | {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": schema.model_json_schema()},
            }
        }
        return other

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        request: dict[str, Any] = {
            "messages": [
                {"role": message.role, "content": message.content} for message in messages
            ],
            "max_tokens": min(max_tokens, self._context_tokens),
            **self.arguments,
        }
        if seed is not None:
            request["seed"] = seed % SEED_RANGE
        answer = await anyio.to_thread.run_sync(
            self._engine.answer, request, abandon_on_cancel=True
        )
        try:
            completion = Completion.model_validate(answer)
        except ValidationError as error:
            raise ModelError(
                f"{self.name} gave no chat completion: {error}", retryable=False
            ) from None
        if not completion.choices:
            said = completion.error or {}
            raise ModelError(
                f"{self.name} refused the request: {said.get('message', 'no reason given')}",
                retryable=False,
            )
        return replace(as_reply(completion, "", ""), model=self.model)

    async def aclose(self) -> None:
        """Unload the model; a later call loads it again."""
        await anyio.to_thread.run_sync(self._engine.close)


class _Engine:
    """The loaded model, shared by all copies of a chat."""

    def __init__(self, path: Path, context_tokens: int, parallel: int, threads: int) -> None:
        self._path, self._context_tokens, self._parallel = path, context_tokens, parallel
        self._threads = threads
        self._loading = threading.Lock()
        self._server: Any = None

    def answer(self, request: dict[str, Any]) -> Any:
        with self._loading:
            if self._server is None:
                self._server = self._load()
            server = self._server
        return server.handle_chat_completions(request)

    def _load(self) -> Any:
        xllamacpp = _xllamacpp()
        settings = xllamacpp.CommonParams()
        settings.model.path = str(self._path)
        settings.n_ctx = self._context_tokens * self._parallel
        settings.n_parallel = self._parallel
        settings.cpuparams.n_threads = self._threads
        settings.cpuparams_batch.n_threads = self._threads
        settings.verbosity = 0
        return xllamacpp.Server(settings)

    def close(self) -> None:
        with self._loading:
            self._server = None


def _xllamacpp() -> Any:
    try:
        import xllamacpp
    except ImportError:
        raise MissingExtraError("a local model file", "local") from None
    return xllamacpp
