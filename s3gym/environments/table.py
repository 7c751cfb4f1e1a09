"""One episode of a game, step by step, for whoever wants to hold the loop."""

from collections.abc import Mapping
from dataclasses import replace
from math import fsum
from typing import Any

from s3gym.api import game_options
from s3gym.catalog import find_game
from s3gym.contracts.game import Clock, GameSpec
from s3gym.errors import StoreError
from s3gym.play import referee
from s3gym.records import Decision, Observation, Phase
from s3gym.replies import is_end
from s3gym.rulings import check_number
from s3gym.seams import ruled
from s3gym.seeds import EpisodeSeeds
from s3gym.verdict import Verdict


class Table:
    """A game that is set up and waits for a seed.

    Args:
        game: Name or ``GameSpec``.
        phase: Lenient exploration, or strict evaluation.
        options: Switches of the game.
        world: World seed, for games whose latent rules depend on one.
        max_steps: Step cap; the game's own when it is shorter.

    Raises:
        ConfigError: The game or a switch is wrong.
    """

    def __init__(
        self,
        game: str | GameSpec,
        *,
        phase: Phase = Phase.EXPLORATION,
        options: Mapping[str, Any] | None = None,
        world: int | None = None,
        max_steps: int | None = None,
    ) -> None:
        self.spec = find_game(game)
        chosen = game_options(self.spec, options or {})
        self.setup = self.spec.setup(chosen, phase)
        self.phase, self._world = phase, world
        self.rules = self.spec.rules(chosen, phase)
        self.instruction = self.spec.instruction(chosen, phase)
        self.max_steps = min(self.setup.max_steps, max_steps or self.setup.max_steps)
        self._state: Any = None
        self._rewards: list[float] = []
        self.observation = Observation(text="", done=True)

    def start(self, seed: int) -> Observation:
        """Start an episode.

        The lowest bit of the episode's seed names the phase, as in a study, so no training
        episode is ever one that evaluates.
        """
        bit = int(self.phase is Phase.EVALUATION)
        seeds = EpisodeSeeds(episode=seed * 2 + bit, world=self._world, game=self.spec.name)
        self._rewards = []
        name, game = self.spec.name, self.setup.game
        first = Clock(step=1, max_steps=self.max_steps)
        state = ruled(name, "start", lambda: game.start(seeds))
        text = ruled(name, "observe", lambda: game.observe(state, first))
        self._state, self.observation = state, Observation(text=text)
        return self.observation

    def step(self, action: str | Decision) -> tuple[Observation, Verdict]:
        """Play one action, or a reply that was read; ``END`` ends the episode.

        Raises:
            StoreError: No episode is being played.
        """
        if self.observation.done:
            raise StoreError("the episode is over: start another one")
        decision = action if isinstance(action, Decision) else Decision(action=action)
        if is_end(decision.action):
            decision = replace(decision, status="end")
        clock = Clock(step=len(self._rewards) + 1, max_steps=self.max_steps)
        self._state, self.observation, verdict = referee(
            self.spec.name, self.setup, self._state, decision, clock
        )
        self._rewards.append(verdict.reward)
        return self.observation, verdict

    @property
    def score(self) -> float:
        """The verifier's value of the episode so far."""
        name, verifier = self.spec.name, self.setup.verifier
        given = ruled(name, "score", lambda: verifier.score(tuple(self._rewards), self._state))
        return check_number(name, "score", given)

    @property
    def total(self) -> float:
        """The sum of the rewards so far."""
        return fsum(self._rewards)
