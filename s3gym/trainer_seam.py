"""Where a trainer is called: its deadline, its mistakes and what it gives back.

A trainer is a plug-in like an agent, except that it may say that something is the user's to mend.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import anyio.to_thread

from s3gym.answered import as_json
from s3gym.contracts.trainer import ModelRef, Trainer
from s3gym.errors import ConfigError, PluginError, ServiceError
from s3gym.seams import guarded, plugin_boundary, shown

T = TypeVar("T")
LOOK_SECONDS = 3_600.0
"""Deadline of a look at weights, which may be many files."""


def label_of(trainer: Trainer) -> str:
    """Return how messages name a trainer."""
    return f"trainer {trainer.name!r}"


async def base_weights(trainer: Trainer) -> ModelRef:
    """Return the weights that a trainer starts from.

    Raises:
        ConfigError: They are not there or cannot be trained.
    """
    label = label_of(trainer)
    return check_ref(label, await heard(label, "base", trainer.base, LOOK_SECONDS))


async def fingerprint(trainer: Trainer, location: str) -> str:
    """Return the hash of the weights as they are at a location now.

    Raises:
        ConfigError: There are none.
        ServiceError: They cannot be read.
        PluginError: The trainer misbehaved.
    """
    label = label_of(trainer)

    async def look() -> object:
        return await anyio.to_thread.run_sync(trainer.fingerprint, location)

    found = await heard(label, "fingerprint", look, LOOK_SECONDS)
    if not isinstance(found, str):
        raise PluginError(f"{label} gave {shown(found, 80)} as hash: expected a text")
    return found


async def heard(label: str, what: str, call: Callable[[], Awaitable[T]], seconds: float) -> T:
    """Await a trainer as a plug-in whose ``ConfigError`` is the user's to mend.

    Raises:
        ConfigError: The trainer's own.
        ServiceError: The trainer's own, or the disk failed it.
        PluginError: It raised anything else, or missed its deadline.
    """

    async def tried() -> T | ConfigError:
        try:
            return await call()
        except ConfigError as error:
            return error
        except OSError as error:
            raise ServiceError(f"{label}: {what}: {error}") from error

    answer = await guarded(label, what, tried, seconds)
    if isinstance(answer, ConfigError):
        raise answer
    return answer


def check_ref(label: str, answer: object) -> ModelRef:
    """Return what a trainer gave back, when the store can keep it.

    Raises:
        PluginError: It is no ``ModelRef``, or one of its values is not JSON-safe.
    """
    if not isinstance(answer, ModelRef):
        raise PluginError(f"{label} returned {shown(answer, 80)}: expected a ModelRef")
    for what, text in (("location", answer.location), ("hash", answer.hash)):
        if not isinstance(text, str) or not text:
            raise PluginError(f"{label} returned the {what} {shown(text, 80)}: expected a text")
    with plugin_boundary(label, "its answer"):
        return replace(
            answer,
            log=_plain(label, "log", answer.log),
            machine=_plain(label, "machine", answer.machine),
        )


def _plain(label: str, what: str, values: object) -> Mapping[str, Any]:
    if not isinstance(values, Mapping):
        raise PluginError(f"{label} returned the {what} {shown(values, 80)}: expected a mapping")
    return as_json(dict(values))
