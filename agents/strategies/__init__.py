"""Plain strategies per game, for ``StrategistAgent`` and ``RandomAgent``.

They read the observation *text* as a model would and know the printed rules alone.
"""

PLAYBOOKS: dict[str, str] = {
    "chess": "s3gym.agents.strategies.chess:PLAYBOOK",
    "chess_duel": "s3gym.agents.strategies.chess_duel:PLAYBOOK",
    "snake": "s3gym.agents.strategies.snake:PLAYBOOK",
    "trust": "s3gym.agents.strategies.trust:PLAYBOOK",
}
"""Game -> where its ``Playbook`` is; loaded when it is used."""
