"""Policies that ask the model: corrections, the best of n, and what a broker makes of them."""

from pathlib import Path
from typing import Any

import pytest
from explored import explored
from studies import plan

from s3gym.broker import CallMismatchError, StudyBroker
from s3gym.calls import brokered
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.limits import Limits
from s3gym.meter import Meter
from s3gym.records import Decision
from s3gym.replies import parse_reply
from s3gym.sft import Dataset, SFTPolicy, build_sft, build_sft_asking
from s3gym.store.store import Store
from s3gym.sweep import add_studies
from s3gym.testing.fakes import ScriptedChat

CORRECT = SFTPolicy(policy="correct", min_score=1)
BEST = SFTPolicy(policy="rejection", min_score=1, best_of=3)


async def build(policy: SFTPolicy, episodes: Any, replies: Any, seed: int = 3) -> Any:
    chat = ScriptedChat(replies)
    data = await build_sft_asking(episodes, policy, chat=chat, max_tokens=50, seed=seed)
    return data, chat.requests


def lines(data: Dataset) -> list[str]:
    return [example.answer.splitlines()[-1] for example in data.examples]


async def test_a_low_scored_step_is_replaced_by_the_models_own_correction() -> None:
    episode = explored(("a", 2.0), ("b", -1.0))
    data, requests = await build(CORRECT, [episode], ["I was wrong.\nAnswer: c, Score: 3"])
    assert [(e.origin, e.step) for e in data.examples] == [("kept", 0), ("corrected", 1)]
    assert data.examples[1].answer == "Answer: c, Score: 3"
    assert list(data.examples[1].messages) == episode.turn(episode.episode.steps[1]).messages()
    assert data.sources[1].self_score == 3.0
    (request,) = requests
    assert [m.role for m in request.messages[-2:]] == ["assistant", "user"]
    assert request.messages[-2].content == "I think, so I act.\nAnswer: b, Score: -1"
    assert "self-score of -1" in request.messages[-1].content
    assert "Did 2.\nstate 2" in request.messages[-1].content


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("I do not know.", "no usable correction"),
        ("Answer: c", "no usable correction"),
        ("Answer: END, Score: 0", "no usable correction"),
        (Reply(text="Answer: c, Score: 3", finish="length"), "no usable correction"),
        (Reply(text="Answer: c, Score: 3", finish="refusal"), "no usable correction"),
        ("Answer: b, Score: 3", "corrected to the same action"),
        ("Answer: c, Score: 0.5", "the correction scores no better"),
    ],
)
async def test_a_bad_correction_leaves_the_step_out_and_says_why(reply: Any, why: str) -> None:
    data, _ = await build(CORRECT, [explored(("b", -1.0))], [reply])
    assert not data.examples
    assert data.reasons == {f"self-score below the threshold; {why}": 1}
    assert data.dropped[0].self_score == -1.0


async def test_steps_that_hold_no_score_or_no_answer_are_not_corrected() -> None:
    cut = Decision(action="", status="truncated", raw="Answer: a, Sc")
    data, requests = await build(CORRECT, [explored(("a", None), cut)], [])
    assert not data.examples
    assert not requests


async def test_an_equal_low_step_is_corrected_once() -> None:
    twice = [explored(("b", -1.0)), explored(("b", -1.0), ordinal=2)]
    data, requests = await build(CORRECT, twice, ["Answer: c, Score: 3"])
    assert (len(data.examples), len(requests)) == (1, 1)
    apart = CORRECT.model_copy(update={"dedupe": False})
    data, requests = await build(apart, twice, ["Answer: c, Score: 3"] * 2)
    assert (len(data.examples), len(requests)) == (2, 2)


async def test_the_best_of_n_answers_is_taught_whole() -> None:
    drawn = ["Answer: c, Score: 2", "So it is.\nAnswer: d, Score: 4"]
    data, requests = await build(BEST, [explored(("b", -1.0))], drawn)
    (example,) = data.examples
    assert (example.origin, example.answer) == ("drawn", drawn[1])
    assert example.messages == requests[0].messages
    assert data.sources[0].self_score == 4.0
    assert len({request.seed for request in requests}) == 2


async def test_the_recorded_answer_wins_a_tie() -> None:
    data, _ = await build(BEST, [explored(("b", 2.0))], ["Answer: c, Score: 2", "nonsense"])
    assert lines(data) == ["Answer: b, Score: 2"]
    assert data.origins == {"kept": 1}


async def test_an_answer_that_was_cut_or_ends_the_episode_cannot_win() -> None:
    drawn = [Reply(text="Answer: c, Score: 9", finish="length"), "Answer: END, Score: 9"]
    data, _ = await build(BEST, [explored(("b", 2.0))], drawn)
    assert lines(data) == ["Answer: b, Score: 2"]


async def test_the_best_answer_must_still_reach_the_threshold() -> None:
    data, _ = await build(BEST, [explored(("b", -1.0))], ["Answer: c, Score: 0"] * 2)
    assert not data.examples
    assert data.reasons == {"self-score below the threshold": 1}


async def test_policies_that_ask_nobody_build_the_same_either_way() -> None:
    policy = SFTPolicy(min_score=1)
    episodes = [explored(("a", 2.0), ("b", -1.0))]
    data, requests = await build(policy, episodes, [])
    assert data == build_sft(episodes, policy)
    assert not requests


async def test_labels_that_nobody_can_give_to_drawn_answers_are_refused() -> None:
    with pytest.raises(ConfigError, match="no reward can label them"):
        await build(BEST, [explored(("b", 1.0), labels=(1.0,))], [])


async def test_a_correction_of_a_labelled_step_is_shown_what_the_agent_said() -> None:
    episode = explored(("b", 9.0), labels=(-1.0,))
    data, requests = await build(CORRECT, [episode], ["Answer: c, Score: 3"])
    assert "self-score of 9" in requests[0].text
    assert data.origins == {"corrected": 1}


async def test_the_seed_decides_every_draw() -> None:
    episodes = [explored(("b", 1.0), ("c", 1.0))]
    replies = [f"Answer: {letter}, Score: 1" for letter in "defg"]
    seeds = []
    for seed in (1, 1, 2):
        _, requests = await build(BEST, episodes, replies, seed)
        seeds.append([request.seed for request in requests])
    assert seeds[0] == seeds[1]
    assert not set(seeds[0]) & set(seeds[2])
    assert len(set(seeds[0])) == 4


def answered(request: Any) -> str:
    return f"Answer: c{request.seed % 7}, Score: {request.seed % 5}"


async def test_a_study_records_every_call_and_answers_it_again(tmp_path: Path) -> None:
    episodes = [explored(("a", 0.0), ("b", 0.0), ("c", 2.0)), explored(("d", 0.0), ordinal=2)]
    study = plan()
    path = tmp_path / "a.db"
    built = []
    answers: tuple[Any, ...] = (answered, [])
    with Store.create(path) as store:
        add_studies(store, [study])
        for policy, place in ((CORRECT, "u1"), (BEST, "u2")):
            for replies in answers:
                broker = StudyBroker(store, Meter(Limits()), study.id, f"{study.id}/{place}")
                with brokered(broker):
                    data, requests = await build(policy, episodes, replies)
                built.append(data)
                assert bool(requests) == (replies is answered)
        purposes = store.connection.execute(
            "SELECT purpose, count(*) FROM calls GROUP BY purpose ORDER BY purpose"
        ).fetchall()
        assert purposes == [("correct", 3), ("sample", 8)]
        broker = StudyBroker(store, Meter(Limits()), study.id, f"{study.id}/u1")
        with brokered(broker), pytest.raises(CallMismatchError):
            await build(CORRECT, episodes, [], seed=4)
    assert built[0] == built[1]
    assert built[2] == built[3]
    assert all(parse_reply(e.answer).status == "ok" for data in built for e in data.examples)


async def test_a_model_that_fails_stops_the_building() -> None:
    failure = ModelError("gone", retryable=True)
    with pytest.raises(ModelError, match="gone"):
        await build(CORRECT, [explored(("b", -1.0))], [failure])
