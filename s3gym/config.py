"""A run's configuration: from a TOML file, dotted overrides and the command line.

Everything is validated here, once. An error names the file, the key, what was expected and
what came.
"""

import tomllib
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from s3gym.budget import Price
from s3gym.errors import ConfigError
from s3gym.oracle import Oracle
from s3gym.schedule import SCHEDULES, Schedule
from s3gym.sft import SFTPolicy
from s3gym.text import shorten
from s3gym.training import DAY, Experience, Start, Variant

M = TypeVar("M", bound=BaseModel)


TRAINS = "training"
"""The pathway, and the memory that stands for it in a list."""


def _tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else value


Names = Annotated[tuple[str, ...], BeforeValidator(_tuple), Field(min_length=1)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ModelConfig(BaseModel):
    """How chat models are reached and how their replies are read."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    base_url: str | None = Field(default=None, description="address of a compatible server")
    api_key_env: str | None = Field(
        default=None, description="name of the variable that holds the key"
    )
    layout: Literal["paper", "cached"] = Field(default="paper", description="order of the prompt")
    contract: Literal["line", "json"] = Field(default="line", description="form of the reply")
    reask: Annotated[int, Field(ge=0, le=1)] = Field(default=0, description="re-asks after a fault")
    temperature: Annotated[float, Field(ge=0)] | None = Field(default=None, description="sampling")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(default=None, description="sampling")
    effort: str | None = Field(default=None, description="reasoning effort, passed through")
    thinking_tokens: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="thinking budget, passed through"
    )
    rpm: Limit | None = Field(default=None, description="most requests per minute and endpoint")
    tpm: Limit | None = Field(default=None, description="most tokens per minute and endpoint")
    concurrency: Annotated[int, Field(ge=1)] = Field(
        default=16, description="most calls in flight per endpoint"
    )
    deadline_seconds: Limit = Field(
        default=600.0, description="deadline of one call with its retries"
    )
    memory_model: str | None = Field(default=None, description="chat model that writes summaries")


class BudgetConfig(BaseModel):
    """What a run may cost before it stops resumably."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    usd: Limit | None = None
    tokens: Limit | None = None
    hours: Limit | None = None
    prices: dict[str, Price] = Field(
        default_factory=dict,
        description="chat model or model id -> US dollars per million tokens",
    )


VARIABLE = "^[A-Za-z_][A-Za-z0-9_]*$"
LEAST = 0.0001
"""Least part of a resource that Ray counts."""
COUNTED = frozenset({"CPU", "GPU", "memory", "object_store_memory"})
"""Names that Ray refuses as those of further resources."""


def _amount(value: float) -> float:
    if 0 < value < LEAST:
        raise ValueError(f"expected 0 or at least {LEAST}, got {value}")
    return value


def _gpus(value: float) -> float:
    if value > 1 and value % 1:
        raise ValueError(f"expected a part of one GPU or a whole number of them, got {value}")
    return value


def _resources(amounts: dict[str, float]) -> dict[str, float]:
    for name in amounts:
        if name in COUNTED or not name:
            raise ValueError(f"expected names of further resources, got {name!r}")
    return amounts


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_amount)]


class ClusterConfig(BaseModel):
    """What a study asks of a cluster, for the engines that have one."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str | None = Field(
        default=None, description="HOST:PORT or auto; a cluster of this machine when not given"
    )
    num_cpus: Amount = Field(default=1.0, description="cores that a study takes; may be a part")
    num_gpus: Annotated[Amount, AfterValidator(_gpus)] = Field(
        default=0.0, description="GPUs that a study takes; may be a part"
    )
    resources: Annotated[dict[str, Amount], AfterValidator(_resources)] = Field(
        default_factory=dict, description="further resources that a study takes, by name"
    )
    retries: Annotated[int, Field(ge=-1)] = Field(
        default=3, description="how often a study whose worker died is taken up again; -1: always"
    )
    shared: bool = Field(default=True, description="whether all machines see the sweep's folder")
    autoscaling: bool = Field(
        default=False, description="wait for machines that the cluster does not have yet"
    )
    env: tuple[Annotated[str, Field(pattern=VARIABLE)], ...] = Field(
        default=(), description="names of environment variables that workers get from the driver"
    )
    lease_seconds: Limit = Field(
        default=60.0, description="after so long in silence a worker's study goes to another one"
    )
    pending: Annotated[int, Field(ge=1)] = Field(
        default=1000, description="most studies that are handed to the cluster at the same time"
    )


USED = {"trl": ("trl",), "openai": ("openai",), "command": ("command", "chat", "settings")}
"""Trainer -> its own keys among those of ``training``; those of a user have ``settings``."""


class TrainingConfig(BaseModel):
    """How the training pathway puts experience into weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    trainer: str = Field(default="trl", description="trl, openai, command or module:attribute")
    base: str | None = Field(
        default=None, description="weights to start from; by default those of the agent"
    )
    start: Start = Field(default="previous", description="where an update starts")
    experience: Experience | None = Field(default=None, description="episodes of an update")
    variant: Variant = Field(default="plain", description="others are outside the protocol")
    policy: SFTPolicy = Field(
        default_factory=SFTPolicy, description="which steps become training examples"
    )
    command: Names | None = Field(default=None, description="words of the trainer command")
    chat: str = Field(
        default="hf:{weights}", description="chat model of the weights that a command made"
    )
    trl: dict[str, Any] = Field(default_factory=dict, description="settings of trl")
    openai: dict[str, Any] = Field(default_factory=dict, description="settings of openai")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="settings of a trainer of your own"
    )
    update_seconds: Limit = Field(default=DAY, description="deadline of one update")
    side_by_side: Annotated[int, Field(ge=1)] = Field(
        default=1, description="updates at the same time"
    )
    recorded: dict[str, Any] = Field(
        default_factory=dict, description="what a resume found moved, in the words of the record"
    )


class RunConfig(BaseModel):
    """Everything that a run is made from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    game: Names = Field(default=("trust",), description="games to play")
    agent: Names = Field(default=("strategist",), description="agents that play")
    memory: Names = Field(default=("none", "history"), description="memories between episodes")
    pathway: Literal["context", "training"] = Field(
        default="context", description="training adds the memory of that name"
    )
    repeats: Annotated[int, Field(ge=1)] = Field(default=3, description="studies per cell")
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = Field(
        default=None, description="root seed; drawn when it is missing"
    )
    store: str | None = Field(default=None, description="file of the store")
    schedule: Schedule = Field(default_factory=Schedule, description="episodes and caps")
    games: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="switches of each game"
    )
    model: ModelConfig = Field(default_factory=ModelConfig)
    budget: BudgetConfig = Field(default_factory=BudgetConfig)
    training: TrainingConfig = Field(default_factory=TrainingConfig)
    oracle: Oracle | None = Field(
        default=None, description="judge, explorer or reward: outside the protocol"
    )
    jobs: Annotated[int, Field(ge=1)] = Field(default=16, description="studies side by side")
    cluster: ClusterConfig = Field(default_factory=ClusterConfig)
    sealed: bool = Field(
        default=False, description="run agent and memory in a process of their own"
    )
    sealed_user: str | None = Field(default=None, description="user that this process runs as")
    sealed_python: str | None = Field(
        default=None, description="interpreter of this process, with s3gym installed"
    )

    @model_validator(mode="before")
    @classmethod
    def _training_is_a_memory(cls, data: Any) -> Any:
        """Let ``pathway`` stand for the memory that trains, beside its control arm."""
        if not isinstance(data, dict) or data.get("pathway") != TRAINS:
            return data
        memory = _tuple(data.get("memory", "none"))
        if not isinstance(memory, list | tuple) or TRAINS in memory:
            return data
        return data | {"memory": (*memory, TRAINS)}

    @model_validator(mode="after")
    def _training_has_a_study(self) -> Self:
        trains = TRAINS in self.memory
        if not trains and "training" in self.model_fields_set:
            raise ValueError('training: no study trains; set pathway = "training"')
        if trains and self.pathway != TRAINS and "pathway" in self.model_fields_set:
            raise ValueError(f"pathway {self.pathway!r} and memory {TRAINS!r} exclude each other")
        return self

    @model_validator(mode="after")
    def _thinking_leaves_room(self) -> Self:
        thinking = self.model.thinking_tokens
        if thinking is not None and thinking >= self.schedule.reply_tokens:
            raise ValueError(
                f"model.thinking_tokens must be below schedule.reply_tokens, of which it is a "
                f"part, got {thinking} and {self.schedule.reply_tokens}"
            )
        return self


def read_config(
    file: Path | None, given: Mapping[str, Any], overrides: Sequence[str] = ()
) -> RunConfig:
    """Return the configuration of a run.

    Args:
        file: A TOML file, or ``None``.
        given: Values from the command line; they win over the file.
        overrides: ``dotted.key=value`` texts; they win over both. A value is read as TOML,
            and as plain text when it is none.

    Raises:
        ConfigError: The file cannot be read, or a key or value is wrong.
    """
    raw = {} if file is None else read_toml(file)
    source = "command line" if file is None else str(file)
    for key, value in given.items():
        _set(raw, key, value, source)
    override(raw, overrides)
    training = raw.get("training")
    if isinstance(training, dict) and "recorded" in training:
        raise ConfigError(f"{source}: training.recorded: a resume writes it; leave it out")
    preset = "paper_training" if _trains(raw) else "paper"
    if "schedule" in raw or preset != "paper":
        raw["schedule"] = _schedule(raw.get("schedule", preset), source, preset)
    config = validated(RunConfig, raw, source)
    _must_be_used(config.training, source)
    return config


def _must_be_used(training: TrainingConfig, source: str) -> None:
    """Refuse keys of other trainers than the chosen one: nobody would look at what they hold."""
    used = USED.get(training.trainer, ("settings",) if ":" in training.trainer else None)
    if used is None:
        return  # installed by a distribution, or a typo, which is named when it is looked up
    fields = type(training).model_fields
    for key in ("trl", "openai", "command", "chat", "settings"):
        given = getattr(training, key) != fields[key].get_default(call_default_factory=True)
        if given and key not in used:
            raise ConfigError(
                f"{source}: training.{key}: trainer {training.trainer!r} does not use it; it uses "
                f"{' and '.join(f'training.{name}' for name in used)}"
            )


def override(raw: dict[str, Any], overrides: Sequence[str]) -> None:
    """Set the keys of ``dotted.key=value`` texts; raises ``ConfigError`` for any other text."""
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(
                f"--set {text!r}: expected KEY=VALUE, for example games.snake.apples=1"
            )
        _set(raw, key.strip(), _toml_value(value.strip()), f"--set {text}")


def read_toml(file: Path) -> dict[str, Any]:
    """Return a TOML file as a dictionary; raises ``ConfigError`` that names file and line."""
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{file}: not valid TOML: {error}") from error


def validated(model: type[M], values: Mapping[str, Any], source: str, at: str = "") -> M:
    """Return a model made from values.

    Args:
        model: A pydantic model.
        values: Its fields.
        source: Where the values come from, for the error.
        at: Dotted key under which the values stand.

    Raises:
        ConfigError: One line per wrong key: source, key, what was expected and what came.
    """
    try:
        return model(**values)
    except ValidationError as error:
        lines = [_line(fault, model, source, at) for fault in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _line(fault: Any, model: type[BaseModel], source: str, at: str) -> str:
    path = [str(part) for part in fault["loc"]]
    key = ".".join(([at] if at else []) + path)
    if fault["type"] == "extra_forbidden":
        owner: Any = model
        for part in path[:-1]:
            owner = owner.model_fields[part].annotation if part in owner.model_fields else owner
        known = sorted(getattr(owner, "model_fields", {}))
        near = get_close_matches(path[-1], known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known)}"
        return f"{source}: {key}: no such key; {hint}"
    message = fault["msg"].removeprefix("Value error, ")
    came = "" if fault["type"] == "value_error" else f", got {shorten(fault['input'])}"
    return f"{source}: {key or 'values'}: {message[:1].lower()}{message[1:]}{came}"


def _trains(raw: Mapping[str, Any]) -> bool:
    memory = _tuple(raw.get("memory", ()))
    return raw.get("pathway") == TRAINS or (isinstance(memory, list | tuple) and TRAINS in memory)


def _schedule(value: Any, source: str, default: str) -> Any:
    """Return a schedule as a table; a preset's name stands for its numbers."""
    table = {"preset": value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        return value
    preset = table.pop("preset", default)
    if not isinstance(preset, str) or preset not in SCHEDULES:
        raise ConfigError(
            f"{source}: schedule: expected one of {', '.join(sorted(SCHEDULES))}, got {preset!r}"
        )
    numbers = SCHEDULES[preset]().model_dump()
    return numbers | table


def _set(raw: dict[str, Any], key: str, value: Any, source: str) -> None:
    *path, last = key.split(".")
    table = raw
    for part in path:
        inner = table.setdefault(part, {})
        if part == "schedule" and isinstance(inner, str):
            inner = table[part] = {"preset": inner}
        if not isinstance(inner, dict):
            raise ConfigError(f"{source}: {key}: {part!r} holds {inner!r}, not a table")
        table = inner
    if last == "schedule" and isinstance(value, str) and isinstance(table.get(last), dict):
        table[last]["preset"] = value
        return
    table[last] = value


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
