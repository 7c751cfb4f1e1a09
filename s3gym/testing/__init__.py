"""Conformance checks and fakes, for our tests and for outsiders.

``check_game``, ``check_agent`` and ``check_memory`` raise a ``ConformanceError`` that lists every
broken promise of a plug-in's contract. ``s3gym check module:object`` runs them from a terminal.
"""

from s3gym.testing.agent import check_agent
from s3gym.testing.canary import CANARY, CanaryGame
from s3gym.testing.fakes import ScriptedChat
from s3gym.testing.findings import ConformanceError, Finding, Findings
from s3gym.testing.game import check_game
from s3gym.testing.memory import check_memory
from s3gym.testing.sample import SampleEpisode

__all__ = [
    "CANARY",
    "CanaryGame",
    "ConformanceError",
    "Finding",
    "Findings",
    "SampleEpisode",
    "ScriptedChat",
    "check_agent",
    "check_game",
    "check_memory",
]
