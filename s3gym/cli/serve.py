"""``s3gym serve``: an outside agent plays a study over MCP."""

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import anyio
import click

from s3gym.api import Result
from s3gym.cli.console import log_errors, say, say_error
from s3gym.cli.options import given_options
from s3gym.cli.parts import wire
from s3gym.cli.run import recorded_config, say_result
from s3gym.config import RunConfig, read_config, validated
from s3gym.errors import ConfigError
from s3gym.parts import fit_for_ids
from s3gym.proxy.server import address, listening
from s3gym.schedule import SCHEDULES
from s3gym.serve import Desk, outcome_reader, play_outside, serve_http, tools
from s3gym.store import file

PATIENCE = 86_400.0
"""Default deadline of one decision, in seconds: whoever plays may be a person's assistant."""


@click.command("serve")
@click.option("--mcp", is_flag=True, required=True, help="Serve the Model Context Protocol.")
@click.option(
    "--http",
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Over HTTP on loopback, 0: a free port; default: stdio.",
)
@click.option("--game", multiple=True, help="Game: a name or module:attribute.")
@click.option("--memory", multiple=True, help="Memory between episodes (default history).")
@click.option("--name", default="mcp", help="Name of the outside agent in ids and reports.")
@click.option("--schedule", type=click.Choice(sorted(SCHEDULES)), help="Default: paper.")
@click.option("--seed", type=int, help="Root seed; drawn when it is missing.")
@click.option("--repeats", type=int, help="Studies per cell (default 1).")
@click.option("--store", required=True, type=click.Path(path_type=Path), help="File to write.")
@click.option("--resume", is_flag=True, help="Take up the unfinished store; no other options.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key.")
def serve_command(
    http: int | None,
    name: str,
    store: Path,
    overrides: tuple[str, ...],
    *,
    mcp: bool,
    resume: bool,
    **given: Any,
) -> None:
    """Let an outside agent play a study: rules, observe, act, recall, and nothing else."""
    log_errors()
    if fit_for_ids(name) != name:
        raise ConfigError(
            f"--name: expected letters, digits, '_', '-' and '.', got {name!r}; "
            f"{fit_for_ids(name)!r} would do"
        )
    if resume:
        config = _recorded(store, name)
    else:
        defaults = {"memory": ["history"], "repeats": 1, "schedule.act_seconds": PATIENCE}
        values = defaults | given_options(given) | {"agent": [name], "store": str(store)}
        config = read_config(None, values, overrides)
        file.must_be_new(store)
    listener = None if http is None else listening(http)
    results: list[Result] = []

    async def play() -> None:
        desk = Desk(outcome_reader(store))
        server = tools(desk)
        sweep = wire(config, agents=[desk.part(name)]).sweep
        sweep.at_most = 1  # one episode at a time, one study after the other

        async def study() -> None:
            results.append(await (sweep.resume() if resume else sweep.run()))

        def serve() -> Awaitable[None]:
            if listener is None:
                return server.run_stdio_async()
            return serve_http(server, desk, listener)

        if listener is not None:
            say_error(f"{address(listener)}/mcp; Ctrl-C stops, resumably")
        await play_outside(desk, study, serve)

    anyio.run(play)
    _say_end(results, store, over_stdio=http is None)


def _recorded(store: Path, name: str) -> RunConfig:
    recorded = recorded_config(store, over_mcp=True)
    if recorded["agent"] != [name]:
        raise ConfigError(f"--name: this store was played by {recorded['agent'][0]!r}")
    return validated(RunConfig, recorded | {"store": str(store)}, str(store))


def _say_end(results: list[Result], store: Path, *, over_stdio: bool) -> None:
    """Say how it ended; over stdio what is printed goes to the agent's side, so no more there."""
    if not results:
        say_error("stopped; go on with: s3gym serve --mcp --resume and the same --store")
    elif over_stdio:
        say_error("the study is over")
    else:
        say_result(results[0])
        say(f"next: s3gym report {store}")
