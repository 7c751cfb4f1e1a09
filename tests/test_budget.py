"""Budget: caps of money, tokens and time, and prices that may be unknown."""

from functools import partial
from typing import Any

import pytest

from s3gym.agents.local_chat import LocalChat
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.budget import Budget, Price, RecordedChat, usd
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ConfigError
from s3gym.meter import Meter
from s3gym.records import Usage
from s3gym.testing.fakes import ScriptedChat

MILLION = Usage(calls=1, input_tokens=1_000_000, cached_tokens=400_000, output_tokens=500_000)
CHAT = ScriptedChat([], name="mine")
PRICES = {"mine": Price(input=1.0, cached_input=0.1, output=4.0)}


def reply(tokens: int) -> Reply:
    return Reply(text="", usage=Usage(calls=1, input_tokens=tokens))


def test_a_users_price_counts_fresh_cached_and_new_tokens() -> None:
    assert usd(CHAT, MILLION, prices=PRICES) == pytest.approx(0.6 * 1.0 + 0.4 * 0.1 + 0.5 * 4.0)
    assert Price(input=1.0, output=4.0).usd(MILLION) == pytest.approx(3.0)


@pytest.mark.parametrize("lie", [-(10**15), 10**30, "5", 5.5, None])
async def test_token_counts_that_a_server_made_up_give_nothing_back(lie: Any) -> None:
    budget = Budget(max_tokens=50)
    told = Reply(text="", usage=Usage(calls=1, input_tokens=lie, output_tokens=30))
    chat = ScriptedChat(lambda request: told)
    meter = Meter(budget=budget)
    for _ in range(2):
        reply = await meter.call(chat, partial(chat.complete, [], max_tokens=1), tokens=0)
        assert reply.usage == Usage(calls=1, output_tokens=30)
    with pytest.raises(BudgetExhaustedError, match="60 of 50"):
        await meter.call(chat, partial(chat.complete, [], max_tokens=1), tokens=0)


def test_an_unknown_price_is_unknown_and_not_zero() -> None:
    assert usd(CHAT, MILLION) is None
    budget = Budget()
    assert budget.charge(CHAT, Reply(text="", usage=MILLION)) is None
    assert budget.spent.usd == 0.0
    assert budget.spent.unpriced_calls == 1


def test_the_packaged_list_prices_a_provider_at_its_own_address_only() -> None:
    own = OpenAIChat("gpt-4o")
    assert (usd(own, MILLION) or 0) > 0
    assert usd(own, MILLION, served="gpt-4o-2024-08-06") == pytest.approx(usd(own, MILLION))
    elsewhere = OpenAIChat("gpt-4o", base_url="http://localhost:8000/v1")
    assert usd(elsewhere, MILLION) is None
    assert usd(OpenAIChat("no-such-model"), MILLION) is None


def test_a_recorded_call_is_priced_as_the_call_was() -> None:
    own = OpenAIChat("gpt-4o", effort="low")
    assert usd(RecordedChat(own.name), MILLION) == usd(own, MILLION)
    elsewhere = RecordedChat(own.name, "http://localhost:8000/v1")
    assert usd(elsewhere, MILLION) is None
    assert usd(elsewhere, MILLION, prices={"gpt-4o": Price(input=1.0, output=0.0)}) == 1.0
    assert usd(RecordedChat("scripted"), MILLION) is None


def test_a_users_price_wins_over_the_list_and_may_name_the_model() -> None:
    free = {"gpt-4o": Price(input=0.0, output=0.0)}
    assert usd(OpenAIChat("gpt-4o"), MILLION, prices=free) == 0.0


def test_a_model_on_this_machine_costs_nothing(tmp_path: object) -> None:
    path = f"{tmp_path}/tiny.gguf"
    with open(path, "w") as file:
        file.write("GGUF")
    assert usd(LocalChat(path), MILLION) == 0.0


def test_a_cap_of_money_stops_before_the_next_call() -> None:
    budget = Budget(max_usd=2.5, prices=PRICES)
    budget.check(CHAT)
    assert budget.charge(CHAT, Reply(text="", usage=MILLION)) == pytest.approx(2.64)
    with pytest.raises(BudgetExhaustedError, match=r"max_usd is used up: 2\.6400 of 2\.5000"):
        budget.check(CHAT)


def test_a_cap_of_money_refuses_a_model_without_a_price() -> None:
    with pytest.raises(ConfigError, match="the price of 'mine' is not known; give it under prices"):
        Budget(max_usd=1.0).check(CHAT)


def test_a_cap_of_tokens_counts_prompt_and_new_ones() -> None:
    budget = Budget(max_tokens=100)
    budget.charge(CHAT, Reply(text="", usage=Usage(calls=1, input_tokens=60, output_tokens=39)))
    budget.check(CHAT)
    budget.charge(CHAT, reply(1))
    with pytest.raises(BudgetExhaustedError, match="max_tokens is used up: 100 of 100"):
        budget.check(CHAT)


def test_a_cap_of_hours_counts_from_when_the_budget_was_made() -> None:
    now = [50.0]
    budget = Budget(max_hours=0.5, clock=lambda: now[0])
    now[0] += 1799
    budget.check(CHAT)
    now[0] += 1
    with pytest.raises(BudgetExhaustedError, match=r"max_hours is used up: 0\.50 of 0\.50"):
        budget.check(CHAT)


def test_calls_without_token_counts_are_counted_as_such() -> None:
    budget = Budget(prices=PRICES)
    budget.charge(CHAT, Reply(text=""))
    spent = budget.spent
    assert (spent.calls, spent.uncounted_calls, spent.unpriced_calls) == (1, 1, 1)


@pytest.mark.parametrize("caps", [{"max_usd": 0.0}, {"max_tokens": -1}, {"max_hours": 0.0}])
def test_caps_out_of_range_are_refused(caps: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="above 0"):
        Budget(**caps)  # type: ignore[arg-type] # numbers only
