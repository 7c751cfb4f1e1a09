"""What a chat model promises: messages in, one reply out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from s3gym.records import Message, Usage

Finish = Literal["stop", "length", "refusal", "other"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a model call gave back.

    Attributes:
        text: The visible answer; reasoning text is never part of it.
        finish: Why the model stopped; ``"length"`` means that the answer was cut.
        usage: Tokens as the provider counted them.
        model: Id of the model that served the call, as the provider reported it.
        request_id: The provider's id of the request.
    """

    text: str
    finish: Finish = "stop"
    usage: Usage = Usage(calls=1)
    model: str = ""
    request_id: str = ""


class ChatModel(Protocol):
    """Turns messages into a reply. Optional: ``endpoint`` (str), ``async aclose()``.

    Attributes:
        name: Names model and settings, for records; never a key.
    """

    @property
    def name(self) -> str:
        """Short name for records and reports."""
        ...

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return the model's reply.

        Raises:
            ModelError: The call failed; ``retryable`` says whether it may succeed later.
        """
        ...


class TokenCounter(Protocol):
    """Counts the tokens of a text."""

    @property
    def name(self) -> str:
        """Names the vocabulary or the estimate, for the store."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens; special-token text counts as ordinary text."""
        ...
