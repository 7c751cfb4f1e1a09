"""Uniform random play: the anchor "random" of every game, reproducible by ``Turn.seed``."""

from s3gym.agents.strategies import PLAYBOOKS, playbook_of
from s3gym.contracts.agent import Answer
from s3gym.records import Turn
from s3gym.seeds import Stream


class RandomAgent:
    """Draws every action uniformly, as the game's playbook does it."""

    stateless = True
    knows = frozenset(PLAYBOOKS)

    async def act(self, turn: Turn) -> Answer:
        """Return a random action and what the printed rules let one expect of it.

        Raises:
            ConfigError: The game has no playbook.
        """
        move = playbook_of(turn.game).random(turn, Stream(turn.seed))
        return (move.action, move.self_score)
