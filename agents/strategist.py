"""The embedded agent: plays named strategies and learns from memory which of them serves best.

Needs no model. It reads the observation text as a model would, writes the strategy that it
plays into its notes, and ranks strategies by the *episode's* visible outcome as memory gives it
back: a step's self-score alone would teach cheating in trust. Without a memory it draws
uniformly from the same strategies, which is its control arm.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from s3gym.agents.strategies import PLAYBOOKS, playbook_of
from s3gym.agents.strategies.playbook import Playbook
from s3gym.contracts.agent import Answer
from s3gym.records import Decision, Phase, Recollection, Step, Turn
from s3gym.seeds import Stream

NOTE = re.compile(r"\bstrategy: ([a-z]+(?:-[a-z]+)*)")
HEADING = re.compile(r"^[\s#*_-]*(retain|avoid|next)\b[\s*_]*:?[\s*_]*$", re.IGNORECASE)
MEAN = re.compile(
    r"mean (?:self-scored )?outcome (-?[0-9]{1,12}(?:\.[0-9]{1,12})?)"
    r"(?: over ([0-9]{1,9}) episodes?)?"
)
UNKNOWN = float("-inf")
EXPLOIT = 0.5
"""How often exploration plays what looks best, once every strategy has been tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What memory says about one strategy.

    Attributes:
        trials: Finished episodes that were recalled, or as many as a text speaks of (at least 1).
        typical: Their median outcome (a text's mean, where it gives one): in trust, one meeting
            with a generous opponent must not make a strategy look good.
        mean: Their mean outcome; decides between equal medians.
        rank: 1 where a text says to retain it, -1 where it says to avoid it, else 0.
    """

    trials: int
    typical: float = UNKNOWN
    mean: float = UNKNOWN
    rank: int = 0

    @property
    def merit(self) -> tuple[int, float, float]:
        """What strategies are compared by: the text's advice first, then the outcomes."""
        return (self.rank, self.typical, self.mean)


class StrategistAgent:
    """Chooses a strategy per episode, by what it remembers of earlier ones.

    In exploration it tries what it has tried least, and once everything has been tried it plays
    what looks best half of the time. In evaluation it plays what looks best.
    """

    stateless = True
    knows = frozenset(PLAYBOOKS)

    async def act(self, turn: Turn) -> Answer:
        """Return the strategy's move; the note names the strategy.

        Raises:
            ConfigError: The game has no playbook.
        """
        playbook = playbook_of(turn.game)
        name = _playing(turn.trail, playbook) or choose_strategy(turn, playbook)
        move = playbook.strategies[name](turn, Stream(turn.seed))
        return Decision(action=move.action, self_score=move.self_score, note=f"strategy: {name}")


def choose_strategy(turn: Turn, playbook: Playbook) -> str:
    """Return the name of the strategy to play in this episode."""
    stream = Stream(turn.seed)
    names = sorted(playbook.strategies)
    evidence = evidence_from(turn.recollection, playbook)
    if not evidence:
        return stream.pick(names)
    trials = {name: evidence[name].trials if name in evidence else 0 for name in names}
    fewest = min(trials.values())
    if turn.phase is Phase.EXPLORATION and (not fewest or not stream.chance(EXPLOIT)):
        return stream.pick([name for name in names if trials[name] == fewest])
    best = max(known.merit for known in evidence.values())
    if best[0] < 0 and len(evidence) < len(names):
        return stream.pick([name for name in names if name not in evidence])
    return stream.pick([name for name in sorted(evidence) if evidence[name].merit == best])


def evidence_from(recollection: Recollection, playbook: Playbook) -> dict[str, Evidence]:
    """Return what a recollection says about each strategy that it names.

    The steps count where there are any, the text otherwise.
    """
    if recollection.steps:
        return _evidence_from_steps(recollection.steps, playbook)
    return _evidence_from_text(recollection.text, playbook)


def _evidence_from_steps(steps: Sequence[Step], playbook: Playbook) -> dict[str, Evidence]:
    """Tally the visible outcomes of the episodes whose end is among the steps."""
    outcomes: dict[str, list[float]] = {}
    for episode in _episodes(steps):
        name = _playing(episode, playbook)
        if name and episode[-1].outcome.done:
            outcomes.setdefault(name, []).append(playbook.visible_outcome(episode))
    return {
        name: Evidence(trials=len(values), typical=median(values), mean=fmean(values))
        for name, values in outcomes.items()
    }


def _episodes(steps: Iterable[Step]) -> Iterator[list[Step]]:
    """Yield runs of steps that follow one another in one episode."""
    run: list[Step] = []
    for step in steps:
        if run and (step.index != run[-1].index + 1 or step.observation != run[-1].outcome):
            yield run
            run = []
        run.append(step)
    if run:
        yield run


def _playing(steps: Sequence[Step], playbook: Playbook) -> str | None:
    """Return the strategy that the notes of an episode name last."""
    for step in reversed(steps):
        found = NOTE.search(step.decision.note)
        if found and found[1] in playbook.strategies:
            return found[1]
    return None


def _evidence_from_text(text: str, playbook: Playbook) -> dict[str, Evidence]:
    """Read lines such as ``- strategy: NAME (mean self-scored outcome 3.5 over 2 episodes)``.

    A line counts as advice by the heading above it: ``Retain``, ``Avoid`` or ``Next``.
    """
    evidence: dict[str, Evidence] = {}
    rank = 0
    for line in text.splitlines():
        heading = HEADING.match(line)
        if heading:
            rank = {"retain": 1, "avoid": -1, "next": 0}[heading[1].lower()]
        mean = MEAN.search(line)
        for name in NOTE.findall(line):
            if name in playbook.strategies and name not in evidence:
                value = float(mean[1]) if mean else UNKNOWN
                trials = int(mean[2] or 1) if mean else 1
                evidence[name] = Evidence(trials=trials, typical=value, mean=value, rank=rank)
    return evidence
