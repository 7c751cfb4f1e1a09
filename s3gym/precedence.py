"""Exploration goes first: its episodes follow one another, and a study lasts as long as they do.

Evaluation episodes are many and wait for nobody. Where both have work at the same moment, a piece
of evaluation is done in each round of the event loop. Whoever has a reply gives way before the
work on it and not in the midst of it: then replies that came together do not come together again.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import anyio
import anyio.lowlevel

from s3gym.records import Phase

_aside: ContextVar[anyio.Lock | None] = ContextVar("s3gym_aside", default=None)


@contextmanager
def exploration_first() -> Iterator[None]:
    """Let ``give_way`` hold evaluation back in the body and in tasks that it starts."""
    token = _aside.set(anyio.Lock(fast_acquire=True))
    try:
        yield
    finally:
        _aside.reset(token)


async def give_way(phase: Phase) -> None:
    """Let others go on; return when there is time for an episode of this phase."""
    aside = _aside.get()
    if phase is Phase.EXPLORATION or aside is None:
        await anyio.lowlevel.checkpoint()
        return
    async with aside:
        await anyio.lowlevel.checkpoint()
