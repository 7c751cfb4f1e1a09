"""Reading a study's specification, which a damaged store may hold in any shape."""

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import ValidationError

from s3gym.errors import StoreError
from s3gym.schedule import Schedule

Kept = Literal["in process", "sealed", "sealed as another user", "over MCP"]
"""How agent and memory are kept apart from game, verifier and store."""
NEEDED = ("agent", "game", "memory", "options", "schedule", "settings")


def read_spec(study: str, text: str) -> dict[str, Any]:
    """Return a study's specification.

    Raises:
        StoreError: The text is none.
    """
    try:
        spec = json.loads(text)
        missing = [key for key in NEEDED if key not in spec]
        Schedule(**spec["schedule"])
    except (ValueError, TypeError, KeyError, ValidationError) as error:
        raise _damaged(study) from error
    if missing or not isinstance(spec, dict):
        raise _damaged(study)
    return spec


def kept_apart(spec: Mapping[str, Any]) -> Kept:
    """Return how the agent of a study was kept apart, from the study's specification.

    Over MCP the agent is another program, and the memory is in process.
    """
    try:
        settings = json.loads(spec["settings"])
        outside = spec["agent"].get("outside", False)
    except (ValueError, TypeError, AttributeError):
        return "in process"
    if outside:
        return "over MCP"
    if not isinstance(settings, dict) or not settings.get("sealed"):
        return "in process"
    return "sealed as another user" if settings.get("sealed_user") else "sealed"


def _damaged(study: str) -> StoreError:
    return StoreError(
        f"the specification of study {study!r} cannot be read; 's3gym audit' names what is damaged"
    )
