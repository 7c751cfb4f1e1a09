"""Plain strategies per game, for ``StrategistAgent`` and ``RandomAgent``.

They read the observation *text* as a model would and know the printed rules alone.
"""

PLAYBOOKS: dict[str, str] = {
    "pvz": "s3gym.agents.strategies.pvz:PLAYBOOK",
    "snake": "s3gym.agents.strategies.snake:PLAYBOOK",
    "tetris": "s3gym.agents.strategies.tetris:PLAYBOOK",
    "trust": "s3gym.agents.strategies.trust:PLAYBOOK",
}
"""Game -> where its ``Playbook`` is; loaded when it is used."""
