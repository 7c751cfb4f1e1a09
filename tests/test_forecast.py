"""What a study will ask for, against what it then does ask for."""

from pathlib import Path

import pytest
from studies import plan, run_plans

from s3gym.agents.model import ModelAgent
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.budget import Price
from s3gym.forecast import forecast
from s3gym.memory.none import NoMemory
from s3gym.schedule import Schedule
from s3gym.testing.fakes import ScriptedChat
from s3gym.tokens import token_counter

SMALL = Schedule(exploration_episodes=4, evaluate_every=2, evaluation_episodes=2, reply_tokens=100)


@pytest.mark.parametrize("game", ["trust", "snake"])
async def test_a_forecast_bounds_the_calls_and_comes_near_the_tokens(
    game: str, tmp_path: Path
) -> None:
    chat = ScriptedChat(lambda request: "Answer: LEFT, Score: 0")
    study = plan(game, ModelAgent(chat, layout="cached"), schedule=SMALL, seed=3)
    await run_plans(tmp_path / "a.db", [study])
    expected = forecast(study)
    count = token_counter("estimate").count
    asked = sum(count(request.text) for request in chat.requests)
    assert len(chat.requests) <= expected.calls
    per_call = asked / len(chat.requests)
    assert 0.5 < (expected.input_tokens / expected.calls) / per_call < 2.0


def test_the_papers_schedule_counts_as_the_paper_says() -> None:
    expected = forecast(plan("trust", memory=NoMemory, schedule=Schedule.paper()))
    assert expected.calls == (30 + 11 * 3) * 10
    assert expected.memory_calls == 0
    assert expected.output_tokens == 630 * 14_000
    assert 0 < expected.cached_tokens < expected.input_tokens
    again = forecast(plan("trust", memory=NoMemory, schedule=Schedule.paper()), reask=1)
    assert (again.decisions, again.calls) == (expected.decisions, 2 * expected.calls)
    assert expected.cached_tokens < again.cached_tokens < again.input_tokens


def test_a_memory_that_remembers_makes_prompts_longer_up_to_its_budget() -> None:
    schedule = Schedule.paper(memory_tokens=500)
    none = forecast(plan("trust", memory=NoMemory, schedule=schedule))
    some = forecast(plan("trust", schedule=schedule))
    assert some.calls == none.calls
    assert 0 < some.input_tokens - none.input_tokens <= 630 * 500


def test_dollars_are_fewer_with_a_cache_and_unknown_without_a_price() -> None:
    expected = forecast(plan("trust", schedule=SMALL))
    own = OpenAIChat("gpt-4o")
    whole, cached = (expected.usd(own, cached=cached) for cached in (False, True))
    assert whole is not None
    assert cached is not None
    assert cached < whole
    elsewhere = OpenAIChat("gpt-4o", base_url="http://localhost:1/v1")
    assert expected.usd(elsewhere, cached=False) is None
    prices = {"gpt-4o": Price(input=1.0, output=2.0)}
    assert expected.usd(elsewhere, prices, cached=False) == pytest.approx(
        (expected.input_tokens + 2 * expected.output_tokens) / 1e6
    )
