"""``S3GymEnv``: a game of ours as a Gymnasium environment with text in and text out."""

from collections.abc import Mapping
from string import printable
from typing import Any

from s3gym.contracts.game import GameSpec
from s3gym.environments.table import Table
from s3gym.errors import MissingExtraError
from s3gym.records import Phase

try:
    import gymnasium
    from gymnasium.spaces import Text
except ModuleNotFoundError as error:
    raise MissingExtraError("S3GymEnv", "gym") from error

LONGEST = 100_000


class S3GymEnv(gymnasium.Env[str, str]):
    """One game; ``reset`` starts an episode, ``step`` plays an action.

    Unlike a study it hands out the verifier's rewards, as training needs them. Seeds of
    exploration never give an episode that evaluates.

    Args:
        game: Name or ``GameSpec``.
        phase: ``exploration`` (lenient) or ``evaluation`` (strict).
        options: Switches of the game.
        world: World seed, for games whose latent rules depend on one.
        max_steps: Step cap; the game's own when it is shorter.

    Raises:
        MissingExtraError: Gymnasium is not installed.
        ConfigError: The game or a switch is wrong.
    """

    metadata: dict[str, Any] = {"render_modes": ["ansi"]}  # noqa: RUF012 - gymnasium's own form

    def __init__(
        self,
        game: str | GameSpec,
        *,
        phase: str = "exploration",
        options: Mapping[str, Any] | None = None,
        world: int | None = None,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        self.table = Table(
            game, phase=Phase(phase), options=options, world=world, max_steps=max_steps
        )
        self.render_mode = render_mode
        signs = "".join(sorted({*printable, "—", "·", "×"}))
        self.action_space = Text(max_length=LONGEST, min_length=0, charset=signs)
        self.observation_space = Text(max_length=LONGEST, min_length=0, charset=signs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Start an episode; without a seed the environment's own generator draws one."""
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(2**31)) if seed is None else seed
        observation = self.table.start(drawn)
        return observation.text, {"rules": self.table.rules}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Play an action; ``info`` has the feedback, whether it was legal, and the score."""
        observation, verdict = self.table.step(action)
        info: dict[str, Any] = {"feedback": observation.feedback, "legal": verdict.legal}
        if observation.done:
            info["score"] = self.table.score
        return observation.text, verdict.reward, verdict.terminated, verdict.truncated, info

    def render(self) -> str:
        """Return the observation."""
        return self.table.observation.text
