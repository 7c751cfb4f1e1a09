"""``check_agent``: does an agent keep the contract of ``s3gym.contracts.agent``?

It is given a few turns of both phases and judged by the form of its answers, never by how well it
plays.
"""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from s3gym.answered import decide
from s3gym.catalog import find_agent
from s3gym.contracts.agent import Agent, Forkable
from s3gym.contracts.game import GameSpec
from s3gym.parts import AgentPart
from s3gym.records import Decision, Episode, Phase, Turn
from s3gym.seams import guarded, plugin_boundary
from s3gym.testing.canary import CanaryGame
from s3gym.testing.findings import Findings
from s3gym.testing.sample import SampleEpisode, recollection_of
from s3gym.text import shorten
from s3gym.watchdog import watching

STEPS = 4
"""Turns that an agent is given per episode."""
LOOP_SECONDS = 1.0
"""How long an agent may hold the event loop, in seconds."""

ANSWERS = "act answers every turn in time: a Decision, a reply or a pair (action, self-score)"
KEEPS = "a reply keeps the response contract"
FORKS = "fork returns an agent and learn takes an episode"


async def check_agent(
    agent: object, *, game: GameSpec | None = None, seconds: float = 10.0, seed: int = 0
) -> None:
    """Check an agent.

    Args:
        agent: What ``agent=`` takes: a class, a factory, an instance, a function of a turn or of
            a prompt, an agent of a framework, an agent that owns its memory, or a name.
        game: The game that it is asked to play; by default a small one of ours.
        seconds: Deadline of one answer, in seconds.
        seed: Fixes the episodes.

    Raises:
        ConfigError: It is no agent at all.
        ConformanceError: It breaks its contract; the error lists every broken promise.
    """
    part = find_agent(agent)
    check = _Check(part, game or CanaryGame(), seconds, seed)
    async with watching(LOOP_SECONDS):
        await check.run()
    check.findings.raise_if_any()


class _Check:
    def __init__(self, part: AgentPart, game: GameSpec, seconds: float, seed: int) -> None:
        self.part, self.game, self.seconds, self.seed = part, game, seconds, seed
        self.label = f"agent {part.name!r}"
        self.findings = Findings(self.label)

    async def run(self) -> None:
        first = SampleEpisode(self.game, Phase.EXPLORATION, seed=self.seed)
        await self._play(first, self.part.make)
        remembered = recollection_of(first.episode())
        strict = SampleEpisode(self.game, Phase.EVALUATION, recollection=remembered, seed=self.seed)
        await self._play(strict, self.part.make)
        if self.part.forkable is not None:
            await self._fork(self.part.forkable, first.episode())

    async def _play(self, sample: SampleEpisode, make: Callable[[], Agent]) -> None:
        """Let an agent play the start of an episode."""
        with self.findings.catching(ANSWERS):
            with plugin_boundary(self.label, "being made"):
                agent = make()
            while len(sample.steps) < STEPS and not sample.observation.done:
                turn = sample.turn()
                self.findings.where = f"{turn.phase.value}, step {turn.index}"
                sample.play(await self._answer(agent, turn))
            await self._close(agent)

    async def _answer(self, agent: Agent, turn: Turn) -> Decision:
        given = deepcopy(turn)
        answer: Any = await guarded(self.label, "act", lambda: agent.act(turn), self.seconds)
        self.findings.expect(turn == given, "a turn is never changed", "it differs after act")
        decision = decide(self.label, answer)
        if isinstance(answer, str) and decision.status in ("no_action", "no_score"):
            last_line = answer.rstrip().rpartition("\n")[2]
            detail = f"{decision.status} in the reply that ends {shorten(last_line)}"
            self.findings.add(KEEPS, detail)
        return decision

    async def _close(self, agent: object) -> None:
        close = getattr(agent, "aclose", None)
        if close is not None and not self.part.shared:
            await guarded(self.label, "aclose", close, self.seconds)

    async def _fork(self, owner: Forkable, episode: Episode) -> None:
        """Let it learn an episode, and see that a fork of it still answers."""
        self.findings.where = "fork"
        with self.findings.catching(FORKS):
            await guarded(self.label, "learn", lambda: owner.learn(episode), self.seconds)
            fork = await guarded(self.label, "fork", owner.fork, self.seconds)
            if self.findings.expect(hasattr(fork, "act"), FORKS, f"fork gave {shorten(fork)}"):
                sample = SampleEpisode(self.game, Phase.EVALUATION, seed=self.seed)
                await self._play(sample, lambda: fork)
