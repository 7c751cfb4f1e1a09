"""Records as JSON lines: how values cross a process boundary. Never pickle.

A record becomes an object of its fields; fields that hold their default are left out. Reading
is strict, because the other side may be foreign code: an unknown field, a missing one, a value
of another type or a number that is not finite is a ``WireError``.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from s3gym.errors import S3GymError
from s3gym.text import shorten, storable

T = TypeVar("T")
Convert = Callable[[Any], Any]


LARGEST = 2**63 - 1
"""As much as a store keeps as an integer."""


class WireError(S3GymError):
    """What came over a pipe is not what was agreed on."""


def encode(record: Any) -> dict[str, Any]:
    """Return a record (a frozen dataclass of ours) as a JSON object."""
    kind: Any = type(record)
    found: dict[str, Any] = _encoder(kind)(record)
    return found


def decode(kind: type[T], data: object) -> T:
    """Return the record that ``encode`` made an object of.

    Args:
        kind: Class of the record.
        data: A JSON object, from a line that may not be trusted.

    Raises:
        WireError: It is no such record.
    """
    wanted: Any = kind
    record: T = _decoder(wanted)(data)
    return record


def to_line(message: Mapping[str, Any]) -> bytes:
    """Return a message as one line, its end included; raises ``WireError`` when it cannot be."""
    try:
        return json.dumps(message, separators=(",", ":"), allow_nan=False).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise WireError(f"a message that is no JSON: {error}") from error


def from_line(line: bytes | bytearray) -> dict[str, Any]:
    """Return the message of a line, with a question mark for each lone surrogate.

    Raises:
        WireError: It is no JSON object, or holds a number that no store can keep.
    """
    try:
        message = json.loads(line, parse_constant=_refuse, parse_int=_whole)
        if b"\\ud" in line or b"\\uD" in line:  # half of a character, or a pair as it should be
            message = json.loads(storable(json.dumps(message, ensure_ascii=False)))
    except (ValueError, RecursionError) as error:
        raise WireError(f"expected a JSON object, got {shorten(bytes(line[:100]))}") from error
    if not isinstance(message, dict):
        raise WireError(f"expected a JSON object, got {shorten(message)}")
    return message


def _whole(digits: str) -> int:
    number = int(digits)
    if not -LARGEST <= number <= LARGEST:
        raise ValueError(f"{digits[:20]}... is no 64-bit integer")
    return number


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


@cache
def _encoder(kind: Any) -> Convert:
    """Return the function that makes JSON of a value of a type; ``_same`` when it is JSON."""
    if is_dataclass(kind):
        return _record_encoder(kind)
    inner = [_encoder(part) for part in get_args(kind) if part is not Ellipsis]
    if get_origin(kind) is tuple and inner[0] is not _same:
        one = inner[0]
        return lambda values: [one(value) for value in values]
    if get_origin(kind) is tuple:
        return list
    if get_origin(kind) is Mapping:
        return dict
    return _same


def _same(value: Any) -> Any:
    return value


def _record_encoder(kind: Any) -> Convert:
    hints = get_type_hints(kind)
    parts = [(one.name, _default(one), _encoder(hints[one.name])) for one in fields(kind)]

    def convert(record: Any) -> dict[str, Any]:
        data = {}
        for name, default, inner in parts:
            value = getattr(record, name)
            if value is not default and value != default:
                data[name] = inner(value)
        return data

    return convert


def _default(field: "Field[Any]") -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return field.default


@cache
def _decoder(kind: Any) -> Convert:
    """Return the function that checks JSON and makes a value of a type of it."""
    if is_dataclass(kind):
        return _record_decoder(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _tuple_decoder(_decoder(arguments[0]))
    if origin is Literal:
        return _choice_decoder(arguments)
    if origin in (UnionType, Union):
        (inner,) = (_decoder(part) for part in arguments if part is not NoneType)
        return lambda data: None if data is None else inner(data)
    if origin is Mapping:
        return _mapping
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        choose = _choice_decoder(tuple(member.value for member in kind))
        return lambda data: kind(choose(data))
    return {str: _text, int: _integer, float: _number, bool: _truth}[kind]


def _record_decoder(kind: Any) -> Convert:
    hints = get_type_hints(kind)
    inner = {one.name: _decoder(hints[one.name]) for one in fields(kind)}
    needed = {one.name for one in fields(kind) if _default(one) is MISSING}

    def convert(data: Any) -> Any:
        if not isinstance(data, dict):
            raise WireError(f"expected a {kind.__name__}, got {shorten(data)}")
        if not needed <= data.keys() <= inner.keys():
            wrong = sorted(needed - data.keys()) or sorted(data.keys() - inner.keys())
            raise WireError(f"a {kind.__name__} with a missing or unknown field {wrong[0]!r}")
        return kind(**{name: inner[name](value) for name, value in data.items()})

    return convert


def _tuple_decoder(inner: Convert) -> Convert:
    def convert(data: Any) -> Any:
        if not isinstance(data, list):
            raise WireError(f"expected a list, got {shorten(data)}")
        return tuple(map(inner, data))

    return convert


def _choice_decoder(choices: tuple[Any, ...]) -> Convert:
    def convert(data: Any) -> Any:
        if isinstance(data, str) and data in choices:
            return data
        raise WireError(f"expected one of {choices}, got {shorten(data)}")

    return convert


def _mapping(data: Any) -> Any:
    if isinstance(data, dict):
        return data
    raise WireError(f"expected an object, got {shorten(data)}")


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data
    raise WireError(f"expected a string, got {shorten(data)}")


def _truth(data: Any) -> bool:
    if isinstance(data, bool):
        return data
    raise WireError(f"expected true or false, got {shorten(data)}")


def _integer(data: Any) -> int:
    if isinstance(data, int) and not isinstance(data, bool) and abs(data) < 2**63:
        return data
    raise WireError(f"expected an integer, got {shorten(data)}")


def _number(data: Any) -> float:
    if isinstance(data, float) and math.isfinite(data):
        return data
    return float(_integer(data))
