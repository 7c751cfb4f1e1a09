"""Collecting what a conformance check finds, so that one run names every broken promise."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import PurePath
from traceback import extract_tb
from types import TracebackType

from s3gym.errors import S3GymError
from s3gym.text import shorten


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One broken promise of a plug-in.

    Attributes:
        promise: What the contract asks for.
        where: Where it was broken first: ``evaluation, episode 0, step 3``.
        detail: What was expected and what came.
        times: How often it was broken.
    """

    promise: str
    where: str
    detail: str
    times: int = 1

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        again = f" [{self.times} times]" if self.times > 1 else ""
        return f"{self.promise}{place}: {self.detail}{again}"


class ConformanceError(S3GymError):
    """A plug-in does not keep its contract.

    Attributes:
        subject: Names the plug-in.
        findings: Every broken promise, in the order in which it was found.
    """

    def __init__(self, subject: str, findings: tuple[Finding, ...]) -> None:
        self.subject, self.findings = subject, findings
        noun = "promise" if len(findings) == 1 else "promises"
        lines = "".join(f"\n- {finding}" for finding in findings)
        super().__init__(f"{subject} breaks {len(findings)} {noun} of its contract:{lines}")


class Findings:
    """Findings of one check.

    Attributes:
        subject: Names the plug-in.
        where: Where the check is now; part of the next finding.
    """

    def __init__(self, subject: str) -> None:
        self.subject = subject
        self.where = ""
        self._found: dict[str, Finding] = {}

    def __len__(self) -> int:
        return len(self._found)

    def add(self, promise: str, detail: str) -> None:
        """Note a broken promise; the first place is kept, later ones are counted."""
        known = self._found.get(promise)
        if known is None:
            self._found[promise] = Finding(promise=promise, where=self.where, detail=detail)
        else:
            self._found[promise] = Finding(
                promise=promise, where=known.where, detail=known.detail, times=known.times + 1
            )

    def expect(self, kept: bool, promise: str, detail: str | Callable[[], str]) -> bool:
        """Note a promise that is not kept; return ``kept``."""
        if not kept:
            self.add(promise, detail if isinstance(detail, str) else detail())
        return kept

    def catching(self, promise: str) -> AbstractContextManager[object]:
        """Return a context that ends where the plug-in raises, and notes what it raised."""
        return _Catching(self, promise)

    def raise_if_any(self) -> None:
        """Raise a ``ConformanceError`` when a promise was broken."""
        if self._found:
            raise ConformanceError(self.subject, tuple(self._found.values()))


class _Catching:
    def __init__(self, findings: Findings, promise: str) -> None:
        self._findings, self._promise = findings, promise

    def __enter__(self) -> object:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):  # a cancellation or Ctrl-C passes through
            return False
        self._findings.add(self._promise, describe(error, trace))
        return True


def describe(error: Exception, trace: TracebackType | None = None) -> str:
    """Return an error in one line: ours by its message, others with type and place."""
    if isinstance(error, S3GymError):
        return str(error)
    frames = extract_tb(trace or error.__traceback__)
    place = (
        f", raised at {PurePath(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    )
    message = f": {shorten(str(error), 300)}" if str(error) else ""
    return f"{type(error).__name__}{message}{place}"
