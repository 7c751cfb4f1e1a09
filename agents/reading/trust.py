"""Reading trust's observation text.

Grammar, line by line::

    Current Game State:
    Round <t> of <T>                        the round about to be played, from 1
    You <move>, opponent <move>, payoff <n> one line per round played, oldest first
    No round has been played                instead, when there is none

``<move>`` is ``collaborate`` or ``cheat``; ``<n>`` is an integer in game points.
"""

import re
from dataclasses import dataclass

HEADER = "Current Game State:"
NO_ROUND = "No round has been played"
COLLABORATE, CHEAT = "collaborate", "cheat"
CLOCK = re.compile(r"Round ([0-9]{1,9}) of ([0-9]{1,9})")
ROUND = re.compile(
    r"You (collaborate|cheat), opponent (collaborate|cheat), payoff (0|-?[1-9][0-9]{0,8})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One round played: both moves and the own payoff in game points."""

    own: str
    other: str
    payoff: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustView:
    """What the text shows.

    Attributes:
        step: One-based round about to be played; the last one once the episode is over.
        max_steps: Rounds of the episode.
        rounds: The rounds played, oldest first.
    """

    step: int
    max_steps: int
    rounds: tuple[Round, ...] = ()

    def render(self) -> str:
        """Return the text that this was read from."""
        lines = [
            f"You {each.own}, opponent {each.other}, payoff {each.payoff}" for each in self.rounds
        ]
        header = [HEADER, f"Round {self.step} of {self.max_steps}"]
        return "\n".join(header + (lines or [NO_ROUND]))


def read(text: str) -> TrustView:
    """Read an observation.

    Raises:
        ValueError: The text breaks the grammar.
    """
    header, _, rest = text.partition("\n")
    line, _, body = rest.partition("\n")
    clock = CLOCK.fullmatch(line)
    if header != HEADER or clock is None:
        raise ValueError("expected the observation text of trust")
    rounds = () if body == NO_ROUND else tuple(map(_round, body.split("\n")))
    view = TrustView(step=int(clock[1]), max_steps=int(clock[2]), rounds=rounds)
    if view.render() != text:
        raise ValueError("expected a consistent observation text of trust")
    return view


def _round(line: str) -> Round:
    found = ROUND.fullmatch(line)
    if found is None:
        raise ValueError("expected one line per round of trust")
    return Round(own=found[1], other=found[2], payoff=int(found[3]))
