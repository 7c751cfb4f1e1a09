"""What plug-ins ask of chat models and what these reply, checked before it is kept.

A row that the store cannot take would undo what other studies wrote with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from s3gym.calls import Purpose
from s3gym.contracts.chat import ChatModel, Finish, Reply
from s3gym.errors import PluginError
from s3gym.records import Message, Role, Usage, is_count
from s3gym.seams import shown
from s3gym.text import storable

LARGEST_SEED = 2**63 - 1
CALL = "a model call with"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as the store can keep it; see ``calls.complete``."""

    chat: str
    messages: Sequence[Message]
    purpose: Purpose
    layout: str
    max_tokens: int
    seed: int | None


def check_request(
    chat: ChatModel,
    messages: Sequence[Message],
    *,
    purpose: Purpose,
    layout: str,
    max_tokens: int,
    seed: int | None,
) -> Asked:
    """Return a request with text that can be stored.

    Raises:
        PluginError: One of its values is of another kind.
    """
    if not is_count(max_tokens):
        raise PluginError(f"a model call with max_tokens {shown(max_tokens)}: expected a count")
    if seed is not None and not (type(seed) is int and abs(seed) <= LARGEST_SEED):
        raise PluginError(f"a model call with the seed {shown(seed)}: expected a 64-bit integer")
    return Asked(
        chat=_text(CALL, chat.name, "the model's name"),
        messages=[_message(message) for message in messages],
        purpose=cast(Purpose, _text(CALL, purpose, "purpose")),
        layout=_text(CALL, layout, "layout"),
        max_tokens=max_tokens,
        seed=seed,
    )


def _message(message: Message) -> Message:
    if not isinstance(message, Message) or not isinstance(message.stable, bool):
        raise PluginError(f"a model call with {shown(message)}: expected a Message")
    role = _text(CALL, message.role, "the role of a message")
    content = _text(CALL, message.content, "a message")
    if role is message.role and content is message.content:
        return message
    return replace(message, role=cast(Role, role), content=content)


def _text(who: str, value: object, what: str) -> str:
    if not isinstance(value, str):
        raise PluginError(f"{who} {shown(value)} as {what}: expected a string")
    return storable(value)


def check_reply(chat: str, reply: Reply) -> Reply:
    """Return a reply with text that can be stored: one cut inside a character may end in half.

    Raises:
        PluginError: It is no ``Reply``, or one of its values is of another kind.
    """
    who = f"chat model {chat!r} answered"
    if not isinstance(reply, Reply) or not _counts(reply.usage):
        raise PluginError(f"{who} {shown(reply)}: expected a Reply with counts as usage")
    return Reply(
        text=_text(who, reply.text, "text"),
        finish=cast(Finish, _text(who, reply.finish, "finish")),
        usage=reply.usage if reply.usage.calls else replace(reply.usage, calls=1),
        model=_text(who, reply.model, "model"),
        request_id=_text(who, reply.request_id, "request_id"),
    )


def _counts(usage: object) -> bool:
    return isinstance(usage, Usage) and all(
        is_count(getattr(usage, name)) for name in Usage.__slots__
    )
