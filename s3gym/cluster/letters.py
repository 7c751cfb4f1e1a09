"""What a worker and the limiter of a sweep write to one another: plain data, and no key.

A letter holds all that is open between the two, not only what changed, so a letter or an answer
that is lost, sent twice or late does no harm, and a limiter that was restarted learns from the
next letter what it has to know.
"""

from dataclasses import dataclass

from s3gym.budget import NOTHING, Spent
from s3gym.contracts.chat import ChatModel
from s3gym.errors import BudgetExhaustedError, ConfigError, ModelError, S3GymError
from s3gym.events import Event
from s3gym.records import Usage

MANY = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """What a limiter needs to know of a chat model.

    Attributes:
        name: Names model and settings.
        model: Id of the model.
        endpoint: What its limits are kept for.
        most_concurrent: Most calls that it bears at once.
    """

    name: str
    model: str
    endpoint: str
    most_concurrent: int = MANY


def card(chat: ChatModel, session: str) -> Card:
    """Return the card of a chat model.

    A model in the worker's own process shares its limits with nobody, so they are named after
    the worker.
    """
    endpoint = str(getattr(chat, "endpoint", "") or chat.name)
    return Card(
        name=chat.name,
        model=str(getattr(chat, "model", "")),
        endpoint=endpoint if endpoint.startswith("http") else f"{endpoint} in {session}",
        most_concurrent=int(getattr(chat, "most_concurrent", MANY)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A call that wants to be made, or is made now.

    Attributes:
        id: Number of the call in its session.
        attempt: Which attempt is waited for, or under way; the first one is 1.
        card: Its chat model.
        tokens: Estimate of what it takes from a rate of tokens.
    """

    id: int
    attempt: int
    card: Card
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """An error as plain data.

    Attributes:
        kind: ``model``, ``budget`` or ``config``.
        message: Its text.
        retryable: As in ``ModelError``; likewise the two that follow.
        retry_after: Seconds.
        status: Of HTTP.
    """

    kind: str
    message: str
    retryable: bool = False
    retry_after: float | None = None
    status: int | None = None

    def error(self) -> S3GymError:
        """Return it as an error."""
        if self.kind == "budget":
            return BudgetExhaustedError(self.message)
        if self.kind == "config":
            return ConfigError(self.message)
        return ModelError(
            self.message,
            retryable=self.retryable,
            retry_after=self.retry_after,
            status=self.status,
        )


def failure(error: S3GymError) -> Failure:
    """Return an error as plain data."""
    if isinstance(error, ModelError):
        return Failure(
            kind="model",
            message=str(error),
            retryable=error.retryable,
            retry_after=error.retry_after,
            status=error.status,
        )
    kind = "budget" if isinstance(error, BudgetExhaustedError) else "config"
    return Failure(kind=kind, message=str(error))


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How one attempt ended: with what it used, or with a failure."""

    id: int
    attempt: int
    usage: Usage = Usage()
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """What a worker writes.

    Attributes:
        session: Names the worker and the run of one study on it.
        number: Letters of a session are numbered; a later one replaces what an earlier one said.
        study: The study that is run.
        asks: Calls that wait for a permit.
        held: Calls that are under way.
        outcomes: How attempts ended; repeated until they are known to have arrived.
        spent: Everything that the session spent so far.
        events: What happened, as far as it is not known to have arrived.
        stopping: The session knows that it shall stop.
        leaving: The session is over.
    """

    session: str
    number: int
    study: str = ""
    asks: tuple[Ask, ...] = ()
    held: tuple[Ask, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    spent: Spent = NOTHING
    events: tuple[Event, ...] = ()
    stopping: bool = False
    leaving: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What the limiter answers.

    Attributes:
        number: Number of the letter.
        permits: (call, attempt) that may be made now.
        refused: (call, why) that may not be made any more.
        stop: The sweep is being stopped: begin nothing new.
        stale: The letter was overtaken by a later one, and nothing of it was taken in.
    """

    number: int
    permits: tuple[tuple[int, int], ...] = ()
    refused: tuple[tuple[int, Failure], ...] = ()
    stop: bool = False
    stale: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the driver learns from the limiter.

    Attributes:
        events: What happened since the last report.
        spent: Session -> everything that it spent, for sessions where that changed.
        runs: (study, session that runs it now, ``None`` when it is over), in order.
        letters: Letters that came in since the limiter began.
    """

    events: tuple[Event, ...] = ()
    spent: tuple[tuple[str, Spent], ...] = ()
    runs: tuple[tuple[str, str | None], ...] = ()
    letters: int = 0
