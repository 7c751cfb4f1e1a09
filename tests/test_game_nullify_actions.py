"""Nullify: any text at all as an action."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nullify_boards import CLOCK, board, drawn, setup, shown

from s3gym.agents.reading.nullify import read
from s3gym.errors import InvalidActionError

NASTY = [
    "", " ", "0", "0 1 2", "0,,1", "0 , , 1", "-0 1", "+0 1", "0 1.0", "1e999 0", "1_0 0", "٠ ١",
    "\uff10 \uff11", "\u0660 1", "0\u00a01", "0\n1", "0\x001", "\u202e0 1", "((0 1))", "(0 1)",
    "0001 0", "9" * 5000, "0 " + "9" * 100, "0" + " " * 199 + "1", "0;1", "01", "END", "zero one",
    "0 0", "0 3", "100 200", "nan inf",
]  # fmt: skip


@pytest.mark.parametrize("action", NASTY, ids=range(len(NASTY)))
def test_nasty_text_is_refused_in_one_short_printable_line(action: str) -> None:
    with pytest.raises(InvalidActionError) as refused:
        setup().game.apply(board("+5 -5 +2"), action)
    assert str(refused.value).isascii()
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("action", ["0 1", "1 0", "0,1", " 0 , 1\n", "\t1\t0", "00 001", "0   1"])
def test_spellings_of_one_pair(action: str) -> None:
    assert shown(setup().game.apply(board("+5 -5 +2"), action).state) == "+2"


@pytest.mark.parametrize("filler", ["9", " ", ",", "\x00", "0 1 ", "\u0665", "\n"])
def test_ten_megabytes_are_refused_at_once(filler: str) -> None:
    action = "0 1" + filler * (10_000_000 // len(filler))
    began = time.perf_counter()
    with pytest.raises(InvalidActionError):
        setup().game.apply(board("+5 -5 +2"), action)
    assert time.perf_counter() - began < 0.5


ACTIONS = st.one_of(
    st.text(max_size=40),
    st.builds(
        "{}{}{}{}".format,
        st.integers(-1, 16),
        st.sampled_from([" ", ",", ", ", "  ", "\t", "\u2003", ""]),
        st.one_of(st.integers(-1, 16), st.text(max_size=3)),
        st.text(max_size=2),
    ),
    st.text(alphabet="0123456789, \t-+.e_", max_size=20),
)


def check_any_action(action: str, seed: int) -> None:
    game = setup().game
    state = drawn(seed)
    try:
        done = game.apply(state, action)
    except InvalidActionError:
        return
    assert 1 <= len(state.units) - len(done.state.units) <= 2
    assert read(game.observe(done.state, CLOCK)).render() == game.observe(done.state, CLOCK)


@settings(deadline=None, max_examples=200)
@given(ACTIONS, st.integers(0, 99))
def test_any_text_is_played_or_refused(action: str, seed: int) -> None:
    check_any_action(action, seed)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(ACTIONS, st.integers(0, 99))
def test_any_text_is_played_or_refused_at_length(action: str, seed: int) -> None:
    check_any_action(action, seed)
