"""Reference players: they know the rules of a game, read its text alone, and show its ceiling.

Never learners: they are the yardstick. Nothing else on the learner's side imports them.
"""

from importlib import import_module

from s3gym.contracts.agent import Answer
from s3gym.errors import ConfigError
from s3gym.records import Turn
from s3gym.seeds import Stream

REFERENCE_PLAYERS: dict[str, str] = {
    "chess": "s3gym.agents.reference.chess",
    "chess_duel": "s3gym.agents.reference.chess_duel",
    "minesweeper": "s3gym.agents.reference.minesweeper",
    "nullify": "s3gym.agents.reference.nullify",
    "pvz": "s3gym.agents.reference.pvz",
    "snake": "s3gym.agents.reference.snake",
    "tetris": "s3gym.agents.reference.tetris",
    "trust": "s3gym.agents.reference.trust",
}
"""Game -> module with ``choose(turn, stream) -> Move``."""


class ReferenceAgent:
    """Plays each game's reference policy from the observation text."""

    stateless = True
    knows = frozenset(REFERENCE_PLAYERS)

    async def act(self, turn: Turn) -> Answer:
        """Return the reference player's move."""
        try:
            where = REFERENCE_PLAYERS[turn.game]
        except KeyError:
            raise ConfigError(f"there is no reference player for the game {turn.game!r}") from None
        move = import_module(where).choose(turn, Stream(turn.seed))
        return (move.action, move.self_score)
