"""``GymGame``: a Gymnasium environment as a game.

Observation: what ``describe`` makes of the environment's observation; by default its ``render()``
             text, else ``str`` of the observation.
Actions:     the words of ``actions``, any case.
Reward:      the environment's own.
Score:       the sum of the rewards.
Ends:        when the environment terminates or truncates; the runner truncates after ``max_steps``.
Phases:      a refused action is a step without effect in exploration and ends evaluation.
Source:      the environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from s3gym.contracts.game import Anchors, Options
from s3gym.games._outside import Describe, Happened, OutsideSpec, anchors_of
from s3gym.games._spec import plain, refusal


def described(environment: Any, observation: Any) -> str:
    """Return the environment's picture in text, if it draws one, else its observation."""
    if getattr(environment, "render_mode", None) == "ansi":
        return str(environment.render())
    return str(observation)


@dataclass(frozen=True, slots=True, kw_only=True)
class GymDriver:
    """Handles a Gymnasium environment."""

    make: Callable[[], Any]
    actions: Mapping[str, Any]
    describe: Describe

    def open(self, seed: int) -> tuple[Any, str]:
        """Make and reset an environment."""
        environment = self.make()
        observation, _ = environment.reset(seed=seed)
        return environment, self.describe(environment, observation)

    def read(self, action: str) -> Any:
        """Return the action of a word."""
        expected = ", ".join(self.actions)
        word = plain(action, expected).upper()
        for known, value in self.actions.items():
            if known.upper() == word:
                return value
        raise refusal(action, expected)

    def step(self, environment: Any, action: Any) -> Happened:
        """Do an action."""
        observation, reward, terminated, truncated, _ = environment.step(action)
        return Happened(
            text=self.describe(environment, observation),
            feedback="",
            reward=float(reward),
            terminated=bool(terminated or truncated),
        )


class GymGame(OutsideSpec):
    """A Gymnasium environment as a game; give it as ``game=``.

    It must give the same answers to the same seed and actions. Draws from Python's and NumPy's
    global generators are kept apart per episode; generators of other libraries are not.

    Args:
        name: Name in ids and reports.
        make: Makes an environment, for example ``lambda: gymnasium.make("FrozenLake-v1")``.
        rules: What the agent is told.
        actions: Word -> action of the environment.
        max_steps: Step cap.
        reward_range: Least and greatest reward of one action.
        score_range: Least and greatest sum of rewards.
        describe: From environment and observation to the text that the agent sees.
        anchors: ``random``, ``reference`` and ``ceiling`` scores, where they are known.
        version: Raise it when the environment changes.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        *,
        rules: str,
        actions: Mapping[str, Any],
        max_steps: int,
        reward_range: tuple[float, float],
        score_range: tuple[float, float],
        describe: Describe = described,
        anchors: Mapping[str, float] | None = None,
        version: int = 1,
    ) -> None:
        known: Anchors = anchors_of(anchors, score_range)
        super().__init__(
            name=name,
            version=version,
            rules_text=rules,
            driver=GymDriver(make=make, actions=dict(actions), describe=describe),
            max_steps=max_steps,
            reward_range=reward_range,
            score_range=score_range,
            anchors=known,
            options=Options,
        )
