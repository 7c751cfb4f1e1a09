"""Plain strategies for nullify. They know the printed rules and read the text alone.

A self-score is 1 for the pair that empties the board and 0 for any other, which the rules and the
shown numbers decide.
"""

from collections.abc import Callable
from functools import lru_cache

from s3gym.agents.reading.nullify import Operator, Unit, read
from s3gym.agents.strategies._nullify_pairs import combine, legal_pairs, play
from s3gym.agents.strategies.playbook import Chooser, Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream

Pair = tuple[int, int]
Planner = Callable[[str], tuple[Pair, ...] | None]
SHALLOW_NODES = 150
STOP = Move(action="END", self_score=0.0)


def move(units: tuple[Unit, ...], pair: Pair) -> Move:
    """Return the move that combines a legal pair."""
    wins = len(units) == 2 and combine(*units) == ()
    return Move(action=f"{pair[0]} {pair[1]}", self_score=1.0 if wins else 0.0)


def follow(turn: Turn, planner: Planner) -> Pair | None:
    """Return the next pair of the oldest plan of this episode that was kept to so far.

    The plan is found again from the text of the step where it began, so nothing needs to be
    remembered between steps.

    Args:
        turn: What the agent sees.
        planner: From an observation text to the pairs that win from there, or ``None``.
    """
    actions = [step.decision.action for step in turn.trail]
    texts = [*(step.observation.text for step in turn.trail), turn.observation.text]
    n_units = len(read(turn.observation.text).units)
    for start, text in enumerate(texts):
        plan = planner(text) or ()
        spelled = [f"{low} {high}" for low, high in plan]
        done = actions[start:]
        if len(plan) > len(done) and spelled[: len(done)] == done and plan[len(done)][1] < n_units:
            return plan[len(done)]
    return None


def random_pair(turn: Turn, stream: Stream) -> Move:
    """Draw one of the legal pairs."""
    units = read(turn.observation.text).units
    pairs = legal_pairs(units)
    return move(units, stream.pick(pairs)) if pairs else STOP


def first_pair(turn: Turn, stream: Stream) -> Move:
    """Take the first legal pair of the list."""
    units = read(turn.observation.text).units
    pairs = legal_pairs(units)
    return move(units, pairs[0]) if pairs else STOP


def vanishing_first(turn: Turn, stream: Stream) -> Move:
    """Take a pair that vanishes and leaves something to do, or wins; without one draw any."""
    units = read(turn.observation.text).units
    for pair in legal_pairs(units):
        after = play(units, *pair)
        if after is not None and len(after) == len(units) - 2 and (not after or legal_pairs(after)):
            return move(units, pair)
    return random_pair(turn, stream)


def shallow_search(turn: Turn, stream: Stream) -> Move:
    """Look at a few boards ahead for a win; without one take what vanishes first."""
    pair = follow(turn, shallow_plan)
    if pair is None:
        return vanishing_first(turn, stream)
    return move(read(turn.observation.text).units, pair)


@lru_cache(maxsize=256)
def shallow_plan(text: str) -> tuple[Pair, ...] | None:
    """Return pairs that win, found within ``SHALLOW_NODES`` boards, or ``None``."""
    seen: set[tuple[str, ...]] = set()

    def search(units: tuple[Unit, ...]) -> tuple[Pair, ...] | None:
        key = tuple(sorted(map(repr, units)))
        if key in seen or len(seen) >= SHALLOW_NODES or is_lost(units):
            return None
        seen.add(key)
        children = [(pair, play(units, *pair) or ()) for pair in legal_pairs(units)]
        for pair, after in sorted(children, key=lambda child: len(child[1])):
            rest = search(after) if after else ()
            if rest is not None:
                return (pair, *rest)
        return None

    return search(read(text).units)


def is_lost(units: tuple[Unit, ...]) -> bool:
    """Return whether there is nothing to combine with: no number, or one unit."""
    return len(units) < 2 or all(isinstance(unit, Operator) for unit in units)


def outcome(text: str) -> float:
    """Return 1 for an empty board, otherwise a hundredth of a point below 0 per unit left."""
    units = read(text).units
    return -len(units) / 100 if units else 1.0


STRATEGIES: dict[str, Chooser] = {
    "first-pair": first_pair,
    "shallow-search": shallow_search,
    "vanishing-first": vanishing_first,
}
PLAYBOOK = Playbook(strategies=STRATEGIES, random=random_pair, outcome=outcome)
