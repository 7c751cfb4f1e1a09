"""Agents, chat models and trainers, one file each. To add one: write it, and add its line here."""

AGENTS: dict[str, str] = {
    "human": "s3gym.agents.human:HumanAgent",
    "random": "s3gym.agents.random:RandomAgent",
    "reference": "s3gym.agents.reference:ReferenceAgent",
    "strategist": "s3gym.agents.strategist:StrategistAgent",
}
"""Name of every built-in agent, and where its class is; called without arguments."""
TRAINERS: dict[str, str] = {
    "command": "s3gym.agents.train_command:CommandTrainer",
    "openai": "s3gym.agents.train_openai:OpenAIFineTune",
    "trl": "s3gym.agents.train_trl:TRLTrainer",
}
"""Name of every built-in trainer, and where its class is; imported when it is used."""
