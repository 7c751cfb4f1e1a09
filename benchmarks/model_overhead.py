"""What s3gym adds to a model call, against an instant server on loopback.

    PYTHONSAFEPATH=1 python benchmarks/model_overhead.py

Prints requests per second of a bare loop over the official SDK, of the same requests through
agent, limits and store, and of whole studies, all from one run; the ratios are what counts.
The server runs in a process of its own and answers at once.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from openai import AsyncOpenAI

from s3gym.agents.model import ModelAgent
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.api import Sweep
from s3gym.broker import StudyBroker
from s3gym.calls import brokered
from s3gym.catalog import model_part
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Observation, Phase, Turn
from s3gym.schedule import Schedule
from s3gym.store.store import Store

SERVER = Path(__file__).parent.parent / "tests" / "model_server.py"
TURN = Turn(
    episode="trust/m/none/r0/x000",
    game="trust",
    phase=Phase.EXPLORATION,
    rules="Each round, both players choose to collaborate or to cheat. " * 20,
    instruction="You play a repeated game against one opponent.",
    observation=Observation(text="Round 1 of 10.\n" * 10),
    max_steps=10,
    max_tokens=100,
)


async def side_by_side(
    n_calls: int, at_once: int, call: Callable[[int, int], Awaitable[object]]
) -> float:
    """Return calls per second; ``call`` is told its lane and its number in the lane."""

    async def lane(number: int) -> None:
        for index in range(n_calls // at_once):
            await call(number, index)

    begun = time.perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(at_once):
            group.start_soon(lane, number)
    return n_calls / (time.perf_counter() - begun)


async def bare(url: str, n_calls: int, at_once: int) -> float:
    """Return calls per second of the SDK alone."""
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    messages = [{"role": message.role, "content": message.content} for message in TURN.messages()]

    async def call(lane: int, index: int) -> None:
        await client.chat.completions.create(
            model="instant",
            messages=messages,  # type: ignore[arg-type] # plain dicts, as users write them
            max_tokens=100,
            seed=lane * 10_000 + index,
        )

    await call(0, 0)
    rate = await side_by_side(n_calls, at_once, call)
    await client.close()
    return rate


async def recorded(url: str, n_calls: int, at_once: int, folder: Path) -> float:
    """Return calls per second through agent, limits and store."""
    chat = OpenAIChat("instant", base_url=url)
    agent = ModelAgent(chat)
    meter = Meter(Limits(LimitSettings(start=at_once, most=at_once)))
    await agent.act(TURN)
    with Store.create(folder / f"recorded-{time.monotonic_ns()}.db") as store:
        brokers = [StudyBroker(store, meter, "study", f"lane{lane}") for lane in range(at_once)]

        async def call(lane: int, index: int) -> None:
            brokers[lane].step = index
            with brokered(brokers[lane]):
                await agent.act(TURN)

        rate = await side_by_side(n_calls, at_once, call)
    await agent.aclose()
    return rate


async def studies(url: str, at_once: int, folder: Path) -> float:
    """Return calls per second of whole studies side by side."""
    chat = OpenAIChat("instant", base_url=url)
    schedule = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=2)
    sweep = Sweep(
        games=["trust"],
        agents=[model_part(chat, origin="python")],
        memories=["none"],
        repeats=at_once,
        schedule=schedule,
        seed=7,
        store=folder / f"studies-{time.monotonic_ns()}.db",
        limits=Meter(Limits(LimitSettings(start=at_once, most=at_once))),
        at_most=at_once,
    )
    begun = time.perf_counter()
    await sweep.run()
    seconds = time.perf_counter() - begun
    await chat.aclose()
    n_calls = at_once * (2 + 3 * 2) * 10
    return n_calls / seconds


async def one_by_one(url: str, n_calls: int) -> tuple[float, float]:
    """Return the median milliseconds of a bare SDK call and of ``ModelAgent.act``."""
    client = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
    messages = [{"role": message.role, "content": message.content} for message in TURN.messages()]
    agent = ModelAgent(OpenAIChat("instant", base_url=url))
    bare_times, agent_times = [], []
    for _ in range(n_calls):
        begun = time.perf_counter()
        await client.chat.completions.create(
            model="instant",
            messages=messages,  # type: ignore[arg-type] # plain dicts, as users write them
            max_tokens=100,
        )
        between = time.perf_counter()
        await agent.act(TURN)
        bare_times.append(between - begun)
        agent_times.append(time.perf_counter() - between)
    await client.close()
    await agent.aclose()
    return statistics.median(bare_times) * 1000, statistics.median(agent_times) * 1000


async def measure(url: str, n_calls: int, at_once: int, rounds: int) -> dict[str, float]:
    """Return the medians of several rounds, whose parts take turns."""
    rates: dict[str, list[float]] = {"bare": [], "recorded": [], "studies": []}
    with tempfile.TemporaryDirectory() as name:
        for _ in range(rounds):
            rates["bare"].append(await bare(url, n_calls, at_once))
            rates["recorded"].append(await recorded(url, n_calls, at_once, Path(name)))
            rates["studies"].append(await studies(url, at_once, Path(name)))
    medians = {part: statistics.median(values) for part, values in rates.items()}
    bare_ms, agent_ms = await one_by_one(url, n_calls // 2)
    return {
        "bare_requests_per_second": medians["bare"],
        "recorded_requests_per_second": medians["recorded"],
        "study_requests_per_second": medians["studies"],
        "recorded_over_bare": medians["recorded"] / medians["bare"],
        "studies_over_bare": medians["studies"] / medians["bare"],
        "sdk_call_ms": bare_ms,
        "agent_step_ms": agent_ms,
    }


def main() -> None:
    """Start the server, measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=480)
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    command = [sys.executable, str(SERVER)]
    # Its neighbours are named, because a safe path leaves a script's own folder out.
    environment = os.environ | {"PYTHONPATH": str(SERVER.parent)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            assert server.stdout is not None
            url = f"{server.stdout.readline().strip()}/v1"
            result = anyio.run(measure, url, options.calls, options.at_once, options.rounds)
        finally:
            server.kill()
    print(json.dumps({name: round(value, 3) for name, value in result.items()}, indent=2))


if __name__ == "__main__":
    main()
