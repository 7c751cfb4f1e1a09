"""Is it the network? Tells an outage from a mistake in the error of a memory that lives elsewhere.

Nothing of a client's package is imported: errors are known by the names of their classes and by
the HTTP status that they carry.
"""

from collections.abc import Iterator
from socket import gaierror

from s3gym.errors import S3GymError, retryable_status

BUILTIN = (ConnectionError, TimeoutError, gaierror)
FOREIGN = frozenset(
    {
        "aiohttp.ClientConnectionError",
        "anthropic.APIConnectionError",
        "asyncpg.PostgresConnectionError",
        "httpx.TransportError",
        "httpx2.TransportError",
        "mem0.NetworkError",
        "mem0.RateLimitError",
        "openai.APIConnectionError",
        "psycopg.OperationalError",
        "psycopg_pool.PoolTimeout",
        "pymongo.AutoReconnect",
        "qdrant_client.ResponseHandlingException",
        "redis.ConnectionError",
        "redis.TimeoutError",
        "requests.ConnectionError",
        "requests.Timeout",
        "urllib.URLError",
        "urllib3.ProtocolError",
        "urllib3.RequestError",
        "urllib3.TimeoutError",
    }
)
"""Package and class of errors that a call may get over when it is made again later."""
LONGEST_CHAIN = 10


def is_outage(error: BaseException) -> bool:
    """Return whether the same call may succeed later: no connection, or a status 429 or 5xx."""
    if isinstance(error, BaseExceptionGroup):
        return all(is_outage(one) for one in error.exceptions)
    if isinstance(error, S3GymError):
        return False
    for one in _chain(error):
        status = _status(one)
        if status is not None:
            return retryable_status(status)
        if isinstance(one, BUILTIN) or _names(one) & FOREIGN:
            return True
    return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what its raiser says it comes from."""
    one: BaseException | None = error
    for _ in range(LONGEST_CHAIN):
        if one is None:
            return
        yield one
        one = one.__cause__


def _status(error: BaseException) -> int | None:
    """Return the HTTP status that an error carries, or the answer in it."""
    for holder in (error, getattr(error, "response", None)):
        for name in ("status_code", "status"):
            found = getattr(holder, name, None)
            if type(found) is int and 400 <= found < 600:
                return found
    return None


def _names(error: BaseException) -> set[str]:
    """Return the names of an error's classes, each with the package alone."""
    kinds = type(error).__mro__
    return {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in kinds}
