"""Adapter of LangGraph: a compiled graph whose state has ``messages``; chains of messages too."""

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from s3gym.agents.adapted import Said, module_root
from s3gym.records import Usage

ROOTS = {"langgraph", "langchain_core"}


def fits(app: object) -> bool:
    """Return whether it is a graph, or another runnable of LangChain."""
    return bool(ROOTS & module_root(app)) and hasattr(app, "ainvoke")


class LangGraphApp:
    """Asks a graph; its history is the graph's state, so no thread is used twice.

    Args:
        app: The graph.
        session: Id of a thread of its checkpointer, a state to begin with, or ``True``.
    """

    def __init__(self, app: Any, session: Any = None) -> None:
        self._app, self._session = app, session
        self._runs = count(1)
        self.name = str(getattr(app, "name", None) or "langgraph")
        # A store is shared by all threads; copying a state does not copy it.
        self.isolated = getattr(app, "store", None) is None

    async def ask(self, history: Any, text: str) -> Said:
        before = list(history["messages"]) if history else []
        state = {**(history or {}), "messages": [*before, ("user", text)]}
        # Not a number alone: another process may write to the same checkpointer.
        thread = f"s3gym-{id(self):x}-{next(self._runs)}"
        result = await self._app.ainvoke(state, {"configurable": {"thread_id": thread}})
        messages = result["messages"]
        used = [one.usage_metadata for one in messages[len(before) :] if _tells(one)]
        usage = Usage(
            calls=len(used),
            input_tokens=sum(one["input_tokens"] for one in used),
            cached_tokens=sum(
                (one.get("input_token_details") or {}).get("cache_read", 0) for one in used
            ),
            output_tokens=sum(one["output_tokens"] for one in used),
        )
        output = result.get("structured_response") or _text(messages[-1].content)
        return Said(output=output, usage=usage, history=dict(result))

    async def kept(self) -> dict[str, Any]:
        if isinstance(self._session, Mapping):
            return dict(self._session)
        if isinstance(self._session, str):
            found = await self._app.aget_state({"configurable": {"thread_id": self._session}})
            return {"messages": [], **found.values}
        return {"messages": []}

    def extended(self, history: Any, pairs: Sequence[tuple[str, str]]) -> dict[str, Any]:
        added = [
            (role, text)
            for pair in pairs
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
        return {**history, "messages": [*history["messages"], *added]}


def _tells(message: Any) -> bool:
    return bool(getattr(message, "usage_metadata", None))


def _text(content: Any) -> str:
    """Return the text of a message, which may come in blocks."""
    if isinstance(content, str):
        return content
    return "".join(
        block if isinstance(block, str) else str(block.get("text", "")) for block in content
    )


adapt = LangGraphApp
