"""What the adapters of agent frameworks share: prompts in, decisions out, forks in between.

An adapter is a short file that knows how one framework is asked. Nothing here imports a
framework.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from s3gym.errors import ModelError, retryable_status
from s3gym.prompts import EARLIER_HEADER, RESPONSE_CONTRACT, answer_line
from s3gym.records import Decision, Episode, Layout, Observation, Status, Turn, Usage
from s3gym.replies import is_end, parse_reply
from s3gym.text import shorten

SHORT_CONTRACT = "Last line of your reply: Answer: <ACTION>, Score: <SELF-SCORE>"
OUTAGES = {
    "anthropic": "APIError",
    "httpx": "HTTPError",
    "httpx2": "HTTPError",
    "openai": "APIError",
    "pydantic_ai.exceptions": "ModelAPIError",
    "smolagents.utils": "AgentGenerationError",
}
"""Where frameworks keep the error of a model that could not be reached; read when loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What a framework answered.

    Attributes:
        output: A text, or a structured value with an action and a self-score.
        usage: What it cost, where the framework tells.
        history: The conversation with this answer, in the framework's own form.
    """

    output: object
    usage: Usage = Usage()
    history: Any = None


class Adapter(Protocol):
    """Knows how to ask an app of one framework.

    Attributes:
        name: For ids and reports.
        isolated: False when the app keeps something that no fork takes along.
    """

    @property
    def name(self) -> str:
        """For ids and reports."""
        ...

    @property
    def isolated(self) -> bool:
        """Whether nothing that the app learns escapes its history."""
        ...

    async def ask(self, history: Any, text: str) -> Said:
        """Ask the app, after what ``history`` holds; ``None`` starts afresh."""
        ...


class Remembering(Adapter, Protocol):
    """Knows how to read and to lengthen a conversation too."""

    async def kept(self) -> Any:
        """Return the conversation that the app's own session holds now."""
        ...

    def extended(self, history: Any, pairs: Sequence[tuple[str, str]]) -> Any:
        """Return a conversation with more pairs of question and answer."""
        ...


class AppAgent:
    """An app without a memory of its own: each turn is one run that starts afresh.

    Args:
        adapter: How the app is asked.
        layout: Order of the prompt.
    """

    def __init__(self, adapter: Adapter, layout: Layout = "paper") -> None:
        self._adapter, self._layout = adapter, layout
        self.name, self.isolated = adapter.name, adapter.isolated
        self.stateless = adapter.isolated

    async def act(self, turn: Turn) -> Decision:
        messages = turn.messages(self._layout)
        text = "\n\n".join(message.content for message in messages)
        return decision_of(await asked(self._adapter, None, text))


class SessionAgent:
    """An app that remembers its conversation; a fork goes on from a copy of it.

    Args:
        adapter: How the app is asked.
        start: Gives the conversation to begin with; the app's own session is only read.
    """

    def __init__(
        self, adapter: Remembering, start: Callable[[], Awaitable[Any]] | None = None
    ) -> None:
        self._adapter, self._start = adapter, start or adapter.kept
        self._history: Any = None
        self._begun = False
        self._recalled = ""
        self.name, self.isolated = adapter.name, adapter.isolated

    async def _begin(self) -> None:
        if not self._begun:
            self._history, self._begun = await self._start(), True

    async def act(self, turn: Turn) -> Decision:
        await self._begin()
        recalled = turn.recollection.text
        text = opening(turn) if turn.index == 0 else later(turn, recalled != self._recalled)
        said = await asked(self._adapter, self._history, text)
        self._history, self._recalled = said.history, recalled
        return decision_of(said)

    async def fork(self) -> "SessionAgent":
        await self._begin()
        history = self._history

        async def start() -> Any:
            return history

        return SessionAgent(self._adapter, start)

    async def learn(self, episode: Episode) -> None:
        await self._begin()
        self._history = self._adapter.extended(self._history, conversation(episode))


async def asked(adapter: Adapter, history: Any, text: str) -> Said:
    """Ask an app; a model that cannot be reached is a ``ModelError``.

    Raises:
        ModelError: The app's model failed, as far as the framework's error tells.
    """
    try:
        return await adapter.ask(history, text)
    except outages() as error:
        cause = error.__cause__ if error.__cause__ is not None else error
        status = next(
            (
                found
                for one in (error, cause)
                if isinstance(found := getattr(one, "status_code", None), int)
            ),
            None,
        )
        raise ModelError(
            f"the model of {adapter.name}: {type(error).__name__}: {shorten(str(error), 300)}",
            retryable=status is None or retryable_status(status),
            status=status,
        ) from error


def outages() -> tuple[type[Exception], ...]:
    """Return the classes of ``OUTAGES`` that are loaded."""
    loaded = [
        getattr(sys.modules[module], name, None)
        for module, name in OUTAGES.items()
        if module in sys.modules
    ]
    return tuple(one for one in loaded if isinstance(one, type) and issubclass(one, Exception))


def decision_of(said: Said) -> Decision:
    """Read an answer: a text by the response contract, a structured value by its fields."""
    output = said.output
    if isinstance(output, Decision):
        return output
    action, score = _field(output, "action"), _field(output, "self_score", "score")
    if isinstance(output, str) or not isinstance(action, str):
        decision = parse_reply(output if isinstance(output, str) else str(output))
    elif is_end(action):
        decision = Decision(action=action, self_score=score, status="end")
    else:
        status: Status = "ok" if score is not None else "no_score"
        decision = Decision(action=action, self_score=score, status=status, raw=str(output))
    return replace(decision, usage=said.usage)


def _field(value: object, *names: str) -> Any:
    for name in names:
        found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
        if found is not None:
            return found
    return None


def heard(observation: Observation) -> str:
    """Return what the environment says now."""
    if not observation.feedback:
        return observation.text
    return f"{observation.feedback}\n\n{observation.text}"


def opening(turn: Turn) -> str:
    """Return the first message of an episode, for an app that remembers it."""
    return "\n\n".join(message.content for message in replace(turn, trail=()).messages())


def later(turn: Turn, show_recollection: bool) -> str:
    """Return a later message of an episode, for an app that remembers the earlier ones."""
    recalled = turn.recollection.text if show_recollection else ""
    parts = [f"{EARLIER_HEADER}\n{recalled}"] if recalled else []
    return "\n\n".join([*parts, heard(turn.observation), SHORT_CONTRACT])


def conversation(episode: Episode) -> list[tuple[str, str]]:
    """Return a finished episode as pairs of question and answer, the last words included."""
    pairs = []
    for step in episode.steps:
        asked_for = heard(step.observation)
        if step.index == 0:
            asked_for = f"{RESPONSE_CONTRACT}\n\nRules:\n{episode.rules}\n\n{asked_for}"
        pairs.append((asked_for, step.decision.raw or answer_line(step.decision)))
    if episode.steps:
        pairs.append((f"The episode is over.\n{heard(episode.steps[-1].outcome)}", "Understood."))
    return pairs


def module_root(app: object) -> set[str]:
    """Return the top-level packages that define the class of an app and its bases."""
    kind = app if isinstance(app, type) else type(app)
    return {base.__module__.partition(".")[0] for base in kind.__mro__}
