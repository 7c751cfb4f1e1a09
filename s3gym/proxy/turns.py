"""Which turn an app's request belongs to: one turn at a time is played behind a proxy."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, cast

import anyio

from s3gym import calls
from s3gym.agents.replay_chat import ReplayChat
from s3gym.calls import Broker, active_broker, brokered
from s3gym.contracts.agent import Agent, Answer, Forkable
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import BudgetExhaustedError, ConfigError, ModelError, S3GymError, StoreError
from s3gym.parts import AgentPart, owns_memory
from s3gym.proxy.upstream import Request, Upstream
from s3gym.records import Episode, Turn
from s3gym.store.hashes import request_hash


class Turns:
    """Answers an app's requests through the study whose turn is being played.

    Args:
        replies: Recorded replies that answer in place of the servers, by request hash.
    """

    def __init__(self, replies: Mapping[str, Reply] | None = None) -> None:
        self._replies = replies
        self._turn = anyio.Lock()
        self._broker: Broker | None = None
        self._failure: S3GymError | None = None

    async def answer(self, request: Request, upstream: Upstream) -> str:
        """Return the body of an answer, from the record or from the server.

        Raises:
            ConfigError: No turn is being played.
            S3GymError: Limits, budget, server or record refuse.
        """
        if self._broker is None:
            raise ConfigError(
                "no turn is being played: an app's calls between turns belong to no episode"
            )
        chat: ChatModel = upstream
        if self._replies is not None:
            chat = ReplayChat(upstream.name, self._replies, request_hash)
        try:
            with brokered(self._broker):
                reply = await calls.complete(
                    chat,
                    request.messages(),
                    purpose="act",
                    layout="proxy",
                    max_tokens=request.max_tokens(),
                )
        except S3GymError as error:
            self._failure = error
            raise
        self._failure = None
        return reply.text

    def around(self, part: AgentPart) -> AgentPart:
        """Return an agent that plays behind this proxy, one episode at a time."""
        make, forkable, learn = part.make, part.forkable, part.learn

        async def learn_behind(episode: Episode) -> None:
            if learn is not None:
                await self.learn(learn, episode)

        return replace(
            part,
            make=lambda: cast(Agent, self.behind(make())),
            forkable=None if forkable is None else cast(Forkable, self.behind(forkable)),
            learn=None if learn is None else learn_behind,
            serial=True,
        )

    def behind(self, agent: Any) -> "Behind | ForkableBehind":
        """Return an agent whose turns tell the proxy where calls belong."""
        return ForkableBehind(self, agent) if owns_memory(agent) else Behind(self, agent)

    @contextmanager
    def _playing(self) -> Iterator["_Outcome"]:
        self._broker, self._failure = active_broker(), None
        try:
            with _Outcome(self) as outcome:
                yield outcome
        finally:
            self._broker = None

    @property
    def failure(self) -> S3GymError | None:
        """Why the last call of the current turn failed, if it did."""
        return self._failure

    async def play(self, agent: Any, turn: Turn) -> Answer:
        """Let an agent act; a call that failed for good counts for more than what it made of it.

        Raises:
            S3GymError: The reason why its last call failed.
        """
        async with self._turn:
            with self._playing() as outcome:
                answer = await agent.act(turn)
                outcome.answered = True
            return cast(Answer, answer)

    async def learn(self, learn: Callable[[Episode], Awaitable[None]], episode: Episode) -> None:
        """Let an agent take in an episode.

        Raises:
            S3GymError: The reason why its last call failed.
        """
        async with self._turn:
            with self._playing() as outcome:
                await learn(episode)
                outcome.answered = True


class _Outcome:
    """Replaces what an app makes of a failed call by the failure itself."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self.answered = False

    def __enter__(self) -> "_Outcome":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        failure = self._turns.failure
        if failure is None or (kind is not None and not issubclass(kind, Exception)):
            return
        lasting = isinstance(failure, (BudgetExhaustedError, StoreError)) or (
            isinstance(failure, ModelError) and failure.retryable
        )
        if not self.answered or lasting:
            raise failure from error


class Behind:
    """An agent behind a proxy."""

    def __init__(self, turns: Turns, agent: Any) -> None:
        self._turns, self._agent = turns, agent

    async def act(self, turn: Turn) -> Answer:
        """Act, and let the proxy know for which study."""
        return await self._turns.play(self._agent, turn)

    async def aclose(self) -> None:
        """Close the agent, where it can be closed."""
        close = getattr(self._agent, "aclose", None)
        if close is not None:
            await close()


class ForkableBehind(Behind):
    """An agent behind a proxy that owns its memory."""

    async def fork(self) -> Agent:
        """Return a throw-away copy, behind the same proxy."""
        return cast(Agent, self._turns.behind(await self._agent.fork()))

    async def learn(self, episode: Episode) -> None:
        """Learn, and let the proxy know for which study."""
        await self._turns.learn(self._agent.learn, episode)
