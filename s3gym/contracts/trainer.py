"""What a trainer promises: examples and weights in, new weights out.

The learner's side: an example holds what the agent saw and answered, never a reward or a score
of the verifier.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from s3gym.contracts.chat import ChatModel
from s3gym.records import Message


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One supervised example: a prompt and the answer that the weights should learn.

    Attributes:
        messages: The prompt, word for word as the agent saw it without memory.
        answer: The assistant's text, in the response contract.
        weight: Relative weight in the loss, above 0.
        episode: Id of the exploration episode that it comes from.
        step: Zero-based step of that episode.
        origin: How the answer came about, for example ``kept`` or ``corrected``.
    """

    messages: tuple[Message, ...]
    answer: str
    weight: float = 1.0
    episode: str
    step: int
    origin: str = "kept"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Weights, named so that a store can hold them by hash.

    Attributes:
        location: A folder, or the id under which a provider serves the weights.
        hash: SHA-256 over the weight files, in hexadecimal; of the id where a provider has them.
        log: JSON-safe facts of the update that made them: ``losses`` (one per logged step, in
            nats per token), ``tokens`` (trained on), ``steps``.
        machine: Clock and machine values of the update: ``seconds``, ``peak_mb``. Outside every
            comparison and chain.
    """

    location: str
    hash: str
    log: Mapping[str, Any] = field(default_factory=dict)
    machine: Mapping[str, float] = field(default_factory=dict, compare=False)


class Trainer(Protocol):
    """Updates weights by supervised examples. Optional: ``async aclose()``.

    Attributes:
        name: Names method and settings, for records; never a key.
    """

    @property
    def name(self) -> str:
        """Short name for records and reports."""
        ...

    async def base(self) -> ModelRef:
        """Return the weights that a study starts from.

        Raises:
            ConfigError: They are not there or cannot be trained.
        """
        ...

    async def update(
        self, examples: Sequence[Example], base: ModelRef, *, folder: Path, seed: int
    ) -> ModelRef:
        """Return new weights; ``base`` stays as it is.

        An update that was cut off is started again with the same arguments: whatever an earlier
        try left in the folder is no obstacle.

        Args:
            examples: At least one.
            base: The weights to start from.
            folder: Belongs to this update alone; the weights go there where they are files.
            seed: Seed of everything that is drawn.

        Raises:
            ServiceError: A service or a command failed, and may succeed later.
            ConfigError: The weights or the examples cannot be trained on.
        """
        ...

    def fingerprint(self, location: str) -> str:
        """Return the hash of the weights as they are at a location now.

        Equal to the ``hash`` of the ``ModelRef`` that came with the location, as long as nobody
        touched the weights: a resumed study compares the two. Called in a worker thread.

        Raises:
            ConfigError: There are no weights.
        """
        ...

    def chat(self, ref: ModelRef) -> ChatModel:
        """Return a chat model that answers with these weights; nothing is loaded yet."""
        ...
