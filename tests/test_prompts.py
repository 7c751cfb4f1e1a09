"""Both layouts carry the same content; each message is where the paper has it."""

import pytest

from s3gym.prompts import BASE_INSTRUCTION, RESPONSE_CONTRACT
from s3gym.records import Decision, Message, Observation, Phase, Recollection, Step, Turn


def turn(n_steps: int, recollection: str = "what was before") -> Turn:
    boards = [Observation(text=f"board {number}", feedback="moved" if number else "")
              for number in range(n_steps + 1)]  # fmt: skip
    trail = tuple(
        Step(index=index, observation=boards[index], outcome=boards[index + 1],
             decision=Decision(action=f"act {index}", self_score=index / 4))
        for index in range(n_steps)
    )  # fmt: skip
    return Turn(
        episode="e", game="g", phase=Phase.EXPLORATION, rules="the rules",
        instruction=BASE_INSTRUCTION, observation=boards[-1], trail=trail,
        recollection=Recollection(text=recollection), index=n_steps, max_steps=8,
    )  # fmt: skip


def test_the_papers_layout() -> None:
    assert turn(2).messages() == [
        Message("system", f"{BASE_INSTRUCTION}\n\n{RESPONSE_CONTRACT}"),
        Message("user", "What you remember from earlier episodes:\nwhat was before"),
        Message(
            "user",
            "The current episode so far:\n"
            "Env: board 0\nLLM: Answer: act 0, Score: 0\n"
            "Env: moved\nboard 1\nLLM: Answer: act 1, Score: 0.25",
        ),
        Message("user", "Rules:\nthe rules\n\nmoved\n\nboard 2"),
    ]


def test_the_first_turn_without_memory_has_no_empty_message() -> None:
    for layout in ("paper", "cached"):
        messages = turn(0, "").messages(layout)
        assert [message.role for message in messages] == ["system", "user"]
        assert all(message.content for message in messages)


def test_a_longer_cached_prompt_extends_the_shorter_one_byte_for_byte() -> None:
    for n_steps in range(5):
        shorter, longer = (turn(n).messages("cached") for n in (n_steps, n_steps + 1))
        assert longer[: len(shorter)] == shorter


def test_the_cached_layout_puts_rules_first_and_marks_what_is_stable() -> None:
    messages = turn(1).messages("cached")
    assert "the rules" in messages[0].content
    assert [message.stable for message in messages] == [True, True, False, False, False]
    assert [message.role for message in messages[2:]] == ["user", "assistant", "user"]


def test_the_phase_is_not_printed() -> None:
    for message in turn(2).messages():
        assert "exploration" not in message.content.lower()
        assert "evaluation" not in message.content.lower()


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(ValueError, match="expected layout 'paper' or 'cached', got 'odd'"):
        turn(0).messages("odd")  # type: ignore[arg-type] # the mistake that is tested
