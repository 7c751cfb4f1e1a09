"""``as_agent``: an agent app that exists already, as an agent under test.

To add a framework: write ``adapt_NAME.py`` with ``fits`` and ``adapt``, and add it to
``ADAPTERS``.
"""

import inspect
from typing import Any, cast

from s3gym.agents import (
    adapt_function,
    adapt_langgraph,
    adapt_openai_agents,
    adapt_pydantic_ai,
    adapt_smolagents,
)
from s3gym.agents.adapted import AppAgent, SessionAgent
from s3gym.contracts.agent import Agent
from s3gym.errors import ConfigError
from s3gym.records import Layout
from s3gym.text import shorten

ADAPTERS = {
    "openai-agents": adapt_openai_agents,
    "pydantic-ai": adapt_pydantic_ai,
    "langgraph": adapt_langgraph,
    "smolagents": adapt_smolagents,
}
"""Frameworks whose objects are known by the package that defines their class."""


def as_agent(
    app: object,
    *,
    session: object = None,
    name: str | None = None,
    layout: Layout = "paper",
    isolated: bool | None = None,
) -> Agent:
    """Return an agent app that exists already as an agent for ``Study(agent=...)``.

    Without a session each turn is one run of the app that starts afresh, and a memory of
    s3gym can carry experience from episode to episode. With a session the app remembers by
    itself: use memory ``own`` for it and memory ``none`` as the control arm.

    Args:
        app: An async or plain function of a ``Turn`` or of a prompt (annotated ``str``); an
            agent of openai-agents, pydantic-ai or smolagents; a LangGraph graph whose state
            has ``messages``; or whatever is an agent already, which is returned as it is.
        session: What the app remembers at the start: a ``Session`` of openai-agents, a list of
            pydantic-ai messages, a LangGraph thread id (with a checkpointer) or state, ``True``
            for what a smolagents agent holds. ``True`` starts any of them with nothing.
        name: Name in ids and reports; by default the app's own.
        layout: Order of the prompt, for apps without a session.
        isolated: Pass False for an app that keeps something between its runs that no copy of
            the session holds, for example a database; report and audit then say so.

    Raises:
        ConfigError: It is none of these, or takes no session.
    """
    if hasattr(app, "act"):
        return cast(Agent, app)
    found: Any = next((one for one in ADAPTERS.values() if one.fits(app)), None)
    if found is None and callable(app):
        if session is not None:
            raise ConfigError("as_agent: a function has no session that s3gym could copy")
        return adapt_function.FunctionApp(app, name, layout, isolated is not False)
    if found is None:
        raise ConfigError(
            f"as_agent: expected a function, an agent with act(), or an app of "
            f"{', '.join(ADAPTERS)}, got {shorten(app)}"
        )
    adapter = found.adapt(app, session)
    if name is not None:
        adapter.name = name
    if isolated is not None:
        adapter.isolated = isolated
    if session is None:
        return AppAgent(adapter, layout)
    return SessionAgent(adapter)


def is_app(value: object) -> bool:
    """Return whether ``as_agent`` has to adapt a value: an app, or a function of a prompt."""
    if isinstance(value, type) or hasattr(value, "act"):
        return False
    if inspect.isfunction(value):
        return adapt_function.prompted(value)
    return any(one.fits(value) for one in ADAPTERS.values())
