"""Writes ``reference/games.md`` from the docstrings of the game files and their ``SPEC``.

Run ``python docs/make_games.py``.
"""

import re
import sys
from collections.abc import Mapping
from importlib import import_module
from inspect import cleandoc
from pathlib import Path

from s3gym.catalog import find_game
from s3gym.contracts.game import GameSpec
from s3gym.errors import MissingExtraError
from s3gym.games import GAMES
from s3gym.records import Phase

PAGE = Path(__file__).parent / "reference" / "games.md"
HEADINGS = ("Observation", "Actions", "Reward", "Score", "Ends", "Phases")
FIELD = re.compile(r"^([A-Z][a-z]+):\s+(.*)$")
INTRODUCTION = """\
# The games in one table

Made from the docstrings of the game files and from what they offer, by `python
docs/make_games.py`; a test compares. Each game has a page of its own with its exact rules, its
switches and the levels of its players.

**Steps** is the cap of an episode: of exploration, then of evaluation where it differs.
**Anchors** are mean scores in evaluation under default options: random play, the reference
player, and the greatest possible score. `s3gym games NAME` prints the rules as an agent reads them.
"""


def fields(doc: str) -> dict[str, str]:
    """Return a game's docstring by heading; its first line stands under ``Summary``."""
    summary, *lines = doc.splitlines()
    found, name = {"Summary": summary.partition(": ")[2]}, ""
    for line in lines:
        match = FIELD.match(line)
        if match:
            name = match[1]
            found[name] = match[2]
        elif name and line.startswith(" "):
            found[name] += f" {line.strip()}"
        else:
            name = ""
    return found


def marked(text: str, constants: Mapping[str, object]) -> str:
    """Return a docstring's text as Markdown for a table; constants become their values."""
    text = re.sub(r"``([A-Z_]+)``", lambda match: str(constants.get(match[1], match[0])), text)
    return text.replace("``", "`").replace("|", "\\|")


def steps_of(spec: GameSpec) -> str:
    """Return the step caps of both phases."""
    options = spec.options()
    caps = dict.fromkeys(str(spec.setup(options, phase).max_steps) for phase in Phase)
    return ", ".join(caps)


def row(name: str) -> str:
    """Return a game's line of the table."""
    module = import_module(GAMES[name].partition(":")[0])
    said, constants = fields(cleandoc(module.__doc__ or "")), vars(module)
    spec = find_game(name)
    anchors = spec.anchors
    cells = [
        f"[{name}](games-{name.replace('_', '-')}.md): {marked(said['Summary'], constants)}",
        *(marked(said[heading], constants) for heading in HEADINGS),
        steps_of(spec),
        f"{anchors.random:.3g}, {anchors.reference:.3g}, {anchors.ceiling:.3g}",
    ]
    return f"| {' | '.join(cells)} |"


def page() -> str:
    """Return the page."""
    titles = ("Game", *HEADINGS, "Steps", "Anchors")
    table = [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}", *map(row, sorted(GAMES))]
    return f"{INTRODUCTION}\n" + "\n".join(table) + "\n"


if __name__ == "__main__":
    try:
        PAGE.write_text(page())
    except MissingExtraError as error:
        sys.exit(str(error))
