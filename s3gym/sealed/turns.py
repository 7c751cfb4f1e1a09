"""Turns without what the other side has already: a step costs time in what is new.

The trail and the recollection of an episode are sent once; later turns name what is kept.
"""

from dataclasses import replace
from typing import Any

from s3gym.records import Recollection, Step, Turn
from s3gym.wire import WireError, decode, encode

NOTHING = Recollection()


class TurnWriter:
    """Makes the messages of one agent's turns."""

    def __init__(self) -> None:
        self._trail: tuple[Step, ...] = ()
        self._recollection = NOTHING

    def encode(self, turn: Turn) -> dict[str, Any]:
        """Return a turn as a JSON object that says what of the last turn still holds."""
        kept = len(self._trail)
        if kept and not (len(turn.trail) >= kept and turn.trail[kept - 1] is self._trail[-1]):
            kept = 0
        same = turn.recollection is self._recollection
        new = replace(
            turn,
            trail=turn.trail[kept:],
            recollection=NOTHING if same else turn.recollection,
        )
        self._trail, self._recollection = turn.trail, turn.recollection
        return {"kept": kept, "same": same, "turn": encode(new)}


class TurnReader:
    """Puts the turns of one agent together again."""

    def __init__(self) -> None:
        self._trail: tuple[Step, ...] = ()
        self._recollection = NOTHING

    def decode(self, data: Any) -> Turn:
        """Return the whole turn; raises ``WireError`` when it does not fit the last one."""
        try:
            kept, same, new = data["kept"], data["same"], decode(Turn, data["turn"])
        except (KeyError, TypeError) as error:
            raise WireError("a turn without its parts") from error
        self._trail = (*self._trail[:kept], *new.trail)
        if not same:
            self._recollection = new.recollection
        return replace(new, trail=self._trail, recollection=self._recollection)
