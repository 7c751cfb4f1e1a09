"""What the engine on Ray says when it cannot begin; needs no Ray."""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from trainings import training

from s3gym.api import Sweep
from s3gym.cluster import ray_connect
from s3gym.cluster.limiter import MeterSettings
from s3gym.cluster.manifest import installed
from s3gym.cluster.ray_connect import checked_address, must_answer
from s3gym.cluster.ray_engine import check_engine
from s3gym.cluster.ray_worker import Job, Keys, environment, hint, parts_of, run_task
from s3gym.cluster.shards import SweepFolder
from s3gym.config import ClusterConfig, read_config
from s3gym.errors import ConfigError, MissingExtraError

SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@contextmanager
def answering(content: bytes) -> Iterator[str]:
    """Listen on loopback and answer the first caller."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            line, _ = server.accept()
            with line:
                line.recv(100)
                line.sendall(content)

        thread = Thread(target=answer, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join(1)


def test_an_address_where_nobody_listens_is_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    with pytest.raises(ConfigError, match=f"{address}: no Ray cluster answers there"):
        must_answer(address)


def test_an_address_that_says_nothing_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connect, "ANSWER_SECONDS", 0.05)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        pytest.raises(ConfigError, match="no Ray cluster answers there"),
    ):
        must_answer(f"127.0.0.1:{server.getsockname()[1]}")


def test_a_server_of_another_kind_is_no_cluster() -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as address:
        with pytest.raises(ConfigError, match="it is no Ray cluster"):
            must_answer(address)


def test_a_server_that_speaks_as_ray_does_is_accepted() -> None:
    with answering(SETTINGS) as address:
        must_answer(address)


@pytest.mark.parametrize("address", ["ray://head:10001", "head", ":6379", "head:port", ""])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="expected HOST:PORT"):
        checked_address(address)


def test_auto_means_the_environments_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert checked_address("auto") == "head:6379"
    monkeypatch.delenv("RAY_ADDRESS")
    assert checked_address("auto") == "auto"


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connect, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 's3gym\[ray\]'"):
        check_engine(Sweep(), ClusterConfig(), None)


def test_what_only_one_process_has_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_connect, "find_spec", lambda name: name)
    with pytest.raises(ConfigError, match="'human' plays one episode at a time"):
        check_engine(Sweep(agents=["human"]), ClusterConfig(), None)
    with pytest.raises(ConfigError, match="S3GYM_TEST_NOT_SET is not set"):
        check_engine(Sweep(), ClusterConfig(env=("S3GYM_TEST_NOT_SET",)), None)


def test_weights_need_a_folder_that_is_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_connect, "find_spec", lambda name: name)
    sweep, apart = Sweep(training=training(tmp_path)), ClusterConfig(shared=False)
    with pytest.raises(ConfigError, match="weights that lie beside its shard; use a folder that"):
        check_engine(sweep, apart, "auto")
    with pytest.raises(ConfigError, match="weights that lie beside its shard"):
        check_engine(sweep, ClusterConfig(shared=False, address="auto"), None)
    check_engine(sweep, apart, None)  # a cluster on this machine sees the folder
    check_engine(sweep, ClusterConfig(), "auto")
    check_engine(Sweep(), apart, "auto")


def test_keys_are_set_for_one_task_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S3GYM_TEST_A", "before")
    keys = Keys(S3GYM_TEST_A="secret", S3GYM_TEST_B="secret")
    with environment(keys):
        assert (os.environ["S3GYM_TEST_A"], os.environ["S3GYM_TEST_B"]) == ("secret", "secret")
    assert os.environ["S3GYM_TEST_A"] == "before"
    assert "S3GYM_TEST_B" not in os.environ
    assert "secret" not in f"{keys} {keys!r}"


def test_a_missing_variable_comes_with_what_to_do() -> None:
    assert "cluster.env" in hint("expected it in the environment variable X")
    assert hint("no such game") == ""


MAKER = """
from s3gym.api import Sweep

made = []


def sweep(config):
    made.append(config)
    return Sweep(games=["trust"], agents=["random"], repeats=2, seed=7)


def nothing(config):
    return None
"""


def job(folder: SweepFolder, make: str) -> Job:
    """Return what the driver would send."""
    return Job(
        version=installed(),
        make=make,
        values='{"config": {}}',
        where=str(folder.path.parent),
        folder=str(folder.path),
        shared=True,
        manifest=folder.manifest.model_dump_json(),
        ttl=60.0,
        settings=MeterSettings(),
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SweepFolder:
    """Return a new folder, beside a module that makes its sweep."""
    (tmp_path / f"maker_{tmp_path.name}.py").write_text(MAKER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sweep = Sweep(games=["trust"], agents=["random"], repeats=2, seed=7)
    return SweepFolder.create(tmp_path / "sweep", sweep)


def test_a_worker_makes_the_parts_of_a_sweep_once(folder: SweepFolder, tmp_path: Path) -> None:
    name = f"maker_{tmp_path.name}"
    one, two = (parts_of(job(folder, f"{name}:sweep")) for _ in range(2))
    assert one is two
    assert sorted(one.plans) == sorted(folder.studies)
    assert len(import_module(name).made) == 1


def test_a_worker_that_cannot_make_the_sweep_says_so(folder: SweepFolder, tmp_path: Path) -> None:
    name = f"maker_{tmp_path.name}"
    for make, message in (
        ("no_such_module:sweep", "no_such_module"),
        (f"{name}:other", "other"),
        (f"{name}:nothing", "expected it to return a Sweep"),
    ):
        with pytest.raises(ConfigError, match=message):
            parts_of(job(folder, make))


def test_a_worker_that_sees_another_sweep_refuses(folder: SweepFolder, tmp_path: Path) -> None:
    sent = job(folder, f"maker_{tmp_path.name}:sweep")
    folder.discard()
    sweep = Sweep(games=["trust"], agents=["random"], repeats=2, seed=8)
    SweepFolder.create(tmp_path / "sweep", sweep)
    with pytest.raises(ConfigError, match="it sees another sweep there"):
        parts_of(sent)


def test_a_folder_in_which_nothing_was_begun_is_discarded_and_no_other(
    folder: SweepFolder, tmp_path: Path
) -> None:
    shard = folder.shard(folder.studies[0])
    shard.write_bytes(b"")
    folder.discard()
    assert folder.manifest_path.exists()
    shard.unlink()
    folder.discard()
    assert not folder.path.exists()


def test_a_task_of_a_driver_with_another_version_is_refused(folder: SweepFolder) -> None:
    sent = replace(job(folder, "x:y"), version="0.0.9")
    ending = run_task(sent, folder.studies[0], None, Keys())
    assert ending.kind == "wrong"
    assert "the driver runs s3gym 0.0.9, this worker s3gym" in ending.reason


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_gpus": -1}, "cluster.num_gpus"),
        ({"num_gpus": 1.5}, "cluster.num_gpus: .*whole number of them, got 1.5"),
        ({"num_cpus": 1e-9}, "cluster.num_cpus: .*0 or at least 0.0001, got 1e-09"),
        ({"resources": {"x": 1e-9}}, "cluster.resources.x: .*at least 0.0001"),
        ({"resources": {"GPU": 1}}, "cluster.resources: .*further resources, got 'GPU'"),
        ({"resources": {"": 1}}, "cluster.resources: .*got ''"),
        ({"retries": -2}, "cluster.retries"),
        ({"env": ["sk-123"]}, "cluster.env"),
        ({"gpus": 1}, "gpus"),
    ],
)
def test_a_wrong_key_of_the_cluster_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_config(None, {"cluster": given})
