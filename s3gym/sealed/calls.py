"""Model calls of a sealed agent, carried by the parent: recorded, limited and paid for here."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from s3gym import calls
from s3gym.calls import Purpose
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ModelError, S3GymError
from s3gym.records import Message
from s3gym.sealed.errors import error_in, error_out
from s3gym.wire import WireError, decode, encode

if TYPE_CHECKING:
    from s3gym.sealed.process import SealedProcess, _Conversation


class ChildsChat:
    """Stands for a chat model that the agent made on its own side; the child sends."""

    def __init__(
        self, process: "SealedProcess", talk: "_Conversation", words: dict[str, Any], about: Any
    ) -> None:
        self.name = _text(about, "chat")
        self.endpoint = _text(about, "endpoint")
        self.model = _text(about, "model")
        self._process, self._talk, self._words = process, talk, words

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Have the child send the request that it has."""
        self._process.tell(self._words | {"send": True})
        while True:
            answer = await self._process.receive(self._talk)
            if answer.get("call") == self._words["call"] and isinstance(answer.get("sent"), dict):
                break
        sent = answer["sent"]
        if "reply" in sent:
            return decode(Reply, sent["reply"])
        error = error_in(sent.get("error"))
        raise error if isinstance(error, ModelError) else ModelError(str(error), retryable=False)


async def carry_call(
    process: "SealedProcess", talk: "_Conversation", number: int, message: dict[str, Any]
) -> None:
    """Make one model call for the child, through the broker of the request that needs it.

    What the model or the budget refuses is told to the child, as its agent would be told
    without a seal. Everything else ends the request here.

    Raises:
        WireError: The child asked for nonsense.
        StoreError: The call differs from the recorded one, or cannot be recorded.
    """
    words = {"id": number, "call": message.get("call")}
    about = message["complete"]
    if not isinstance(about, dict) or not isinstance(about.get("messages"), list):
        raise WireError("a model call without messages")
    purpose, seed, most = about.get("purpose"), about.get("seed"), about.get("max_tokens")
    if purpose not in get_args(Purpose) or not isinstance(most, int):
        raise WireError("a model call of no known purpose")
    if not isinstance(seed, int | None):
        raise WireError("a model call with a seed that is no integer")
    name = _text(about, "chat")
    chat = process.chats.get(name) or ChildsChat(process, talk, words, about)
    try:
        reply = await calls.complete(
            chat,
            [decode(Message, one) for one in about["messages"]],
            purpose=cast(Purpose, purpose),
            layout=_text(about, "layout"),
            max_tokens=most,
            seed=seed,
        )
    except (ModelError, BudgetExhaustedError) as error:
        talk.refused = error
        process.tell(words | {"error": error_out(error)})
    except S3GymError as error:
        process.tell(words | {"error": {"kind": "PluginError", "message": type(error).__name__}})
        raise
    else:
        process.tell(words | {"reply": encode(reply)})


def _text(about: Any, name: str) -> str:
    value = about.get(name)
    if not isinstance(value, str):
        raise WireError(f"a model call without a {name}")
    return value
