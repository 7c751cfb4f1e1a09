"""From the table ``training`` of a configuration to a trainer, and what a resume must say again."""

import inspect
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from s3gym.agents.chat_names import CLASSES, chat_model, is_chat_name
from s3gym.catalog import TRAINING, find_trainer, load
from s3gym.cli.moved import must_be_the_same_command
from s3gym.config import ModelConfig, RunConfig, TrainingConfig
from s3gym.contracts.chat import ChatModel
from s3gym.errors import ConfigError
from s3gym.training import Training

WEIGHTS = "{weights}"
NOT_RESULTS = frozenset({"update_seconds", "side_by_side", "recorded"})
"""Settings that change no result and so are no part of a study's specification."""


def words_of(text: str) -> list[str]:
    """Return the words of a command, quoted as in a shell.

    Raises:
        ConfigError: A quotation is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"--trainer-command {text!r}: {error}") from error


def training_of(config: RunConfig, settings: Mapping[str, Any]) -> Training | None:
    """Return the training pathway of a configuration, if it has one.

    Args:
        config: What to run.
        settings: Settings of chat models, such as the temperature, for the weights, too.

    Raises:
        ConfigError: The trainer cannot be made.
    """
    if TRAINING not in config.memory:
        return None
    given = config.training
    factory, origin = find_trainer(given.trainer)
    own = {"trl": given.trl, "openai": given.openai}.get(given.trainer, given.settings)
    values = dict(own) | {"base": _base(config)}
    known = _arguments(given.trainer, factory)
    if given.trainer == "command":
        if given.command is None:
            raise ConfigError("training.command: expected the words of a command, got none")
        values["chat"] = _chat_of(given.chat, config.model, settings)
        values["command"] = given.command
    else:
        values = _reached(config.model, known) | values
        if "chat" in known and settings:
            values["chat"] = dict(settings) | dict(own.get("chat", {}))
    _must_fit(given.trainer, factory, values, known)
    _must_answer_as_told(config)
    return Training(
        trainer=factory(**values),
        policy=given.policy,
        start=given.start,
        experience=given.experience,
        variant=given.variant,
        update_seconds=given.update_seconds,
        side_by_side=given.side_by_side,
        origin=origin,
    )


def recorded_training(config: TrainingConfig) -> dict[str, Any]:
    """Return what a resume makes the trainer of, in the words of the record."""
    values = {"trainer": config.trainer} | config.model_dump(
        mode="json", exclude_defaults=True, exclude=set(NOT_RESULTS)
    )
    values |= {key: value for key, value in config.recorded.items() if key != "agent"}
    return {key: value for key, value in values.items() if value is not None}


def must_be_named_again(recorded: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Check that nothing is run or imported because a store says so.

    Args:
        recorded: The table ``training`` of a store.
        given: What the command line says, by dotted keys.

    Raises:
        ConfigError: A command or a module is not named again.
    """
    for key, option in (
        ("trainer", "--trainer"),
        ("command", "--trainer-command"),
        ("chat", "--trainer-chat"),
    ):
        value, again = recorded.get(key), given.get(f"training.{key}")
        foreign = key == "command" or (isinstance(value, str) and _is_foreign(value))
        if value is None or not foreign or again == value:
            continue
        words = shlex.join(value) if isinstance(value, list) else value
        if again is not None and key == "command":
            must_be_the_same_command(value, again)
            continue
        raise ConfigError(
            f"this store's trainer is not built in; name it again: {option} {shlex.quote(words)}"
        )


def _is_foreign(name: str) -> bool:
    return ":" in name and not is_chat_name(name)


def _base(config: RunConfig) -> str:
    """Return the weights to start from, without the prefix of a chat model."""
    name = config.training.base or config.agent[0]
    if is_chat_name(name):
        return name.partition(":")[2]
    if config.training.base is None:
        raise ConfigError(
            f"training.base: expected the weights to start from, because agent {name!r} does not "
            f"name any"
        )
    return name


def _reached(model: ModelConfig, known: Iterable[str]) -> dict[str, Any]:
    """Return how a server is reached, for a trainer that asks one."""
    values = {"base_url": model.base_url, "api_key_env": model.api_key_env}
    return {key: value for key, value in values.items() if key in known and value is not None}


def _chat_of(
    name: str, model: ModelConfig, settings: Mapping[str, Any]
) -> Callable[[str], ChatModel]:
    """Return the function from the path of weights to the chat model that answers with them."""
    if _is_foreign(name):
        found = load(name, "training.chat")
        if not callable(found):
            raise ConfigError(f"training.chat {name!r}: expected a function of a path")
        made: Callable[[str], ChatModel] = found
        return made
    if not is_chat_name(name) or WEIGHTS not in name:
        raise ConfigError(
            f"training.chat: expected a chat model with {WEIGHTS} in its name, such as "
            f"'hf:{WEIGHTS}', or a function as module:attribute, got {name!r}"
        )

    def chat(location: str) -> ChatModel:
        return chat_model(
            name.replace(WEIGHTS, location),
            model.base_url,
            model.api_key_env,
            settings=settings,
            offline=True,
        )

    return chat


def _must_answer_as_told(config: RunConfig) -> None:
    """Refuse a contract that the chat models of trained weights cannot be held to."""
    given = config.training
    chat = {"trl": "hf:", "command": given.chat}.get(given.trainer, "")
    names = (chat, config.agent[0])
    if config.model.contract != "json" or not all(is_chat_name(name) for name in names):
        return
    kind = chat.partition(":")[0]
    if not hasattr(CLASSES[kind], "with_schema"):
        raise ConfigError(
            f"model.contract: 'json' needs chat models with structured output, and the weights of "
            f"trainer {given.trainer!r} answer as '{kind}:' models, which have none; use 'line'"
        )


def _arguments(name: str, factory: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(factory).parameters)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"trainer {name!r}: its arguments cannot be read: {error}") from error


def _must_fit(
    name: str,
    factory: Callable[..., Any],
    values: Mapping[str, Any],
    known: Mapping[str, inspect.Parameter],
) -> None:
    """Refuse a setting that a trainer does not take, and name those that it takes."""
    try:
        inspect.signature(factory).bind(**values)
    except TypeError as error:
        shown: Sequence[str] = [key for key in known if key not in ("base", "chat", "command")]
        raise ConfigError(
            f"training: trainer {name!r}: {error}; its settings are: {', '.join(shown) or 'none'}"
        ) from error
