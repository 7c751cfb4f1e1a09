"""What machine and versions a store was made on; outside every hash."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGES = ("s3gym", "anyio", "pydantic", "numpy", "scipy", "openai", "anthropic", "tiktoken")


def provenance() -> dict[str, object]:
    """Return versions and machine, never a name of a person or a host, and never a key."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": os.cpu_count(),
        "command": [os.path.basename(word) if not i else word for i, word in enumerate(sys.argv)],
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
