"""Hashes of what is asked of a model: they find a recorded call, and keep a message once."""

from collections.abc import Sequence
from functools import lru_cache

from s3gym.records import Message
from s3gym.store.chain import digest

LONG_MESSAGE = 4_000


def message_hash(message: Message) -> str:
    """Return the content hash of a message."""
    return _short_hash(message) if len(message.content) < LONG_MESSAGE else _long_hash(message)


def _hash(message: Message) -> str:
    return digest(message.role, message.content, int(message.stable))


# A recollection goes into every prompt of its episodes, rules go into all; few long texts are
# kept, because each may be as long as a memory's budget.
_short_hash = lru_cache(maxsize=2048)(_hash)
_long_hash = lru_cache(maxsize=256)(_hash)


def request_hash(chat: str, messages: Sequence[Message], max_tokens: int, seed: int | None) -> str:
    """Return the hash of everything that was asked of a model."""
    return digest(chat, max_tokens, seed, [message_hash(message) for message in messages])
