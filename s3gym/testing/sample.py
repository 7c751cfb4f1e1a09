"""One episode played by hand, turn by turn: for checks, and for prompts to look at."""

from s3gym.contracts.game import Clock, GameSpec
from s3gym.play import referee
from s3gym.prompts import serialise
from s3gym.records import Decision, Episode, Observation, Phase, Recollection, Step, Turn
from s3gym.seeds import EpisodeSeeds, derive


class SampleEpisode:
    """An episode of a game under its default options, without runner, store and verdicts.

    Attributes:
        steps: The steps so far.
        observation: Where the episode stands now.
    """

    def __init__(
        self,
        game: GameSpec,
        phase: Phase,
        *,
        recollection: Recollection | None = None,
        seed: int = 0,
    ) -> None:
        self._game, self._phase, self._seed = game, phase, seed
        self._recollection = recollection or Recollection()
        options = game.options()
        self._rules = game.rules(options, phase)
        self._instruction = game.instruction(options, phase)
        self._setup = game.setup(options, phase)
        drawn = derive("sample", seed, phase.value)
        self._state = self._setup.game.start(EpisodeSeeds(episode=drawn, game=game.name))
        self.steps: list[Step] = []
        self.observation = Observation(text=self._setup.game.observe(self._state, self._clock))

    @property
    def _clock(self) -> Clock:
        return Clock(step=len(self.steps) + 1, max_steps=self._setup.max_steps)

    def turn(self) -> Turn:
        """Return what an agent may see now."""
        index = len(self.steps)
        return Turn(
            episode=f"sample/{self._phase.value}",
            game=self._game.name,
            phase=self._phase,
            rules=self._rules,
            instruction=self._instruction,
            observation=self.observation,
            trail=tuple(self.steps),
            recollection=self._recollection,
            index=index,
            max_steps=self._setup.max_steps,
            seed=derive("sample agent", self._seed, self._phase.value, index),
        )

    def play(self, decision: Decision) -> None:
        """Let a decision take effect."""
        self._state, outcome, _ = referee(
            self._game.name, self._setup, self._state, decision, self._clock
        )
        step = Step(
            index=len(self.steps),
            observation=self.observation,
            decision=decision,
            outcome=outcome,
        )
        self.steps.append(step)
        self.observation = outcome

    def episode(self) -> Episode:
        """Return the visible steps so far as an exploration episode."""
        return Episode(
            id="sample/x001",
            game=self._game.name,
            ordinal=1,
            rules=self._rules,
            steps=tuple(self.steps),
        )


def recollection_of(episode: Episode) -> Recollection:
    """Return an episode as a memory would show it word for word; empty without steps."""
    if not episode.steps:
        return Recollection()
    text = f"Episode {episode.ordinal}\n{serialise(episode.steps)}"
    return Recollection(
        text=text, tokens=len(text) // 4, sources=(episode.id,), steps=episode.steps
    )
