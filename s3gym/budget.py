"""What model calls may cost in money, tokens and time, and what they have cost.

Knows nothing of games, stores and SDKs. A price that is not known stays unknown: it is never
counted as zero.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ConfigError
from s3gym.records import Usage, is_count

MILLION = 1_000_000
FREE = ("local:", "hf:")
"""Prefixes of chat models that run on this machine: no provider charges for them."""

Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(BaseModel):
    """A price that the user gives, in US dollars per million tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    input: Dollars = Field(description="prompt tokens")
    output: Dollars = Field(description="new tokens, reasoning included")
    cached_input: Dollars | None = Field(
        default=None,
        description="prompt tokens read from the provider's cache; as input when not given",
    )

    def usd(self, usage: Usage) -> float:
        """Return the cost of a usage, in US dollars."""
        cached = self.input if self.cached_input is None else self.cached_input
        fresh = usage.input_tokens - usage.cached_tokens
        total = (
            fresh * self.input + usage.cached_tokens * cached + usage.output_tokens * self.output
        )
        return total / MILLION


class Named(Protocol):
    """What is priced: a chat model, or the record of one. Optional: ``model``, ``endpoint``."""

    @property
    def name(self) -> str:
        """The chat model's name."""
        ...


ENDPOINTS = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
"""Address of each provider, for chat models that were given none."""


class RecordedChat:
    """A chat model as a store knows it: enough to price its calls, not to make any.

    Args:
        name: Name of the chat model, for example ``openai:gpt-5 reasoning_effort=low``.
        base_url: Address that the run was given, if any.
    """

    def __init__(self, name: str, base_url: str | None = None) -> None:
        kind, _, rest = name.partition(":")
        self.name, self.model = name, rest.partition(" ")[0] or name
        self.endpoint = base_url or ENDPOINTS.get(kind, "")


COUNTS = tuple(one.name for one in fields(Usage))


def counted(reply: Reply) -> Reply:
    """Return a reply whose counts are counts; one that a server made up counts as not told.

    Else an answer with a count below 0 would give money back to the budget.
    """
    usage = reply.usage
    wrong = {name: 0 for name in COUNTS if not is_count(getattr(usage, name))}
    return replace(reply, usage=replace(usage, **wrong)) if wrong else reply


Prices = Mapping[str, Price]
"""User prices: name of a chat model, or id of a model, to its price."""


def usd(
    chat: Named, usage: Usage, *, served: str = "", prices: Prices | None = None
) -> float | None:
    """Return what a usage costs, in US dollars; ``None`` when the price is not known.

    The user's prices come first, by the chat's name, its model's id or the id that served the
    call; then the packaged price list, by the chat's address, so that a model of the same name
    on a server of one's own has no price by accident. What was written into a provider's cache
    counts as plain input. No network is used.

    Args:
        chat: The chat model, or the record of one.
        usage: Tokens of one call or many.
        served: Id of the model as the provider reported it.
        prices: The user's prices.
    """
    model = str(getattr(chat, "model", "") or chat.name)
    for known in (chat.name, model, served):
        if prices and known in prices:
            return prices[known].usd(usage)
    if chat.name.startswith(FREE):
        return 0.0
    endpoint = str(getattr(chat, "endpoint", ""))
    if not endpoint.startswith("http"):
        return None
    for known in (served, model):
        cost = _listed(known, endpoint, usage) if known else None
        if cost is not None:
            return cost
    return None


def _listed(model: str, endpoint: str, usage: Usage) -> float | None:
    from genai_prices import Usage as Tokens
    from genai_prices import calc_price

    tokens = Tokens(
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return float(calc_price(tokens, model, provider_api_url=endpoint).total_price)
    except LookupError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent so far.

    Attributes:
        calls: Calls that were charged.
        tokens: Prompt and new tokens.
        usd: US dollars of the calls whose price is known.
        unpriced_calls: Calls whose price is not known.
        uncounted_calls: Calls for which the server reported no tokens.
        hours: Since the budget was made.
    """

    calls: int
    tokens: int
    usd: float
    unpriced_calls: int
    uncounted_calls: int
    hours: float

    def minus(self, other: "Spent") -> "Spent":
        """Return what was spent since another sum, which is an earlier one of the same spender."""
        return Spent(
            calls=self.calls - other.calls,
            tokens=self.tokens - other.tokens,
            usd=self.usd - other.usd,
            unpriced_calls=self.unpriced_calls - other.unpriced_calls,
            uncounted_calls=self.uncounted_calls - other.uncounted_calls,
            hours=self.hours - other.hours,
        )


NOTHING = Spent(calls=0, tokens=0, usd=0.0, unpriced_calls=0, uncounted_calls=0, hours=0.0)
"""What was spent before anything was."""


class Budget:
    """Caps of money, tokens and time; checked before a call, so the run stops between calls.

    Calls that are under way when a cap is reached finish and are charged: a cap is passed by at
    most what they cost.

    Args:
        max_usd: Most US dollars, or ``None``. Models without a known price are refused then.
        max_tokens: Most prompt and new tokens together, or ``None``.
        max_hours: Most hours since this object was made, or ``None``.
        prices: The user's prices.
        clock: Seconds that only go forward.

    Raises:
        ConfigError: A cap is not above 0.
    """

    def __init__(
        self,
        *,
        max_usd: float | None = None,
        max_tokens: int | None = None,
        max_hours: float | None = None,
        prices: Prices | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        caps = {"max_usd": max_usd, "max_tokens": max_tokens, "max_hours": max_hours}
        for name, cap in caps.items():
            if cap is not None and not cap > 0:
                raise ConfigError(f"expected {name} above 0, got {cap!r}")
        self.max_usd, self.max_tokens, self.max_hours = max_usd, max_tokens, max_hours
        self.prices: Prices = prices or {}
        self._clock, self._start = clock, clock()
        self._calls = self._tokens = self._unpriced = self._uncounted = 0
        self._usd = 0.0
        self._priced: set[str] = set()

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return Spent(
            calls=self._calls,
            tokens=self._tokens,
            usd=self._usd,
            unpriced_calls=self._unpriced,
            uncounted_calls=self._uncounted,
            hours=(self._clock() - self._start) / 3600,
        )

    def add(self, spent: Spent) -> None:
        """Count what was spent elsewhere: by workers, or before this object was made."""
        self._calls += spent.calls
        self._tokens += spent.tokens
        self._usd += spent.usd
        self._unpriced += spent.unpriced_calls
        self._uncounted += spent.uncounted_calls
        self._start -= spent.hours * 3600

    def check(self, chat: Named) -> None:
        """Check that another call may be made.

        Raises:
            BudgetExhaustedError: A cap is reached.
            ConfigError: There is a cap of money and the model's price is not known.
        """
        spent = self.spent
        if self.max_usd is not None:
            self.check_price(chat)
            self._refuse("max_usd", spent.usd, self.max_usd, ".4f")
        if self.max_tokens is not None:
            self._refuse("max_tokens", spent.tokens, self.max_tokens, ",")
        if self.max_hours is not None:
            self._refuse("max_hours", spent.hours, self.max_hours, ".2f")

    def check_price(self, chat: Named) -> None:
        """Check, before anything is sent, that a cap of money can be kept for a model.

        Raises:
            ConfigError: There is a cap of money and the model's price is not known.
        """
        if self.max_usd is None or chat.name in self._priced:
            return
        if usd(chat, Usage(input_tokens=1, output_tokens=1), prices=self.prices) is None:
            raise ConfigError(
                f"max_usd cannot be kept: the price of {chat.name!r} is not known; give it under "
                f"prices, or use max_tokens"
            )
        self._priced.add(chat.name)

    def _refuse(self, name: str, spent: float, cap: float, form: str) -> None:
        if spent >= cap:
            raise BudgetExhaustedError(f"{name} is used up: {spent:{form}} of {cap:{form}}")

    def charge(self, chat: Named, reply: Reply) -> float | None:
        """Count an answered call; return its cost in US dollars, ``None`` when not known."""
        usage = reply.usage
        tokens = usage.input_tokens + usage.output_tokens
        self._calls += 1
        self._tokens += tokens
        if not tokens:
            self._uncounted += 1
        cost = usd(chat, usage, served=reply.model, prices=self.prices) if tokens else None
        if cost is None:
            self._unpriced += 1
        else:
            self._usd += cost
        return cost
