"""Ctrl-C, once, twice and a third time."""

import os
import signal

import anyio
import pytest

from s3gym.cli.interrupt import kindly_stopped
from s3gym.halt import CutOffError, HaltedError, check_halt


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
        await anyio.sleep_forever()

    with kindly_stopped() as stopping, pytest.raises(CutOffError), anyio.fail_after(10):
        await stopping.run(start)


def test_a_second_interrupt_before_the_run_begins_ends_the_command() -> None:
    with kindly_stopped():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()
