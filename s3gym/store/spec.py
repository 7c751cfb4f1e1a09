"""Reading a study's specification, which a damaged store may hold in any shape."""

import json
from typing import Any

from pydantic import ValidationError

from s3gym.errors import StoreError
from s3gym.schedule import Schedule

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


def _damaged(study: str) -> StoreError:
    return StoreError(
        f"the specification of study {study!r} cannot be read; 's3gym audit' names what is damaged"
    )
