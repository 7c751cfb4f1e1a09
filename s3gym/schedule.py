"""How much is explored, when it is evaluated, and what each part may cost.

Source: S3Gym paper, section on budgets of the main runs, for ``Schedule.paper()``.
"""

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Schedule(BaseModel):
    """Episodes, checkpoints, caps and deadlines of a study."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    exploration_episodes: Count = Field(default=30, description="exploration episodes of a study")
    evaluate_every: Count = Field(default=3, description="exploration episodes between checkpoints")
    evaluation_episodes: Count = Field(default=3, description="strict episodes per checkpoint")
    max_steps: Count = Field(default=64, description="step cap; a game's shorter horizon wins")
    memory_tokens: Annotated[int, Field(ge=0)] = Field(
        default=100_000, description="most tokens of a recollection"
    )
    reply_tokens: Count = Field(default=14_000, description="most new tokens of a reply")
    fresh_evaluation_seeds: bool = Field(
        default=False, description="give every checkpoint evaluation seeds of its own"
    )
    act_seconds: Seconds = Field(default=600.0, description="deadline of one decision, in seconds")
    memory_seconds: Seconds = Field(
        default=600.0, description="deadline of one record, consolidate or recall, in seconds"
    )

    episode_seconds: Seconds | None = Field(
        default=None,
        description="deadline of one episode, in seconds, seen to between steps; one that misses "
        "it is taken up by a resume",
    )

    @model_validator(mode="after")
    def _checkpoints_fit(self) -> Self:
        if self.exploration_episodes % self.evaluate_every:
            raise ValueError(
                f"exploration_episodes must be a multiple of evaluate_every, got "
                f"{self.exploration_episodes} and {self.evaluate_every}"
            )
        return self

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """Return the paper's budget: 30 episodes, evaluation every 3, 3 strict episodes."""
        return cls(**changes)

    @classmethod
    def quick(cls, **changes: Any) -> Self:
        """Return a small budget: 6 episodes, evaluation every 3, 2 strict episodes."""
        return cls(
            **{"exploration_episodes": 6, "evaluate_every": 3, "evaluation_episodes": 2} | changes
        )

    @classmethod
    def paper_training(cls, **changes: Any) -> Self:
        """Return the paper's budget for weights: checkpoints 0 (the base model) to 19.

        The paper does not say how many episodes go into an update; here it is one.
        """
        return cls(**{"exploration_episodes": 19, "evaluate_every": 1} | changes)

    @property
    def checkpoints(self) -> tuple[int, ...]:
        """Numbers of exploration episodes after which evaluation runs: 0, 3, ... 30."""
        return tuple(range(0, self.exploration_episodes + 1, self.evaluate_every))


SCHEDULES = {
    "paper": Schedule.paper,
    "paper_training": Schedule.paper_training,
    "quick": Schedule.quick,
}
