"""The summary and insights memories: what they keep, and what failing models do to them."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ConfigError, ModelError, ResponseFormatError
from s3gym.memory._operations import Book, Operation, apply_operations, read_operations
from s3gym.memory._tips import MAX_TIPS, Tips, read_tips
from s3gym.memory.insights import InsightsMemory
from s3gym.memory.summary import SummaryMemory
from s3gym.testing.episodes import make_cue, make_episode
from s3gym.testing.fakes import Request, ScriptedChat
from s3gym.tokens import token_counter

GOOD = json.dumps({"retain": ["keep left"], "avoid": ["walls"], "next": ["try right"]})


async def summarised(
    chat: ScriptedChat | None, n: int = 1, mode: Literal["history", "rolling"] = "history"
) -> SummaryMemory:
    memory = SummaryMemory(chat, mode)
    for ordinal in range(1, n + 1):
        await memory.record(make_episode(ordinal))
        await memory.consolidate("the rules", 10_000)
    return memory


async def test_a_model_writes_the_tips_and_the_version_says_where_they_come_from() -> None:
    chat = ScriptedChat([GOOD])
    memory = await summarised(chat)
    recollection = await memory.recall(make_cue())
    assert recollection.text == ("Retain:\n- keep left\nAvoid:\n- walls\nNext:\n- try right")
    assert recollection.tokens == token_counter().count(recollection.text)
    assert recollection.sources == ("toy/agent/memory/r0/x001",)
    version = memory.versions[0]
    assert version.before.startswith("Episode 1\nEnv: ")
    assert version.before in chat.requests[0].text
    assert "the rules" in chat.requests[0].text
    assert version.author == "scripted"


async def test_history_mode_shows_all_episodes_and_rolling_the_tips_and_the_new_one() -> None:
    chat = ScriptedChat([GOOD, GOOD])
    await summarised(chat, 2)
    assert "Episode 1\n" in chat.requests[1].text
    rolling = ScriptedChat([GOOD, GOOD])
    memory = await summarised(rolling, 2, "rolling")
    assert "Episode 1\n" not in rolling.requests[1].text
    assert "Episode 2\n" in rolling.requests[1].text
    assert "- keep left" in rolling.requests[1].text
    assert len(memory.versions[1].sources) == 2


BAD: list[Any] = [
    "",
    "   \n",
    "I think you should play better.",
    "{}",
    '{"retain": [3]}',
    '{"retain": {"a": 1}}',
    '{"surprise": ["x"]}',
    '{"retain": []}',
    "[" * 100_000,
    "{" * 100_000 + "}",
    "x" * 1_000_000,
    ModelError("down", retryable=True),
    TimeoutError(),
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
@pytest.mark.parametrize("mode", ["history", "rolling"])
async def test_a_failed_summary_keeps_the_version_before_it_and_is_recorded(
    bad: Any, mode: Literal["history", "rolling"]
) -> None:
    chat = ScriptedChat([GOOD, bad, GOOD])
    memory = await summarised(chat, 2, mode)
    assert (await memory.recall(make_cue())).text.startswith("Retain:\n- keep left")
    assert [failure.episode for failure in memory.failures] == ["toy/agent/memory/r0/x002"]
    assert memory.failures[0].reason
    assert len(memory.failures[0].reason) < 500
    await memory.record(make_episode(3))
    await memory.consolidate("the rules", 10_000)
    assert "Episode 2\n" in chat.requests[2].text, "the failed episode is not lost"
    assert memory.versions[-1].number == 2
    assert len(memory.versions[-1].sources) == 3


async def test_a_used_up_budget_stops_the_run_instead_of_being_swallowed() -> None:
    chat = ScriptedChat([BudgetExhaustedError("no money")])
    with pytest.raises(BudgetExhaustedError):
        await summarised(chat)


async def test_a_budget_of_nothing_asks_nothing() -> None:
    chat = ScriptedChat([])
    memory = SummaryMemory(chat)
    await memory.record(make_episode())
    await memory.consolidate("rules", 0)
    assert chat.requests == []
    assert "nothing asked" in memory.failures[0].reason


def test_one_megabyte_of_tips_is_bounded_and_the_cut_is_named() -> None:
    reply = json.dumps({"retain": ["long " * 200] * 50})
    tips, repairs = read_tips(reply)
    assert len(tips.retain) == MAX_TIPS
    assert all(len(tip) <= 400 for tip in tips.retain)
    assert len(repairs) == 2
    tips, repairs = read_tips("- keep left\n" * 100_000)
    assert len(tips.retain) == MAX_TIPS
    assert any("not read" in repair for repair in repairs)


@pytest.mark.parametrize(
    "reply",
    [
        "Sure!\n```json\n" + GOOD + "\n```",
        "Retain:\n- keep left\nAvoid:\n* walls\n**Next**\n1. try right",
        "## Retain\n- keep left\n\n### Avoid:\n- walls\nNext steps:\n- try right",
    ],
)
def test_tips_are_read_from_what_models_really_write(reply: str) -> None:
    tips, _ = read_tips(reply)
    assert tips == Tips(retain=("keep left",), avoid=("walls",), next=("try right",))


@given(st.text(max_size=300))
@settings(deadline=None, max_examples=100)
def test_any_reply_gives_tips_or_a_format_error(reply: str) -> None:
    try:
        tips, _ = read_tips(reply)
    except ResponseFormatError:
        return
    assert tips.count


async def test_the_rules_rank_strategies_by_the_sum_of_their_self_scores() -> None:
    memory = SummaryMemory()
    plays: list[tuple[str, tuple[float | None, ...]]] = [
        ("strategy: steady", (2.0,)),
        ("I play strategy: greedy now", (5.0, -4.0, -4.0)),
        ("strategy: steady", (1.0,)),
        ("strategy: steady", (None,)),
    ]
    for ordinal, (note, scores) in enumerate(plays, start=1):
        await memory.record(make_episode(ordinal, note=note, self_scores=scores))
        await memory.consolidate("rules", 1000)
    text = (await memory.recall(make_cue())).text
    head, _, rest = text.partition("Avoid:\n")
    assert head == "Retain:\n- strategy: steady (mean self-scored outcome 4.5 over 2 episodes)\n"
    assert rest.startswith("- strategy: greedy (mean self-scored outcome -3 over 1 episodes)\n")
    assert "1 episodes had none" in rest


async def test_without_strategy_notes_the_usual_action_names_the_group() -> None:
    memory = SummaryMemory()
    await memory.record(make_episode(1, actions=("cheat",), self_scores=(1.0,)))
    await memory.consolidate("rules", 1000)
    assert (
        "- mostly: cheat (mean self-scored outcome 3 over 1 episodes)"
        in (await memory.recall(make_cue())).text
    )


@pytest.mark.parametrize("max_tokens", [0, 1, 2, 5, 8, 12, 16, 20])
async def test_tips_are_cut_whole_and_never_leave_a_heading_alone(max_tokens: int) -> None:
    memory = await summarised(ScriptedChat([GOOD]))
    recollection = await memory.recall(make_cue(max_tokens=max_tokens))
    lines = recollection.text.splitlines()
    assert token_counter().count(recollection.text) == recollection.tokens <= max_tokens
    assert not lines or lines[-1].startswith("- ")
    assert recollection.dropped == 3 - sum(line.startswith("- ") for line in lines)


async def test_the_state_of_a_summary_is_json_and_keeps_every_version() -> None:
    memory = await summarised(ScriptedChat([GOOD, "", GOOD]), 3)
    state = json.loads(json.dumps(dict(memory.describe().state)))
    assert [version.number for version in memory.versions] == [1, 2]
    assert state["version"] == 2
    assert state["before"] == memory.versions[1].before
    assert state["failures"][0]["after"] == 1


def test_a_wrong_mode_names_the_choices() -> None:
    with pytest.raises(ConfigError, match="rolling"):
        SummaryMemory(mode="rolled")  # type: ignore[arg-type]  # the test is about it


def operations(*items: dict[str, Any]) -> list[Operation]:
    return [Operation(**item) for item in items]


def test_operations_add_edit_vote_and_remove_with_provenance() -> None:
    book = apply_operations(Book(), operations({"verb": "add", "text": "a"}), ["e1"], 5)
    book = apply_operations(
        book,
        operations(
            {"verb": "agree", "id": 1},
            {"verb": "edit", "id": 1, "text": "b"},
            {"verb": "add", "text": "c"},
            {"verb": "remove", "id": 2},
            {"verb": "agree", "id": 2},
            {"verb": "edit", "id": 9, "text": "x"},
        ),
        ["e2"],
        5,
    )
    first, second = book.insights
    assert (first.text, first.votes, first.sources) == ("b", 3, ("e1", "e2"))
    assert second.hidden
    assert [bool(change.refused) for change in book.changes] == [False] * 5 + [True, True]


def test_two_disagreements_hide_an_insight_and_the_list_stays_bounded() -> None:
    book = apply_operations(Book(), operations({"verb": "add", "text": "a"}), ["e"], 1)
    full = apply_operations(book, operations({"verb": "add", "text": "b"}), ["e"], 1)
    assert [item.text for item in full.shown] == ["a"]
    assert "full" in full.changes[-1].refused
    doubted = apply_operations(book, operations({"verb": "disagree", "id": 1}), ["e"], 1)
    replaced = apply_operations(doubted, operations({"verb": "add", "text": "b"}), ["e"], 1)
    assert [item.text for item in replaced.shown] == ["b"]
    gone = apply_operations(doubted, operations({"verb": "disagree", "id": 1}), ["e"], 1)
    assert gone.shown == []
    assert gone.insights[0].text == "a", "soft delete"


def test_adding_what_is_known_is_an_agreement() -> None:
    twice = operations({"verb": "add", "text": "a"}, {"verb": "add", "text": " a "})
    book = apply_operations(Book(), twice, ["e"], 5)
    assert [(item.text, item.votes) for item in book.insights] == [("a", 3)]


def test_an_edit_into_what_is_known_is_refused() -> None:
    two = operations({"verb": "add", "text": "a"}, {"verb": "add", "text": "b"})
    book = apply_operations(Book(), two, ["e"], 5)
    same = operations(
        {"verb": "edit", "id": 1, "text": " b"}, {"verb": "edit", "id": 2, "text": "b"}
    )
    book = apply_operations(book, same, ["e"], 5)
    assert [item.text for item in book.shown] == ["a", "b"]
    assert [change.refused for change in book.changes[2:]] == ["insight 2 says so already", ""]


async def test_a_model_proposes_and_a_bad_proposal_changes_nothing() -> None:
    add = json.dumps({"operations": [{"verb": "add", "text": "corners are safe"}]})
    chat = ScriptedChat([add, "no idea", '{"operations": [{"verb": "shout"}]}', add])
    memory = InsightsMemory(chat)
    for ordinal in range(1, 5):
        await memory.record(make_episode(ordinal))
        await memory.consolidate("rules", 10_000)
    recollection = await memory.recall(make_cue())
    assert recollection.text == "- corners are safe"
    assert len(recollection.sources) == 4
    assert len(memory.book.failures) == 2
    assert memory.book.insights[0].votes == 3
    assert "[2 votes] corners are safe" in chat.requests[3].text
    assert "Episode 2\n" in chat.requests[3].text, "failed episodes are shown again"
    json.dumps(dict(memory.describe().state))


async def test_the_rules_keep_one_insight_per_strategy_and_follow_its_mean() -> None:
    memory = InsightsMemory()
    for ordinal, (name, score) in enumerate(
        [("good", 3.0), ("bad", -1.0), ("good", 4.0), ("bad", -2.0)], start=1
    ):
        await memory.record(
            make_episode(ordinal, n_steps=1, note=f"strategy: {name}", self_scores=(score,))
        )
        await memory.consolidate("rules", 1000)
    assert (await memory.recall(make_cue())).text == (
        "- strategy: good (mean self-scored outcome 3.5 over 2 episodes)\n"
        "- strategy: bad (mean self-scored outcome -1.5 over 2 episodes)"
    )
    assert [item.votes for item in memory.book.insights] == [3, 3]


def test_a_proposal_without_measure_is_cut() -> None:
    many = json.dumps({"operations": [{"verb": "add", "text": "x" * 500}] * 21})
    found = read_operations(many)
    assert len(found) == 20
    assert {len(operation.text) for operation in found} == {400}


def test_a_proposal_of_another_shape_is_refused() -> None:
    with pytest.raises(ResponseFormatError, match="operations"):
        read_operations(json.dumps({"operations": [{"verb": "shout", "text": "x"}]}))


async def test_the_same_replies_rebuild_the_same_summary() -> None:
    def answer(request: Request) -> Reply:
        return Reply(text=json.dumps({"retain": [f"{len(request.text)} characters read"]}))

    first = await summarised(ScriptedChat(answer), 3)
    second = await summarised(ScriptedChat(answer), 3)
    assert first.versions == second.versions
    assert first.describe() == second.describe()
