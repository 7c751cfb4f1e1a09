"""Training examples: what each policy keeps, in which words, and why the rest is left out."""

import json
from dataclasses import replace
from typing import Any, get_args

import pytest
from chat_format import faults
from explored import explored, several
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.answers import AnswerScore, JsonContract
from s3gym.agents.train_command import chat_line
from s3gym.agents.train_openai import data_file
from s3gym.errors import ConfigError
from s3gym.records import STATUSES, Decision, Message, Status, Turn
from s3gym.replies import parse_reply
from s3gym.sft import Dataset, Explored, SFTPolicy, build_sft
from s3gym.sft.policy import Answered


def kept(data: Dataset) -> list[tuple[str, int]]:
    return [(example.episode[-4:], example.step) for example in data.examples]


def actions(data: Dataset) -> list[str]:
    return [parse_reply(example.answer).action for example in data.examples]


# Which steps


def test_keep_takes_self_scores_at_or_above_the_threshold() -> None:
    data = build_sft([explored(("a", 1.0), ("b", 2.0), ("c", 3.0))], SFTPolicy(min_score=2))
    assert actions(data) == ["b", "c"]
    assert data.reasons == {"self-score below the threshold": 1}
    assert data.thresholds == {"trust": 2.0}


def test_without_a_threshold_a_self_score_must_be_positive() -> None:
    data = build_sft([explored(("a", 0.0), ("b", 0.1), ("c", -1.0))], SFTPolicy())
    assert actions(data) == ["b"]


def test_a_threshold_of_zero_is_a_threshold() -> None:
    data = build_sft([explored(("a", 0.0), ("b", -0.1))], SFTPolicy(min_score=0))
    assert actions(data) == ["a"]


def test_a_quantile_is_taken_per_game() -> None:
    both = [*several([[1, 2, 3, 4]]), *several([[10, 20, 30, 40]], "snake")]
    data = build_sft(both, SFTPolicy(quantile=0.75))
    assert data.thresholds == {"snake": 40.0, "trust": 4.0}
    assert actions(data) == ["a13", "a13"]


def test_a_quantile_counts_exactly_where_binary_fractions_do_not() -> None:
    scores = several([[float(value) for value in range(100)]])
    assert build_sft(scores, SFTPolicy(quantile=0.29)).thresholds == {"trust": 29.0}


def test_the_lowest_quantile_keeps_everything() -> None:
    assert len(build_sft(several([[3, 1, 2]]), SFTPolicy(quantile=0)).examples) == 3


END = Decision(action="END", self_score=0.0, status="end", raw="Answer: END, Score: 0")


def test_an_end_judges_no_action_so_drop_alone_keeps_it() -> None:
    episode = [explored(("a", 5.0), ("b", -5.0), END)]
    keep = build_sft(episode, SFTPolicy(min_score=0))
    drop = build_sft(episode, SFTPolicy(policy="drop", min_score=0))
    assert actions(keep) == ["a"]
    assert keep.reasons["an END judges no action"] == 1
    assert actions(drop) == ["a", "END"]


def test_an_end_without_a_score_is_taught_as_the_contract_writes_it() -> None:
    bare = replace(END, self_score=None, raw="Answer: END")
    (example,) = build_sft([explored(bare)], SFTPolicy(policy="drop")).examples
    assert example.answer == "Answer: END, Score: 0"


def test_an_end_counts_towards_no_quantile() -> None:
    data = build_sft([explored(("a", 5.0), ("b", 6.0), END)], SFTPolicy(quantile=0))
    assert data.thresholds == {"trust": 5.0}


@pytest.mark.parametrize("status", sorted(set(STATUSES) - set(get_args(Answered))))
@pytest.mark.parametrize("policy", ["keep", "drop"])
def test_a_step_without_an_answer_is_never_an_example(status: Status, policy: Any) -> None:
    broken = Decision(action="a", self_score=9.0, status=status, raw="Answer: a, Score: 9")
    data = build_sft([explored(broken)], SFTPolicy(policy=policy, min_score=-100))
    assert not data.examples
    assert data.reasons == {f"status {status}": 1}
    with pytest.raises(ValidationError):
        SFTPolicy(**{"statuses": [status]})


def test_statuses_can_be_narrowed_to_replies_that_kept_the_contract() -> None:
    repaired = Decision(action="b", self_score=2.0, status="repaired", raw="answer: b score 2")
    data = build_sft([explored(("a", 1.0), repaired)], SFTPolicy(statuses=("ok",)))
    assert actions(data) == ["a"]
    assert data.reasons == {"status repaired": 1}


def test_a_missing_self_score_is_never_read_as_zero() -> None:
    data = build_sft([explored(("a", None))], SFTPolicy(min_score=-100))
    assert not data.examples
    assert data.reasons == {"no self-score": 1}


# In which words


def test_an_example_is_the_prompt_without_memory_and_the_raw_reply() -> None:
    item = explored(("a", 1.0), ("b", 2.0))
    first, second = build_sft([item], SFTPolicy()).examples
    assert list(second.messages) == item.turn(item.episode.steps[1]).messages()
    assert second.messages[1].content.endswith("LLM: Answer: a, Score: 1")
    assert "Did 1." in second.messages[-1].content
    assert second.answer == "I think, so I act.\nAnswer: b, Score: 2"
    assert (first.episode, first.step, first.origin) == ("trust/a/none/r0/x001", 0, "kept")


def test_a_repaired_reply_is_taught_clean() -> None:
    raw = "**Answer:** `b`, score: about 2\nDone!"
    decision = parse_reply(raw)
    assert decision.status == "repaired"
    (example,) = build_sft([explored(decision)], SFTPolicy()).examples
    assert example.answer == "Answer: b, Score: 2"


def test_an_agent_without_a_model_is_taught_clean() -> None:
    (example,) = build_sft([explored(Decision(action="b", self_score=2.5))], SFTPolicy()).examples
    assert example.answer == "Answer: b, Score: 2.5"


def test_a_raw_reply_that_says_something_else_is_not_taught() -> None:
    odd = Decision(action="b", self_score=2.0, raw="Answer: a, Score: 2")
    (example,) = build_sft([explored(odd)], SFTPolicy()).examples
    assert example.answer == "Answer: b, Score: 2"


def test_an_empty_action_that_the_game_allows_can_be_taught() -> None:
    (example,) = build_sft([explored(Decision(action="", self_score=1.0))], SFTPolicy()).examples
    assert parse_reply(example.answer) == Decision(
        action="", self_score=1.0, raw="Answer: , Score: 1"
    )


@pytest.mark.parametrize("action", ["two\nlines", "{a}", "a`"])
def test_an_action_that_the_contract_cannot_hold_is_left_out(action: str) -> None:
    data = build_sft([explored(Decision(action=action, self_score=1.0))], SFTPolicy())
    assert not data.examples
    assert data.reasons == {"the response contract cannot hold its action": 1}


def test_the_agents_own_contract_and_prompt_are_used() -> None:
    contract = JsonContract()
    raw = '{"action": "a", "self_score": 1.0}'

    def prompt(turn: Turn) -> list[Message]:
        return contract.teach(turn.messages("cached"))

    said = [contract.read(raw), contract.read(f"Sure! {raw}")]
    first, second = build_sft([explored(*said)], SFTPolicy(), prompt=prompt, form=contract).examples
    assert first.answer == raw
    assert second.answer == raw
    assert contract.instruction in first.messages[0].content
    assert [m.role for m in second.messages] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("contract", [AnswerScore(), JsonContract()])
def test_what_a_contract_writes_it_reads(contract: Any) -> None:
    decision = contract.read(contract.write(Decision(action="a (1,2), b", self_score=-0.25)))
    assert (decision.action, decision.self_score) == ("a (1,2), b", -0.25)
    assert decision.status == "ok"


def test_no_trainer_is_given_earlier_answers_to_learn() -> None:
    def cached(turn: Turn) -> list[Message]:
        return turn.messages("cached")

    data = build_sft([explored(("a", -1.0), ("b", 2.0))], SFTPolicy(), prompt=cached)
    assert not faults(data_file(data.examples))
    files = [data_file(data.examples).decode(), json.dumps(chat_line(data.examples[0]))]
    for messages in (json.loads(text)["messages"] for text in files):
        answers = [one for one in messages if one["role"] == "assistant"]
        assert [one.get("weight", 1) for one in answers] == [0, 1]


# Labels of an oracle arm


def test_labels_choose_and_are_taught_but_the_prompt_stays() -> None:
    item = explored(("a", 9.0), ("b", -9.0), ("c", None), labels=(-1.0, 3.0, 2.0))
    data = build_sft([item], SFTPolicy(min_score=0))
    assert [example.answer for example in data.examples] == [
        "Answer: b, Score: 3",
        "Answer: c, Score: 2",
    ]
    assert "Answer: a, Score: 9" in data.examples[0].messages[1].content
    assert [source.self_score for source in data.sources] == [3.0, 2.0]


# Thinning and weights


def test_equal_examples_are_kept_once() -> None:
    twice = [explored(("a", 1.0)), explored(("a", 1.0), ordinal=2)]
    data = build_sft(twice, SFTPolicy())
    assert kept(data) == [("x001", 0)]
    assert data.reasons == {"the same as an earlier example": 1}
    assert len(build_sft(twice, SFTPolicy(dedupe=False)).examples) == 2


def test_another_answer_to_the_same_prompt_is_no_duplicate() -> None:
    two = [explored(("a", 1.0)), explored(("a", 2.0), ordinal=2)]
    assert len(build_sft(two, SFTPolicy()).examples) == 2


def test_no_episode_gives_more_than_the_median_episode() -> None:
    data = build_sft(several([[1], [1, 5, 2, 4, 3], [1, 2]]), SFTPolicy(balance=True))
    assert kept(data) == [("x001", 0), ("x002", 1), ("x002", 3), ("x003", 0), ("x003", 1)]
    assert data.reasons == {"more than its episode's share": 3}


def test_a_cap_keeps_the_best_and_games_take_turns() -> None:
    both = [*several([[1, 2, 3]]), *several([[10, 30, 20]], "snake")]
    data = build_sft(both, SFTPolicy(cap=3))
    assert actions(data) == ["a12", "a11", "a12"]
    assert [source.game for source in data.sources] == ["trust", "snake", "snake"]
    assert data.reasons == {"beyond the cap": 3}


def test_weights_rise_with_the_score_and_have_a_mean_of_one() -> None:
    policy = SFTPolicy(weights="score")
    weights = [e.weight for e in build_sft(several([[1, 2, 3]]), policy).examples]
    assert weights == sorted(weights)
    assert weights[0] > 0
    assert sum(weights) / 3 == pytest.approx(1)
    assert [e.weight for e in build_sft(several([[2, 2]]), policy).examples] == [1.0, 1.0]


# The whole


RARE = SFTPolicy(min_score=0.0, balance=True, cap=4, weights="score")
SCORES = st.lists(
    st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=5), max_size=5
)


@settings(deadline=None, max_examples=60)
@given(scores=SCORES, policy=st.sampled_from([SFTPolicy(), SFTPolicy(quantile=0.5), RARE]))
def test_every_step_is_an_example_or_has_a_reason(
    scores: list[list[float]], policy: SFTPolicy
) -> None:
    episodes = several(scores)
    data = build_sft(episodes, policy)
    steps = [(choice.episode, choice.step) for choice in (*data.sources, *data.dropped)]
    assert sorted(steps) == sorted(
        (item.episode.id, step.index) for item in episodes for step in item.episode.steps
    )
    assert all(choice.reason and not choice.origin for choice in data.dropped)
    assert [(e.episode, e.step) for e in data.examples] == [
        (choice.episode, choice.step) for choice in data.sources
    ]
    assert kept(data) == sorted(kept(data))
    assert all(example.weight > 0 for example in data.examples)
    for example in data.examples:
        assert parse_reply(example.answer).status == "ok"
    again = build_sft(several(scores), policy)
    assert (again, again.hash) == (data, data.hash)


def test_the_hash_covers_every_part_of_an_example() -> None:
    data = build_sft(several([[1, 2]]), SFTPolicy())
    first, *rest = data.examples
    changes: list[dict[str, Any]] = [
        {"messages": (*first.messages, Message("user", "x"))},
        {"answer": "Answer: z, Score: 1"},
        {"weight": 2.0},
        {"episode": "e"},
        {"step": 7},
        {"origin": "drawn"},
    ]
    hashes = {
        replace(data, examples=(replace(first, **change), *rest)).hash for change in changes
    } | {data.hash, replace(data, examples=(*rest, first)).hash, Dataset().hash}
    assert len(hashes) == len(changes) + 3


def test_nothing_explored_gives_no_example() -> None:
    assert build_sft([], SFTPolicy(quantile=0.9)) == Dataset()
    assert Dataset().reasons == {}


def test_an_instruction_and_rules_are_those_of_the_episode() -> None:
    item: Explored = explored(("a", 1.0))
    turn = item.turn(item.episode.steps[0])
    assert (turn.instruction, turn.rules, turn.max_steps) == ("You play.", "Rules of trust.", 10)
    assert not turn.recollection.text


# Bad input


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"min_score": 0, "quantile": 0.5}, "one threshold is expected, got min_score and quant"),
        ({"positive": True, "quantile": 0.5}, "got quantile and positive"),
        ({"positive": False}, "names no threshold"),
        ({"quantile": 1.0}, "less than 1"),
        ({"min_score": float("nan")}, "finite"),
        ({"cap": 0}, "greater than or equal to 1"),
        ({"best_of": 1}, "greater than or equal to 2"),
        ({"policy": "all"}, "'keep', 'drop', 'correct' or 'rejection'"),
        ({"statuses": ()}, "at least 1 item"),
        ({"reward": 1}, "not permitted"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        SFTPolicy(**given)


def test_a_policy_survives_being_written_and_read() -> None:
    for policy in (SFTPolicy(), SFTPolicy(min_score=0), SFTPolicy(quantile=0.5, cap=3)):
        assert SFTPolicy(**policy.model_dump(mode="json")) == policy


@pytest.mark.parametrize("policy", ["correct", "rejection"])
def test_a_policy_that_asks_a_model_needs_one(policy: Any) -> None:
    with pytest.raises(ConfigError, match="asks a model for answers"):
        build_sft([], SFTPolicy(policy=policy))
