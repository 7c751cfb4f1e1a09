"""A run that dies loses nothing that was paid for."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from studies import LEARNER_TABLES, drawing, learner_rows, plan, run_plans, verifier_rows

from s3gym.audit import audit_store
from s3gym.calls import complete
from s3gym.catalog import find_game
from s3gym.errors import StoreError
from s3gym.records import Turn
from s3gym.store.store import Store
from s3gym.testing.fakes import ScriptedChat

WORKER = """
import sys, time
from pathlib import Path
import anyio
sys.path.insert(0, {tests!r})
from studies import plan, run_plans
from test_durability import SlowModelAgent
log = Path({log!r})
plans = [plan("trust", agent=SlowModelAgent, repeat=repeat) for repeat in (0, 1)]
anyio.run(run_plans, Path({store!r}), plans)
"""


class SlowModelAgent:
    """Asks a scripted model; every question that was answered is written to a log file."""

    async def act(self, turn: Turn) -> Any:
        chat = ScriptedChat(lambda asked: f"Answer: cheat, Score: {len(asked.messages)}")
        reply = await complete(
            _Logged(chat), turn.messages(), purpose="act", layout="paper", max_tokens=10,
            seed=turn.seed,
        )  # fmt: skip
        return reply.text


class _Logged:
    def __init__(self, chat: ScriptedChat) -> None:
        self.name, self._chat = "logged", chat

    async def complete(self, messages: Any, *, max_tokens: int, seed: int | None = None) -> Any:
        reply = await self._chat.complete(messages, max_tokens=max_tokens, seed=seed)
        time.sleep(0.002)
        with Path(os.environ["CALL_LOG"]).open("a") as log:
            log.write(f"{seed}\n")
        return reply


def work(store: Path, log: Path) -> subprocess.Popen[bytes]:
    script = WORKER.format(tests=str(Path(__file__).parent), store=str(store), log=str(log))
    environment = os.environ | {"CALL_LOG": str(log)}
    return subprocess.Popen([sys.executable, "-c", script], env=environment)


def n_lines(log: Path) -> int:
    return len(log.read_text().splitlines()) if log.exists() else 0


@pytest.mark.parametrize("kills", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_killed_runs_resume_to_the_same_rows_and_pay_no_call_twice(
    tmp_path: Path, kills: int
) -> None:
    whole, log = tmp_path / "whole.db", tmp_path / "whole.log"
    assert work(whole, log).wait() == 0
    n_calls = n_lines(log)
    store, log = tmp_path / "killed.db", tmp_path / "killed.log"
    for kill in range(kills):
        process = work(store, log)
        goal = n_calls * (kill + 1) // (kills + 1)
        while n_lines(log) < goal and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    assert work(store, log).wait() == 0
    assert learner_rows(store) == learner_rows(whole)
    assert verifier_rows(store) == verifier_rows(whole)
    asked = log.read_text().splitlines()
    # The call in flight at a kill was answered but not yet committed: at most one each.
    assert len(asked) - len(set(asked)) <= kills
    assert audit_store(store, find_game).level() != "fail"


async def test_a_second_process_gets_a_clear_error_at_once(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])
    with Store.open(path):
        code = (
            "from s3gym.store.store import Store\nfrom s3gym.errors import StoreError\n"
            f"try:\n  Store.open({str(path)!r})\nexcept StoreError as error:\n  print(error)"
        )
        answer = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    assert f"another process (pid {os.getpid()}) is writing to this store" in answer.stdout


async def test_a_full_disk_is_one_clear_error_and_the_store_still_opens(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])
    with Store.open(path) as store:
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=r"full.*s3gym resume"), store.transaction():
            store.connection.execute(
                "INSERT INTO messages VALUES ('x', 'user', ?, 0)", ("x" * 1_000_000,)
            )
    assert audit_store(path, find_game).level() != "fail"


async def test_a_store_opens_also_where_there_is_no_room_for_the_lock_to_name_its_owner(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])
    path.with_name("a.db.lock").symlink_to("/dev/full")
    with Store.open(path) as store:
        assert store.ledger.status("trust/drawing/history/r0") == "done"


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="file"):
        Store.create(tmp_path / "file" / "a.db")


async def test_a_stateful_agent_that_decides_unlike_its_record_plays_afresh(
    tmp_path: Path,
) -> None:
    from s3gym.errors import ModelError

    class Fickle:
        made = 0

        def __init__(self) -> None:
            Fickle.made += 1
            self.mood = Fickle.made

        async def act(self, turn: Turn) -> Any:
            if self.mood == 1 and turn.index == 3:
                raise ModelError("down", retryable=True)
            return "cheat", float(self.mood)

    path = tmp_path / "a.db"
    small = plan(agent=Fickle)
    first = await run_plans(path, [small])
    assert first.paused or first.invalid
    await run_plans(path, [small])
    with Store.open(path) as store:
        rows = store.connection.execute("SELECT episode, attempt, steps FROM abandoned").fetchall()
    assert len(rows) == 1
    assert rows[0][1] == 1
    assert len(json.loads(rows[0][2])) == 3
    assert audit_store(path, find_game).level() != "fail"


async def test_a_stateless_agent_goes_on_at_the_first_unrecorded_step(tmp_path: Path) -> None:
    from s3gym.errors import ModelError

    asked: list[tuple[str, int]] = []
    down = True

    async def agent(turn: Turn) -> Any:
        if down and turn.episode.endswith("x001") and turn.index == 5:
            raise ModelError("down", retryable=True)
        asked.append((turn.episode, turn.index))
        return await drawing(turn)

    path = tmp_path / "a.db"
    await run_plans(path, [plan(agent=agent)])
    down = False
    await run_plans(path, [plan(agent=agent)])
    assert len(asked) == len(set(asked))


def test_learner_tables_are_all_compared() -> None:
    from s3gym.store.schema import LEARNER_TABLES as SQL

    created = {line.split()[2] for line in SQL.splitlines() if line.startswith("CREATE TABLE")}
    assert created - {"calls", "invalid_points"} == set(LEARNER_TABLES)


POLITE = """
import anyio, os
from pathlib import Path
from s3gym.agents.model import ModelAgent
from s3gym.contracts.chat import Reply

class Slow:
    name = endpoint = "slow"

    async def complete(self, messages, *, max_tokens, seed=None):
        with Path("asked").open("a") as log:
            log.write("x")
        await anyio.sleep(0.02)
        return Reply(text="Answer: cheat, Score: 1")

agent = ModelAgent(Slow())
"""


def test_the_first_interrupt_keeps_every_call_that_is_paid_for(tmp_path: Path) -> None:
    (tmp_path / "polite.py").write_text(POLITE)
    parts = ["--agent", "polite:agent"]
    command = ["run", *parts, "--memory", "history", "--schedule", "quick", "--repeats", "8"]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    line = [sys.executable, "-P", "-m", "s3gym"]
    run = subprocess.Popen(
        [*line, *command, "--store", "out.db"],
        cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    asked = tmp_path / "asked"
    while not (asked.exists() and asked.stat().st_size > 20):
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=30)
    assert run.returncode == 130
    assert "nothing is lost: s3gym resume out.db" in told
    assert "Traceback" not in told
    assert _calls(tmp_path / "out.db") == asked.stat().st_size
    again = subprocess.run(
        [*line, "resume", "out.db", *parts], cwd=tmp_path, env=environment, timeout=60, check=True,
        capture_output=True,
    )  # fmt: skip
    assert again.returncode == 0
    assert _calls(tmp_path / "out.db") == asked.stat().st_size


def test_a_second_interrupt_is_no_mistake_of_the_agents_that_it_cuts_off(tmp_path: Path) -> None:
    slow = POLITE.replace("sleep(0.02)", "sleep(30 if Path('asked').stat().st_size > 3 else 0)")
    (tmp_path / "slow.py").write_text(slow)
    run = subprocess.Popen(
        [
            sys.executable, "-P", "-m", "s3gym", "run", "--agent", "slow:agent", "--memory", "none",
            "--schedule", "quick", "--repeats", "4", "--store", "out.db", "--quiet",
        ],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(tmp_path)}, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    asked = tmp_path / "asked"
    while not (asked.exists() and asked.stat().st_size > 6):
        assert run.poll() is None
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    assert run.stderr is not None
    assert run.stderr.readline().startswith("s3gym: stopping")
    run.send_signal(signal.SIGINT)
    _, told = run.communicate(timeout=20)
    assert run.returncode == 130
    assert told == "s3gym: interrupted; all but the calls under way is kept: s3gym resume out.db\n"


def _calls(path: Path) -> int:
    db = sqlite3.connect(path)
    try:
        (count,) = db.execute("SELECT count(*) FROM calls").fetchone()
    finally:
        db.close()
    return int(count)
