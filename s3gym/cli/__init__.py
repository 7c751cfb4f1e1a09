"""The command line: ``s3gym COMMAND``. Every command is one function in one of these files."""

from s3gym.cli.main import main

__all__ = ["main"]
