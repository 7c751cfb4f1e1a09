"""What an audit found: one line per fault, with the row that it is about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from s3gym.contracts.game import GameSpec
from s3gym.store.spec import Kept

Level = Literal["pass", "warn", "fail"]
CHECKS = (
    "completeness",
    "chain",
    "seeds",
    "isolation",
    "barrier",
    "replay",
    "budget",
    "statuses",
    "schedule",
)
"""Names of the checks, in the order in which they run and are shown."""
ORDER: Mapping[Level, int] = {"pass": 0, "warn": 1, "fail": 2}
GameFinder = Callable[[str], GameSpec | None]
"""From a game's name to its specification, or ``None`` when it is not at hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that an audit has to say.

    Attributes:
        where: The row: table and key.
    """

    check: str
    level: Level
    where: str
    message: str


@dataclass(slots=True)
class Audit:
    """Findings, how much each check looked at, and how each study's agent was kept apart."""

    findings: list[Finding] = field(default_factory=list)
    looked_at: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CHECKS, 0))
    root: str | None = None
    kept: dict[str, Kept] = field(default_factory=dict)

    def fail(self, check: str, where: str, message: str) -> None:
        """Add a fault."""
        self.findings.append(Finding(check=check, level="fail", where=where, message=message))

    def warn(self, check: str, where: str, message: str) -> None:
        """Add something that could not be checked, or that a reader should know."""
        self.findings.append(Finding(check=check, level="warn", where=where, message=message))

    def count(self, check: str, n: int = 1) -> None:
        """Note that a check looked at ``n`` more rows."""
        self.looked_at[check] += n

    def level(self, check: str | None = None) -> Level:
        """Return the worst level of one check, or of all."""
        levels: list[Level] = [
            finding.level for finding in self.findings if check in (None, finding.check)
        ]
        return max(levels, key=lambda level: ORDER[level], default="pass")
