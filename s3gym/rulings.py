"""What games and verifiers returned, checked before it is kept or shown.

A wrong value is one clear ``PluginError`` that never shows the value, which could hold what the
agent must not see.
"""

from typing import Any

from s3gym.answered import MAX_REPLY
from s3gym.contracts.game import Setup, Transition
from s3gym.errors import PluginError
from s3gym.records import MOST_POINTS, is_count
from s3gym.seams import finite
from s3gym.text import storable


def check_setup(name: str, setup: object) -> Setup[Any]:
    """Return a game's setup, when an episode can be played with it.

    Raises:
        PluginError: It cannot.
    """
    if (
        not isinstance(setup, Setup)
        or not is_count(setup.max_steps)
        or setup.max_steps < 1
        or setup.on_invalid not in ("noop", "end")
    ):
        raise PluginError(
            f"game {name!r} returned a wrong setup: expected a Setup with max_steps of at least 1 "
            f"and on_invalid 'noop' or 'end'"
        )
    return setup


def check_transition(name: str, answer: object) -> Transition[Any]:
    """Return what an action did, when it is a transition; the message never shows it.

    Raises:
        PluginError: It is something else.
    """
    if not isinstance(answer, Transition) or not isinstance(answer.terminated, bool):
        raise PluginError(f"game {name!r} returned something else than a Transition in apply")
    return answer


def check_game_text(name: str, what: str, text: object) -> str:
    """Return a game's text, when it is one; the message never shows it.

    Raises:
        PluginError: It is no string, or absurdly long.
    """
    if not isinstance(text, str) or str.__len__(text) > MAX_REPLY:
        raise PluginError(
            f"game {name!r} returned something else than a text of at most {MAX_REPLY} characters "
            f"as {what}"
        )
    return storable(text)


def check_number(name: str, what: str, value: object) -> float:
    """Return a verifier's value when it is a number that can be reckoned with; never show it.

    Raises:
        PluginError: It is not.
    """
    number = finite(value)
    if number is not None and abs(number) <= MOST_POINTS:
        return number
    raise PluginError(
        f"game {name!r} returned something else than a finite number of at most {MOST_POINTS:g}, "
        f"either way, as {what}"
    )
