"""Whole studies against a real model server: faults on the way change no row."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import FAULTS, ModelServer, Served, by_hash, unsteady
from studies import plan, run_plans

from s3gym.agents.model import ModelAgent
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.agents.replay_chat import ReplayChat
from s3gym.api import Study
from s3gym.budget import Budget, Price
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.records import Usage
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.store.hashes import request_hash
from s3gym.testing.fakes import ScriptedChat

KEY = "sk-canary-90210-study"
SMALL = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=2, max_steps=3)
QUICK = LimitSettings(first_wait=0.002, longest_wait=0.01, attempt_seconds=20)
NARROW = LimitSettings(first_wait=0.002, longest_wait=0.01, start=8, most=8)
TABLES = ("episodes", "steps", "recollections", "verdicts", "scores", "seals")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def rows(store: Path, *tables: str) -> dict[str, list[Any]]:
    db = file.open_reader(store)
    try:
        return {
            table: sorted(map(tuple, db.execute(f"SELECT * FROM {table}")), key=repr)
            for table in tables
        }
    finally:
        db.close()


def by_prompt(body: dict[str, Any]) -> Served:
    """Answer by the messages alone, whatever model id was asked for."""
    return by_hash({"messages": body["messages"], "seed": body["seed"]})


def agent_at(server: ModelServer, model: str) -> ModelAgent:
    return ModelAgent(OpenAIChat(model, base_url=server.openai_url))


async def play(store: Path, agent: Any, schedule: Schedule, limits: Meter | None = None) -> None:
    outcome = await run_plans(
        store, [plan("trust", agent, schedule=schedule)], limits or Meter(Limits(QUICK))
    )
    assert not outcome.failed
    assert not outcome.paused
    assert not outcome.invalid


async def compare(server: ModelServer, tmp_path: Path, schedule: Schedule) -> None:
    """Play with and without faults on the way, and compare all rows."""
    stores = []
    for share in (0.0, 0.2):
        model = server.script(unsteady(share, 1, by_prompt))
        chat = OpenAIChat(model, base_url=server.openai_url)
        chat.name = "openai:steady"  # the id tells the scripts apart, and is part of the rows
        store = tmp_path / f"{share}.db"
        await play(store, ModelAgent(chat), schedule)
        await chat.aclose()
        stores.append(store)
        failed = [entry for entry in server.requests(model) if entry.status != 200]
        assert bool(failed) == bool(share)
    steady, shaken = (rows(store, *TABLES) for store in stores)
    assert steady == shaken


async def test_transport_faults_change_no_row_of_a_study(
    server: ModelServer, tmp_path: Path
) -> None:
    await compare(server, tmp_path, SMALL)


@pytest.mark.slow
async def test_transport_faults_change_no_row_of_a_study_of_the_papers_size(
    server: ModelServer, tmp_path: Path
) -> None:
    await compare(server, tmp_path, Schedule.paper())


async def test_content_faults_give_exactly_the_scripted_statuses(
    server: ModelServer, tmp_path: Path
) -> None:
    answers = {
        "ok": Served(text="Answer: cheat, Score: 3"),
        "repaired": Served(text="**Answer: cheat, Score: 3**"),
        "no_score": Served(text="Answer: cheat"),
        "no_action": Served(text=None, reasoning="Answer: cheat, Score: 3"),
        "truncated": Served(text="Answer: cheat, Score: 3", finish="length"),
        "refused": Served(text=None, refusal="I do not play."),
    }
    given: Counter[str] = Counter()
    kinds = list(answers)

    def answer(body: dict[str, Any]) -> Served:
        kind = kinds[sum(given.values()) % len(kinds)]
        given[kind] += 1
        return answers[kind]

    agent = agent_at(server, server.script(answer))
    await play(tmp_path / "a.db", agent, SMALL)
    await agent.aclose()
    db = file.open_reader(tmp_path / "a.db")
    found = dict(db.execute("SELECT status, count(*) FROM steps GROUP BY status").fetchall())
    db.close()
    assert found == dict(given)


async def test_recorded_tokens_equal_what_the_server_counted(
    server: ModelServer, tmp_path: Path
) -> None:
    budget = Budget(prices={"openai:counted": Price(input=1.0, output=2.0)})
    model = server.script(by_prompt)
    chat = OpenAIChat(model, base_url=server.openai_url)
    chat.name = "openai:counted"
    await play(tmp_path / "a.db", ModelAgent(chat), SMALL, Meter(Limits(QUICK), budget))
    await chat.aclose()
    log = server.requests(model)
    counted = (
        sum(entry.input_tokens for entry in log),
        sum(entry.output_tokens for entry in log),
    )
    db = file.open_reader(tmp_path / "a.db")
    recorded = db.execute("SELECT sum(input_tokens), sum(output_tokens) FROM calls").fetchone()
    db.close()
    assert tuple(recorded) == counted
    assert budget.spent.tokens == sum(counted)
    assert budget.spent.usd == pytest.approx((counted[0] + 2 * counted[1]) / 1e6)


async def test_a_budget_stops_a_study_between_calls_and_it_can_go_on(
    server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_prompt)
    agent, store = agent_at(server, model), tmp_path / "a.db"
    with pytest.raises(BudgetExhaustedError, match="max_tokens is used up"):
        await play(store, agent, SMALL, Meter(Limits(QUICK), Budget(max_tokens=2000)))
    first = len(server.requests(model))
    await play(store, agent, SMALL)
    await agent.aclose()
    log = server.requests(model)
    assert 0 < first < len(log)
    assert max(Counter(entry.key for entry in log).values()) == 1


async def test_a_key_is_in_no_store_and_no_log(
    server: ModelServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    denied = Served(status=401, message=f"wrong key {KEY}")
    agent = agent_at(server, server.script(lambda body: denied))
    await run_plans(tmp_path / "a.db", [plan("trust", agent, schedule=SMALL)], Meter(Limits(QUICK)))
    await agent.aclose()
    written = (tmp_path / "a.db").read_bytes()
    assert b"wrong key [key]" in written
    assert KEY.encode() not in written
    assert KEY not in caplog.text


async def test_a_store_answers_a_second_run_without_a_server(
    server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_prompt)
    agent = agent_at(server, model)
    await play(tmp_path / "a.db", agent, SMALL)
    await agent.aclose()
    db = file.open_reader(tmp_path / "a.db")
    replies = {
        row[0]: Reply(
            text=row[1],
            finish=row[2],
            usage=Usage(
                calls=1,
                input_tokens=row[3],
                cached_tokens=row[4],
                output_tokens=row[5],
                reasoning_tokens=row[6],
            ),
        )
        for row in db.execute(
            "SELECT request_hash, reply, finish, input_tokens, cached_tokens, output_tokens, "
            "reasoning_tokens FROM calls"
        )
    }
    db.close()
    replay = ReplayChat(agent.name, replies, request_hash)
    asked = len(server.requests(model))
    await play(tmp_path / "b.db", ModelAgent(replay), SMALL)
    assert len(server.requests(model)) == asked
    first, second = (rows(tmp_path / name, *TABLES) for name in ("a.db", "b.db"))
    assert first == second


def test_a_memory_writes_with_the_agents_own_model_and_it_is_closed_in_the_end(
    tmp_path: Path,
) -> None:
    chat = Closable(lambda request: "Answer: cheat, Score: 3")
    Study(
        game="trust",
        agent=ModelAgent(chat),
        memory="summary",
        repeats=1,
        seed=7,
        schedule=SMALL,
        store=tmp_path / "a.db",
    ).run_sync()
    db = file.open_reader(tmp_path / "a.db")
    found = dict(db.execute("SELECT purpose, count(*) FROM calls GROUP BY purpose").fetchall())
    db.close()
    assert found == {"act": len(chat.requests) - found["memory"], "memory": found["memory"]}
    assert found["memory"] >= 2
    assert chat.closed == 1


class Closable(ScriptedChat):
    """Counts how often it is closed."""

    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


WORKER = """
import sys
from pathlib import Path
import anyio
sys.path.insert(0, {tests!r})
from studies import plan, run_plans
from test_study_models import NARROW, SMALL
from s3gym.agents.chat_names import chat_model
from s3gym.agents.model import ModelAgent
from s3gym.limits import Limits
from s3gym.meter import Meter
agent = ModelAgent(chat_model("openai:trusted", {url!r}))
plans = [plan("trust", agent, schedule=SMALL, repeat=repeat) for repeat in range(8)]
anyio.run(run_plans, Path({store!r}), plans, Meter(Limits(NARROW)))
"""


@pytest.mark.slow
def test_killed_studies_resume_and_pay_for_no_reply_twice(tmp_path: Path) -> None:
    log, store = tmp_path / "server.jsonl", tmp_path / "a.db"
    program = Path(__file__).parent / "model_server.py"
    command = [sys.executable, str(program), "--log", str(log), "--delay", "0.01"]
    beside = os.environ | {"PYTHONPATH": str(program.parent)}  # where PYTHONSAFEPATH hides it
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=beside) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip() + "/v1"
            worker = WORKER.format(tests=str(program.parent), url=url, store=str(store))
            in_flight = kill_midway(worker, log)
            subprocess.run([sys.executable, "-c", worker], check=True, timeout=60)
        finally:
            process.kill()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    paid = Counter(line["key"] for line in lines if line["status"] == 200)
    db = file.open_reader(store)
    n_calls = db.execute("SELECT count(*) FROM calls").fetchone()[0]
    done = db.execute("SELECT count(*) FROM studies WHERE status = 'done'").fetchone()[0]
    db.close()
    assert done == 8
    assert len(paid) == n_calls
    assert sum(paid.values()) - n_calls <= in_flight


def kill_midway(worker: str, log: Path) -> int:
    """Run studies, kill them with some calls made, and return how many may have been in flight."""
    with subprocess.Popen([sys.executable, "-c", worker]) as process:
        while not log.exists() or len(log.read_text().splitlines()) < 60:
            assert process.poll() is None
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
    return NARROW.most


def test_the_faults_of_the_server_are_all_on_the_way() -> None:
    assert all(fault.status != 200 or fault.fault for fault in FAULTS)
