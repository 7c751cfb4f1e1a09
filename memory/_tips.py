"""The tips of a summary: their shape, their bounds, and how they are read from a reply."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from s3gym.errors import ResponseFormatError
from s3gym.memory._outcomes import Digest, groups, overall_mean
from s3gym.prompts import number
from s3gym.text import shorten

MAX_TIPS = 12
MAX_TIP_CHARACTERS = 400
MAX_REPLY_CHARACTERS = 65_536
HEADINGS = ("retain", "avoid", "next")
HEADING = re.compile(r"^[\W_]*(retain|avoid|next)\b[^\n]{0,40}?[\W_]*$", re.IGNORECASE)
BULLET = re.compile(r"^\s*(?:[-*•]|[0-9]{1,3}[.)])\s+(\S.*)$")

Tip = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TIP_CHARACTERS)
]
Section = Annotated[tuple[Tip, ...], Field(max_length=MAX_TIPS)]


class Tips(BaseModel):
    """What a summary holds: at most 12 tips per heading, of at most 400 characters each."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    retain: Section = ()
    avoid: Section = ()
    next: Section = ()

    def lines(self) -> list[str]:
        """Return the tips as lines: a heading per section that has some, then its bullets."""
        return list(self._lines())

    def _lines(self) -> Iterator[str]:
        for heading in HEADINGS:
            section: tuple[str, ...] = getattr(self, heading)
            if section:
                yield f"{heading.capitalize()}:"
                yield from (f"- {tip}" for tip in section)

    @property
    def count(self) -> int:
        """Number of tips."""
        return len(self.retain) + len(self.avoid) + len(self.next)

    @classmethod
    def bounded(cls, sections: dict[str, Any], repairs: list[str]) -> Self:
        """Return tips with what is too much cut off, each cut named in ``repairs``."""
        return cls(**{name: _bounded(name, value, repairs) for name, value in sections.items()})


def _bounded(name: str, value: Any, repairs: list[str]) -> Any:
    if isinstance(value, str):
        value = [value] if value.strip() else []
    if not isinstance(value, list | tuple):
        return value
    if len(value) > MAX_TIPS:
        repairs.append(f"{name}: {len(value) - MAX_TIPS} tips over {MAX_TIPS} left out")
    tips = [" ".join(tip.split()) if isinstance(tip, str) else tip for tip in value[:MAX_TIPS]]
    if any(isinstance(tip, str) and len(tip) > MAX_TIP_CHARACTERS for tip in tips):
        repairs.append(f"{name}: tips cut at {MAX_TIP_CHARACTERS} characters")
    return [
        tip[:MAX_TIP_CHARACTERS].rstrip() if isinstance(tip, str) else tip for tip in tips if tip
    ]


def read_tips(reply: str) -> tuple[Tips, tuple[str, ...]]:
    """Return the tips of a model's reply, and what had to be repaired to read them.

    Read in this order: a JSON object with the keys ``retain``, ``avoid`` and ``next``; bullets
    under those headings; bullets without a heading (as ``retain``). Only the first 65,536
    characters are read.

    Raises:
        ResponseFormatError: The reply holds no tips, or JSON of another shape.
    """
    repairs: list[str] = []
    if len(reply) > MAX_REPLY_CHARACTERS:
        repairs.append(f"{len(reply) - MAX_REPLY_CHARACTERS} characters of the reply were not read")
        reply = reply[:MAX_REPLY_CHARACTERS]
    sections = _from_json(reply) or _from_bullets(reply, repairs)
    try:
        tips = Tips.bounded(sections, repairs)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ResponseFormatError(f"expected tips, got {where}: {first['msg']}") from None
    if not tips.count:
        raise ResponseFormatError(f"expected tips, got {shorten(reply)}")
    return tips, tuple(repairs)


def _from_json(reply: str) -> dict[str, Any]:
    start, stop = reply.find("{"), reply.rfind("}")
    if start < 0 or stop < start:
        return {}
    try:
        found = json.loads(reply[start : stop + 1])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _from_bullets(reply: str, repairs: list[str]) -> dict[str, Any]:
    sections: dict[str, Any] = {}
    heading = ""
    for line in reply.splitlines():
        bullet = BULLET.match(line)
        if bullet:
            if not heading:
                repairs.append("bullets without a heading, kept under retain")
                heading = "retain"
            sections.setdefault(heading, []).append(bullet[1])
        elif len(line) < 80 and (found := HEADING.match(line)):
            heading = found[1].lower()
    return sections


def rule_tips(digests: Sequence[Digest]) -> Tips:
    """Return tips without a model: what was played, grouped and ranked by how episodes went.

    Groups with a mean outcome of at least the mean over all judged episodes are retained, best
    first; the others are to be avoided, worst first; what was seen only once is worth a second
    look.
    """
    ranked, middle = groups(digests), overall_mean(digests)
    retain = [group.line() for group in ranked if group.mean >= middle]
    avoid = [group.line() for group in reversed(ranked) if group.mean < middle]
    return Tips.bounded({"retain": retain, "avoid": avoid, "next": _next(digests)}, [])


def _next(digests: Sequence[Digest]) -> list[str]:
    ranked = groups(digests)
    judged = [item for item in digests if item.outcome is not None]
    tips: list[str] = []
    if judged:
        best = max(judged, key=lambda item: (item.outcome or 0.0, -item.ordinal))
        tips.append(
            f"build on episode {best.ordinal} (outcome {number(best.outcome)}, {best.n_steps} "
            f"steps); it began: {', '.join(best.opening)}"
        )
        if best.words:
            tips.append(f"its own words: {best.words}")
    if len(judged) > 1:
        worst = min(judged, key=lambda item: (item.outcome or 0.0, item.ordinal))
        tips.append(
            f"episode {worst.ordinal} went worst and ended with: {worst.ending or 'nothing'}"
        )
    once = [group.label.removeprefix("strategy: ") for group in ranked if group.count == 1]
    if once and len(ranked) > 1:
        tips.append(f"seen in one episode only, try again: {', '.join(once)}")
    unjudged = len(digests) - len(judged)
    if unjudged:
        tips.append(f"give every action a self-score: {unjudged} episodes had none")
    return tips
