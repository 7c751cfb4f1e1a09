"""Trust Evolution: ten rounds of collaborating or cheating against one hidden opponent.

Observation: the round about to be played, then one line per round played so far, oldest first:
             own move, opponent's move, own payoff.
Actions:     ``collaborate`` | ``cheat``, any case.
Reward:      the agent's payoff of the round, in game points (-1, 0, 2 or 3).
Score:       the sum of its rewards, in game points (-10 to 30).
Ends:        the rules never end it; the runner truncates after ``ROUNDS`` steps.
Phases:      exploration draws easy opponents more often; evaluation draws uniformly.
Source:      S3Gym paper (arXiv 2608.31100), Trust Evolution; games.md section 7.

The eight opponents are fixed rules (``OPPONENTS``). Which one plays is never shown. All but the
opponent's type is drawn for every type alike, so that nothing visible depends on it before its
first move.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from pydantic import Field, field_validator

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.games._spec import InvalidAction, StandardSpec, on_invalid, plain, refusal
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

ROUNDS = 10
COLLABORATE = "collaborate"
CHEAT = "cheat"
ACTIONS = (COLLABORATE, CHEAT)
PAYOFF: Mapping[tuple[str, str], int] = {
    (COLLABORATE, COLLABORATE): 2,
    (COLLABORATE, CHEAT): -1,
    (CHEAT, COLLABORATE): 3,
    (CHEAT, CHEAT): 0,
}
"""Own payoff in game points, by (own move, opponent's move)."""

OPENING_OF_THE_DETECTIVE = (COLLABORATE, CHEAT, COLLABORATE, COLLABORATE)
INSTRUCTION = (
    "You are playing a repeated game of trust against one opponent. In every round both of you "
    "choose at the same time, without seeing the other's choice. Work out from the history how "
    "the opponent behaves, choose the action that serves your total payoff best, and estimate "
    "the immediate reward that the game's verifier will give for exactly that action."
)


class TrustOptions(Options):
    """Switches of trust."""

    explore_weights: tuple[float, ...] = Field(
        default=(5, 5, 3, 2, 2, 1, 1, 1),
        description="how often exploration draws each opponent: little pink, copycat, cheater, "
        "grudger, copykitten, detective, stubborn, random",
    )
    detective: Literal["any_round", "first_rounds"] = Field(
        default="any_round",
        description="which of your rounds can turn the detective to copying: any earlier one, or "
        "its opening rounds alone",
    )
    invalid_action: InvalidAction = Field(
        default="noop", description="a refused action is a lost round, or ends a strict episode"
    )

    @field_validator("explore_weights")
    @classmethod
    def _one_weight_per_opponent(cls, weights: tuple[float, ...]) -> tuple[float, ...]:
        if len(weights) != len(OPPONENTS):
            raise ValueError(
                f"expected {len(OPPONENTS)} weights ({', '.join(OPPONENTS)}), got {len(weights)}"
            )
        if min(weights) < 0 or max(weights) <= 0:
            raise ValueError(f"expected weights of at least 0, one of them above, got {weights}")
        if not math.isfinite(sum(weights)):
            raise ValueError(f"expected weights with a finite sum, got {weights}")
        return weights


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """One opponent and what was played.

    Attributes:
        opponent: Name of its type; hidden.
        coins: One flip per round for the type ``random``, drawn whatever the type; hidden.
        rounds: (own move, opponent's move) of each round played, oldest first.
    """

    opponent: str
    coins: tuple[bool, ...]
    rounds: tuple[tuple[str, str], ...] = ()


def _little_pink(state: State) -> str:
    return COLLABORATE


def _cheater(state: State) -> str:
    return CHEAT


def _copycat(state: State) -> str:
    return state.rounds[-1][0] if state.rounds else COLLABORATE


def _grudger(state: State) -> str:
    return CHEAT if any(own == CHEAT for own, _ in state.rounds) else COLLABORATE


def _detective(state: State, watched: int | None = None) -> str:
    """Probe for four rounds, then copy whoever has cheated and cheat whoever has not."""
    played = len(state.rounds)
    if played < len(OPENING_OF_THE_DETECTIVE):
        return OPENING_OF_THE_DETECTIVE[played]
    cheated = any(own == CHEAT for own, _ in state.rounds[:watched])
    return state.rounds[-1][0] if cheated else CHEAT


def _forgetful_detective(state: State) -> str:
    return _detective(state, watched=len(OPENING_OF_THE_DETECTIVE))


def _copykitten(state: State) -> str:
    last_two = [own for own, _ in state.rounds[-2:]]
    return CHEAT if last_two == [CHEAT, CHEAT] else COLLABORATE


def _stubborn(state: State) -> str:
    if not state.rounds:
        return COLLABORATE
    own, other = state.rounds[-1]
    if own == COLLABORATE:
        return other
    return COLLABORATE if other == CHEAT else CHEAT


def _random(state: State) -> str:
    return COLLABORATE if state.coins[len(state.rounds) % len(state.coins)] else CHEAT


Opponent = Callable[[State], str]
OPPONENTS: Mapping[str, Opponent] = {
    "little pink": _little_pink,
    "copycat": _copycat,
    "cheater": _cheater,
    "grudger": _grudger,
    "copykitten": _copykitten,
    "detective": _detective,
    "stubborn": _stubborn,
    "random": _random,
}
"""Type -> its move, from the rounds before it (and, for ``random``, its coins)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustEvolution:
    """The rules, for one distribution of opponents.

    Attributes:
        weights: One per opponent, in the order of ``OPPONENTS``.
        forgetful: Whether the detective watches its opening rounds alone.
    """

    weights: tuple[float, ...]
    forgetful: bool = False

    def start(self, seeds: EpisodeSeeds) -> State:
        kind = seeds.stream("opponent").weighted(self.weights)
        flips = seeds.stream("coins")
        coins = tuple(flips.chance(0.5) for _ in range(ROUNDS))
        return State(opponent=list(OPPONENTS)[kind], coins=coins)

    def observe(self, state: State, clock: Clock) -> str:
        lines = [
            f"You {own}, opponent {other}, payoff {PAYOFF[own, other]}"
            for own, other in state.rounds
        ]
        header = ["Current Game State:", f"Round {clock.step} of {clock.max_steps}"]
        return "\n".join(header + (lines or ["No round has been played"]))

    def apply(self, state: State, action: str) -> Transition[State]:
        expected = " or ".join(ACTIONS)
        own = plain(action, expected).lower()
        if own not in ACTIONS:
            raise refusal(action, expected)
        forgetful = self.forgetful and state.opponent == "detective"
        other = (_forgetful_detective if forgetful else OPPONENTS[state.opponent])(state)
        return Transition(
            state=replace(state, rounds=(*state.rounds, (own, other))),
            feedback=f"You chose to {own}, your opponent chose to {other}.",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustVerifier:
    """What a round is worth; the rules never call it."""

    def reward(self, before: State, action: str, after: State) -> float:
        return float(PAYOFF[after.rounds[-1]]) if len(after.rounds) > len(before.rounds) else 0.0

    def score(self, rewards: Sequence[float], final: State) -> float:
        return float(sum(rewards))


def rules_text(options: TrustOptions, phase: Phase) -> str:
    """Return the rules; opponents' types are the secret of the game, so none is named."""
    strict = on_invalid(options.invalid_action, phase) == "end"
    lost = "ends the game" if strict else "loses the round: nothing is played and you get 0"
    table = "\n".join(
        f"- you {own}, opponent {other}: you get {payoff}"
        for (own, other), payoff in PAYOFF.items()
    )
    return (
        f"Trust Evolution. You meet one opponent for {ROUNDS} rounds. In each round you and the "
        f"opponent choose at the same time to {COLLABORATE} or to {CHEAT}.\n"
        f"Your payoff of a round:\n{table}\n"
        "The reward of an action is your payoff of that round; your score is the sum over all "
        "rounds.\n"
        "The opponent follows one fixed strategy for the whole game. It may depend on the rounds "
        "before, and you are not told which strategy it is.\n"
        f"Action: the one word {' or '.join(ACTIONS)}, in any case and nothing else. Any other "
        f"answer {lost}.\n"
        "The state shows the round about to be played and, oldest first, one line per round "
        "played: your move, the opponent's move, your payoff."
    )


def make_setup(options: TrustOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: only the distribution of opponents differs."""
    easy = phase is Phase.EXPLORATION
    weights = options.explore_weights if easy else (1.0,) * len(OPPONENTS)
    return Setup(
        game=TrustEvolution(weights=weights, forgetful=options.detective == "first_rounds"),
        verifier=TrustVerifier(),
        max_steps=ROUNDS,
        on_invalid=on_invalid(options.invalid_action, phase),
        reward_range=(float(min(PAYOFF.values())), float(max(PAYOFF.values()))),
        score_range=(
            float(ROUNDS * min(PAYOFF.values())),
            float(ROUNDS * max(PAYOFF.values())),
        ),
    )


SPEC = StandardSpec(
    name="trust",
    version=1,
    options=TrustOptions,
    anchors=Anchors(random=10.703, reference=16.970, ceiling=19.375),
    rules_text=rules_text,
    make_setup=make_setup,
    system_text=INSTRUCTION,
)
