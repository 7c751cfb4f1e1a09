"""Reading and writing the observation text of nullify.

Grammar, all characters ASCII::

    Current game board:
    one line "I: U" per unit, I counting from 0; or the one line (empty)

    U       a number with its sign, then digits with an optional fraction and exponent: +1.5e-05
            *K or /K, K an integer that is not 0; sqrt square reciprocal floor ceil
"""

import re
from dataclasses import dataclass

TITLE = "Current game board:"
EMPTY = "(empty)"
DIGITS = 12
NUMBER = re.compile(r"[+-][0-9]{1,40}(?:\.[0-9]{1,40})?(?:e[+-]?[0-9]{1,2})?")
OPERATOR = re.compile(r"([*/])(-?[1-9][0-9]{0,8})")
UNARY = ("sqrt", "square", "reciprocal", "floor", "ceil")


@dataclass(frozen=True, slots=True, order=True)
class Operator:
    """A unit that changes a number.

    Attributes:
        name: ``*``, ``/`` or one of ``UNARY``.
        k: Factor or divisor of ``*`` and ``/``; 0 for the others.
    """

    name: str
    k: int = 0


Unit = float | Operator
"""A number, or an operator."""


@dataclass(frozen=True, slots=True)
class NullifyView:
    """What an observation of nullify says.

    Attributes:
        units: In the order of their indices.
    """

    units: tuple[Unit, ...]

    def render(self) -> str:
        """Return the observation text."""
        lines = [f"{index}: {show(unit)}" for index, unit in enumerate(self.units)]
        return "\n".join([TITLE, *(lines or [EMPTY])])


def show(unit: Unit) -> str:
    """Return a unit as the text shows it."""
    if isinstance(unit, Operator):
        return f"{unit.name}{unit.k}" if unit.k else unit.name
    return f"{unit:+.{DIGITS}g}"


def read(text: str) -> NullifyView:
    """Return what the observation text says.

    Raises:
        ValueError: The text does not follow the grammar.
    """
    title, *lines = text.split("\n")
    if title != TITLE or not lines:
        raise ValueError("expected the title of a nullify observation and its units")
    if lines == [EMPTY]:
        return NullifyView(())
    units = []
    for index, line in enumerate(lines):
        number, colon, content = line.partition(": ")
        if number != str(index) or not colon:
            raise ValueError(f"expected unit {index}, got {line[:80]!a}")
        units.append(read_unit(content))
    view = NullifyView(tuple(units))
    if view.render() != text:
        raise ValueError("expected numbers as nullify shows them")
    return view


def read_unit(content: str) -> Unit:
    """Return the unit that a line's content names.

    Raises:
        ValueError: It names none.
    """
    if content in UNARY:
        return Operator(content)
    if NUMBER.fullmatch(content):
        return float(content)
    found = OPERATOR.fullmatch(content)
    if found is None:
        raise ValueError(f"expected a number or an operator, got {content[:80]!a}")
    return Operator(found[1], int(found[2]))
