"""Minesweeper: any text at all as an action."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from minesweeper_boards import (
    CLOCK,
    EXPLORATION,
    board,
    setup,
)

from s3gym.agents.reading.minesweeper import read
from s3gym.errors import InvalidActionError
from s3gym.seeds import EpisodeSeeds

NASTY = [
    "", " ", "uncover", "uncover (1e999,0)", "uncover (-0,0)", "uncover (1_0,0)", "flag (٣,٤)",
    "flag (\uff13,\uff14)", "uncover (0,1", "uncover 0,1)", "uncover ((0,1))", "uncover (0,1,2)",
    "uncover (0,1) flag (0,2)", "uncover (+1,0)", "uncover (1.0,0)", "uncover (0001,0)",
    "\u202euncover (0,0)", "uncover (0,0)\x00", "uncover\u00a0(0,0)", "uncover\n(0,0)", "9" * 5000,
    "uncover (" + "9" * 100 + ",0)", "uncover " + "(" * 150, "uncover" + " " * 190 + "x",
    "END", "flag", "flag flag 0 0", "unflag(0,0)", "uncover (0,,1)", "uncover 01",
]  # fmt: skip


@pytest.mark.parametrize("action", NASTY, ids=range(len(NASTY)))
def test_nasty_text_is_refused_in_one_short_printable_line(action: str) -> None:
    with pytest.raises(InvalidActionError) as refused:
        setup().game.apply(board(), action)
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("filler", ["9", "(", " ", "\x00", "uncover (0,0) ", "\u0665", "\n"])
def test_ten_megabytes_are_refused_at_once(filler: str) -> None:
    action = "uncover (0," + filler * (10_000_000 // len(filler))
    began = time.perf_counter()
    with pytest.raises(InvalidActionError):
        setup().game.apply(board(), action)
    assert time.perf_counter() - began < 0.5


ACTIONS = st.one_of(
    st.text(max_size=60),
    st.builds(
        "{}{}({}{},{}){}".format,
        st.sampled_from(["uncover", "FLAG", "unFlag", "dig", ""]),
        st.sampled_from(["", " ", "\t", "\u3000"]),
        st.sampled_from(["", " ", "-", "+", "0"]),
        st.integers(-2, 12),
        st.one_of(st.integers(-2, 12), st.text(max_size=3)),
        st.text(max_size=3),
    ),
    st.text(alphabet="uncoverflag()0123456789, \t", max_size=60),
)


def check_any_action(action: str, seed: int) -> None:
    game = setup(EXPLORATION).game
    state = game.start(EpisodeSeeds(episode=seed))
    try:
        after = game.apply(state, action).state
    except InvalidActionError:
        return
    assert len(after.opened) + len(after.flags) + len(after.exploded) > 0
    assert read(game.observe(after, CLOCK)).mines == len(state.mines)


@settings(deadline=None, max_examples=200)
@given(ACTIONS, st.integers(0, 99))
def test_any_text_is_played_or_refused(action: str, seed: int) -> None:
    check_any_action(action, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(ACTIONS, st.integers(0, 99))
def test_any_text_is_played_or_refused_at_length(action: str, seed: int) -> None:
    check_any_action(action, seed)
