"""Plain strategies per game, for ``StrategistAgent`` and ``RandomAgent``.

They read the observation *text* as a model would and know the printed rules alone.
"""

from importlib import import_module

from s3gym.agents.strategies.playbook import Playbook
from s3gym.errors import ConfigError

PLAYBOOKS: dict[str, str] = {
    "chess": "s3gym.agents.strategies.chess:PLAYBOOK",
    "chess_duel": "s3gym.agents.strategies.chess_duel:PLAYBOOK",
    "minesweeper": "s3gym.agents.strategies.minesweeper:PLAYBOOK",
    "nullify": "s3gym.agents.strategies.nullify:PLAYBOOK",
    "pvz": "s3gym.agents.strategies.pvz:PLAYBOOK",
    "snake": "s3gym.agents.strategies.snake:PLAYBOOK",
    "tetris": "s3gym.agents.strategies.tetris:PLAYBOOK",
    "trust": "s3gym.agents.strategies.trust:PLAYBOOK",
}
"""Game -> where its ``Playbook`` is; loaded when it is used."""


def playbook_of(game: str) -> Playbook:
    """Return the playbook of a game.

    Raises:
        ConfigError: There is none.
    """
    try:
        module, _, name = PLAYBOOKS[game].partition(":")
    except KeyError:
        known = ", ".join(sorted(PLAYBOOKS))
        raise ConfigError(
            f"there are no strategies for the game {game!r}, only for: {known}"
        ) from None
    found = getattr(import_module(module), name)
    if not isinstance(found, Playbook):
        raise ConfigError(f"expected a Playbook at {PLAYBOOKS[game]}, got {found!r}")
    return found
