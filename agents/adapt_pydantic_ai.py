"""Adapter of pydantic-ai: an ``Agent``, whose history is a list of messages."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from s3gym.agents.adapted import Said, module_root
from s3gym.records import Usage


def fits(app: object) -> bool:
    """Return whether it is an agent of pydantic-ai."""
    return "pydantic_ai" in module_root(app) and hasattr(app, "run")


class PydanticAIApp:
    """Asks an agent.

    Args:
        app: The agent.
        session: Messages to begin with, or ``True`` for none.
    """

    def __init__(self, app: Any, session: Any = None) -> None:
        self._app, self._session = app, session
        self.name = str(app.name or "pydantic-ai")
        self.isolated = True

    async def ask(self, history: Any, text: str) -> Said:
        result = await self._app.run(text, message_history=list(history or ()))
        used = result.usage
        if not hasattr(used, "requests"):  # older versions: a method
            used = used()
        usage = Usage(
            calls=used.requests,
            input_tokens=used.input_tokens,
            cached_tokens=getattr(used, "cache_read_tokens", 0) or 0,
            output_tokens=used.output_tokens,
        )
        return Said(output=result.output, usage=usage, history=result.all_messages())

    async def kept(self) -> list[Any]:
        return list(self._session) if isinstance(self._session, Sequence) else []

    def extended(self, history: Any, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        own = import_module("pydantic_ai.messages")
        added: list[Any] = []
        for question, answer in pairs:
            added.append(own.ModelRequest(parts=[own.UserPromptPart(content=question)]))
            added.append(own.ModelResponse(parts=[own.TextPart(content=answer)]))
        return [*history, *added]


adapt = PydanticAIApp
