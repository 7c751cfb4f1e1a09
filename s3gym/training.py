"""The training pathway's settings: who updates the weights, from which examples, and when.

Knows nothing of games, verifiers and stores.
"""

import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from s3gym.contracts.trainer import Trainer
from s3gym.errors import ConfigError
from s3gym.sft import SFTPolicy
from s3gym.text import shorten

Start = Literal["previous", "base"]
Experience = Literal["new", "all"]
Variant = Literal["plain", "keep_best", "roll_back"]
STARTS: tuple[Start, ...] = get_args(Start)
EXPERIENCES: tuple[Experience, ...] = get_args(Experience)
VARIANTS: tuple[Variant, ...] = get_args(Variant)
DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """How experience goes into weights: one update per checkpoint.

    Attributes:
        trainer: Updates the weights and plays with them.
        policy: Which explored steps become examples.
        start: Each update starts from the ``previous`` weights, or always from the ``base``.
        experience: An update is given the ``new`` episodes since the one before, or ``all`` so
            far. ``None`` means new ones where it starts from the previous weights, which hold
            the earlier ones already, and all of them where it starts from the base.
        variant: ``plain`` goes on with the newest weights. Outside the paper's protocol, because
            evaluation scores decide: ``roll_back`` takes an update back that scored below the
            weights that it started from; ``keep_best`` explores with the best-scored weights so
            far, while updates go on as ``start`` says.
        update_seconds: Deadline of one update, in seconds.
        side_by_side: Updates that run at the same time in one run.
        origin: Where the trainer was loaded from, when it is not built in.

    Raises:
        ConfigError: A value is none of those.
    """

    trainer: Trainer
    policy: SFTPolicy = field(default_factory=SFTPolicy)
    start: Start = "previous"
    experience: Experience | None = None
    variant: Variant = "plain"
    update_seconds: float = DAY
    side_by_side: int = 1
    origin: str = ""

    def __post_init__(self) -> None:
        _one_of("start", self.start, STARTS)
        _one_of("variant", self.variant, VARIANTS)
        if self.experience is not None:
            _one_of("experience", self.experience, EXPERIENCES)
        if not isinstance(self.policy, SFTPolicy):
            raise ConfigError(f"training: expected an SFTPolicy, got {shorten(self.policy)}")
        missing = [
            name
            for name in ("base", "update", "fingerprint", "chat")
            if not callable(getattr(self.trainer, name, None))
        ]
        if missing or not isinstance(getattr(self.trainer, "name", None), str):
            raise ConfigError(
                f"training: expected a trainer, but {shorten(self.trainer)} has no "
                f"{' and no '.join(missing or ['name'])}"
            )
        if not (self.update_seconds > 0 and math.isfinite(self.update_seconds)):
            raise ConfigError(
                f"training: expected update_seconds above 0, got {self.update_seconds!r}"
            )
        if self.side_by_side < 1:
            raise ConfigError(
                f"training: expected side_by_side of at least 1, got {self.side_by_side!r}"
            )

    @property
    def takes_all(self) -> bool:
        """Whether an update is given all episodes so far."""
        return (self.experience or ("new" if self.start == "previous" else "all")) == "all"

    def spec(self) -> dict[str, Any]:
        """Return what fixes the results, JSON-safe."""
        return {
            "experience": "all" if self.takes_all else "new",
            "origin": self.origin,
            "policy": self.policy.model_dump(mode="json"),
            "start": self.start,
            "trainer": self.trainer.name,
            "variant": self.variant,
        }


def _one_of(key: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ConfigError(
            f"training: {key}: expected {' or '.join(map(repr, known))}, got {shorten(value)}"
        )
