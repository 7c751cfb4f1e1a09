"""Do the parts of a run fit together? Asked before anything is written."""

from collections.abc import Iterable, Sequence
from numbers import Integral

from s3gym.contracts.game import GameSpec
from s3gym.errors import ConfigError
from s3gym.oracle import ORACLES, Oracle
from s3gym.parts import AgentPart, MemoryPart
from s3gym.schedule import Schedule
from s3gym.seeds import SEED_BITS
from s3gym.text import shorten
from s3gym.training import Training


def check_parts(
    games: Sequence[GameSpec], agents: Sequence[AgentPart], memories: Sequence[MemoryPart]
) -> None:
    """Check that no two parts share a name, and that agents fit to games and memories.

    Raises:
        ConfigError: They do not fit.
    """
    _must_differ("game", [game.name for game in games])
    _must_differ("agent", [agent.name for agent in agents])
    _must_differ("memory", [memory.name for memory in memories])
    for agent in agents:
        check_knows(agent, games)
    _own_needs_forkable(agents, memories)


def check_knows(agent: AgentPart, games: Iterable[GameSpec]) -> None:
    """Check that an agent can play all of some games.

    Raises:
        ConfigError: It says that it cannot.
    """
    for game in games:
        if agent.knows is not None and game.name not in agent.knows:
            raise ConfigError(
                f"agent {agent.name!r} does not know the game {game.name!r}, only: "
                f"{', '.join(sorted(agent.knows))}"
            )


def check_numbers(schedule: Schedule, repeats: int, seed: int | None, at_most: int) -> None:
    """Check what a program gives as plain values; a study file is checked where it is read.

    Raises:
        ConfigError: One of them is of another kind or out of its range.
    """
    if not isinstance(schedule, Schedule):
        raise ConfigError(
            f"schedule: expected a Schedule, for example Schedule.quick(), got {shorten(schedule)}"
        )
    ranges = {"repeats": (repeats, 1), "at_most": (at_most, 1), "seed": (seed or 0, 0)}
    for name, (value, least) in ranges.items():
        if not isinstance(value, Integral) or value < least:
            raise ConfigError(
                f"{name}: expected a whole number of at least {least}, got {shorten(value)}"
            )
    if seed is not None and seed >= 2**SEED_BITS:
        raise ConfigError(f"seed: expected less than 2**{SEED_BITS}, got {shorten(seed)}")


def check_oracle(
    oracle: Oracle | None,
    memories: Sequence[MemoryPart],
    training: Training | None,
    *,
    sealed: bool,
) -> None:
    """Check that an oracle has something to work on.

    Raises:
        ConfigError: It has not, or there is none of that name.
    """
    if oracle is None:
        return
    if sealed:
        raise ConfigError("oracle: an oracle arm cannot be sealed; leave one of them out")
    if oracle not in ORACLES:
        raise ConfigError(f"oracle: expected one of {', '.join(ORACLES)}, got {oracle!r}")
    trains = any(memory.trains for memory in memories)
    if oracle == "reward" and not trains:
        raise ConfigError("oracle: 'reward' labels training examples, but no study trains")
    if oracle == "judge" and trains:
        raise ConfigError("oracle: 'judge' is for memories; a training study takes 'reward'")
    if oracle == "reward" and training is not None and training.policy.policy == "rejection":
        raise ConfigError(
            "oracle: 'reward' cannot label answers that nobody played, which the policy "
            "'rejection' draws; expected 'keep', 'drop' or 'correct'"
        )


def check_training(
    training: Training | None, agents: Sequence[AgentPart], memories: Sequence[MemoryPart]
) -> None:
    """Check that a training pathway has a trainer, and agents with weights.

    Raises:
        ConfigError: It has not.
    """
    if training is None:
        if any(memory.trains for memory in memories):
            raise ConfigError("memory 'training' needs a trainer; give training=Training(...)")
        return
    if len(agents) > 1:
        raise ConfigError(
            f"training: expected one agent, because the trainer starts from one base, got "
            f"{', '.join(agent.name for agent in agents)}"
        )
    for agent in agents:
        if agent.with_chat is None:
            raise ConfigError(
                f"training: agent {agent.name!r} has no weights to update; expected one that "
                f"plays with a chat model, such as 'hf:FOLDER' or a ModelAgent"
            )


def _own_needs_forkable(agents: Iterable[AgentPart], memories: Iterable[MemoryPart]) -> None:
    if not any(memory.own for memory in memories):
        return
    for agent in agents:
        if agent.forkable is None and agent.learn is None and agent.makes_forkable is False:
            raise ConfigError(
                f"memory 'own' needs an agent that owns its memory (fork and learn; or an instance "
                f"with learn alone); agent {agent.name!r} does not"
            )


def _must_differ(kind: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"two {kind} parts are called {name!r}; give each a name of its own")
