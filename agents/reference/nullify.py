"""Reference player of nullify: a depth-first search with a limit, from the text alone.

It keeps to the plan that it found; as long as it has none it takes a pair that vanishes, or any,
and searches the smaller board.

Source: games.md 3.G; this search looks at whole sums and so needs far fewer positions.
"""

from functools import lru_cache

from s3gym.agents.reading.nullify import read
from s3gym.agents.reference._nullify_search import Pair, find_plan
from s3gym.agents.strategies.nullify import follow, move, vanishing_first
from s3gym.agents.strategies.playbook import Move
from s3gym.records import Turn
from s3gym.seeds import Stream


def choose(turn: Turn, stream: Stream) -> Move:
    """Return the next move of the plan."""
    pair = follow(turn, plan)
    if pair is None:
        return vanishing_first(turn, stream)
    return move(read(turn.observation.text).units, pair)


@lru_cache(maxsize=256)
def plan(text: str) -> tuple[Pair, ...] | None:
    """Return the pairs that empty the board, or ``None`` when the search finds none.

    Cached: the same text always has the same plan, and an episode asks for it at every step.
    """
    return find_plan(read(text).units)
