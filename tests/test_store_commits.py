"""Commits that studies share: what waits for others, for how long, and what a fault does."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from studies import plan, run_plans

from s3gym.calls import complete
from s3gym.contracts.chat import Reply
from s3gym.errors import StoreError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Message, Turn
from s3gym.store import file
from s3gym.store.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with Store.create(tmp_path / "a.db") as opened:
        yield opened


def kept(path: Path) -> list[str]:
    """Return the keys of the secrets that another process would find."""
    with closing(file.open_reader(path)) as db:
        return [row[0] for row in db.execute("SELECT key FROM secrets ORDER BY key")]


def write_soon(store: Store, key: str) -> None:
    with store.soon():
        store.verdicts.set_secret(key, "x")


async def test_what_is_written_soon_is_kept_at_once_when_nobody_else_writes(store: Store) -> None:
    write_soon(store, "a")
    assert kept(store.path) == ["a"]


async def test_what_is_written_soon_waits_for_the_next_commit(store: Store) -> None:
    async with store.keeping():
        write_soon(store, "a")
        write_soon(store, "b")
        assert kept(store.path) == []
        store.commit()
        assert kept(store.path) == ["a", "b"]


async def test_a_transaction_keeps_what_waited_before_it(store: Store) -> None:
    async with store.keeping():
        write_soon(store, "a")
        with store.transaction():
            store.verdicts.set_secret("b", "x")
        assert kept(store.path) == ["a", "b"]


async def test_it_waits_for_a_moment_only(store: Store) -> None:
    async with store.keeping():
        for key in ("a", "b"):
            write_soon(store, key)
            with anyio.fail_after(5):
                while key not in kept(store.path):
                    await anyio.sleep(0.005)


async def test_the_end_of_a_run_keeps_what_waits_also_after_an_error(store: Store) -> None:
    async def run() -> None:
        async with store.keeping():
            write_soon(store, "a")
            raise ValueError("of a study")

    with pytest.raises(ValueError, match="of a study"):
        await run()
    assert kept(store.path) == ["a"]


def fail(store: Store, error: BaseException) -> None:
    with store.soon():
        store.verdicts.set_secret("b", "x")
        raise error


async def test_a_write_that_fails_undoes_itself_and_harms_no_later_one(store: Store) -> None:
    async with store.keeping():
        with pytest.raises(ValueError, match="of one study"):
            fail(store, ValueError("of one study"))
        write_soon(store, "c")
    assert kept(store.path) == ["c"]


@pytest.mark.parametrize("error", [ValueError("of one study"), KeyboardInterrupt()])
async def test_one_that_fails_while_others_wait_undoes_nothing_of_them(
    store: Store, error: BaseException
) -> None:
    async with store.keeping():
        write_soon(store, "a")
        with pytest.raises(type(error)):
            fail(store, error)
        write_soon(store, "c")
    assert kept(store.path) == ["a", "c"]


async def test_a_row_that_cannot_be_kept_undoes_nothing_of_others(store: Store) -> None:
    async with store.keeping():
        write_soon(store, "a")
        with pytest.raises(StoreError, match="UNIQUE"):
            write_soon(store, "a")
        with pytest.raises(StoreError, match="not supported"):
            write_soon(store, ["b"])  # type: ignore[arg-type] # what a careless caller does
        write_soon(store, "c")
    assert kept(store.path) == ["a", "c"]


async def test_where_the_disk_fails_a_write_nobody_goes_on_from_lost_rows(store: Store) -> None:
    async def run() -> None:
        async with store.keeping():
            write_soon(store, "a")
            (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
            store.connection.execute(f"PRAGMA max_page_count = {pages}")
            with pytest.raises(StoreError, match="full"):
                write_soon(store, "b" * 1_000_000)
            write_soon(store, "c")

    with pytest.raises(StoreError, match=r"full.*s3gym resume"):
        await run()
    assert kept(store.path) == []


async def test_a_commit_that_fails_ends_the_run_and_the_store_takes_nothing_more(
    store: Store,
) -> None:
    async def run() -> None:
        async with store.keeping():
            write_soon(store, "a")
            fill_the_disk(store)
            with anyio.fail_after(5):
                await anyio.sleep_forever()

    with pytest.raises(StoreError, match=r"full.*s3gym resume"):
        await run()
    with pytest.raises(StoreError, match="full"):
        write_soon(store, "b")
    assert kept(store.path) == []


def fill_the_disk(store: Store) -> None:
    """Let the next COMMIT fail as on a full disk; a commit cannot be made to by SQLite's limits."""

    class Full:
        def __init__(self, connection: sqlite3.Connection) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def execute(self, sql: str, *values: Any) -> Any:
            if sql == "COMMIT":
                raise sqlite3.OperationalError("database or disk is full")
            return self._connection.execute(sql, *values)

    store.connection = Full(store.connection)  # type: ignore[assignment] # stands in for it


@pytest.mark.parametrize("most", [1, 3, 64])
async def test_before_a_request_leaves_everything_is_committed(tmp_path: Path, most: int) -> None:
    path = tmp_path / "a.db"
    unkept_replies, kept_steps = [], []
    answered = 0

    class Looking:
        name = "looking"

        def __init__(self, turn: Turn) -> None:
            self.turn = turn

        async def complete(
            self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
        ) -> Reply:
            nonlocal answered
            with closing(file.open_reader(path)) as db:
                (calls,) = db.execute("SELECT count(*) FROM calls").fetchone()
                (steps,) = db.execute(
                    "SELECT count(*) FROM steps WHERE episode = ?", (self.turn.episode,)
                ).fetchone()
            unkept_replies.append(answered - calls)
            kept_steps.append(steps - self.turn.index)
            await anyio.lowlevel.checkpoint()  # others come to wait for this one's place
            answered += 1
            return Reply(text="Answer: cheat, Score: 1")

    async def asking(turn: Turn) -> str:
        reply = await complete(Looking(turn), turn.messages(), purpose="act", max_tokens=9)
        return reply.text

    limits = Meter(Limits(LimitSettings(start=min(most, 8), most=most)))
    await run_plans(path, [plan(agent=asking, repeat=repeat) for repeat in (0, 1)], limits)
    assert len(unkept_replies) > 40
    assert set(unkept_replies) == {0}
    assert set(kept_steps) == {0}
