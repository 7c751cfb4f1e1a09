"""What every game file needs beside its rules: ``StandardSpec`` and the reading of plain actions.

Knows no game. A game file ends with ``SPEC = StandardSpec(...)``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from s3gym.contracts.game import Anchors, OnInvalid, Options, Setup
from s3gym.errors import InvalidActionError
from s3gym.prompts import BASE_INSTRUCTION
from s3gym.records import Phase
from s3gym.text import shorten

Chosen = TypeVar("Chosen", bound=Options)
InvalidAction = Literal["noop", "ends_evaluation"]
"""The switch "invalid action" of games.md 8.D: a step without effect, or the end of a strict
episode."""

BLANKS = " \t\r\n"
MAX_ACTION = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StandardSpec(Generic[Chosen]):
    """A ``GameSpec`` made of a name and two functions.

    Attributes:
        rules_text: From options and phase to the rules text.
        make_setup: From options and phase to the phase's version of the game.
        system_text: The instruction; the same in both phases.
    """

    name: str
    version: int
    options: type[Chosen]
    anchors: Anchors
    rules_text: Callable[[Chosen, Phase], str]
    make_setup: Callable[[Chosen, Phase], Setup[Any]]
    system_text: str = BASE_INSTRUCTION

    def instruction(self, options: Chosen, phase: Phase) -> str:
        """Return the system text; it never names the phase."""
        return self.system_text

    def rules(self, options: Chosen, phase: Phase) -> str:
        """Return the rules text of the phase's setup."""
        return self.rules_text(options, phase)

    def setup(self, options: Chosen, phase: Phase) -> Setup[Any]:
        """Return the phase's version of the game."""
        return self.make_setup(options, phase)


def on_invalid(choice: InvalidAction, phase: Phase) -> OnInvalid:
    """Return the phase's policy for refused actions."""
    strict = choice == "ends_evaluation" and phase is Phase.EVALUATION
    return "end" if strict else "noop"


def plain(action: str, expected: str, limit: int = MAX_ACTION) -> str:
    """Return an action without the blanks around it, certain to be short ASCII text.

    Only ASCII counts in every game: Python's ``int``, ``strip`` and ``upper`` would also take
    full-width digits, exotic blanks and the dotless i.

    Args:
        action: Any text at all.
        expected: What the game wants, for the message: ``"LEFT, RIGHT, UP or DOWN"``.
        limit: Most characters, blanks around it included.

    Raises:
        InvalidActionError: The action is too long or holds a character outside ASCII.
    """
    if len(action) > limit or not action.isascii():
        raise refusal(action, expected)
    return action.strip(BLANKS)


def refusal(action: str, expected: str) -> InvalidActionError:
    """Return the error that says what was expected and what came."""
    return InvalidActionError(f"expected {expected}, got {shorten(action)}")
