"""Does experience make an agent better? s3gym answers by measurement."""

import s3gym.startup as _startup  # noqa: F401 - sees to Ctrl-C while all below is loaded

# isort: split
from s3gym.agents.adapt import as_agent
from s3gym.api import Result, Study, Sweep
from s3gym.contracts.agent import Agent, Forkable
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.contracts.memory import Memory, MemoryReader, MemorySnapshot
from s3gym.errors import ConfigError, PluginError, S3GymError, ServiceError, StoreError
from s3gym.records import (
    Cue,
    Decision,
    Episode,
    Message,
    Observation,
    Phase,
    Recollection,
    Step,
    Turn,
    Usage,
)
from s3gym.replies import parse_reply
from s3gym.schedule import Schedule
from s3gym.sealed.seal import Seal
from s3gym.sft import SFTPolicy
from s3gym.training import Training

__all__ = [
    "Agent",
    "ChatModel",
    "ConfigError",
    "Cue",
    "Decision",
    "Episode",
    "Forkable",
    "Memory",
    "MemoryReader",
    "MemorySnapshot",
    "Message",
    "Observation",
    "Phase",
    "PluginError",
    "Recollection",
    "Reply",
    "Result",
    "S3GymError",
    "SFTPolicy",
    "Schedule",
    "Seal",
    "ServiceError",
    "Step",
    "StoreError",
    "Study",
    "Sweep",
    "Training",
    "Turn",
    "Usage",
    "as_agent",
    "parse_reply",
]
