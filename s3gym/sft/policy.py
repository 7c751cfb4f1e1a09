"""Which explored steps become training examples: thresholds on self-scores and what follows."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

PolicyName = Literal["keep", "drop", "correct", "rejection"]
POLICIES: tuple[PolicyName, ...] = get_args(PolicyName)
ASKING: tuple[PolicyName, ...] = ("correct", "rejection")
"""Policies that ask a model."""
Weights = Literal["uniform", "score"]
Answered = Literal["ok", "repaired", "no_score", "end"]
"""Statuses that hold an answer; a step of any other status is never an example."""
THRESHOLDS = ("min_score", "quantile", "positive")


class SFTPolicy(BaseModel):
    """How examples are chosen, by the agent's own self-scores alone.

    ``keep``: every example has a self-score that reaches the threshold. ``drop``: what scored
    below it is left out and the rest kept, an END (which judges no action) included. ``correct``:
    as ``keep``, and the model is shown each low-scored step with its score and outcome and asked
    for a better action. ``rejection``: the model answers each prompt anew, and the answer that it
    scores best is held against the threshold.

    One threshold at most; without any it is ``positive``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    policy: PolicyName = Field(default="keep", description="keep, drop, correct or rejection")
    min_score: float | None = Field(
        default=None, description="threshold: self-scores of at least this many game points"
    )
    quantile: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None, description="threshold: this quantile of a game's self-scores, in [0, 1)"
    )
    positive: bool = Field(default=False, description="threshold: self-scores above 0")
    weights: Weights = Field(
        default="uniform", description="uniform, or score: higher self-scores weigh more"
    )
    balance: bool = Field(
        default=False, description="no episode gives more examples than the median episode"
    )
    dedupe: bool = Field(default=True, description="keep one of examples with equal text")
    cap: Annotated[int, Field(ge=1)] | None = Field(default=None, description="most examples")
    best_of: Annotated[int, Field(ge=2, le=64)] = Field(
        default=4, description="answers per prompt, the recorded one included (rejection)"
    )
    statuses: Annotated[tuple[Answered, ...], Field(min_length=1)] = Field(
        default=get_args(Answered), description="statuses that may become examples"
    )

    @model_validator(mode="before")
    @classmethod
    def _one_threshold(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        given = [key for key in THRESHOLDS if _is_given(data.get(key))]
        if len(given) > 1:
            raise ValueError(f"one threshold is expected, got {' and '.join(given)}")
        if not given:
            if data.get("positive") is False and "positive" in data:
                raise ValueError("positive = false names no threshold; give min_score or quantile")
            return {**data, "positive": True}
        return data

    @property
    def asks(self) -> bool:
        """Whether building examples takes model calls."""
        return self.policy in ASKING


def _is_given(value: object) -> bool:
    return value is not None and value is not False
