"""Adapter of smolagents: its agents run in a worker thread, each time as a copy of the given one.

A copy has memory, state and Python interpreter of its own; it shares model and tools.
"""

from collections.abc import Sequence
from copy import copy
from importlib import import_module
from typing import Any

import anyio.to_thread

from s3gym.agents.adapted import Said, module_root
from s3gym.records import Usage


def fits(app: object) -> bool:
    """Return whether it is an agent of smolagents."""
    return "smolagents" in module_root(app) and hasattr(app, "memory") and hasattr(app, "run")


class SmolagentsApp:
    """Asks an agent; its history is the list of its memory's steps.

    Args:
        app: The agent.
        session: ``True`` to begin with what the agent's memory holds.
    """

    def __init__(self, app: Any, session: Any = None) -> None:
        self._app, self._session = app, session
        self.name = str(getattr(app, "name", None) or type(app).__name__)
        self.isolated = True

    async def ask(self, history: Any, text: str) -> Said:
        before = list(history or ())
        run = twin(self._app, before)
        output = await anyio.to_thread.run_sync(
            lambda: run.run(text, reset=False, return_full_result=False), abandon_on_cancel=True
        )
        steps = list(run.memory.steps)
        used = [
            step.token_usage
            for step in steps[len(before) :]
            if getattr(step, "token_usage", None) is not None
        ]
        usage = Usage(
            calls=len(used),
            input_tokens=sum(one.input_tokens for one in used),
            output_tokens=sum(one.output_tokens for one in used),
        )
        return Said(output=output, usage=usage, history=steps)

    async def kept(self) -> list[Any]:
        return list(self._app.memory.steps)

    def extended(self, history: Any, pairs: Sequence[tuple[str, str]]) -> list[Any]:
        steps, timing = import_module("smolagents.memory"), import_module("smolagents.monitoring")
        added: list[Any] = []
        for question, answer in pairs:
            added.append(steps.TaskStep(task=question))
            never = timing.Timing(start_time=0.0, end_time=0.0)
            added.append(steps.ActionStep(step_number=1, timing=never, model_output=answer))
        return [*history, *added]


def twin(app: Any, steps: list[Any]) -> Any:
    """Return a copy of an agent that remembers ``steps`` and writes nothing into the original."""
    other = copy(app)
    other.memory = copy(app.memory)
    other.memory.steps = steps.copy()
    other.state = dict(app.state)
    other.managed_agents = {
        name: twin(managed, []) for name, managed in (app.managed_agents or {}).items()
    }
    if hasattr(other, "create_python_executor"):
        other.python_executor = other.create_python_executor()
    return other


adapt = SmolagentsApp
