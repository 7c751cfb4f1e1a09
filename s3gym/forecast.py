"""What a study will ask of its chat models, reckoned before anything is sent.

Numbers of calls and of new tokens are bounds that the schedule sets. Prompt tokens are an
estimate: rules and first state are counted, and every later step is taken to show as much.
"""

from dataclasses import dataclass

from s3gym.budget import Named, Prices, usd
from s3gym.contracts.game import Clock
from s3gym.plans import StudyPlan
from s3gym.prompts import RESPONSE_CONTRACT
from s3gym.records import Phase, Usage
from s3gym.seeds import EpisodeSeeds

ANSWER_TOKENS = 40
"""Tokens of an answer line, of feedback and of what stands around a step."""
EXAMPLE = EpisodeSeeds(episode=1)
"""Not a seed of any study: the first state is looked at for its size alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a study asks of its chat models.

    Attributes:
        decisions: Most decisions.
        calls: Most calls for them, those that ask again included.
        memory_calls: Most calls of a memory that writes, or for training examples.
        input_tokens: About how many prompt tokens.
        cached_tokens: The part that a prefix cache serves when it forgets nothing in an episode.
        output_tokens: Most new tokens.
    """

    decisions: int
    calls: int
    memory_calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int

    def usage(self, *, cached: bool) -> Usage:
        """Return it as a usage, with or without what a cache serves."""
        return Usage(
            calls=self.calls + self.memory_calls,
            input_tokens=self.input_tokens,
            cached_tokens=self.cached_tokens if cached else 0,
            output_tokens=self.output_tokens,
        )

    def usd(self, chat: Named, prices: Prices | None = None, *, cached: bool) -> float | None:
        """Return most US dollars; ``None`` where the price is not known."""
        return usd(chat, self.usage(cached=cached), prices=prices)


def forecast(plan: StudyPlan, *, reask: int = 0) -> Forecast:
    """Return what a study will ask of its chat models.

    Args:
        plan: The study.
        reask: How often a faulty reply is asked for again, at most.
    """
    schedule = plan.schedule
    remembered = _Remembered(plan)
    decisions = fresh = cached = 0
    for ordinal in range(schedule.exploration_episodes + 1):
        if ordinal:
            steps, prompt, served = _episode(plan, Phase.EXPLORATION, remembered.tokens)
            decisions, fresh, cached = decisions + steps, fresh + prompt, cached + served
            remembered.add(steps, prompt)
        if ordinal in schedule.checkpoints:
            steps, prompt, served = _episode(plan, Phase.EVALUATION, remembered.tokens)
            n = schedule.evaluation_episodes
            decisions += n * steps
            fresh, cached = fresh + n * prompt, cached + n * served
    times = 1 + reask
    asked, prompts = _examples(plan)
    calls, written = decisions * times, remembered.calls + asked
    return Forecast(
        decisions=decisions,
        calls=calls,
        memory_calls=written,
        input_tokens=fresh * times + remembered.prompts + prompts,
        cached_tokens=fresh * reask + cached,
        output_tokens=(calls + written) * schedule.reply_tokens,
    )


class _Remembered:
    """How much a memory holds, and what its own calls read."""

    def __init__(self, plan: StudyPlan) -> None:
        self._plan = plan
        self.tokens = self.calls = self.prompts = 0

    def add(self, steps: int, prompt: int) -> None:
        """Take in an exploration episode."""
        plan = self._plan
        if plan.memory.name == "none" or plan.training is not None:
            return
        whole = self.tokens + steps * _step_tokens(plan, Phase.EXPLORATION)
        self.tokens = min(plan.schedule.memory_tokens, whole)
        if plan.memory.chat is not None:
            self.calls += 1
            self.prompts += self.tokens + _fixed_tokens(plan, Phase.EXPLORATION)


def _examples(plan: StudyPlan) -> tuple[int, int]:
    """Return (most calls, prompt tokens) of a policy that asks the model for examples."""
    training = plan.training
    if training is None or not training.policy.asks:
        return 0, 0
    times = training.policy.best_of - 1 if training.policy.policy == "rejection" else 1
    points = plan.schedule.checkpoints[1:]
    looked_at = sum(points) if training.takes_all else plan.schedule.exploration_episodes
    steps, prompt, _ = _episode(plan, Phase.EXPLORATION, 0)
    return looked_at * steps * times, looked_at * prompt * times


def _episode(plan: StudyPlan, phase: Phase, remembered: int) -> tuple[int, int, int]:
    """Return (steps, prompt tokens, the part that the prompts share with the one before)."""
    steps = min(plan.game.setup(plan.options, phase).max_steps, plan.schedule.max_steps)
    first = _fixed_tokens(plan, phase) + remembered + _step_tokens(plan, phase)
    more = _step_tokens(plan, phase)
    prompts = [first + index * more for index in range(steps)]
    return steps, sum(prompts), sum(prompts[:-1])


def _fixed_tokens(plan: StudyPlan, phase: Phase) -> int:
    texts = (
        plan.game.instruction(plan.options, phase),
        plan.game.rules(plan.options, phase),
        RESPONSE_CONTRACT,
    )
    return sum(map(plan.counter.count, texts))


def _step_tokens(plan: StudyPlan, phase: Phase) -> int:
    setup = plan.game.setup(plan.options, phase)
    state = setup.game.start(EXAMPLE)
    text = setup.game.observe(state, Clock(step=1, max_steps=setup.max_steps))
    return plan.counter.count(text) + ANSWER_TOKENS
