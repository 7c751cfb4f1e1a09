"""Boards from words and ways to play them, for the tests of nullify."""

from typing import Any

from episodes import play_episode, scripted
from hypothesis import strategies as st

from s3gym.agents.reading import nullify as reading
from s3gym.contracts.game import Clock
from s3gym.games import _nullify_boards as boards
from s3gym.games._nullify_boards import construct, deal
from s3gym.games._nullify_units import Operator, Unit, show
from s3gym.games.nullify import CONSTRUCTION_STEPS, SPEC, NullifyOptions, State
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

EVALUATION, EXPLORATION = Phase.EVALUATION, Phase.EXPLORATION
CLOCK = Clock(step=1, max_steps=50)
SQRT, SQUARE, FLOOR, CEIL = (Operator(name) for name in ("sqrt", "square", "floor", "ceil"))


def setup(phase: Phase = EVALUATION, **options: Any) -> Any:
    return SPEC.setup(NullifyOptions(**options), phase)


def unit(word: str) -> Unit:
    if word == "1/3":
        return 1 / 3
    found = reading.read_unit(word)
    return Operator(found.name, found.k) if isinstance(found, reading.Operator) else found


def board(words: str) -> State:
    return State(units=tuple(unit(word) for word in words.split()))


def play(words: str, *actions: str, **options: Any) -> Any:
    chosen = NullifyOptions(**options)
    return play_episode(SPEC, chosen, EVALUATION, 0, scripted(actions), start=board(words))


def shown(state: State) -> str:
    return " ".join(map(show, state.units))


def drawn(seed: int, phase: Phase = EVALUATION) -> State:
    state = setup(phase).game.start(EpisodeSeeds(episode=seed, game="nullify"))
    assert isinstance(state, State)
    return state


NUMBERS = st.floats(-1e12, 1e12, allow_nan=False).filter(lambda x: abs(x) > 1e-6)
OPERATORS = st.one_of(
    st.sampled_from(["sqrt", "square", "reciprocal", "floor", "ceil"]).map(Operator),
    st.builds(Operator, st.sampled_from("*/"), st.sampled_from(boards.FACTORS)),
)


def solution(seed: int, phase: Phase) -> list[str]:
    """Return the actions of the construction path: for tests alone, no player sees it."""
    seeds = EpisodeSeeds(episode=seed, game="nullify")
    built = construct(seeds, CONSTRUCTION_STEPS[phase])
    left = deal(seeds, len(built))
    current, actions = len(built) - 1, []
    for other in reversed(range(len(built) - 1)):
        pair = sorted((left.index(current), left.index(other)))
        actions.append(f"{pair[0]} {pair[1]}")
        left = [index for index in left if index not in (current, other)]
        current = -other - 1
        left.append(current)
    return actions
