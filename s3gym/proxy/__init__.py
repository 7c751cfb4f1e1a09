"""A proxy on loopback between an app and its models: metered, limited, recorded, replayable."""

from s3gym.proxy.server import Exchange, Serving, environment
from s3gym.proxy.turns import Turns

__all__ = ["Exchange", "Serving", "Turns", "environment"]
