"""Names of chat models: ``openai:MODEL``, ``anthropic:MODEL``, ``local:FILE``, ``hf:FOLDER``."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

from s3gym.agents.anthropic_chat import AnthropicChat
from s3gym.agents.hf_chat import HFChat
from s3gym.agents.local_chat import LocalChat
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.errors import ConfigError

CHAT_PREFIXES = ("openai", "anthropic", "local", "hf")
CHAT_FORMS = ("openai:MODEL", "anthropic:MODEL", "local:FILE.gguf", "hf:FOLDER")
IN_PROCESS = ("local", "hf")
NamedChat = OpenAIChat | AnthropicChat | LocalChat | HFChat


def is_chat_name(name: str) -> bool:
    """Return whether a name is one of a chat model."""
    return name.partition(":")[0] in CHAT_PREFIXES and ":" in name


def chat_model(
    name: str,
    base_url: str | None = None,
    api_key_env: str | None = None,
    *,
    settings: Mapping[str, Any] | None = None,
    offline: bool = False,
) -> NamedChat:
    """Return the chat model that a name stands for.

    Args:
        name: ``openai:MODEL``, ``anthropic:MODEL``, ``local:PATH.gguf`` or ``hf:FOLDER``.
        base_url: Address of a compatible server; for the first two.
        api_key_env: Environment variable that holds the key; for the first two.
        settings: Further arguments of the chat model's class, for example ``{"effort": "low"}``.
        offline: Do not check that the key or the engine is there, for plans and replays.

    Raises:
        ConfigError: The name, an argument or the key is missing or does not fit.
    """
    kind, colon, model = name.partition(":")
    if kind not in CHAT_PREFIXES or not colon or not model.strip():
        raise ConfigError(
            f"expected a chat model such as 'openai:MODEL', 'anthropic:MODEL', "
            f"'local:PATH.gguf' or 'hf:FOLDER', got {name!r}"
        )
    chat = _made(kind, model, base_url, api_key_env, dict(settings or {}))
    if not offline:
        chat.check_key()
    return chat


CLASSES: dict[str, type[NamedChat]] = {
    "openai": OpenAIChat,
    "anthropic": AnthropicChat,
    "local": LocalChat,
    "hf": HFChat,
}


def _made(
    kind: str,
    model: str,
    base_url: str | None,
    api_key_env: str | None,
    settings: dict[str, Any],
) -> NamedChat:
    if kind in IN_PROCESS:
        if base_url is not None or api_key_env is not None:
            raise ConfigError(
                f"'{kind}:{model}' runs in this process and takes no base URL and no key; for a "
                f"server of your own use 'openai:MODEL' with the base URL"
            )
    else:
        settings |= {"base_url": base_url, "api_key_env": api_key_env}
    known = list(signature(CLASSES[kind].__init__).parameters)[2:]
    unknown = sorted(set(settings) - set(known))
    if unknown:
        raise ConfigError(
            f"{kind}:{model} takes no setting {unknown[0]!r}; it takes {', '.join(known)}"
        )
    return CLASSES[kind](model, **settings)
