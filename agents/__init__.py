"""Agents and chat models, one file each. To add one: write the file, add a line to ``AGENTS``."""

AGENTS: dict[str, str] = {
    "human": "s3gym.agents.human:HumanAgent",
    "random": "s3gym.agents.random:RandomAgent",
    "reference": "s3gym.agents.reference:ReferenceAgent",
    "strategist": "s3gym.agents.strategist:StrategistAgent",
}
"""Name of every built-in agent, and where its class is; called without arguments."""
