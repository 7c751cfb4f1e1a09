"""Adapter of openai-agents (tried with 0.18): an ``Agent``, run by its package's ``Runner``."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from s3gym.agents.adapted import Said, module_root
from s3gym.records import Usage


def fits(app: object) -> bool:
    """Return whether it is an agent of openai-agents."""
    return "agents" in module_root(app) and hasattr(app, "handoffs")


class OpenAIAgentsApp:
    """Asks an agent; its history is a list of input items.

    Args:
        app: The agent.
        session: A ``Session``, which is read and never written, or ``True``.
    """

    def __init__(self, app: Any, session: Any = None) -> None:
        self._app, self._session = app, session
        self.name = str(app.name)
        self.isolated = True

    async def ask(self, history: Any, text: str) -> Said:
        # By the agent's own package: a bare name could be a folder of the user.
        runner = import_module(type(self._app).__module__.partition(".")[0]).Runner
        items = [*(history or ()), {"role": "user", "content": text}]
        result = await runner.run(self._app, items)
        used = result.context_wrapper.usage
        details = getattr(used, "input_tokens_details", None)
        usage = Usage(
            calls=used.requests,
            input_tokens=used.input_tokens,
            cached_tokens=getattr(details, "cached_tokens", 0) or 0,
            output_tokens=used.output_tokens,
        )
        return Said(output=result.final_output, usage=usage, history=result.to_input_list())

    async def kept(self) -> list[Any]:
        if hasattr(self._session, "get_items"):
            return list(await self._session.get_items())
        return []

    def extended(self, history: Any, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        return [
            *history,
            *(
                {"role": role, "content": text}
                for pair in pairs
                for role, text in zip(("user", "assistant"), pair, strict=True)
            ),
        ]


adapt = OpenAIAgentsApp
