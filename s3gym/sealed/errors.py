"""Errors across the pipe: kind and message, so that each side can raise what the other met."""

from typing import Any

from s3gym.errors import (
    BudgetExhaustedError,
    ConfigError,
    MemoryFailure,
    ModelError,
    PluginError,
    S3GymError,
    ServiceError,
)
from s3gym.text import storable

KINDS: dict[str, type[S3GymError]] = {
    kind.__name__: kind
    for kind in (BudgetExhaustedError, ConfigError, MemoryFailure, PluginError, ServiceError)
}
"""Errors that need nothing but a message; all others arrive as a ``PluginError``."""
LONGEST = 2_000


def error_out(error: S3GymError) -> dict[str, Any]:
    """Return an error as a JSON object."""
    found: dict[str, Any] = {
        "kind": type(error).__name__,
        "message": storable(str(error)[:LONGEST]),
    }
    if isinstance(error, ModelError):
        found |= {
            "retryable": error.retryable,
            "retry_after": error.retry_after,
            "status": error.status,
        }
    return found


def error_in(data: Any) -> S3GymError:
    """Return the error that a JSON object stands for, whatever it holds."""
    known = data if isinstance(data, dict) else {}
    message = str(known.get("message", data))[:LONGEST]
    if known.get("kind") == "ModelError":
        wait, status = known.get("retry_after"), known.get("status")
        return ModelError(
            message,
            retryable=known.get("retryable") is True,
            retry_after=float(wait) if isinstance(wait, int | float) and wait >= 0 else None,
            status=status if isinstance(status, int) else None,
        )
    kind = known.get("kind")
    return KINDS.get(kind if isinstance(kind, str) else "", PluginError)(message)
