"""Memories that live elsewhere: two functions, mem0, LangGraph stores.

Everything is duck-typed: no package is imported here. Such a store is shared with the world, so a
frozen view cannot be proven to stay as it is; ``isolated = False`` says so, and a study then
evaluates without overlap and labels its results. A store that cannot be reached pauses the study.
"""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, TypeVar

import anyio.to_thread

from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.memory import MemoryReader, MemorySnapshot, RecallEach
from s3gym.errors import MemoryFailure
from s3gym.memory._outages import is_outage
from s3gym.memory.fitting import fit
from s3gym.prompts import closing_line, step_lines
from s3gym.records import Cue, Episode, Recollection, Step
from s3gym.text import shorten
from s3gym.tokens import token_counter

T = TypeVar("T")
Recalled = str | Recollection | None
RecordFunction = Callable[[Episode], Awaitable[object] | object]
RecallFunction = Callable[[Cue], Awaitable[Recalled] | Recalled]


async def _reached(function: Callable[..., Awaitable[T] | T], argument: object) -> T:
    """Call a function of an outside store.

    Raises:
        MemoryFailure: The store could not be reached, or has no time now; a study pauses.
    """
    try:
        return await _called(function, argument)
    except Exception as error:  # its classes are the client's own; all but outages go on
        if not is_outage(error):
            raise
        raise MemoryFailure(
            f"the outside memory could not be reached: {type(error).__name__}: "
            f"{shorten(str(error), 300)}"
        ) from error


async def _called(function: Callable[..., Awaitable[T] | T], argument: object) -> T:
    """Await a coroutine function, run any other in a worker thread."""
    if iscoroutinefunction(function) or iscoroutinefunction(type(function).__call__):
        found = function(argument)
    else:
        found = await anyio.to_thread.run_sync(partial(function, argument))
    return await found if isawaitable(found) else found


class OutsideView:
    """Reads through the recall function; recalls nothing if it was made before any record."""

    isolated = False

    def __init__(
        self,
        recall: RecallFunction,
        sources: Sequence[str],
        counter: TokenCounter,
        recall_each: RecallEach,
    ) -> None:
        self._recall = recall
        self._sources = tuple(sorted(sources))
        self._counter = counter
        self._recall_each = recall_each

    @property
    def recall_each(self) -> RecallEach:
        """As the memory was told."""
        return self._recall_each

    async def recall(self, cue: Cue) -> Recollection:
        if not self._sources or cue.max_tokens < 1:
            return Recollection()
        found = await _reached(self._recall, cue)
        if found is None:
            return Recollection()
        if isinstance(found, str):
            found = Recollection(text=found, sources=self._sources)
        elif not isinstance(found, Recollection):
            raise MemoryFailure(
                f"recall: expected a text, a Recollection or None, got {shorten(found)}"
            )
        return fitted(found, cue.max_tokens, self._counter)


def fitted(found: Recollection, max_tokens: int, counter: TokenCounter) -> Recollection:
    """Return a recollection that fits, with its tokens counted; cut at the start of a line."""
    cut = fit(found.text, max_tokens, counter)
    if not cut.text:
        return Recollection(dropped=found.dropped + cut.dropped)
    return Recollection(
        text=cut.text,
        tokens=cut.tokens,
        sources=found.sources,
        dropped=found.dropped + cut.dropped,
        steps=() if cut.dropped else found.steps,
    )


class FunctionMemory:
    """A memory of two functions.

    Args:
        record: Called with every exploration episode.
        recall: Called with a cue; returns a text, a ``Recollection`` or ``None``. Not called
            before the first episode was recorded. Longer texts are cut at the start of a line.
        recall_each: Recall before every ``"step"`` or once per ``"episode"``.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.
        aclose: Called at the end.
        backend: Name in records.
    """

    isolated = False

    def __init__(
        self,
        record: RecordFunction,
        recall: RecallFunction,
        *,
        recall_each: RecallEach = "step",
        counter: TokenCounter | None = None,
        aclose: Callable[[], Awaitable[object]] | None = None,
        backend: str = "functions",
    ) -> None:
        self._record = record
        self._recall = recall
        self._recall_each: RecallEach = recall_each
        self._counter = counter or token_counter()
        self._close = aclose
        self._backend = backend
        self._sources: list[str] = []

    @property
    def recall_each(self) -> RecallEach:
        """As the memory was told."""
        return self._recall_each

    async def recall(self, cue: Cue) -> Recollection:
        return await self._view().recall(cue)

    async def record(self, episode: Episode) -> None:
        await _reached(self._record, episode)
        self._sources.append(episode.id)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        return None

    def freeze(self) -> MemoryReader:
        return self._view()

    def describe(self) -> MemorySnapshot:
        """Return where the experience went; what is kept there is not ours to show."""
        return MemorySnapshot(
            text=f"{len(self._sources)} episodes kept outside, by {self._backend}",
            sources=tuple(sorted(self._sources)),
            state={"backend": self._backend, "isolated": False},
        )

    async def aclose(self) -> None:
        """Call the function given for it."""
        if self._close is not None:
            await self._close()

    def _view(self) -> OutsideView:
        return OutsideView(self._recall, self._sources, self._counter, self._recall_each)


def from_functions(
    record: RecordFunction,
    recall: RecallFunction,
    *,
    recall_each: RecallEach = "step",
    counter: TokenCounter | None = None,
) -> Callable[[], FunctionMemory]:
    """Return a factory for ``memory=``. Every study gets the same two functions.

    Args:
        record: See ``FunctionMemory``.
        recall: See ``FunctionMemory``.
        recall_each: See ``FunctionMemory``.
        counter: See ``FunctionMemory``.
    """

    def make() -> FunctionMemory:
        return FunctionMemory(record, recall, recall_each=recall_each, counter=counter)

    make.__name__ = "functions"
    make.isolated = False  # type: ignore[attr-defined] # read by the study; a function may have it
    return make


def study_of(episode: Episode) -> str:
    """Return the study that an episode belongs to: its id without the last part."""
    return episode.id.rpartition("/")[0] or episode.id


def step_text(step: Step) -> str:
    """Return a step as text: the pair of lines and, at the end of an episode, the last line."""
    lines = [*step_lines(step), closing_line(step)] if step.outcome.done else step_lines(step)
    return "\n".join(lines)


def _recollection(found: Sequence[tuple[str, str]], known: Sequence[str]) -> Recollection:
    """Return found texts as bullets; where a text comes from is its episode, if it says so."""
    texts = [text for text, _ in found if text.strip()]
    named = {source for _, source in found if source in known}
    return Recollection(
        text="\n".join(f"- {text}" for text in texts),
        sources=tuple(sorted(named or known)) if texts else (),
    )


class _Outside:
    """What an outside store was given: one namespace per study, named by its first episode.

    Every study starts with an empty memory. So what an earlier run, or the life of this one before
    it was resumed, left under the study's own namespace is deleted at the first record; a
    namespace that the user named is left as it is.
    """

    def __init__(
        self, namespace: str | None, empty: Callable[[str], Awaitable[object]] | None
    ) -> None:
        self.namespace = namespace
        self.ids: list[str] = []
        self._empty = empty if namespace is None else None

    async def open(self, episode: Episode) -> str:
        """Return the namespace, emptied if it is the study's own and this is its first episode."""
        self.namespace = self.namespace or study_of(episode)
        if self._empty is not None:
            await self._empty(self.namespace)
            self._empty = None
        return self.namespace


def mem0_memory(
    client: Any,
    *,
    k: int = 6,
    infer: bool = True,
    namespace: str | None = None,
    recall_each: RecallEach = "step",
    counter: TokenCounter | None = None,
) -> FunctionMemory:
    """Return a memory kept by mem0 (tried with mem0ai 2.2.1).

    Each step becomes one message; the study's id is the ``user_id``. What is kept under it from
    an earlier run is deleted at the first record, because every study starts empty.

    Args:
        client: A ``mem0.AsyncMemory``, or anything with its ``add``, ``search`` and ``delete_all``.
        k: Most memories of a recollection.
        infer: Whether mem0's own model extracts facts; its calls bypass the study's record.
        namespace: The ``user_id``; default the id of the study. What is kept under a name that is
            given stays, and counts.
        recall_each: Recall before every ``"step"`` or once per ``"episode"``.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.
    """
    outside = _Outside(namespace, lambda user: client.delete_all(user_id=user))

    async def record(episode: Episode) -> None:
        user = await outside.open(episode)
        messages = [{"role": "user", "content": step_text(step)} for step in episode.steps]
        await client.add(messages, user_id=user, metadata={"episode": episode.id}, infer=infer)
        outside.ids.append(episode.id)

    async def recall(cue: Cue) -> Recollection:
        query = cue.observation.text.strip()
        if not query:
            return Recollection()
        filters = {"user_id": outside.namespace}
        answer = await client.search(query, top_k=k, filters=filters)
        hits = answer["results"] if isinstance(answer, dict) else answer
        return _recollection(
            [(hit["memory"], (hit.get("metadata") or {}).get("episode", "")) for hit in hits[:k]],
            outside.ids,
        )

    return FunctionMemory(record, recall, recall_each=recall_each, counter=counter, backend="mem0")


def langgraph_memory(
    store: Any,
    *,
    k: int = 6,
    namespace: str | None = None,
    recall_each: RecallEach = "step",
    counter: TokenCounter | None = None,
) -> FunctionMemory:
    """Return a memory kept in a LangGraph store (tried with langgraph 1.x).

    Each step becomes one item ``{"text": ..., "episode": ...}`` under ``("s3gym", STUDY)``. What
    an earlier run left there is deleted at the first record, because every study starts empty. A
    store without an index gives back items without regard to the query.

    Args:
        store: A ``langgraph.store.base.BaseStore``, or anything with its ``aput``, ``asearch`` and
            ``adelete``.
        k: Most items of a recollection.
        namespace: Second part of the namespace; default the id of the study. What is kept under a
            name that is given stays, and counts.
        recall_each: Recall before every ``"step"`` or once per ``"episode"``.
        counter: Counts tokens; default ``s3gym.tokens.token_counter()``.
    """

    async def empty(study: str) -> None:
        place = ("s3gym", study.replace(".", "-"))
        while hits := await store.asearch(place, query=None, limit=100):
            for hit in hits:
                await store.adelete(place, hit.key)

    outside = _Outside(namespace, empty)

    async def record(episode: Episode) -> None:
        place = ("s3gym", (await outside.open(episode)).replace(".", "-"))
        for step in episode.steps:
            value = {"text": step_text(step), "episode": episode.id}
            await store.aput(place, f"{episode.id}/{step.index:03d}", value)
        outside.ids.append(episode.id)

    async def recall(cue: Cue) -> Recollection:
        place = ("s3gym", str(outside.namespace).replace(".", "-"))
        query = cue.observation.text.strip() or None
        hits = await store.asearch(place, query=query, limit=k)
        return _recollection(
            [(hit.value["text"], hit.value.get("episode", "")) for hit in hits[:k]], outside.ids
        )

    return FunctionMemory(
        record, recall, recall_each=recall_each, counter=counter, backend="langgraph"
    )
