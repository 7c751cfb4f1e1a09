"""A chat model that answers from what another one answered before: no network, no key."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.records import Message
from s3gym.text import shorten


class RequestHash(Protocol):
    """The hash under which a store keeps a request."""

    def __call__(
        self, chat: str, messages: Sequence[Message], max_tokens: int, seed: int | None
    ) -> str:
        """Return the hash of everything that is asked of a model."""
        ...


class ReplayChat:
    """Answers every request that was recorded, and no other.

    Args:
        name: Name of the chat model that answered then; it is part of the hashes.
        replies: Request hash -> reply.
        request_hash: The function that made the hashes.
    """

    endpoint = "replay"

    def __init__(self, name: str, replies: Mapping[str, Reply], request_hash: RequestHash) -> None:
        self.name = name
        self._replies, self._request_hash = replies, request_hash

    def __repr__(self) -> str:
        return f"ReplayChat({self.name!r}, {len(self._replies)} replies)"

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        key = self._request_hash(self.name, messages, max_tokens, seed)
        reply = self._replies.get(key)
        if reply is None:
            last = messages[-1].content if messages else ""
            raise ModelError(
                f"nothing recorded answers this request to {self.name!r} (hash {key[:12]}, its "
                f"last message begins {shorten(last)}); settings, seeds or code differ from the "
                f"run that was recorded",
                retryable=False,
            )
        return reply
