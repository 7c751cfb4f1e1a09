"""Walking through a game step by step, with real, guessed and nonsense actions.

The walk keeps the runner's rules (clock, step cap, refused actions) and asks no verifier.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from s3gym.contracts.game import Clock, Setup
from s3gym.errors import InvalidActionError
from s3gym.seeds import EpisodeSeeds, Stream

ChooseAction = Callable[[str, Stream], str]
"""From an observation and a random stream to an action."""

NONSENSE: tuple[str, ...] = (
    "",
    " ",
    "\n",
    "\x00",
    "\ud800",
    "-1",
    "0 0",
    "0,0",
    "(0,0)",
    "99999999999999999999 1",
    "9" * 5_000,  # more digits than int() takes
    "²",  # a digit that int() refuses
    "٣ ٣",  # digits that int() takes
    "1e309",
    "nan",
    "None",
    "{}",
    "%s {0}",
    "left right up down",
    "🐍",
    "a" * 100_000,
    "; " * 1_000,
    "(" * 1_000,
)
"""Actions that an agent may answer although no rules text asks for them."""

WORD = re.compile(r"[A-Za-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """One step: its texts, and the states around it.

    Attributes:
        text: Observation before the action.
        feedback: What the action did, or why it was refused.
        outcome: Observation after it.
    """

    clock: Clock
    before: Any
    text: str
    action: str
    after: Any
    feedback: str
    refused: bool
    outcome: str

    @property
    def texts(self) -> tuple[str, str, str]:
        """All that could be seen."""
        return (self.text, self.feedback, self.outcome)


def walk(
    setup: Setup[Any], seeds: EpisodeSeeds, choose: Callable[[str, Any], str]
) -> Iterator[Seen]:
    """Play an episode as the runner does, one step at a time.

    Args:
        setup: One phase's version of the game.
        seeds: What the first state is drawn from.
        choose: From an observation and its state to the next action.
    """
    game = setup.game
    state = game.start(seeds)
    for step in range(1, setup.max_steps + 1):
        clock = Clock(step=step, max_steps=setup.max_steps)
        text = game.observe(state, clock)
        action = choose(text, state)
        refused = False
        try:
            transition = game.apply(state, action)
        except InvalidActionError as error:
            after, feedback, refused = state, str(error), True
            done = setup.on_invalid == "end"
        else:
            after, feedback, done = transition.state, transition.feedback, transition.terminated
        last = done or step == setup.max_steps
        next_clock = clock if last else Clock(step=step + 1, max_steps=setup.max_steps)
        yield Seen(
            clock=clock,
            before=state,
            text=text,
            action=action,
            after=after,
            feedback=feedback,
            refused=refused,
            outcome=game.observe(after, next_clock),
        )
        if last:
            return
        state = after


def guesser(rules: str) -> ChooseAction:
    """Return a chooser that tries words of the rules, alone or with small numbers.

    It also tries words of the observation: a game may list its legal actions there.
    """
    words: list[str] = sorted(set(WORD.findall(rules)))
    shouted = [word for word in words if word.isupper()]

    def choose(text: str, stream: Stream) -> str:
        kind = stream.below(8)
        if kind == 0 or not words:
            return stream.pick(NONSENSE)
        numbers = (stream.below(12), stream.below(12))
        if kind == 1:
            return f"{numbers[0]} {numbers[1]}"
        if kind == 2:
            return f"{stream.pick(words)} ({numbers[0]},{numbers[1]})"
        if kind == 3:
            return f"{stream.pick(words)} {numbers[0]} {numbers[1]}"
        if kind == 4 and text.split():
            return stream.pick(text.split())
        return stream.pick(shouted if shouted and kind > 5 else words)

    return choose


def accepted(setup: Setup[Any], state: Any, candidates: Iterable[str]) -> str:
    """Return the first of some candidates that the rules accept, or the last one tried."""
    action = ""
    for action in candidates:
        try:
            setup.game.apply(state, action)
        except InvalidActionError:
            continue
        break
    return action
