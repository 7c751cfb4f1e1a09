"""``s3gym check``: does your own game, memory or agent keep its contract?"""

import inspect
from functools import partial
from typing import Any

import anyio
import click

from s3gym.catalog import find_game, load
from s3gym.cli.console import say
from s3gym.cli.parts import find_own_modules
from s3gym.contracts.game import Clock
from s3gym.errors import ConfigError
from s3gym.records import Observation, Phase, Turn
from s3gym.seeds import EpisodeSeeds
from s3gym.testing import ConformanceError, check_agent, check_game, check_memory

SAMPLE = "trust"
"""Game of a sample prompt where none is named."""


@click.command("check")
@click.argument("name")
@click.option("--show-prompt", is_flag=True, help="Print a sample prompt, and stop.")
@click.option("--game", help="Game of the sample prompt, and the one that an agent plays.")
@click.option("--layout", type=click.Choice(["paper", "cached"]), default="paper")
def check_command(name: str, game: str | None, layout: Any, *, show_prompt: bool) -> None:
    """Check a plug-in, named as module:attribute; exit 1 when it breaks its contract."""
    find_own_modules()
    if ":" not in name:
        raise ConfigError(f"{name!r}: expected module:attribute, for example mine:MyAgent")
    found = load(name, "plug-in")
    if show_prompt:
        for message in sample_turn(game or SAMPLE).messages(layout):
            say(f"[{message.role}]\n{message.content}\n")
        return
    try:
        kind = _check(found, game)
    except ConformanceError as error:
        for line in str(error).splitlines():
            say(line)
        raise SystemExit(1) from error
    say(f"{name}: keeps the contract of {kind}")


def _check(found: Any, game: str | None) -> str:
    if hasattr(found, "setup") and hasattr(found, "rules"):
        spec: Any = found
        if isinstance(found, type):
            find_game(spec)  # says that it is a class
        check_game(spec)
        return "a game"
    made = found
    if isinstance(found, type) or (
        callable(found) and not hasattr(found, "act") and not inspect.signature(found).parameters
    ):
        made = found()
    if hasattr(made, "recall") and hasattr(made, "record"):
        anyio.run(check_memory, found)
        return "a memory"
    spec = None if game is None else find_game(game)
    anyio.run(partial(check_agent, found, game=spec))
    return "an agent"


def sample_turn(game: str) -> Turn:
    """Return the first turn of an exploration episode, under a fixed seed."""
    spec = find_game(game)
    options = spec.options()
    setup = spec.setup(options, Phase.EXPLORATION)
    state = setup.game.start(EpisodeSeeds(episode=0, game=spec.name))
    text = setup.game.observe(state, Clock(step=1, max_steps=setup.max_steps))
    return Turn(
        episode="sample",
        game=spec.name,
        phase=Phase.EXPLORATION,
        rules=spec.rules(options, Phase.EXPLORATION),
        instruction=spec.instruction(options, Phase.EXPLORATION),
        observation=Observation(text=text),
        max_steps=setup.max_steps,
    )
