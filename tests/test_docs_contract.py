"""The prompts that the documentation shows are the prompts that are sent."""

import re
from pathlib import Path

import pytest
from pages import ROOT

from s3gym.agents.model import ModelAgent
from s3gym.api import Study
from s3gym.records import LAYOUTS, Layout
from s3gym.replies import parse_reply
from s3gym.schedule import Schedule
from s3gym.testing.fakes import Request, ScriptedChat

PAGE = ROOT / "docs" / "reference" / "response-contract.md"
SHORT = Schedule(exploration_episodes=2, evaluate_every=2, evaluation_episodes=1, max_steps=2)


def shown(layout: Layout, folder: Path) -> str:
    """Return the prompt of step 2 of the second episode, as the page shows it."""
    chat = ScriptedChat(lambda request: "Answer: cheat, Score: 3")
    Study(
        game="trust",
        agent=ModelAgent(chat, layout=layout),
        memory="history",
        repeats=1,
        seed=7,
        schedule=SHORT,
        store=folder / f"{layout}.db",
    ).run_sync()
    request = next(request for request in chat.requests if is_second_step(request))
    parts = []
    for message in request.messages:
        mark = ", stable" if message.stable else ""
        parts.append(f"**{message.role}{mark}**\n\n```text\n{message.content}\n```\n")
    return "\n".join(parts)


def is_second_step(request: Request) -> bool:
    return (
        "from earlier episodes" in request.text and "\nRound 2 of" in request.messages[-1].content
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_page_shows_the_prompt_that_is_sent(layout: Layout, tmp_path: Path) -> None:
    assert shown(layout, tmp_path) in PAGE.read_text()


def test_the_page_lists_replies_with_the_statuses_that_they_get() -> None:
    rows = re.findall(r"^\| `(.+?)` \| `(\w+)` \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.M)
    assert len(rows) == 7
    for reply, status, action, score in rows:
        decision = parse_reply(reply)
        assert decision.status == status
        assert action in (f"`{decision.action}`", "missing")
        assert score == ("missing" if decision.self_score is None else f"{decision.self_score:g}")
