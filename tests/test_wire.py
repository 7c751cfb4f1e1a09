"""Records cross the pipe unchanged, and nothing that is no record comes in."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.contracts.chat import Reply
from s3gym.contracts.memory import MemorySnapshot
from s3gym.records import (
    STATUSES,
    Cue,
    Decision,
    Episode,
    Message,
    Observation,
    Phase,
    Recollection,
    Step,
    Turn,
    Usage,
)
from s3gym.sealed.turns import Shelf, TurnReader, TurnWriter
from s3gym.wire import WireError, decode, encode, from_line, to_line

texts = st.text(max_size=12)
counts = st.integers(0, 10**9)
finite = st.floats(allow_nan=False, allow_infinity=False)
observations = st.builds(Observation, text=texts, feedback=texts, done=st.booleans())
decisions = st.builds(
    Decision,
    action=texts,
    self_score=st.none() | finite,
    note=texts,
    status=st.sampled_from(STATUSES),
    raw=texts,
    usage=st.builds(Usage, calls=counts, output_tokens=counts),
    repairs=st.lists(texts, max_size=2).map(tuple),
)
steps = st.builds(
    Step, index=counts, observation=observations, decision=decisions, outcome=observations
)
trails = st.lists(steps, max_size=3).map(tuple)
recollections = st.builds(
    Recollection,
    text=texts,
    tokens=counts,
    sources=st.lists(texts, max_size=2).map(tuple),
    dropped=counts,
    steps=trails,
)
turns = st.builds(
    Turn,
    episode=texts,
    game=texts,
    phase=st.sampled_from(Phase),
    rules=texts,
    instruction=texts,
    observation=observations,
    trail=trails,
    recollection=recollections,
    max_steps=counts,
    seed=st.integers(0, 2**63 - 1),
)
records = st.one_of(
    turns,
    decisions,
    recollections,
    st.builds(Episode, id=texts, game=texts, ordinal=counts, rules=texts, steps=trails),
    st.builds(
        Cue, game=texts, rules=texts, observation=observations, trail=trails, max_tokens=counts
    ),
    st.builds(Message, role=st.sampled_from(("system", "user")), content=texts),
    st.builds(Reply, text=texts, finish=st.sampled_from(("stop", "length")), model=texts),
    st.builds(
        MemorySnapshot,
        text=texts,
        sources=st.lists(texts, max_size=2).map(tuple),
        state=st.dictionaries(texts, st.none() | st.integers() | texts, max_size=2),
    ),
)


@settings(deadline=None, max_examples=80)
@given(records)
def test_a_record_comes_back_equal_over_a_line(record: Any) -> None:
    line = to_line(encode(record))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    back = decode(type(record), from_line(line[:-1]))
    assert back == record
    assert repr(back) == repr(record)


def test_of_lone_surrogates_a_question_mark_crosses_the_pipe() -> None:
    decision = Decision(action="\ud800 \U0001f642 \udfff", self_score=-0.0)
    back = decode(Decision, from_line(to_line(encode(decision))))
    assert back.action == "? \U0001f642 ?"
    assert repr(back.self_score) == "-0.0"
    assert from_line(b'{"\\uD800": ["\\\\ud800"]}') == {"?": ["\\ud800"]}


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63 - 1)])
def test_an_integer_crosses_as_far_as_a_store_keeps_it(number: int) -> None:
    assert from_line(to_line({"a": number})) == {"a": number}
    with pytest.raises(WireError):
        from_line(to_line({"a": number * 2}))


GOOD = encode(Decision(action="cheat", self_score=1.0))


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        GOOD | {"reward": 1.0},
        GOOD | {"action": 7},
        GOOD | {"self_score": "1"},
        GOOD | {"self_score": True},
        GOOD | {"self_score": 10**400},
        GOOD | {"status": "won"},
        GOOD | {"status": ["ok"]},
        GOOD | {"repairs": "abc"},
        GOOD | {"repairs": [1]},
        GOOD | {"usage": {"calls": 10**30}},
        GOOD | {"usage": {"calls": 1.5}},
        GOOD | {"usage": []},
    ],
)
def test_what_is_no_decision_is_refused(data: Any) -> None:
    with pytest.raises(WireError):
        decode(Decision, data)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"7",
        b"[1]",
        b"{",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff",
        b"[" * 100_000,
        b"1" * 5_000,
    ],
)
def test_a_line_that_is_no_object_is_refused(line: bytes) -> None:
    with pytest.raises(WireError):
        from_line(line)


@pytest.mark.parametrize("value", [math.nan, math.inf, object()])
def test_what_json_cannot_say_is_never_sent(value: object) -> None:
    with pytest.raises(WireError):
        to_line({"value": value})


@settings(deadline=None, max_examples=30)
@given(turns, st.lists(steps, max_size=5), recollections, st.integers(0, 5))
def test_turns_that_share_a_trail_come_back_whole(
    first: Turn, played: list[Step], other: Recollection, change: int
) -> None:
    writer, reader = TurnWriter(Shelf()), TurnReader(Shelf())
    turn = first
    for index, step in enumerate([None, *played]):
        if step is not None:
            turn = replace(turn, trail=(*turn.trail, step))
        if index == change:
            turn = replace(turn, recollection=other)
        assert reader.decode(json.loads(json.dumps(writer.encode(turn)))) == turn
    restarted = replace(turn, trail=turn.trail[:1])
    assert reader.decode(writer.encode(restarted)) == restarted
    assert reader.decode(writer.encode(first)) == first


def test_a_turn_sends_what_is_new_alone() -> None:
    step = Step(
        index=0,
        observation=Observation(text="a"),
        decision=Decision(action="b"),
        outcome=Observation(text="c"),
    )
    turn = Turn(
        episode="e",
        game="g",
        phase=Phase.EXPLORATION,
        rules="",
        instruction="",
        observation=Observation(text=""),
        trail=(step,) * 500,
        recollection=Recollection(text="long " * 1_000),
        max_steps=9,
    )
    writer = TurnWriter(Shelf())
    whole = len(to_line(writer.encode(turn)))
    later = len(to_line(writer.encode(replace(turn, trail=(*turn.trail, step)))))
    assert whole > 20_000
    assert later < 400


@settings(deadline=None, max_examples=60)
@given(st.lists(trails, max_size=3), st.data())
def test_recorded_steps_are_named_and_come_back_equal(
    recorded: list[tuple[Step, ...]], data: st.DataObject
) -> None:
    here, there = Shelf(), Shelf()
    shelved: list[Step] = []
    for ordinal, trail in enumerate(recorded):
        copies = tuple(map(replace, trail))
        shelved += copies
        episode = Episode(id="e", game="g", ordinal=ordinal, rules="", steps=copies)
        here.add(episode)
        there.add(decode(Episode, encode(episode)))
    pool = st.sampled_from(shelved) | steps if shelved else steps
    shown = data.draw(st.lists(pool, max_size=6))
    for chosen in (tuple(shown), tuple(shelved)):
        recollection = Recollection(text="t", steps=chosen)
        sent = here.encode(recollection)
        assert there.decode(json.loads(json.dumps(sent))) == recollection
    assert sent["steps"] == ([[0, len(shelved) - 1]] if shelved else [])


@pytest.mark.parametrize(
    "steps", [None, 1, [7], [[0]], [[0, 0]], [[-1, -1]], [["0", "0"]], [{}], [[0.5, 0.5]]]
)
def test_a_recollection_of_what_is_not_there_is_refused(steps: Any) -> None:
    with pytest.raises(WireError):
        Shelf().decode({"steps": steps, "rest": {}})
