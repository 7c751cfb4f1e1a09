"""The response contract, row by row of games.md 0.4 and beyond."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.prompts import answer_line
from s3gym.records import STATUSES, Decision
from s3gym.replies import is_end, parse_reply


@pytest.mark.parametrize(
    ("reply", "action", "score", "status"),
    [
        ("Answer: UP, Score: 1", "UP", 1, "ok"),  # A1
        ("Answer: X 1 0; W 2 0, Score: 1", "X 1 0; W 2 0", 1, "ok"),  # A2
        ("Answer: , Score: 1", "", 1, "ok"),  # A3
        ("Answer: A:(1,2), b:(3,4), Score: 0.5", "A:(1,2), b:(3,4)", 0.5, "ok"),  # A4
        ("**Answer: END, Score: 0**", "END", 0, "end"),  # A6
        ("Answer: uncover (3,4)", "uncover (3,4)", None, "no_score"),  # A7
        ("I would go up", "", None, "no_action"),  # A9
        ("Answer: LEFT, Score: high", "LEFT", None, "no_score"),  # A11
        ("Answer: LEFT \n\n I like this answer", "LEFT", None, "no_score"),  # D1
        ("Answer: \n\n (No action taken.)", "", None, "no_score"),  # D2
        ("Answer: {2 4}, Score: 1", "2 4", 1, "repaired"),  # D3
        ("Answer: {2 4, Score: 1", "{2 4", 1, "ok"),  # D3: both or neither
        ("Reasoning first.\nAnswer: UP, Score: -1.5", "UP", -1.5, "ok"),
        ("Answer: UP, Score: 1e-3", "UP", 0.001, "ok"),
        ("Answer: UP, Score: 1\n\n", "UP", 1, "ok"),
        ("Answer: UP, Score: 1\nGood luck!", "UP", 1, "repaired"),
        ("Answer: DOWN, Score: 2\nAnswer: UP, Score: 1", "UP", 1, "ok"),
        ("answer: up score: 1", "up", 1, "repaired"),
        ("ANSWER : UP , SCORE : 1", "UP", 1, "repaired"),
        ("Answer: `UP`, Score: **1**", "UP", 1, "repaired"),
        ("Answer: UP, Score: about 1", "UP", 1, "repaired"),
        ("Answer: UP, Score: 1%", "UP", None, "no_score"),
        ("Answer: UP, Score: 1/16", "UP", None, "no_score"),
        ("Answer: UP, Score: 1,000", "UP", None, "no_score"),
        ("Answer: UP, Score: 1_0", "UP", None, "no_score"),
        ("Answer: UP, Score: 0x10", "UP", None, "no_score"),
        ("Answer: UP, Score: nan", "UP", None, "no_score"),
        ("Answer: UP, Score: inf", "UP", None, "no_score"),
        ("Answer: UP, Score: 1e999", "UP", None, "no_score"),
        ("Answer: UP, Score: 1e308", "UP", None, "no_score"),
        ("Answer: UP, Score: -1e15", "UP", -1e15, "ok"),
        ("Answer: UP, Score: \u0661", "UP", None, "no_score"),  # Arabic digit
        ("Answer: UP, Score: \u22121", "UP", None, "no_score"),  # a minus that is no hyphen
        ("Answer: UP, Score: -0", "UP", 0.0, "ok"),
        ("Answer: end, Score: 0", "end", 0, "end"),
        ("Answer: END", "END", None, "end"),
        ("Answer: UP, Score: 1\r\n", "UP", 1, "ok"),
        ("", "", None, "no_action"),
        ("The answer is UP, Score: 1", "", None, "no_action"),
        ("reanswer: UP, Score: 1", "", None, "no_action"),
    ],
)
def test_a_reply_is_read_by_the_one_grammar(
    reply: str, action: str, score: float | None, status: str
) -> None:
    decision = parse_reply(reply)
    assert (decision.action, decision.self_score, decision.status) == (action, score, status)
    assert decision.raw == reply
    assert bool(decision.repairs) >= (status == "repaired")


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=200))
def test_any_text_gives_a_decision(reply: str) -> None:
    decision = parse_reply(reply)
    assert decision.status in STATUSES
    assert decision.self_score is None or math.isfinite(decision.self_score)
    assert "\n" not in decision.action


@settings(deadline=None, max_examples=300)
@given(
    st.text("abcXYZ 0123456789():;+-", max_size=30).map(str.strip),
    st.floats(-(2.0**40), 2.0**40, width=32),
)
def test_what_the_contract_writes_is_read_back(action: str, score: float) -> None:
    line = answer_line(Decision(action=action, self_score=score))
    decision = parse_reply(f"Because.\n{line}")
    assert decision.action == action
    assert decision.self_score == float(f"{score:.9g}") + 0.0
    assert decision.status == ("end" if is_end(action) else "ok")


@pytest.mark.parametrize(
    "reply",
    [
        "answer " * 500_000,
        "answer:" + " " * 5_000_000,
        "score:" * 500_000,
        "Answer: " + "(" * 5_000_000 + ", Score: 1",
        "Answer: UP, Score: " + "1" * 400,
        "Answer: UP, Score: " + "9" * 1_000_000,
        "\n" * 5_000_000,
    ],
    ids=len,
)
def test_a_huge_reply_is_read_in_bounded_time(reply: str) -> None:
    began = time.process_time()
    parse_reply(reply)
    assert time.process_time() - began < 20
