"""Options that several commands take, and what they are called in a study file."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from s3gym.cli.folders import ENGINES
from s3gym.cli.training import words_of

Command = Callable[..., None]


def part_options(command: Command) -> Command:
    """Add the options that name parts and models."""
    for option in reversed(
        (
            click.option("--agent", multiple=True, help="Agent: a name or module:attribute."),
            click.option("--memory", multiple=True, help="Memory: a name or module:attribute."),
            click.option("--game", multiple=True, help="Game: a name or module:attribute."),
            click.option(
                "--trainer", metavar="NAME", help="Trainer: trl, openai, command, module:attribute."
            ),
            click.option(
                "--trainer-command", metavar="WORDS", help="Command of the trainer 'command'."
            ),
            click.option(
                "--trainer-chat", metavar="NAME", help="Chat model of what that command made."
            ),
            click.option("--trainer-base", metavar="NAME", help="Weights to start from."),
            click.option("--base-url", help="Address of a compatible model server."),
            click.option("--api-key-env", help="Name of the variable that holds the key."),
            click.option("--layout", type=click.Choice(["paper", "cached"])),
            click.option("--contract", type=click.Choice(["line", "json"])),
            click.option("--reask", type=int, help="Re-asks after a faulty reply: 0 or 1."),
            click.option("--rpm", type=float, help="Most requests per minute."),
            click.option("--tpm", type=float, help="Most tokens per minute."),
            click.option("--max-usd", type=float, help="Stop resumably at this cost."),
            click.option("--max-tokens", type=float, help="Stop resumably at this many tokens."),
            click.option("--max-hours", type=float, help="Stop resumably after this time."),
            click.option(
                "--replay",
                type=click.Path(path_type=Path),
                help="Answer all model calls from this store; no network.",
            ),
            click.option(
                "--proxy",
                type=click.IntRange(0, 65535),
                metavar="PORT",
                help="Stand between the agent's app and its models, on this port; 0: a free one.",
            ),
            click.option("--jobs", type=int, help="Studies side by side (default 16)."),
            click.option(
                "--sealed",
                is_flag=True,
                default=None,
                help="Run agent and memory in a process of their own.",
            ),
            click.option("--sealed-user", metavar="NAME", help="Run that process as this user."),
            click.option(
                "--sealed-python", metavar="PATH", help="Interpreter that this user may run."
            ),
            click.option(
                "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key."
            ),
            click.option("--quiet", is_flag=True, help="Show failures only."),
        )
    ):
        command = option(command)
    return command


def engine_options(command: Command) -> Command:
    """Add the options that say which machines run a sweep's folder."""
    address = click.option(
        "--address", metavar="HOST:PORT|auto", help="Where the engine's cluster is reached."
    )
    engine = click.option(
        "--engine", type=click.Choice(sorted(ENGINES)), help="Run studies into a folder by this."
    )
    return engine(address(command))


def given_options(values: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, under their keys in a study file."""
    keys = {
        "max_usd": "budget.usd",
        "max_tokens": "budget.tokens",
        "max_hours": "budget.hours",
        "trainer": "training.trainer",
        "trainer_command": "training.command",
        "trainer_chat": "training.chat",
        "trainer_base": "training.base",
        **{
            name: f"model.{name}"
            for name in ("base_url", "api_key_env", "layout", "contract", "reask", "rpm", "tpm")
        },
    }
    if values.get("trainer_command") is not None:
        values = values | {"trainer_command": words_of(values["trainer_command"])}
    return {
        keys.get(name, name): list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not None and value != ()
    }
