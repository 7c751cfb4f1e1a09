"""The child's broker: asks the parent for every model call, which records it.

The parent sends the request itself where it holds the chat model, and its key. A chat model that
the agent made on its own is sent here, when the parent says so: limits, budget and record stay
with the parent.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

import anyio

from s3gym.calls import Purpose
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ModelError, S3GymError
from s3gym.records import Message
from s3gym.sealed.errors import error_in, error_out
from s3gym.sealed.lines import Lines
from s3gym.wire import decode, encode


class AskingBroker:
    """The broker of one request of the parent; its calls go one at a time."""

    def __init__(self, lines: Lines, number: int) -> None:
        self._lines, self._number = lines, number
        self._calls = 0
        self._came: deque[dict[str, Any]] = deque()
        self._something = anyio.Event()
        self._one = anyio.Lock()

    def take(self, message: dict[str, Any]) -> None:
        """Take what the parent says about a call; late words about an earlier one are dropped."""
        self._came.append(message)
        self._something.set()

    async def complete(
        self,
        chat: ChatModel,
        messages: Sequence[Message],
        *,
        purpose: Purpose,
        layout: str,
        max_tokens: int,
        seed: int | None,
    ) -> Reply:
        """Have the parent answer from the record, or have the call made and recorded."""
        async with self._one:
            self._calls += 1
            call = self._calls
            self._say(
                call,
                complete={
                    "chat": chat.name,
                    "endpoint": str(getattr(chat, "endpoint", "")),
                    "model": str(getattr(chat, "model", "")),
                    "messages": [encode(message) for message in messages],
                    "purpose": purpose,
                    "layout": layout,
                    "max_tokens": max_tokens,
                    "seed": seed,
                },
            )
            while True:
                await self._lines.flush()
                answer = await self._next(call)
                if "reply" in answer:
                    return decode(Reply, answer["reply"])
                if "error" in answer:
                    raise error_in(answer["error"])
                await self._send(call, chat, messages, max_tokens, seed)

    async def _send(
        self,
        call: int,
        chat: ChatModel,
        messages: Sequence[Message],
        max_tokens: int,
        seed: int | None,
    ) -> None:
        sent = {"error": error_out(ModelError("the agent gave the call up", retryable=False))}
        try:
            reply = await chat.complete(messages, max_tokens=max_tokens, seed=seed)
            sent = {"reply": encode(reply)}
        except S3GymError as error:
            sent = {"error": error_out(error)}
        finally:
            self._say(call, sent=sent)

    def _say(self, call: int, **words: Any) -> None:
        self._lines.put({"id": self._number, "call": call, **words})

    async def _next(self, call: int) -> dict[str, Any]:
        while True:
            while self._came:
                message = self._came.popleft()
                if message["call"] == call:
                    return message
            self._something = anyio.Event()
            await self._something.wait()
