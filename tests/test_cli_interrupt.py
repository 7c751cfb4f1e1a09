"""Ctrl-C, once, twice and a third time."""

import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from s3gym.cli.interrupt import kindly_stopped
from s3gym.cli.main import main
from s3gym.halt import CutOffError, HaltedError, check_halt


@pytest.fixture(autouse=True)
def asyncio_still_logs() -> Iterator[None]:
    logger = logging.getLogger("asyncio")
    yield
    logger.disabled = False


def press() -> None:
    """Press Ctrl-C."""
    os.kill(os.getpid(), signal.SIGINT)


async def test_a_run_that_is_not_interrupted_returns_its_result() -> None:
    async def start() -> int:
        await anyio.sleep(0)
        return 7

    before = signal.getsignal(signal.SIGINT)
    with kindly_stopped() as stopping:
        assert await stopping.run(start) == 7
    assert signal.getsignal(signal.SIGINT) is before


async def test_the_first_interrupt_cancels_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    async def start() -> None:
        press()
        await anyio.sleep(0.01)
        check_halt()

    with kindly_stopped() as stopping, pytest.raises(HaltedError) as raised:
        await stopping.run(start)
    assert not isinstance(raised.value, CutOffError)
    assert "s3gym: stopping" in capfd.readouterr().err


async def test_the_second_interrupt_cancels_wherever_the_loop_is_at() -> None:
    ended: list[str] = []

    async def work(name: str) -> None:
        try:
            await anyio.sleep_forever()
        except anyio.get_cancelled_exc_class():
            ended.append(name)
            raise

    async def start() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(work, "a")
            group.start_soon(work, "b")
            press()
            press()
            ended.append("no exception came into the work of the moment")
            await anyio.sleep_forever()

    with kindly_stopped() as stopping, pytest.raises(CutOffError), anyio.fail_after(10):
        await stopping.run(start)
    assert ended[0].startswith("no exception")
    assert set(ended[1:]) == {"a", "b"}


async def test_what_stops_kindly_while_it_is_cut_off_was_cut_off() -> None:
    async def start() -> None:
        press()
        press()
        try:
            await anyio.sleep_forever()
        finally:
            check_halt()

    with kindly_stopped() as stopping, pytest.raises(CutOffError), anyio.fail_after(10):
        await stopping.run(start)


async def test_the_third_interrupt_comes_into_a_loop_that_is_blocked() -> None:
    async def start() -> None:
        press()
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert stopping.broken
        await anyio.sleep_forever()

    with kindly_stopped() as stopping, pytest.raises(CutOffError), anyio.fail_after(10):
        await stopping.run(start)


def test_a_second_interrupt_before_the_run_begins_ends_the_command() -> None:
    with kindly_stopped() as stopping:
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
        assert stopping.broken


def test_a_run_that_is_broken_off_says_so_whatever_that_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken_off(*given: object) -> None:
        press()
        try:
            press()
        except KeyboardInterrupt:
            raise RuntimeError("a scope was left in disorder") from None

    monkeypatch.setattr("anyio.run", broken_off)
    store = tmp_path / "out.db"
    with pytest.raises(SystemExit) as left:
        main(["run", "--schedule", "quick", "--repeats", "1", "--quiet", "--store", str(store)])
    assert left.value.code == 130
    assert capfd.readouterr().err.splitlines()[1:] == [
        f"s3gym: interrupted; all but the calls under way is kept: s3gym resume {store}"
    ]
    assert logging.getLogger("asyncio").disabled
