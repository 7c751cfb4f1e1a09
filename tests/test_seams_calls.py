"""A model call that no store can keep fails its own study."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from studies import plan, run_plans

from s3gym.calls import complete
from s3gym.contracts.chat import Reply
from s3gym.records import Message, Turn
from s3gym.store.store import Store


class OddChat:
    """A chat model that answers what it is given."""

    endpoint = "odd"

    def __init__(self, reply: Any, name: Any = "odd") -> None:
        self.reply, self.name = reply, name

    async def complete(self, messages: Any, *, max_tokens: int, seed: int | None = None) -> Any:
        return self.reply


FINE = Reply(text="Answer: cheat, Score: 1")


@pytest.mark.parametrize(
    ("chat", "asked", "says"),
    [
        (OddChat(None), {}, "raised AttributeError in act"),
        (OddChat(Reply(text=7)), {}, "chat model 'odd' answered 7 as text"),  # type: ignore[arg-type] # as above
        (OddChat(replace(FINE, finish=None)), {}, "answered None as finish"),  # type: ignore[arg-type] # as above
        (OddChat(FINE, name=("a", "b")), {}, "('a', 'b') as the model's name"),
        (OddChat(FINE), {"max_tokens": "nine"}, "max_tokens 'nine': expected a count"),
        (OddChat(FINE), {"max_tokens": 10**30}, "expected a count"),
        (OddChat(FINE), {"seed": 2**64}, "expected a 64-bit integer"),
        (OddChat(FINE), {"layout": None}, "None as layout: expected a string"),
        (OddChat(FINE), {"purpose": ("act",)}, "as purpose: expected a string"),
        (OddChat(FINE), {"messages": [Message(role=5, content="x")]}, "as the role of a message"),  # type: ignore[arg-type] # as above
        (OddChat(FINE), {"messages": ["x"]}, "a model call with 'x': expected a Message"),
    ],
)
async def test_a_call_that_no_store_can_keep_fails_its_study_and_no_other(
    tmp_path: Path, chat: Any, asked: dict[str, Any], says: str
) -> None:
    async def agent(turn: Turn) -> Any:
        given: dict[str, Any] = {"messages": turn.messages(), "purpose": "act", "max_tokens": 9}
        given |= asked
        return (await complete(chat, **given)).text

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent), plan(), plan("snake")])
    assert list(outcome.failed) == ["trust/agent/history/r0"]
    assert says in outcome.failed["trust/agent/history/r0"]
    with Store.open(path) as store:
        assert store.ledger.status("snake/drawing/history/r0") == "done"
