"""ModelAgent: one turn in, one decision out, each way a reply can keep or break its contract."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym import calls, prompts
from s3gym.agents.answers import AnswerScore, JsonContract
from s3gym.agents.model import ModelAgent
from s3gym.contracts.agent import Agent
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import (
    Decision,
    Message,
    Observation,
    Phase,
    Recollection,
    Step,
    Turn,
    Usage,
)
from s3gym.testing.fakes import ScriptedChat

BOARD = Observation(text="round 2 of 10")
TRAIL = (
    Step(
        index=0,
        observation=Observation(text="round 1 of 10"),
        decision=Decision(action="cheat", self_score=3.0),
        outcome=BOARD,
    ),
)
TURN = Turn(
    episode="trust/m/none/r0/x000",
    game="trust",
    phase=Phase.EXPLORATION,
    rules="Collaborate or cheat.",
    instruction="You play a game of trust.",
    observation=BOARD,
    trail=TRAIL,
    recollection=Recollection(text="Retain: copy the opponent."),
    index=1,
    max_steps=10,
    seed=17,
    max_tokens=99,
)


class Bendable(ScriptedChat):
    """A scripted chat that can be held to a schema."""

    def with_schema(self, schema: object) -> ChatModel:
        return self


async def test_a_turn_is_sent_in_its_layout_with_its_limit_and_seed() -> None:
    for layout in ("paper", "cached"):
        chat = ScriptedChat(["Answer: cheat, Score: 3"])
        decision = await ModelAgent(chat, layout=layout).act(TURN)
        [request] = chat.requests
        assert list(request.messages) == TURN.messages(layout)
        assert (request.max_tokens, request.seed) == (99, 17)
        assert decision == Decision(
            action="cheat",
            self_score=3.0,
            raw="Answer: cheat, Score: 3",
            usage=Usage(calls=1),
        )


@pytest.mark.parametrize(
    ("reply", "status", "action", "score"),
    [
        (Reply(text="Why not?\nAnswer: cheat, Score: 3"), "ok", "cheat", 3.0),
        (Reply(text="**Answer: cheat, Score: 3**"), "repaired", "cheat", 3.0),
        (Reply(text="Answer: cheat"), "no_score", "cheat", None),
        (Reply(text="Answer: cheat, Score: 80%"), "no_score", "cheat", None),
        (Reply(text="I cheat."), "no_action", "", None),
        (Reply(text=""), "no_action", "", None),
        (Reply(text="Answer: END, Score: 0"), "end", "END", 0.0),
        (Reply(text="Answer: cheat, Score: 3", finish="length"), "truncated", "", None),
        (Reply(text="", finish="length"), "truncated", "", None),
        (Reply(text="I will not.", finish="refusal"), "refused", "", None),
        (Reply(text="Answer: cheat, Score: 3", finish="other"), "ok", "cheat", 3.0),
    ],
)
async def test_each_way_to_answer_has_its_status(
    reply: Reply, status: str, action: str, score: float | None
) -> None:
    usage = Usage(calls=1, input_tokens=5, output_tokens=2)
    chat = ScriptedChat([replace(reply, usage=usage)])
    decision = await ModelAgent(chat).act(TURN)
    assert (decision.status, decision.action, decision.self_score) == (status, action, score)
    assert decision.raw == reply.text
    assert decision.usage == usage
    assert len(chat.requests) == 1


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("", "it was empty."),
        ("I cheat.", "no line of it begins with 'Answer:'."),
        ("So\nAnswer: cheat", "its answer line holds no 'Score:': 'Answer: cheat'."),
        (
            "Answer: cheat, Score: 80%",
            "what follows 'Score:' is not a plain number: '80%'.",
        ),
    ],
)
async def test_asking_again_names_the_fault_exactly(reply: str, fault: str) -> None:
    chat = ScriptedChat([reply, "Answer: cheat, Score: 3"])
    decision = await ModelAgent(chat, reask=1).act(TURN)
    first, second = chat.requests
    assert second.messages[: len(first.messages)] == first.messages
    shown = [Message("assistant", reply)] if reply else []
    *rest, question = second.messages[len(first.messages) :]
    assert rest == shown
    assert question.content.startswith(f"Your last reply cannot be used: {fault}")
    assert (decision.status, decision.action) == ("repaired", "cheat")
    assert decision.repairs[-1] == f"asked again: {fault.removesuffix('.')}"
    assert decision.usage.calls == 2


async def test_nothing_is_asked_again_unless_something_is_missing() -> None:
    for reply in (
        Reply(text="x", finish="length"),
        Reply(text="no", finish="refusal"),
        Reply(text="**Answer: cheat, Score: 3**"),
        Reply(text="Answer: END, Score: 0"),
    ):
        chat = ScriptedChat([reply])
        await ModelAgent(chat, reask=3).act(TURN)
        assert len(chat.requests) == 1


async def test_a_worse_second_reply_does_not_replace_the_first() -> None:
    chat = ScriptedChat(["Answer: cheat", "sorry"])
    decision = await ModelAgent(chat, reask=1).act(TURN)
    assert (decision.action, decision.status, decision.raw) == (
        "cheat",
        "no_score",
        "Answer: cheat",
    )
    assert decision.usage.calls == 2


async def test_asking_again_stops_at_its_limit() -> None:
    chat = ScriptedChat(["a", "b", "c", "d"])
    decision = await ModelAgent(chat, reask=2).act(TURN)
    assert len(chat.requests) == 3
    assert decision.status == "no_action"


async def test_calls_tell_the_broker_their_purpose_and_layout() -> None:
    seen: list[tuple[str, str]] = []

    class Broker:
        async def complete(self, chat: ChatModel, messages: object, **about: object) -> Reply:
            seen.append((str(about["purpose"]), str(about["layout"])))
            return Reply(text="hm")

    with calls.brokered(Broker()):
        await ModelAgent(ScriptedChat([]), layout="cached", reask=1).act(TURN)
        await ModelAgent(Bendable([]), JsonContract()).act(TURN)
    assert seen == [("act", "cached"), ("reask", "custom"), ("act", "custom")]


async def test_a_failed_call_passes_through() -> None:
    agent: Agent = ModelAgent(ScriptedChat([ModelError("down", retryable=True)]))
    with pytest.raises(ModelError, match="down"):
        await agent.act(TURN)


@pytest.mark.parametrize(
    ("reply", "status", "action", "score"),
    [
        ('{"action": "cheat", "self_score": 3}', "ok", "cheat", 3.0),
        ('{"action": " cheat ", "self_score": -0.5}', "ok", "cheat", -0.5),
        ('```json\n{"action": "cheat", "self_score": 3}\n```', "repaired", "cheat", 3.0),
        ('{"action": "cheat", "self_score": 3, "why": 1}', "repaired", "cheat", 3.0),
        ('{"action": "cheat"}', "no_score", "cheat", None),
        ('{"action": "cheat", "self_score": "3"}', "no_score", "cheat", None),
        ('{"action": "cheat", "self_score": NaN}', "no_score", "cheat", None),
        ('{"action": "cheat", "self_score": 1e308}', "no_score", "cheat", None),
        ('{"action": 3, "self_score": 3}', "no_action", "", None),
        ("[1]", "no_action", "", None),
        ("cheat", "no_action", "", None),
        ("", "no_action", "", None),
        ('{"action": "end", "self_score": 0}', "end", "end", 0.0),
        ('{"action": "", "self_score": 0}', "ok", "", 0.0),
    ],
)
async def test_a_json_reply_has_the_same_statuses(
    reply: str, status: str, action: str, score: float | None
) -> None:
    chat = Bendable([reply])
    decision = await ModelAgent(chat, JsonContract()).act(TURN)
    assert (decision.status, decision.action, decision.self_score) == (status, action, score)


async def test_the_json_contract_is_taught_instead_of_the_answer_line() -> None:
    for layout in ("paper", "cached"):
        chat = Bendable(['{"action": "cheat", "self_score": 3}'])
        await ModelAgent(chat, JsonContract(), layout=layout).act(TURN)
        text = chat.requests[0].text
        assert JsonContract.instruction in text
        assert prompts.RESPONSE_CONTRACT not in text


async def test_a_json_reply_without_a_score_is_asked_for_again() -> None:
    chat = Bendable(['{"action": "cheat"}', '{"action": "cheat", "self_score": 3}'])
    decision = await ModelAgent(chat, JsonContract(), reask=1).act(TURN)
    assert "'self_score' of its JSON object is missing" in chat.requests[1].text
    assert decision.self_score == 3.0


@given(text=st.text())
@settings(deadline=None, max_examples=200)
def test_no_reply_at_all_breaks_a_contract(text: str) -> None:
    for contract in (AnswerScore(), JsonContract()):
        for reply in (text, f"Answer: {text}", f'{{"action": "{text}", "self_score": {text}}}'):
            decision = contract.read(reply)
            assert decision.raw == reply
            assert decision.self_score is None or math.isfinite(decision.self_score)
            missing = decision.status in ("no_action", "no_score")
            assert bool(contract.fault(decision)) == missing


def test_a_model_without_structured_output_is_refused_for_json() -> None:
    with pytest.raises(ConfigError, match=r"'scripted' has none; use the contract 'line'"):
        ModelAgent(ScriptedChat([]), JsonContract())


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="'paper' or 'cached', got 'papyrus'"):
        ModelAgent(ScriptedChat([]), layout="papyrus")  # type: ignore[arg-type] # on purpose
    with pytest.raises(ConfigError, match="reask of at least 0, got -1"):
        ModelAgent(ScriptedChat([]), reask=-1)


def test_the_agent_is_stateless_and_named_after_its_model() -> None:
    agent = ModelAgent(ScriptedChat([], name="m"))
    assert agent.stateless
    assert agent.name == "m"
