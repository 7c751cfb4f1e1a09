"""From a configuration to a sweep: parts by name, models with their limits and budgets."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from s3gym.api import Sweep
from s3gym.catalog import find_game
from s3gym.config import RunConfig


@dataclass(slots=True, kw_only=True)
class Wiring:
    """A sweep, ready to run."""

    sweep: Sweep


def wire(config: RunConfig, replay: Path | None = None) -> Wiring:
    """Return the sweep of a configuration.

    Args:
        config: What to run.
        replay: A store that answers all model calls.

    Raises:
        ConfigError: A part or an option is wrong.
    """
    find_own_modules()
    games = [find_game(name) for name in config.game]
    options = {find_game(name).name: values for name, values in config.games.items()}
    settings = {"model": config.model.model_dump(exclude_defaults=True)}
    return Wiring(
        sweep=Sweep(
            games=games,
            agents=config.agent,
            memories=config.memory,
            repeats=config.repeats,
            schedule=config.schedule,
            seed=config.seed,
            store=config.store,
            options=options,
            at_most=config.jobs,
            settings=settings if settings["model"] else {},
        )
    )


def find_own_modules() -> None:
    """Let ``module:attribute`` name a module of the current folder, as ``python -m`` does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
