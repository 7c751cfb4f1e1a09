"""Writing to the terminal: text from models and files is shown as text, never as markup."""

import logging
import sys
from functools import cache

import click
from rich.console import Console
from rich.text import Text


@cache
def console() -> Console:
    """Return the console of standard output; no markup, no guessing of numbers and paths."""
    return Console(markup=False, highlight=False, soft_wrap=True)


def say(text: str = "") -> None:
    """Print a line; control characters of foreign text are shown escaped."""
    click.echo(printable(text))


def say_error(text: str) -> None:
    """Print a line on standard error."""
    click.echo(f"s3gym: {printable(text)}", err=True)


def printable(text: str) -> str:
    """Return the text with control characters (ANSI escapes too) made visible."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else repr(letter)[1:-1]
        for letter in text
    )


class PrintableFormatter(logging.Formatter):
    """Makes control characters visible, those in a traceback's messages too."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        return printable(super().format(record))


def log_errors() -> None:
    """Show errors that are logged on standard error; what plug-ins raise may quote anybody."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(PrintableFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.ERROR, handlers=[handler])


def shown(text: str) -> Text:
    """Return foreign text for a rich table."""
    return Text(printable(text))


def on_terminal() -> bool:
    """Return whether a person watches standard error."""
    return sys.stderr.isatty()
