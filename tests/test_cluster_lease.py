"""A shard has one writer: a lease, and a fence before whoever had it earlier."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from sweeps import sweep

from s3gym.cluster import lease as leases
from s3gym.cluster.lease import HeldError, LostError, process
from s3gym.cluster.local import run_folder, run_shard
from s3gym.cluster.shards import SweepFolder
from s3gym.errors import StoreError
from s3gym.meter import Meter
from s3gym.records import Turn
from s3gym.store import file
from s3gym.store.store import Store
from s3gym.study import run_study

STUDY = "trust/drawing/none/r0"


@pytest.fixture
def folder(tmp_path: Path, request: pytest.FixtureRequest) -> SweepFolder:
    shared = getattr(request, "param", False)
    made = SweepFolder.create(tmp_path / "sweep", sweep(), shared=shared)
    made.plans(sweep())
    return made


both = pytest.mark.parametrize(
    "folder", [False, True], ids=["one machine", "shared"], indirect=True
)


def again(folder: SweepFolder) -> SweepFolder:
    """Return the folder as another worker opens it."""
    other = SweepFolder.open(folder.path)
    other.plans(sweep())
    return other


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that never renew their lease, as after a long sleep of their machine."""
    monkeypatch.setattr(leases.Lease, "_beat", lambda *given: None)


def note(store: Store, text: str) -> None:
    with store.transaction():
        store.ledger.set_status(STUDY, "running", text)


def noted(folder: SweepFolder) -> str:
    return folder.status_of(STUDY).note


def test_a_second_worker_is_refused_while_the_first_lives(folder: SweepFolder) -> None:
    with (
        folder.writer(STUDY, owner="worker 1", ttl=60),
        pytest.raises(HeldError, match=r"worker 1 is writing .* runs out in 1?\d\d s") as refusal,
        again(folder).writer(STUDY, owner="worker 2"),
    ):
        raise AssertionError("two writers")
    assert 50 < refusal.value.seconds <= 120


@both
def test_a_lease_that_was_given_back_is_free_at_once(folder: SweepFolder) -> None:
    for worker in ("worker 1", "worker 2"):
        with folder.writer(STUDY, owner=worker, ttl=600) as store:
            note(store, worker)
            assert folder.status_of(STUDY).worker == worker
    assert (noted(folder), folder.status_of(STUDY).worker) == ("worker 2", "")


@both
def test_a_living_worker_keeps_its_lease_beyond_its_time(folder: SweepFolder) -> None:
    with folder.writer(STUDY, owner="worker 1", ttl=1.0):
        until = time.monotonic() + 2.0
        while time.monotonic() < until:
            with pytest.raises(HeldError), again(folder).writer(STUDY, owner="worker 2"):
                pass
            time.sleep(0.05)


@both
@pytest.mark.usefixtures("silent")
def test_nothing_of_a_stale_writer_is_kept_once_it_was_replaced(folder: SweepFolder) -> None:
    with ExitStack() as stack:
        stale = stack.enter_context(folder.writer(STUDY, owner="worker 1", ttl=0.01))
        note(stale, "before")
        time.sleep(0.05)
        new = stack.enter_context(again(folder).writer(STUDY, owner="worker 2"))
        with pytest.raises(LostError, match=r"worker 1 was replaced .* by worker 2 \(epoch 1, now"):
            note(stale, "stale")
        assert noted(folder) == "before"
        note(new, "new")
        with pytest.raises(LostError):
            stale.note_provenance(stale=True)
    assert noted(folder) == "new"
    assert folder.status_of(STUDY).worker == ""  # the stale one did not end the new one's lease


@pytest.mark.usefixtures("silent")
def test_two_workers_that_take_an_expired_lease_at_once_do_not_both_get_it(
    folder: SweepFolder,
) -> None:
    with folder.writer(STUDY, owner="worker 1", ttl=0.01):
        time.sleep(0.05)
        with again(folder).writer(STUDY, owner="worker 2", ttl=60):
            with pytest.raises(HeldError), again(folder).writer(STUDY, owner="worker 3"):
                pass


@both
async def test_every_write_of_a_study_stands_behind_the_fence(folder: SweepFolder) -> None:
    plan = next(plan for plan in folder.plans(sweep()) if plan.id == "trust/drawing/history/r0")
    said: list[str] = []
    with folder.writer(plan.id, owner="worker 1") as store:
        store.connection.set_trace_callback(said.append)
        await run_study(plan, store, Meter())
        store.connection.set_trace_callback(None)
    writes, fenced = 0, False
    for statement in said:
        first = statement.split()[0].upper()
        if first in ("BEGIN", "COMMIT", "ROLLBACK"):
            fenced = False
        elif "FROM lease" in statement:
            fenced = True
        elif first in ("INSERT", "UPDATE", "DELETE", "REPLACE"):
            assert fenced, statement
            writes += 1
    assert writes > 20


def test_a_worker_that_died_on_this_machine_is_replaced_at_once(folder: SweepFolder) -> None:
    code = (
        f"import os, sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        "from sweeps import sweep\nfrom s3gym.cluster.shards import SweepFolder\n"
        f"folder = SweepFolder.open({str(folder.path)!r})\nfolder.plans(sweep())\n"
        f"with folder.writer({STUDY!r}, owner='worker 1', ttl=3600):\n    os._exit(9)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert folder.status_of(STUDY).worker == ""
    with folder.writer(STUDY, owner="worker 2") as store:
        note(store, "worker 2")
    assert noted(folder) == "worker 2"


def test_a_process_number_that_was_given_again_is_another_process() -> None:
    number, _, start = process(os.getpid()).partition(":")
    assert number == str(os.getpid())
    assert start
    assert leases._is_dead(leases.machine(), f"{number}:1{start}")
    assert not leases._is_dead(leases.machine(), f"{number}:{start}")
    assert not leases._is_dead("another machine", f"{number}:1{start}")


def test_a_shard_is_written_to_through_its_folder_alone(folder: SweepFolder) -> None:
    with folder.writer(STUDY, owner="worker 1"):
        pass
    with pytest.raises(StoreError, match=f"one study of a sweep.*s3gym resume {folder.path}"):
        Store.open(folder.shard(STUDY))


def test_a_learner_may_not_look_who_writes(folder: SweepFolder) -> None:
    with folder.writer(STUDY, owner="worker 1"):
        pass
    learner = file.open_learner(folder.shard(STUDY))
    with pytest.raises(Exception, match="prohibited"):
        learner.execute("SELECT * FROM lease")
    learner.close()


def test_a_disk_without_file_locks_leaves_the_lease_in_charge(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    with (
        folder.writer(STUDY, owner="worker 1"),
        pytest.raises(HeldError, match="worker 1"),
        again(folder).writer(STUDY, owner="worker 2"),
    ):
        pass


@pytest.mark.usefixtures("silent")
async def test_a_worker_that_went_silent_is_waited_for_and_replaced(folder: SweepFolder) -> None:
    (plan, *_) = folder.plans(sweep())
    with folder.writer(plan.id, owner="worker 1", ttl=0.3) as stale:
        other = again(folder)
        (same, *_) = other.plans(sweep())
        await run_shard(other, same, Meter(), owner="worker 2")
        with pytest.raises(LostError):
            note(stale, "stale")
    assert folder.status_of(plan.id).done


async def test_a_worker_that_lives_is_left_its_study(
    folder: SweepFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s3gym.cluster.local.SECONDS_BETWEEN_TRIES", 0.05)
    (plan, *_) = folder.plans(sweep())
    with folder.writer(plan.id, owner="worker 1", ttl=1.0):
        with pytest.raises(HeldError, match="worker 1 is writing"):
            await run_shard(again(folder), plan, Meter(), owner="worker 2")


async def test_a_study_that_is_taken_over_stops_and_harms_no_other(tmp_path: Path) -> None:
    robbed: list[str] = []
    path = tmp_path / "sweep"

    def take_over() -> None:
        with closing(sqlite3.connect(SweepFolder.open(path).shard("trust/rob/none/r1"))) as db:
            db.execute("UPDATE lease SET epoch = epoch + 1, owner = 'worker 9'")
            db.commit()

    async def rob(turn: Turn) -> str:
        if turn.episode == "trust/rob/none/r1/x001" and turn.index == 2 and not robbed:
            robbed.append(turn.episode)
            take_over()
        return "Answer: cheat, Score: 1"

    given: dict[str, Any] = {"agents": (rob,), "memories": ("none",)}
    made = SweepFolder.create(path, sweep(**given))
    result = await run_folder(made, sweep(**given))
    assert list(result.outcome.unkept) == ["trust/rob/none/r1"]
    assert "was replaced as its writer by worker 9" in result.outcome.unkept["trust/rob/none/r1"]
    assert [state.status for state in made.status()] == ["done", "running"]
    with closing(sqlite3.connect(made.shard("trust/rob/none/r1"))) as db:
        db.execute("UPDATE lease SET expires = 0")
        db.commit()
    resumed = await run_folder(made, sweep(**given))
    whole = await sweep(**given, store=tmp_path / "whole.db").run()
    assert resumed.root == whole.root is not None
