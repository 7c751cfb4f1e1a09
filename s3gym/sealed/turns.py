"""Turns and recollections without what the other side has already.

A step costs time in what is new: the trail and the recollection of an episode cross the pipe
once, and steps that were recorded into the memory are named by number.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from s3gym.records import Episode, Recollection, Step, Turn
from s3gym.wire import WireError, decode, encode

NOTHING = Recollection()


class Shelf:
    """The recorded steps of a study, which both sides number alike."""

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._numbers: dict[int, int] = {}

    def add(self, episode: Episode) -> None:
        """Number the steps of a recorded episode."""
        for step in episode.steps:
            self._numbers[id(step)] = len(self._steps)
            self._steps.append(step)

    def encode(self, recollection: Recollection) -> dict[str, Any]:
        """Return a recollection as a JSON object; recorded steps as [first, last] numbers."""
        steps = list(self._ranges(recollection.steps))
        return {"steps": steps, "rest": encode(replace(recollection, steps=()))}

    def decode(self, data: Any) -> Recollection:
        """Return the recollection; raises ``WireError`` when it names what is not there."""
        try:
            rest = decode(Recollection, data["rest"])
            steps = tuple(step for entry in data["steps"] for step in self._named(entry))
        except (KeyError, TypeError, ValueError) as error:
            raise WireError("a recollection without its parts") from error
        return replace(rest, steps=steps)

    def _ranges(self, steps: Iterable[Step]) -> Iterator[list[int] | dict[str, Any]]:
        first = last = -1
        for step in steps:
            number = self._numbers.get(id(step))
            if number is not None and number == last + 1 and first >= 0:
                last = number
                continue
            if first >= 0:
                yield [first, last]
            first = last = -1 if number is None else number
            if number is None:
                yield encode(step)
        if first >= 0:
            yield [first, last]

    def _named(self, entry: Any) -> Iterable[Step]:
        if isinstance(entry, dict):
            return (decode(Step, entry),)
        first, last = entry
        if not 0 <= first <= last < len(self._steps):
            raise WireError("a recollection of steps that were never recorded")
        return self._steps[first : last + 1]


class TurnWriter:
    """Makes the messages of one agent's turns."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._trail: tuple[Step, ...] = ()
        self._recollection = NOTHING

    def encode(self, turn: Turn) -> dict[str, Any]:
        """Return a turn as a JSON object that says what of the last turn still holds."""
        kept = len(self._trail)
        if kept and not (len(turn.trail) >= kept and turn.trail[kept - 1] is self._trail[-1]):
            kept = 0
        same = turn.recollection is self._recollection
        new = replace(turn, trail=turn.trail[kept:], recollection=NOTHING)
        self._trail, self._recollection = turn.trail, turn.recollection
        return {
            "kept": kept,
            "turn": encode(new),
            "recollection": None if same else self._shelf.encode(turn.recollection),
        }


class TurnReader:
    """Puts the turns of one agent together again."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._trail: tuple[Step, ...] = ()
        self._recollection = NOTHING

    def decode(self, data: Any) -> Turn:
        """Return the whole turn; raises ``WireError`` when it does not fit the last one."""
        try:
            kept, recalled, new = data["kept"], data["recollection"], decode(Turn, data["turn"])
        except (KeyError, TypeError) as error:
            raise WireError("a turn without its parts") from error
        self._trail = (*self._trail[:kept], *new.trail)
        if recalled is not None:
            self._recollection = self._shelf.decode(recalled)
        return replace(new, trail=self._trail, recollection=self._recollection)
