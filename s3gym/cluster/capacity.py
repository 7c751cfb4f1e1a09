"""Whether one machine is enough for a run: calls in flight, time and memory.

Everything is reckoned from the schedule's bounds, a forecast's numbers and one assumption, the
seconds that a model takes to answer. Knows nothing of the machine at hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from s3gym.config import ModelConfig
from s3gym.forecast import Forecast
from s3gym.plans import StudyPlan
from s3gym.records import Phase

CALLS_PER_SECOND = 100
"""Calls that one process of an ordinary machine manages, with room to spare: it spends 4 to 8 ms
of a core on one, its client included (``benchmarks/model_overhead.py``)."""
STEPS_PER_SECOND = 1_000
"""Steps of agents without a model that it plays and records."""
MEGABYTES, MEGABYTES_PER_STUDY = 110, 0.5
BYTES_PER_TOKEN = 16
"""Of a recollection: its text, its steps, and a prompt that holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a run is for one machine.

    Attributes:
        calls: Most model calls; 0 for agents and memories without a model.
        side_by_side: Studies that run at the same time.
        in_flight: Most calls in flight.
        seconds: About how long it takes.
        shortest: The same if nothing but the longest study held it back.
        held_by: What sets the time: ``jobs``, ``model.concurrency``, ``model.rpm``, ``model.tpm``,
            ``the longest study`` or ``the processor``.
        megabytes: About how much memory.
    """

    calls: int
    side_by_side: int
    in_flight: int
    seconds: float
    shortest: float
    held_by: str
    megabytes: int

    @property
    def calls_per_second(self) -> float:
        """Calls that it makes in a second."""
        return self.calls / self.seconds if self.seconds else 0.0

    @property
    def enough(self) -> bool:
        """Whether the processor of one machine is not what sets the time."""
        return self.held_by != "the processor"


def load_of(
    studies: Sequence[tuple[StudyPlan, Forecast]],
    *,
    jobs: int,
    model: ModelConfig,
    call_seconds: float,
) -> Load:
    """Return what studies are for one machine.

    Args:
        studies: The plans with their forecasts; at least one.
        jobs: Studies side by side.
        model: Limits of the endpoint; models of several endpoints are taken as if they had one.
        call_seconds: What a model is taken to need for an answer, in seconds.
    """
    chatting = [(p, f) for p, f in studies if p.agent.chat is not None or p.memory.chat is not None]
    calls = sum(f.calls + f.memory_calls for _, f in chatting)
    steps = sum(f.decisions for _, f in studies)
    side_by_side = min(jobs, len(studies))
    each = max((1 + p.schedule.evaluation_episodes for p, _ in chatting), default=0)
    in_flight = min(model.concurrency, side_by_side * each)
    chain = max((_chain(p, f) for p, f in chatting), default=0) * call_seconds
    bounds = {
        "the longest study": chain,
        "jobs": chain * ceil(len(chatting) / jobs),
        "model.concurrency": calls * call_seconds / max(model.concurrency, 1),
        "model.rpm": 60 * calls / model.rpm if model.rpm else 0.0,
        "model.tpm": 60 * sum(f.input_tokens for _, f in chatting) / model.tpm
        if model.tpm
        else 0.0,
        "the processor": calls / CALLS_PER_SECOND + steps / STEPS_PER_SECOND,
    }
    held_by = max(bounds, key=lambda name: bounds[name])
    recalled = max(p.schedule.memory_tokens for p, _ in studies) * BYTES_PER_TOKEN / 1e6
    return Load(
        calls=calls,
        side_by_side=side_by_side,
        in_flight=in_flight,
        seconds=bounds[held_by],
        shortest=chain,
        held_by=held_by,
        megabytes=round(MEGABYTES + side_by_side * (MEGABYTES_PER_STUDY + recalled)),
    )


def _chain(plan: StudyPlan, expected: Forecast) -> int:
    """Return how many calls of a study come one after another at most."""
    schedule = plan.schedule

    def steps(phase: Phase) -> int:
        return min(plan.game.setup(plan.options, phase).max_steps, schedule.max_steps)

    in_a_row = schedule.exploration_episodes * steps(Phase.EXPLORATION) + steps(Phase.EVALUATION)
    again = expected.calls // max(expected.decisions, 1)
    asked = in_a_row * again if plan.agent.chat is not None else 0
    return asked + expected.memory_calls
