"""What a fine-tuning API answers: checked where it is read, open elsewhere.

A server may answer anything, and a study that has paid for a job must not end by it. A body
without what is needed is a ``ModelError``; a number that tells nothing counts as not told.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Annotated, Any, TypeVar, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from s3gym.agents.connection import Connection
from s3gym.records import is_count

Answer = TypeVar("Answer", bound=BaseModel)
MOST_PAGES = 1_000
"""Most pages of a list that are looked at: a server may say for ever that there are more."""
LARGEST_LOSS = 1e9


def _count(value: object) -> int | None:
    """Return a count; ``None`` for what is none."""
    return cast(int, value) if is_count(value) else None


def _table(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


Count = Annotated[int | None, BeforeValidator(_count)]
Table = Annotated[dict[str, Any], BeforeValidator(_table)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}$")]
"""Becomes part of later requests' addresses."""
ModelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9/][!-~]{0,499}$")]
"""Becomes part of later requests and of the record."""


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class UploadedFile(_Answer):
    """A file, as the server knows it."""

    id: Identifier
    filename: str | None = None
    bytes: Count = None


class Job(_Answer):
    """A fine-tuning job, as it stands."""

    id: Identifier
    status: Annotated[str, Field(max_length=100)]
    training_file: str | None = None
    fine_tuned_model: ModelName | None = None
    trained_tokens: Count = None
    created_at: Count = None
    finished_at: Count = None
    error: Table = Field(default_factory=dict)

    @property
    def seconds(self) -> float | None:
        """How long it took; ``None`` where the server does not tell."""
        if not self.created_at or not self.finished_at or self.finished_at < self.created_at:
            return None
        return float(self.finished_at - self.created_at)


class JobEvent(_Answer):
    """Something that happened to a job."""

    id: Identifier
    data: Table = Field(default_factory=dict)

    @property
    def loss(self) -> tuple[int, float] | None:
        """Step and training loss, where it tells of one."""
        step, loss = _count(self.data.get("step")), self.data.get("train_loss")
        if step is None or isinstance(loss, bool) or not isinstance(loss, int | float):
            return None
        return (step, float(loss)) if abs(loss) <= LARGEST_LOSS else None


class Page(_Answer):
    """Part of a list, its entries as they came."""

    data: list[Any]
    has_more: bool = False


def read(connection: Connection, kind: type[Answer], response: Any, expected: str) -> Answer:
    """Return the answer that a body is.

    Raises:
        ModelError: It is something else; asked again, a server may do better.
    """
    try:
        return kind.model_validate_json(connection.without_key(response.content))
    except ValidationError as error:
        failure = connection.malformed(error, expected)
    raise failure


async def entries(
    connection: Connection,
    kind: type[Answer],
    ask: Callable[..., Awaitable[Any]],
    expected: str,
    **words: Any,
) -> AsyncGenerator[Answer, None]:
    """Yield the entries of a list, page by page; one that cannot be read is none of ours.

    Args:
        connection: Whom it comes from.
        kind: What an entry is.
        ask: Asks for a page, from the id ``after`` on.
        expected: Names a page, for errors.
        words: What else is asked with.
    """
    for _ in range(MOST_PAGES):
        page = read(connection, Page, await ask(**words), expected)
        for found in page.data:
            try:
                entry = kind.model_validate(found)
            except ValidationError:
                continue
            yield entry
        last = _table(page.data[-1]).get("id") if page.data else None
        if not page.has_more or not isinstance(last, str) or last == words.get("after"):
            return
        words["after"] = last
