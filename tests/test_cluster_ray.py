"""Sweeps on Ray's own multi-node cluster, all of it on this machine."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import pytest
from model_server import ModelServer, Served, by_hash
from ray_sweeps import TINY, cluster, config, folder_of, on_ray, single

from s3gym.cli.main import main
from s3gym.cluster.ray_connect import QUIET, connected
from s3gym.cluster.shards import SweepFolder
from s3gym.errors import BudgetExhaustedError, ConfigError
from s3gym.events import Event
from s3gym.halt import HaltedError, haltable

os.environ.update(QUIET)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="issue 9: needs the extra ray"),
]

SECRET = "sk-test-8f2a77c1d4"


@pytest.fixture(scope="module", autouse=True)
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Work in an empty folder: workers may import what lies in the driver's, ours in part."""
    with chdir(tmp_path_factory.mktemp("elsewhere")):
        yield


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    """Two machines with room, and a connection that is kept: workers serve the tests in turn."""
    with cluster({"num_cpus": 2}, {"num_cpus": 2}) as made, connected(made.address):
        yield made


class Watched:
    """A model server that knows when each request came in and how many were under way."""

    def __init__(self, delay: float = 0.0) -> None:
        self.delay = delay
        self.arrived: list[tuple[float, str]] = []
        self.most = 0
        self.server = ModelServer(self._answer)

    def _answer(self, body: dict[str, Any]) -> Served:
        self.arrived.append((time.monotonic(), ""))
        self.most = max(self.most, len(self.arrived) - len(self.server.log))
        return Served(text=by_hash(body).text, delay=self.delay)

    @contextmanager
    def running(self) -> Iterator["Watched"]:
        with self.server.running():
            yield self

    def counts(self, since: int = 0) -> Counter[str]:
        return Counter(entry.key for entry in self.server.log[since:] if entry.status == 200)

    def settings(self, **given: Any) -> Any:
        model = {"base_url": self.server.openai_url} | given.pop("model", {})
        return config(agent=["openai:m"], memory=["history"], model=model, **given)


async def until(condition: Any, seconds: float = 60.0) -> None:
    with anyio.fail_after(seconds):
        while not condition():
            await anyio.sleep(0.02)


def audit(path: Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["audit", str(path)])
    return int(ended.value.code or 0)


def test_every_root_equals_that_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    settings = config(game=["trust", "snake"], memory=["none", "history", "vector"], repeats=4)
    events: list[Event] = []
    folder = folder_of(settings, tmp_path / "sweep")
    result = on_ray(settings, folder, two_nodes.address, events)
    assert len(result.studies) == 24
    assert result.root == single(settings, tmp_path / "one.db")
    counts = Counter(event.kind for event in events)
    assert (counts["episode"], counts["checkpoint"], counts["done"]) == (48, 48, 24)


def test_a_node_that_dies_costs_only_what_was_in_flight(two_nodes: Any, tmp_path: Path) -> None:
    events: list[Event] = []
    node = two_nodes.add_node(num_cpus=2, object_store_memory=80_000_000)
    with Watched(delay=0.1).running() as watched:
        schedule = TINY | {"max_steps": 16}
        settings = watched.settings(repeats=6, schedule=schedule, cluster={"lease_seconds": 8})
        folder = folder_of(settings, tmp_path / "sweep")
        killed: list[float] = []

        async def kill() -> None:
            await until(lambda: len({event.study for event in events}) == 6)
            await until(lambda: len(watched.server.log) > 50)
            killed.append(time.monotonic())
            await anyio.to_thread.run_sync(two_nodes.remove_node, node, False)

        result = on_ray(settings, folder, two_nodes.address, events, kill)
        asked, n_requests = watched.counts(), len(watched.server.log)
        one = single(settings, tmp_path / "one.db")
        paid = watched.counts(since=n_requests)
    assert killed
    assert result.root == one
    assert audit(tmp_path / "sweep") == 0
    assert [event.kind for event in events].count("moved") >= 1
    twice = asked - paid
    # At most two studies were on that node, each with an exploration and an evaluation episode.
    assert sum(twice.values()) <= 4
    assert not paid - asked


def test_a_limiter_that_is_killed_starts_again_and_keeps_the_limit(
    two_nodes: Any, tmp_path: Path
) -> None:
    with Watched(delay=0.1).running() as watched:
        settings = watched.settings(repeats=4, model={"concurrency": 3})
        folder = folder_of(settings, tmp_path / "sweep")

        async def kill() -> None:
            await until(lambda: len(watched.server.log) > 30)
            os.kill(pid_of("ray::LimiterActor"), signal.SIGKILL)

        result = on_ray(settings, folder, two_nodes.address, beside=kill)
        most, n_requests, asked = watched.most, len(watched.server.log), watched.counts()
        assert result.root == single(settings, tmp_path / "one.db")
        assert asked == watched.counts(since=n_requests)
    assert most <= 3


def pid_of(name: str) -> int:
    """Return the process whose command line begins so."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and (entry / "cmdline").read_text().startswith(name):
                return int(entry.name)
        except OSError:
            continue
    raise LookupError(name)


def test_a_rate_holds_for_all_workers_in_every_minute(two_nodes: Any, tmp_path: Path) -> None:
    schedule = TINY | {"exploration_episodes": 8, "evaluate_every": 8, "max_steps": 64}
    with Watched().running() as watched, haltable() as halt:
        settings = watched.settings(repeats=4, schedule=schedule, model={"rpm": 200})

        async def stop() -> None:
            await until(lambda: watched.arrived)
            await anyio.sleep(68)
            halt.asked = True

        with pytest.raises(HaltedError):
            on_ray(settings, folder_of(settings, tmp_path / "s"), two_nodes.address, beside=stop)
        times = [at for at, _ in watched.arrived]
    in_minute = [sum(begin <= at < begin + 60 for at in times) for begin in times]
    assert max(in_minute) <= 200
    assert in_minute[0] >= 0.9 * 200
    assert audit(tmp_path / "s") == 0


def test_keys_reach_the_model_and_nothing_else(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setenv("S3GYM_TEST_KEY", SECRET)
    with Watched().running() as watched:
        settings = watched.settings(
            model={"api_key_env": "S3GYM_TEST_KEY"}, cluster={"env": ["S3GYM_TEST_KEY"]}
        )
        folder = folder_of(settings, tmp_path / "sweep")
        result = on_ray(settings, folder, two_nodes.address)
        sent = {entry.headers.get("authorization") for entry in watched.server.log}
    assert result.root is not None
    assert sent == {f"Bearer {SECRET}"}
    session = Path(two_nodes.head_node.get_session_dir_path())
    for place in (tmp_path, session):
        found = subprocess.run(
            ["grep", "-rlF", SECRET, place], capture_output=True, text=True, check=False
        )
        assert found.stdout == ""
    assert SECRET not in "".join(capfd.readouterr())


def test_a_key_that_a_worker_lacks_is_named(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("S3GYM_TEST_KEY", SECRET)
    settings = config(
        agent=["openai:m"],
        model={"base_url": "http://127.0.0.1:9/v1", "api_key_env": "S3GYM_TEST_KEY"},
    )
    with pytest.raises(ConfigError, match=r"S3GYM_TEST_KEY.*cluster\.env"):
        on_ray(settings, folder_of(settings, tmp_path / "s"), two_nodes.address)


def test_a_folder_that_is_not_shared_is_filled_by_the_driver_and_resumed(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The budget ends before the driver has heard that any study began.
    monkeypatch.setattr("s3gym.cluster.ray_engine.LISTEN_SECONDS", 5.0)
    with Watched().running() as watched:
        given = {"repeats": 3, "cluster": {"shared": False}}
        settings = watched.settings(**given, budget={"tokens": 9000})
        folder = folder_of(settings, tmp_path / "sweep")
        with pytest.raises(BudgetExhaustedError, match="max_tokens is used up"):
            on_ray(settings, folder, two_nodes.address)
        spent = sum(entry.input_tokens + entry.output_tokens for entry in watched.server.log)
        assert 9000 <= spent < 9000 * 1.5
        settings = watched.settings(**given)
        result = on_ray(settings, SweepFolder.open(tmp_path / "sweep"), two_nodes.address)
        asked, n_requests = watched.counts(), len(watched.server.log)
        assert result.root == single(settings, tmp_path / "one.db")
        assert asked == watched.counts(since=n_requests)


def test_a_folder_that_is_not_shared_although_told_so_is_refused(
    two_nodes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = config()
    monkeypatch.setattr("s3gym.cluster.ray_engine.write_token", lambda folder: "another")
    with pytest.raises(ConfigError, match="not shared with this worker"):
        on_ray(settings, folder_of(settings, tmp_path / "s"), two_nodes.address)


def test_a_machine_with_another_version_is_refused(two_nodes: Any, tmp_path: Path) -> None:
    (tmp_path / "s3gym-9.9.9.dist-info").mkdir()
    (tmp_path / "s3gym-9.9.9.dist-info" / "METADATA").write_text("Name: s3gym\nVersion: 9.9.9\n")
    node = two_nodes.add_node(
        num_cpus=1, object_store_memory=80_000_000, env_vars={"PYTHONPATH": str(tmp_path)}
    )
    settings = config()
    try:
        with pytest.raises(ConfigError, match=r"the driver runs s3gym \S+, this worker s3gym 9\.9"):
            on_ray(settings, folder_of(settings, tmp_path / "s"), two_nodes.address)
    finally:
        two_nodes.remove_node(node, allow_graceful=False)


AGENTS = """
import os
from pathlib import Path

async def act(turn):
    Path("seen").write_text(os.environ.get("CUDA_VISIBLE_DEVICES", "none"))
    return "collaborate", 2.0

async def dies_once(turn):
    if not Path("died").exists():
        Path("died").write_text("")
        os.kill(os.getpid(), 9)
    return "collaborate", 2.0

async def dies(turn):
    os.kill(os.getpid(), 9)

async def fails(turn):
    raise ValueError("no idea")
"""


@pytest.fixture
def own_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module of agents into the working folder; return its name."""
    name = f"agents_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(AGENTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def test_a_study_gets_the_gpu_that_it_asks_for(
    two_nodes: Any, tmp_path: Path, own_agents: str
) -> None:
    settings = config(agent=[f"{own_agents}:act"], cluster={"num_gpus": 0.5})
    folder = folder_of(settings, tmp_path / "s")
    with pytest.raises(ConfigError, match=r"0\.5 GPU; no machine has that"):
        on_ray(settings, folder, two_nodes.address)
    node = two_nodes.add_node(num_cpus=1, num_gpus=1, object_store_memory=80_000_000)
    try:
        result = on_ray(settings, folder, two_nodes.address)
    finally:
        two_nodes.remove_node(node, allow_graceful=False)
    assert result.root is not None
    assert (tmp_path / "seen").read_text() == "0"


def test_a_study_whose_worker_died_goes_on_elsewhere(
    two_nodes: Any, tmp_path: Path, own_agents: str
) -> None:
    settings = config(agent=[f"{own_agents}:dies_once"])
    events: list[Event] = []
    result = on_ray(settings, folder_of(settings, tmp_path / "s"), two_nodes.address, events)
    assert result.root == single(settings, tmp_path / "one.db")
    assert "moved" in [event.kind for event in events]


def test_studies_that_fail_end_no_other(two_nodes: Any, tmp_path: Path, own_agents: str) -> None:
    agents = [f"{own_agents}:dies", f"{own_agents}:fails", "strategist"]
    settings = config(agent=agents, cluster={"retries": 1})
    folder = folder_of(settings, tmp_path / "s")
    outcome = on_ray(settings, folder, two_nodes.address).outcome
    assert list(outcome.failed) == ["trust/fails/none/r0"]
    assert "no idea" in outcome.failed["trust/fails/none/r0"]
    assert list(outcome.refused) == ["trust/dies/none/r0"]
    assert "its worker died" in outcome.refused["trust/dies/none/r0"]
    assert folder.status_of("trust/strategist/none/r0").done


def test_ctrl_c_stops_a_run_of_this_machine_and_another_engine_goes_on(tmp_path: Path) -> None:
    with Watched(delay=0.2).running() as watched:
        settings = watched.settings(repeats=3)
        command = [sys.executable, "-m", "s3gym"]
        given = [f"--base-url={watched.server.openai_url}", "--agent=openai:m", "--repeats=3"]
        given += ["--memory=history", "--seed=7", "--store=s", "--schedule=quick"]
        given += [f"--set=schedule.{key}={value}" for key, value in TINY.items()]
        run = subprocess.Popen(
            [*command, "run", "--engine=ray", *given],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            anyio.run(until, lambda: len(watched.server.log) > 10)
            assert not listening_to_all(run.pid)
            run.send_signal(signal.SIGINT)
            _, said = run.communicate(timeout=60)
        finally:
            run.kill()
        assert run.returncode == 130, said
        assert "s3gym resume s" in said
        again = subprocess.run([*command, "resume", "s"], cwd=tmp_path, check=False, text=True)
        assert again.returncode == 0
        asked, n_requests = watched.counts(), len(watched.server.log)
        assert SweepFolder.open(tmp_path / "s").root() == single(settings, tmp_path / "one.db")
        assert asked == watched.counts(since=n_requests)


def listening_to_all(root: int) -> list[str]:
    """Return the sockets on which a process or its descendants listen to other machines."""
    family, parents = {root}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(entry.name)] = int(text[1])
    for _ in parents:
        family |= {child for child, parent in parents.items() if parent in family}
    sockets = set()
    for pid in family:
        try:
            links = list(Path(f"/proc/{pid}/fd").iterdir())
            sockets |= {os.readlink(link) for link in links}
        except OSError:
            continue
    found = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            outside = set(fields[1].partition(":")[0]) == {"0"}
            if fields[3] == "0A" and outside and f"socket:[{fields[9]}]" in sockets:
                found.append(fields[1])
    return found
