"""Hash chains: per episode and per side, so that an edited, deleted or swapped row is found.

A step's hash covers the previous step's hash and its own row; the first covers the episode's
opening. A verdict's hash covers the previous verdict's hash, the hash of its own step and its
own row: the verifier's chain leans on the learner's, never the reverse, because a hash over a
guessable reward in a learner's row would be an oracle.
"""

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode


def canonical(value: Any) -> str:
    """Return the one JSON text of a value: sorted keys, no blanks."""
    return _encode(value)


def digest(*parts: Any) -> str:
    """Return the SHA-256 of the parts' canonical JSON, in hexadecimal."""
    return sha256(_encode(parts).encode("utf-8", "surrogatepass")).hexdigest()


def link(previous: str, row: Sequence[Any]) -> str:
    """Return the hash of a row that follows ``previous``."""
    return sha256(f"{previous}\n{_encode(row)}".encode("utf-8", "surrogatepass")).hexdigest()
