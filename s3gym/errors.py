"""The error tree, arranged by who can do something about each branch.

Each branch is caught in exactly one place: ``ConfigError`` in the command line,
``ActionError`` in the play loop, ``ServiceError`` in the study, ``PluginError`` in the sweep.
Building an error does nothing but build it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TypeVar

E = TypeVar("E", bound="S3GymError")
RETRYABLE = frozenset({408, 409, 429})


class S3GymError(Exception):
    """Base of everything that s3gym raises on purpose."""


class ConfigError(S3GymError):
    """The user can fix it: a wrong name, key, value or file."""


class UnknownNameError(ConfigError):
    """No game, memory or agent has the requested name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name = kind, name
        choices = sorted(known)
        by_case = {choice.casefold(): choice for choice in choices}
        near = [by_case[match] for match in get_close_matches(name.casefold(), by_case, n=3)]
        hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
        super().__init__(
            f"no {kind} is called {name!r}: {hint}choose one of: {', '.join(choices)}, "
            f"or name your own as module:attribute"
        )


class MissingExtraError(ConfigError):
    """An optional dependency is not installed."""

    def __init__(self, what: str, extra: str) -> None:
        self.what, self.extra = what, extra
        super().__init__(f"{what} needs an extra; install it: pip install 's3gym[{extra}]'")


class ActionError(S3GymError):
    """The agent's doing: becomes feedback and never ends a run."""


class ResponseFormatError(ActionError):
    """The reply breaks the response contract."""


class InvalidActionError(ActionError):
    """The reply is well formed but the rules refuse it."""


class ServiceError(S3GymError):
    """The outside world: retry, then mark the point invalid or pause the study."""


class ModelError(ServiceError):
    """A model call failed.

    Attributes:
        retryable: Whether the same request may succeed later.
        retry_after: Seconds that the service asked to wait, or ``None``.
        status: HTTP status of the answer, or ``None`` when there was no answer.
    """

    def __init__(
        self,
        message: str,
        *,
        retryable: bool,
        retry_after: float | None = None,
        status: int | None = None,
    ) -> None:
        self.retryable, self.retry_after, self.status = retryable, retry_after, status
        super().__init__(message)


class MemoryFailure(ServiceError):
    """A memory backend could not record, consolidate or recall."""


class BudgetExhaustedError(S3GymError):
    """A budget of the user (money, tokens, hours) is used up; the run stops resumably."""


class StoreError(S3GymError):
    """The disk: a store cannot be opened, read back or trusted."""


class PluginError(S3GymError):
    """A user's agent, memory or game raised, hung or returned nonsense; fails its study."""


class BlockedError(PluginError):
    """A plug-in held the event loop and was broken off."""


class ProtocolBreachError(S3GymError):
    """The benchmark broke its own rules; never caught."""


def retryable_status(status: int) -> bool:
    """Return whether an HTTP request may succeed later: 408, 409, 429 and 5xx."""
    return status in RETRYABLE or status >= 500


def first_of(group: BaseExceptionGroup[E]) -> E:
    """Return the first error of a task group's exception group, however deep it lies."""
    error: E | BaseExceptionGroup[E] = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
