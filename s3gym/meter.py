"""Limits, retries and budgets in one: what a study's broker sends its calls through."""

from collections.abc import Awaitable, Callable
from typing import Any

from s3gym.budget import Budget, counted
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.limits import Limits
from s3gym.telemetry import traced


class Meter:
    """Keeps every endpoint's limits and the run's budget.

    Args:
        limits: Limits of the endpoints; one for all studies of a run.
        budget: Caps of the run.
    """

    def __init__(self, limits: Limits | None = None, budget: Budget | None = None) -> None:
        self.limits = limits or Limits()
        self.budget = budget or Budget()

    def describe(self) -> dict[str, Any]:
        """Return what a run is held to and priced by; it changes no result of a study."""
        budget, limits = self.budget, self.limits.settings
        return {
            "budget": {
                "usd": budget.max_usd,
                "tokens": budget.max_tokens,
                "hours": budget.max_hours,
                "prices": {name: price.model_dump() for name, price in budget.prices.items()},
            },
            "limits": {
                "rpm": limits.rpm,
                "tpm": limits.tpm,
                "concurrency": limits.most,
                "deadline_seconds": limits.deadline_seconds,
            },
        }

    async def call(
        self, chat: ChatModel, send: Callable[[], Awaitable[Reply]], *, tokens: int
    ) -> Reply:
        """Send a request when limits and budget allow it, and charge what it cost.

        Raises:
            BudgetExhaustedError: A cap is reached; nothing was sent.
            ModelError: The endpoint refused for good, or stayed down until its deadline.
        """

        async def within_budget() -> Reply:
            self.budget.check(chat)
            return counted(await traced(chat, send))

        reply = await self.limits.of(chat).call(within_budget, tokens=tokens)
        self.budget.charge(chat, reply)
        return reply


def described(limits: object) -> dict[str, Any]:
    """Return what limits say of themselves; nothing where they say nothing."""
    describe = getattr(limits, "describe", None)
    return {} if describe is None else dict(describe())
