"""One thread that computes for all transformers models of this process, batch by batch.

Whoever asks waits for its own reply. What is asked within a moment, of one model, is answered
together. A model is loaded when it is first asked, once however many chats name it; when another
one needs the place, the one that rested longest is unloaded.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import anyio
import anyio.from_thread
import anyio.lowlevel

T = TypeVar("T")
MOST_LOADED = 2
REST_SECONDS = 5.0
GATHER_SECONDS = 0.02


class Loaded(Protocol):
    """A model in memory."""

    def close(self) -> None:
        """Give the memory back."""
        ...


@dataclass(slots=True, eq=False)
class Waiting(Generic[T]):
    """A request, and where its answer goes.

    Attributes:
        key: Names the model.
        body: What is asked.
        dropped: Nobody waits any more.
    """

    key: Any
    body: T
    done: anyio.Event
    loop: anyio.lowlevel.EventLoopToken
    dropped: bool = False
    error: Exception | None = None
    answers: list[Any] = field(default_factory=list)


class Queue(Generic[T]):
    """Requests of any number of event loops, and the thread that works on them.

    The thread is a daemon, so that a long reply never holds up the end of the process; it ends
    by itself when there is nothing to do.

    Args:
        load: Loads the model of a key.
        work: Answers requests for one model together, one answer per request, in order.
        at_most: How many requests of a key are answered together.
    """

    def __init__(
        self,
        load: Callable[[Any], Loaded],
        work: Callable[[Any, list[Waiting[T]]], list[Any]],
        at_most: Callable[[Any], int],
    ) -> None:
        self._load, self._work, self._at_most = load, work, at_most
        self._waiting: deque[Waiting[T]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._loaded: OrderedDict[Any, Loaded] = OrderedDict()
        self._unwanted: set[Any] = set()

    async def ask(self, key: Any, body: T) -> Any:
        """Return the answer to a request.

        Raises:
            Exception: Whatever loading or answering raised.
        """
        request: Waiting[T] = Waiting(key, body, anyio.Event(), anyio.lowlevel.current_token())
        with self._changed:
            self._unwanted.discard(key)
            self._waiting.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="s3gym-hf", daemon=True)
                self._thread.start()
            self._changed.notify()
        try:
            await request.done.wait()
        finally:
            request.dropped = True
        if request.error is not None:
            raise request.error
        return request.answers[0]

    def forget(self, key: Any) -> None:
        """Unload a model as soon as nothing is being computed; a later request loads it again."""
        with self._changed:
            self._unwanted.add(key)
            if self._thread is None:
                self._unload_unwanted()
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._unload_unwanted()
                if not self._waiting:
                    self._changed.wait(REST_SECONDS)
                self._unload_unwanted()
                if not self._waiting:
                    self._thread = None
                    return
                batch = self._gathered()
            self._serve(batch)
            del batch  # nothing of it may stay while the thread rests

    def _gathered(self) -> list[Waiting[T]]:
        """Take the oldest request, and what is asked of the same model within a moment."""
        key = self._waiting[0].key
        most = self._at_most(key)
        while True:
            count = len(self._waiting)
            if sum(request.key == key for request in self._waiting) >= most:
                break
            self._changed.wait(GATHER_SECONDS)
            if len(self._waiting) == count:
                break
        batch = [request for request in self._waiting if request.key == key][:most]
        for request in batch:
            self._waiting.remove(request)
        return [request for request in batch if not request.dropped]

    def _serve(self, batch: list[Waiting[T]]) -> None:
        if not batch:
            return
        try:
            answers = self._work(self._model(batch[0].key), batch)
        except Exception as error:  # noqa: BLE001 - raised again where it is awaited
            for request in batch:
                request.error = error
        else:
            for request, answer in zip(batch, answers, strict=True):
                request.answers.append(answer)
        for request in batch:
            with suppress(RuntimeError):  # the loop is gone: nobody waits any more
                anyio.from_thread.run_sync(request.done.set, token=request.loop)

    def _model(self, key: Any) -> Loaded:
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return self._loaded[key]
        while len(self._loaded) >= MOST_LOADED:
            self._loaded.popitem(last=False)[1].close()
        model = self._loaded[key] = self._load(key)
        return model

    def _unload_unwanted(self) -> None:
        for key in self._unwanted & set(self._loaded):
            self._loaded.pop(key).close()
        self._unwanted.clear()
