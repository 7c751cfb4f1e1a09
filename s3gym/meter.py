"""Limits, retries and budgets in one: what a study's broker sends its calls through."""

from collections.abc import Awaitable, Callable

from s3gym.budget import Budget
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
            return await traced(chat, send)

        reply = await self.limits.of(chat).call(within_budget, tokens=tokens)
        self.budget.charge(chat, reply)
        return reply
