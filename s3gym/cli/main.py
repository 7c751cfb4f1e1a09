"""The group of all commands, and the one place where errors become exit codes."""

import sqlite3
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

import click

from s3gym.cli.console import say_error
from s3gym.errors import (
    BudgetExhaustedError,
    ConfigError,
    PluginError,
    S3GymError,
    ServiceError,
    StoreError,
)
from s3gym.startup import INTERRUPTED as INTERRUPTED
from s3gym.startup import loaded

COMMANDS = {
    "audit": "s3gym.cli.audit",
    "check": "s3gym.cli.check",
    "compare": "s3gym.cli.report",
    "doctor": "s3gym.cli.doctor",
    "export": "s3gym.cli.export",
    "extend": "s3gym.cli.run",
    "games": "s3gym.cli.games",
    "memory": "s3gym.cli.memory",
    "merge": "s3gym.cli.merge",
    "plan": "s3gym.cli.plan",
    "play": "s3gym.cli.games",
    "proxy": "s3gym.cli.proxy",
    "replay": "s3gym.cli.replay",
    "report": "s3gym.cli.report",
    "resume": "s3gym.cli.run",
    "run": "s3gym.cli.run",
    "serve": "s3gym.cli.serve",
    "status": "s3gym.cli.status",
}
"""Command -> module; loaded when it is used, so that ``s3gym games`` need not load the rest."""
USAGE, SERVICE, PLUGIN = 2, 3, 4


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), f"{cmd_name}_command")
        loaded()
        return command if isinstance(command, click.Command) else None


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("s3gym"), prog_name="s3gym")
def group() -> None:
    """Does experience make an agent better? Explore, judge, remember, be tested.

    Exit codes: 0 done, 1 findings, 2 usage or configuration, 3 a service failed,
    4 a plug-in failed, 130 interrupted.
    """


def exit_code(error: S3GymError) -> int:
    """Return the documented exit code of an error."""
    if isinstance(error, PluginError):
        return PLUGIN
    if isinstance(error, (ServiceError, BudgetExhaustedError)):
        return SERVICE
    if isinstance(error, (ConfigError, StoreError)):
        return USAGE
    return 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code; a user's mistake is one clear line."""
    try:
        code = group.main(args=arguments, standalone_mode=False)
    except click.exceptions.Abort:
        code = INTERRUPTED
    except click.exceptions.Exit as exit_request:
        code = exit_request.exit_code
    except click.ClickException as error:
        error.show()
        code = USAGE
    except KeyboardInterrupt:
        code = INTERRUPTED
    except BrokenPipeError:
        code = 0
    except sqlite3.Error as error:
        say_error(f"the store cannot be read: {error}; 's3gym audit' names what is damaged")
        code = USAGE
    except S3GymError as error:
        for line in str(error).splitlines():
            say_error(line)
        code = exit_code(error)
    sys.exit(code if isinstance(code, int) else 0)
