"""``s3gym audit``: is the store what was played, and did nothing leak?"""

from collections import Counter
from pathlib import Path

import click

from s3gym.audit import CHECKS
from s3gym.catalog import find_game, memory_prompts, teachings
from s3gym.cli.console import say
from s3gym.cli.folders import audit_of
from s3gym.cli.parts import find_own_modules
from s3gym.contracts.game import GameSpec
from s3gym.errors import ConfigError
from s3gym.report.bundle import unpacked

MOST_SHOWN = 20


@click.command("audit")
@click.argument("store", type=click.Path(path_type=Path))
@click.option("--expect", metavar="ROOT", help="Root that the store must have.")
@click.option("--game", multiple=True, help="Your own game, as module:attribute, for the replay.")
@click.option("--quiet", is_flag=True, help="Show faults only.")
def audit_command(store: Path, expect: str | None, game: tuple[str, ...], *, quiet: bool) -> None:
    """Check a store, or a bundle of one, from its rows alone; exit 1 on a fault."""
    if game:
        find_own_modules()
    given = {spec.name: spec for spec in map(find_game, game)}

    def find(name: str) -> GameSpec | None:
        if name in given:
            return given[name]
        try:
            return find_game(name) if ":" not in name else None
        except ConfigError:
            return None

    with unpacked(store) as rows:
        audit = audit_of(rows, find, expect, memory_prompts(), teachings())
    for check in CHECKS:
        findings = [finding for finding in audit.findings if finding.check == check]
        if quiet:
            findings = [finding for finding in findings if finding.level == "fail"]
        else:
            say(f"{audit.level(check):4}  {check} ({audit.looked_at[check]} looked at)")
        for finding in findings[:MOST_SHOWN]:
            say(f"      {finding.level}: {finding.where}: {finding.message}")
        if len(findings) > MOST_SHOWN:
            say(f"      and {len(findings) - MOST_SHOWN} more")
    if not quiet:
        for kept, count in sorted(Counter(audit.kept.values()).items()):
            say(f"kept  {kept}: {count} of {len(audit.kept)} studies")
        say(f"root  {audit.root or 'not sealed: studies are unfinished'}")
    if audit.level() == "fail":
        raise SystemExit(1)
