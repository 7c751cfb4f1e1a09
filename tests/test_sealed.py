"""Sealed runs: the same study, with agent and memory in a process of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import sealed_agents
from sealed_runs import children, notes, only, sweep
from studies import TINY, learner_rows, verifier_rows

from s3gym import ConfigError, Reply, Schedule, Seal, Sweep, Usage
from s3gym.agents.answers import JsonContract
from s3gym.budget import Budget
from s3gym.catalog import model_part
from s3gym.cli.main import main
from s3gym.errors import BudgetExhaustedError, ModelError
from s3gym.meter import Meter
from s3gym.plans import seed_plan
from s3gym.sealed.errors import error_in
from s3gym.sealed.lines import Lines
from s3gym.sealed.parts import sealed_parts
from s3gym.sealed.process import MOST_UNREAD, SealedProcess, _Conversation
from s3gym.sealed.seal import allowed
from s3gym.testing.fakes import ScriptedChat
from s3gym.wire import WireError

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a sealed run needs Linux (issue 8)"
)
SAME = {"salt": "s"}


def rows(path: Path) -> tuple[Any, Any]:
    """Return what both sides of a store hold, without the settings that its seals cover."""
    kept, judged = learner_rows(path), verifier_rows(path)
    kept["studies"] = [row[:6] for row in kept["studies"]]
    del judged["seals"]
    return kept, judged


def both(tmp_path: Path, agent: object, memory: object) -> tuple[Any, Any]:
    """Run the same study sealed and not; return the rows of both."""
    for name, seal in (("sealed", Seal()), ("open", None)):
        result = sweep(tmp_path / name, agent, memory, seal=seal, **SAME).run_sync()
        assert not result.outcome.failed, result.outcome
    return rows(tmp_path / "sealed"), rows(tmp_path / "open")


async def test_a_sealed_study_leaves_the_same_rows(tmp_path: Path) -> None:
    for name, seal in (("sealed", Seal()), ("open", None)):
        await sweep(tmp_path / name, "strategist", "history", seal=seal, **SAME).run()
    assert rows(tmp_path / "sealed") == rows(tmp_path / "open")
    assert rows(tmp_path / "sealed")[0]["memory_versions"]
    assert not children()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["vector", "insights"])
def test_so_does_one_with_a_memory_that_recalls_at_every_step(tmp_path: Path, memory: str) -> None:
    sealed, unsealed = both(tmp_path, "strategist", memory)
    assert sealed == unsealed


def summing(request: Any) -> str:
    return f"Answer: cheat, Score: {len(request.text) % 5}"


def test_a_models_calls_are_sent_and_recorded_by_the_parent(tmp_path: Path) -> None:
    chat = ScriptedChat(summing)
    part = model_part(chat, origin="openai:test", layout="cached", reask=1)
    sealed, unsealed = both(tmp_path, part, "summary")
    assert sealed == unsealed
    assert len(sealed[0]["calls"]) == len(chat.requests) / 2
    assert {row[3] for row in sealed[0]["calls"]} == {"act", "memory"}


class Schemed(ScriptedChat):
    """A scripted model with structured output."""

    def with_schema(self, schema: type) -> "Schemed":
        return self


@pytest.mark.slow
def test_the_json_contract_is_kept_in_the_child(tmp_path: Path) -> None:
    chat = Schemed(lambda request: json.dumps({"action": "cheat", "self_score": 1.5}))
    part = model_part(chat, origin="openai:test", contract=JsonContract())
    sweep(tmp_path / "out.db", part).run_sync()
    assert "JSON object" in chat.requests[0].messages[0].content
    assert {row[3] for row in learner_rows(tmp_path / "out.db")["steps"]} == {1.5}


def test_a_resumed_sealed_study_pays_for_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    answers: list[Any] = ["Answer: cheat, Score: 1"] * 25
    first = ScriptedChat(answers)
    part = model_part(first, origin="openai:test")
    halted = sweep(path, part, "history").run_sync()
    assert halted.outcome.refused
    again = ScriptedChat(lambda request: "Answer: cheat, Score: 1")
    result = sweep(path, model_part(again, origin="openai:test"), "history").resume_sync()
    assert result.root
    n_calls = len(learner_rows(path)["calls"])
    assert n_calls == len(learner_rows(path)["steps"]) == 25 + len(again.requests)


def test_a_used_up_budget_stops_a_sealed_run_as_any_other(tmp_path: Path) -> None:
    reply = Reply(text="Answer: cheat, Score: 1", usage=Usage(calls=1, output_tokens=5))
    part = model_part(ScriptedChat(lambda request: reply), origin="openai:test")
    meter = Meter(budget=Budget(max_tokens=40))
    with pytest.raises(BudgetExhaustedError, match="max_tokens is used up"):
        sweep(tmp_path / "out.db", part, limits=meter).run_sync()
    assert not children()


def test_calls_of_a_chat_model_of_the_agents_own_are_recorded(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    result = sweep(path, "sealed_agents:asks_its_own").run_sync()
    assert not result.outcome.failed
    said = notes(path)
    assert set(said) == {"from process child", "refused: no third rounds"}
    calls = learner_rows(path)["calls"]
    assert len(calls) == said.count("from process child")
    assert {row[9] for row in calls} == {"from process child"}


@pytest.mark.slow
def test_an_agent_keeps_state_within_an_episode_and_not_beyond(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    sweep(path, sealed_agents.Counting).run_sync()
    n_episodes = 2 + 3 * 2
    assert notes(path) == [f"turn {index + 1}" for index in range(10)] * n_episodes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["learner", "Learner", "only_learns"])
def test_an_agent_that_owns_its_memory_learns_in_the_child(tmp_path: Path, name: str) -> None:
    agent = f"sealed_agents:{name}"
    result = sweep(tmp_path / "own", agent, "own", repeats=2).run_sync()
    assert not result.outcome.failed
    assert set(notes(tmp_path / "own")) == {"0 learned", "1 learned", "2 learned"}
    assert not sealed_agents.learner.learned + sealed_agents.only_learns.learned
    result = sweep(tmp_path / "none", agent, "none").run_sync()
    assert not result.outcome.failed
    assert set(notes(tmp_path / "none")) == {"0 learned"}


FAULTS = {
    "raises": "agent 'raises' raised KeyError in act (step 0)",
    "dies": "agent 'dies': its sealed process ended with exit code 3; it printed last: "
    "'my last words'",
    "scribbles": "agent 'scribbles': its sealed process sent expected a JSON object",
    "forges": "agent 'forges' returned Usage(",
    "hangs": "did not answer",
    "floods": "did not answer",
    "spends": "forged",
    "forges_errors": "? forged",
    "leaves_a_process": "its sealed process ended with exit code 4",
}
WAITS = ("hangs", "floods")


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (name not in ("dies", "scribbles", "forges")))
        for name in FAULTS
    ],
)
def test_a_child_that_misbehaves_fails_its_study_by_name(tmp_path: Path, name: str) -> None:
    schedule = Schedule(**TINY.model_dump() | {"act_seconds": 6.0 if name in WAITS else 60.0})
    result = sweep(tmp_path / "out.db", f"sealed_agents:{name}", schedule=schedule).run_sync()
    assert FAULTS[name] in only(result)
    assert not children()


async def test_a_side_that_never_stops_sending_does_not_keep_the_loop() -> None:
    ours, theirs = socket.socketpair()
    theirs.settimeout(5.0)
    stop = threading.Event()

    def flood() -> None:
        with suppress(OSError):
            while not stop.is_set():
                theirs.sendall(b'{"id": 999999}\n' * 1_000)

    sender = threading.Thread(target=flood, daemon=True)
    sender.start()
    # Not for ever where the loop is kept: then the test says so.
    threading.Timer(2.0, stop.set).start()
    lines = Lines(ours)  # one reader: it keeps a line whose end has not come yet
    began = time.monotonic()
    with closing(ours), closing(theirs), anyio.move_on_after(0.05):
        while True:
            assert set(map(str, await lines.read())) == {"{'id': 999999}"}
    sender.join()
    assert time.monotonic() - began < 1.0


@pytest.mark.parametrize(
    "looks",
    [
        5,
        None,
        {"agents": [], "memories": []},
        {"agents": {"a": 1}, "memories": 7},
        {"agents": [{}], "memories": [{}]},
        {"agents": [{"stateless": 1, "serial": 1, "isolated": 1, "forkable": 1, "learns": 1}]},
    ],
)
def test_a_child_that_lies_about_what_it_loaded_is_one_clear_error(
    monkeypatch: pytest.MonkeyPatch, looks: object
) -> None:
    monkeypatch.setattr("s3gym.sealed.parts.probe", lambda seal, question: looks)
    with pytest.raises(ConfigError, match="does not say what it loaded"):
        sealed_parts(Seal(), ["sealed_agents:dies"], ["none"])


@pytest.mark.parametrize("wait", [-1, -1e308, True, "1", float("nan")])
def test_a_child_asks_for_no_wait_that_is_none(wait: object) -> None:
    error = error_in({"kind": "ModelError", "message": "m", "retry_after": wait})
    assert isinstance(error, ModelError)
    assert error.retry_after in (None, 1.0)


async def test_messages_that_nobody_reads_do_not_pile_up_for_ever() -> None:
    process = SealedProcess(Seal(), {}, {})
    process._talks[1] = _Conversation()
    process._deliver([{"id": 1}] * MOST_UNREAD)
    with pytest.raises(WireError, match="nobody asked for"):
        process._deliver([{"id": 1}])


@pytest.mark.slow
def test_a_child_that_dies_fails_no_other_study(tmp_path: Path) -> None:
    both_agents = Sweep(
        games=("trust",), agents=("sealed_agents:dies", "strategist"), memories=("none",),
        repeats=1, seed=7, schedule=TINY, seal=Seal(), store=tmp_path / "out.db",
    )  # fmt: skip
    result = both_agents.run_sync()
    assert [*result.outcome.failed] == ["trust/dies/none/r0"]
    assert result.curves()["trust/strategist/none/r0"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_the_child_dies_with_its_parent(tmp_path: Path) -> None:
    program = (
        "from sealed_runs import sweep\nfrom pathlib import Path\n"
        f"sweep(Path({str(tmp_path / 'out.db')!r}), 'sealed_agents:hangs').run_sync()\n"
    )
    tests = str(Path(__file__).parent)
    parent = subprocess.Popen(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": tests}, cwd=tmp_path
    )
    try:
        store, deadline = tmp_path / "out.db", time.monotonic() + 60
        started: list[str] = []
        while not (started and store.exists()) and time.monotonic() < deadline:
            time.sleep(0.05)
            if store.exists():
                path = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
                started = path.read_text().split()
        assert started
    finally:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    deadline = time.monotonic() + 10
    while any(alive(int(pid)) for pid in started) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not [pid for pid in started if alive(int(pid))]


def test_what_is_sealed_is_not_imported_here(tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "only_there.py").write_text(
        "async def mine(turn):\n    return 'Answer: cheat, Score: 1'\n"
    )
    monkeypatch.chdir(tmp_path)
    result = sweep(tmp_path / "out.db", "only_there:mine").run_sync()
    assert not result.outcome.failed
    assert "only_there" not in sys.modules


def test_a_child_is_given_no_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret-canary")
    result = sweep(tmp_path / "out.db", "sealed_agents:environment").run_sync()
    assert not result.outcome.failed
    given = json.loads(notes(tmp_path / "out.db")[0])
    assert "PATH" in given
    assert "secret-canary" not in given.values()


def test_seeds_of_a_sealed_run_cannot_be_guessed_from_its_seed() -> None:
    quick = Schedule.quick()
    assert seed_plan(7, None, quick) == seed_plan(7, None, quick)
    one, two = (seed_plan(7, None, quick, sealed=True) for _ in range(2))
    assert len({7, one.root, two.root, seed_plan(7, None, quick).root}) == 3
    assert one.salt != two.salt
    assert one.world("chess", 0) != two.world("chess", 0)
    assert seed_plan(one.root, one.salt, quick, sealed=True) == one


@pytest.mark.slow
def test_a_store_that_was_not_sealed_is_not_resumed_sealed(tmp_path: Path) -> None:
    path = tmp_path / "out.db"
    sweep(path, seal=None).run_sync()
    with pytest.raises(ConfigError, match="settings"):
        sweep(path).resume_sync()


@pytest.mark.parametrize(
    ("seal", "message"),
    [
        (Seal(user="nobody-of-that-name"), "there is no user"),
        (Seal(user="root"), "got root"),
        (Seal(python="/nowhere/python"), "does not start"),
        (Seal(python="/bin/false"), "ended with exit code 1"),
    ],
)
def test_a_seal_that_cannot_be_is_a_clear_error(tmp_path: Path, seal: Seal, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sweep(tmp_path / "out.db", seal=seal).run_sync()
    assert not (tmp_path / "out.db").exists()
    assert not children()


def test_only_root_changes_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match="only root"):
        sweep(tmp_path / "out.db", seal=Seal(user="nobody")).run_sync()


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (lambda turn: "cheat", "give it as 'module:attribute'"),
        (sealed_agents.Counting(), "give it as 'module:attribute'"),
        ("sealed_agents:missing", "has no attribute"),
        ("strategits", "no agent is called"),
    ],
)
def test_an_agent_without_a_name_cannot_be_sealed(tmp_path: Path, agent: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        sweep(tmp_path / "out.db", agent).run_sync()


def test_a_store_in_an_open_folder_is_refused(tmp_path: Path) -> None:
    seal = Seal(user="nobody")
    try:
        seal.account()
    except ConfigError as error:
        pytest.skip(f"needs root and a user nobody (issue 8): {error}")
    store = tmp_path / "out.db"
    seal.guard(store)
    tmp_path.chmod(0o777)
    with pytest.raises(ConfigError, match="may write here"):
        seal.guard(store)
    tmp_path.chmod(0o1777)  # the store's own folder may not even be sticky
    with pytest.raises(ConfigError, match="may write here"):
        seal.guard(store)
    tmp_path.chmod(0o755)
    store.write_bytes(b"")
    store.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        seal.guard(store)


def test_rights_are_those_of_owner_group_or_others() -> None:
    class Account:
        pw_uid, pw_gid = 5, 6

    def may(mode: int, uid: int, gid: int) -> bool:
        status = os.stat_result((mode, 0, 0, 0, uid, gid, 0, 0, 0, 0))
        return allowed(status, Account(), 0o4)  # type: ignore[arg-type] # has what is read

    assert may(0o400, 5, 0)
    assert not may(0o044, 5, 6)
    assert may(0o040, 0, 6)
    assert not may(0o404, 0, 6)
    assert may(0o004, 0, 0)


def test_the_store_of_a_sealed_run_is_its_owners_alone(tmp_path: Path) -> None:
    seen: list[int] = []

    def look(event: object) -> None:
        seen.extend(path.stat().st_mode & 0o077 for path in tmp_path.glob("out.db*"))

    sweep(tmp_path / "out.db", on_event=look).run_sync()
    assert seen
    assert not any(seen)


def test_sealed_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sealed_own.py").write_text(
        "class Mine:\n    async def act(self, turn):\n        return 'cheat', 1.0\n"
    )
    common = ["--agent", "sealed_own:Mine", "--quiet"]
    run = ["run", "--sealed", "--memory", "none", "--schedule", "quick", "--repeats", "1",
           "--seed", "7", "--store", "out.db", *common]  # fmt: skip
    for arguments in (run, ["extend", "out.db", "--repeats", "2", *common], ["audit", "out.db"]):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert not caught.value.code, capsys.readouterr()
    assert "2 of 2 studies done" in capsys.readouterr().out
    assert "sealed_own" not in sys.modules


def test_a_person_cannot_be_sealed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no terminal"):
        sweep(tmp_path / "out.db", "human").plans()
