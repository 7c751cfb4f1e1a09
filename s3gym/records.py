"""What may be seen: the values of the learner's side.

No field anywhere in this module holds a reward or a score of the verifier. The verifier's
values live in ``s3gym.verdict``, which the learner's side cannot import.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, get_args

from s3gym import prompts

Status = Literal["ok", "repaired", "no_action", "no_score", "truncated", "refused", "end"]
STATUSES: tuple[Status, ...] = get_args(Status)
Layout = Literal["paper", "cached"]
LAYOUTS: tuple[Layout, ...] = get_args(Layout)
Role = Literal["system", "user", "assistant"]
MOST_POINTS = 1e15
"""Largest number of game points, either way: beyond it sums and squares would overflow."""
MOST_COUNTED = 10**12
"""Largest count of tokens or calls: a store can add up millions of them."""


def is_count(value: object) -> bool:
    """Return whether a value is a count that a store can add up with millions of others."""
    return type(value) is int and 0 <= value <= MOST_COUNTED  # no truth value, no subclass


class Phase(StrEnum):
    """The two phases of a study."""

    EXPLORATION = "exploration"
    EVALUATION = "evaluation"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message, as it is sent.

    Attributes:
        role: ``system``, ``user`` or ``assistant``.
        content: The text.
        stable: True where a provider may cache everything up to and including this message.
    """

    role: Role
    content: str
    stable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens that model calls cost; all counts at least 0.

    Attributes:
        calls: Model calls made.
        input_tokens: Prompt tokens, cached ones included.
        cached_tokens: The part of ``input_tokens`` that the provider read from its cache.
        output_tokens: New tokens, reasoning included.
        reasoning_tokens: The part of ``output_tokens`` that was hidden reasoning.
    """

    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            calls=self.calls + other.calls,
            input_tokens=self.input_tokens + other.input_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Text of what the agent may see of a state.

    Attributes:
        text: The board or history, without trailing blanks.
        feedback: What the last action did; empty before the first.
        done: True when the episode is over, by the rules or by the step cap.
    """

    text: str
    feedback: str = ""
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One thing the agent answered.

    Attributes:
        action: Text for the game; ``""`` when none was found (see ``status``).
        self_score: The agent's estimate of the immediate verifier reward of its action, in
            game points, finite and possibly negative; ``None`` when missing.
        note: The agent's own words about the step, kept for its memory; never read by a game.
        status: How the reply kept the response contract.
        raw: Full text of the model's reply; empty for agents without a model.
        usage: What the decision cost.
        repairs: Names of the repairs that were needed to read the reply.
    """

    action: str
    self_score: float | None = None
    note: str = ""
    status: Status = "ok"
    raw: str = ""
    usage: Usage = Usage()
    repairs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One transition: observation, decision, next observation.

    Attributes:
        index: Zero-based position in its episode.
    """

    index: int
    observation: Observation
    decision: Decision
    outcome: Observation


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """All visible steps from start to end.

    Attributes:
        id: Deterministic, for example ``trust/strategist/history/r0/x007``.
        game: Name of the game.
        ordinal: One-based position among the exploration episodes of its study.
        rules: The rules text that the agent read.
        steps: In order; never empty for a finished episode.
    """

    id: str
    game: str
    ordinal: int
    rules: str
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cue:
    """What a memory is asked with.

    Attributes:
        trail: Steps of the current episode so far.
        max_tokens: Upper bound of the answer, in tokens.
    """

    game: str
    rules: str
    observation: Observation
    trail: tuple[Step, ...] = ()
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recollection:
    """What a memory answers.

    Attributes:
        text: Goes into the prompt word for word; empty means nothing is recalled.
        tokens: Size of ``text`` by the memory's counter.
        sources: Ids of the exploration episodes that the text draws on, sorted.
        dropped: Steps (or items) that the budget left out.
        steps: The steps shown in ``text``, in its order, for agents that do not read prose; a
            step with index 0 starts a new episode.
    """

    text: str = ""
    tokens: int = 0
    sources: tuple[str, ...] = ()
    dropped: int = 0
    steps: tuple[Step, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Everything that an agent may see before it acts.

    Attributes:
        episode: Id of the current episode.
        instruction: System text: what the agent is, without the response contract.
        rules: Rules of this game in this phase's setup.
        observation: Where the episode stands now.
        trail: Steps of the current episode so far, oldest first.
        recollection: What memory gave back.
        index: Zero-based number of the step about to be played.
        max_steps: Step cap of this episode.
        seed: The agent's own seed for this step, unrelated to any seed of the game, so that
            random agents are reproducible.
        max_tokens: Most new tokens of a reply.
    """

    episode: str
    game: str
    phase: Phase
    rules: str
    instruction: str
    observation: Observation
    trail: tuple[Step, ...] = ()
    recollection: Recollection = field(default_factory=Recollection)
    index: int = 0
    max_steps: int
    seed: int = 0
    max_tokens: int = 14_000

    def messages(self, layout: Layout = "paper") -> list[Message]:
        """Return the prompt, ready to send; it teaches the response contract by itself.

        Args:
            layout: ``"paper"``: instruction, recollection, current episode, rules and state.
                ``"cached"``: instruction and rules, recollection, one message pair per step,
                state; a longer prompt extends the shorter one byte for byte.

        Raises:
            ValueError: No layout has that name.
        """
        return prompts.render(self, layout)
