"""Games of ours for ``verifiers`` (v1): a taskset of seeds, and the environment that plays them.

In its configuration the module's name is the id of both::

    taskset = { id = "s3gym.environments.verifiers_env", game = "snake" }
    id = "s3gym.environments.verifiers_env"
"""

from collections.abc import Iterator
from itertools import count
from typing import Any

from pydantic import Field

from s3gym.environments.table import Table
from s3gym.errors import ConfigError
from s3gym.prompts import RESPONSE_CONTRACT
from s3gym.records import Observation, Phase
from s3gym.replies import parse_reply

try:
    import verifiers.v1 as vf
except ModuleNotFoundError as error:
    raise ConfigError(
        "the verifiers environment needs verifiers; install it after s3gym, because the two want "
        "different versions of openai: pip install verifiers"
    ) from error

__all__ = ["S3GymTaskset", "S3GymVerifiersEnv"]


class S3GymTasksetConfig(vf.TasksetConfig):
    """Which game, and how it is set up."""

    game: str = "trust"
    phase: str = "exploration"
    options: dict[str, Any] = Field(default_factory=dict)
    max_steps: int | None = None
    first_seed: int = 0


class S3GymData(vf.TaskData):
    """One episode: where it starts."""

    game: str
    phase: str
    options: dict[str, Any]
    max_steps: int | None
    seed: int


class S3GymTask(vf.Task[S3GymData, vf.State, vf.TaskConfig]):
    """One episode."""


class S3GymTaskset(vf.Taskset[S3GymTask, S3GymTasksetConfig]):
    """Episodes without end, one per seed."""

    INFINITE = True

    def load(self) -> Iterator[S3GymTask]:
        """Yield one task per seed; its prompt is the opening."""
        config = self.config
        for seed in count(config.first_seed):
            data = {
                "game": config.game,
                "phase": config.phase,
                "options": config.options,
                "max_steps": config.max_steps,
                "seed": seed,
            }
            table = table_of(data)
            opening = heard(table.start(seed))
            system = f"{table.instruction}\n\n{RESPONSE_CONTRACT}\n\nRules:\n{table.rules}"
            yield S3GymTask(
                S3GymData(
                    name=f"{config.game}-{seed}", prompt=opening, system_prompt=system, **data
                ),
                self.config.task,
            )


class S3GymEnvConfig(vf.EnvConfig):
    """The one agent that plays."""

    player: vf.AgentConfig = vf.AgentConfig()


class S3GymVerifiersEnv(vf.Env[S3GymEnvConfig]):
    """Plays a task: the game answers every reply until the episode is over."""

    async def run(self, task: Any, agents: Any) -> None:
        """Play one episode; record the score and the number of steps."""
        table = table_of(task.data.model_dump())
        observation = table.start(task.data.seed)
        steps = 0
        async with agents.player.interaction(task) as interaction:
            segment = await interaction.turn()
            while not segment.terminated:
                observation, _ = table.step(parse_reply(segment.last_reply))
                steps += 1
                if observation.done:
                    break
                segment = await interaction.turn(heard(observation))
        interaction.trace.record_reward("s3gym_score", table.score, 1.0)
        interaction.trace.record_metric("s3gym_steps", float(steps))


def table_of(data: dict[str, Any]) -> Table:
    """Return the game of a task."""
    return Table(
        data["game"],
        phase=Phase(data["phase"]),
        options=data["options"],
        max_steps=data["max_steps"],
    )


def heard(observation: Observation) -> str:
    """Return what the game says now."""
    if not observation.feedback:
        return observation.text
    return f"{observation.feedback}\n\n{observation.text}"
