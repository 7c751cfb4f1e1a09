"""Test doubles for agents, memories and studies that call a model; no network, no key."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.records import Message

Scripted = str | Reply | Exception


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a fake was asked.

    Attributes:
        messages: The prompt, in order.
        max_tokens: Most new tokens.
        seed: The seed that came along, if any.
    """

    messages: tuple[Message, ...]
    max_tokens: int
    seed: int | None

    @property
    def text(self) -> str:
        """The contents of all messages, one after the other."""
        return "\n\n".join(message.content for message in self.messages)


class ScriptedChat:
    """A chat model that answers from a script and keeps what it was asked.

    Args:
        replies: Answers in order, or a function from a ``Request`` to an answer. An answer is a
            text, a ``Reply``, or an exception to raise.
        name: Name for records.
        endpoint: Address for records; chats with equal endpoints share their limits.

    Attributes:
        requests: Every request so far, oldest first.
    """

    def __init__(
        self,
        replies: Sequence[Scripted] | Callable[[Request], Scripted],
        *,
        name: str = "scripted",
        endpoint: str = "scripted",
    ) -> None:
        self.name, self.endpoint = name, endpoint
        self.requests: list[Request] = []
        self._replies = replies

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return the next answer of the script.

        Raises:
            ModelError: The script is used up; not retryable.
        """
        request = Request(messages=tuple(messages), max_tokens=max_tokens, seed=seed)
        self.requests.append(request)
        answer = self._answer(request)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(text=answer, model=self.name)

    def _answer(self, request: Request) -> Scripted:
        if callable(self._replies):
            return self._replies(request)
        number = len(self.requests)
        if number > len(self._replies):
            raise ModelError(
                f"{self.name} has {len(self._replies)} replies and was asked {number} times",
                retryable=False,
            )
        return self._replies[number - 1]
