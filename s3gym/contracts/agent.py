"""What an agent promises: one decision per turn."""

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Protocol

from s3gym.records import Decision, Episode, Turn

Answer = Decision | str | tuple[str, float | None]


class Agent(Protocol):
    """Subclass it, fit it structurally, or pass an async function of a ``Turn``.

    Optional attributes: ``serial = True`` (one episode at a time, for a person at a terminal),
    ``stateless = True`` (every decision depends on its turn alone, so a resumed episode goes on
    at the first unrecorded step), ``knows`` (names of the games that it can play, where it cannot
    play every game) and ``async aclose()``.
    """

    @abstractmethod
    async def act(self, turn: Turn) -> Answer:
        """Return the action and its self-score.

        Returns:
            A ``Decision``; or the pair ``(action, self_score)``; or a string, which is read by
            the response contract (``Answer: <ACTION>, Score: <SELF-SCORE>``).
        """
        ...


class Forkable(Protocol):
    """An agent that owns its memory."""

    async def fork(self) -> Agent:
        """Return a throw-away copy: what it experiences never comes back."""
        ...

    async def learn(self, episode: Episode) -> None:
        """Take in a finished exploration episode."""
        ...


ActFunction = Callable[[Turn], Awaitable[Answer]]
AgentFactory = Callable[[], Agent]
