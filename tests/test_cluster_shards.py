"""A sweep as a folder: the same roots as in one store, and one clear error for each mistake."""

import json
import os
import shutil
import stat
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trainings
from studies import learner_rows
from sweeps import TINY, issue_sweep, kill, slow_sweep, sweep, wait_for_lines, worker
from trainings import agent

from s3gym import Seal, Sweep
from s3gym.audit import audit_store
from s3gym.catalog import find_game, teachings
from s3gym.cluster.local import run_folder
from s3gym.cluster.manifest import installed, must_be_version
from s3gym.cluster.merge import merge
from s3gym.cluster.reading import audit_folder
from s3gym.cluster.shards import SweepFolder
from s3gym.cluster.token import must_be_shared, write_token
from s3gym.errors import ConfigError, StoreError
from s3gym.store import file
from s3gym.store.store import Store
from s3gym.store.updates import UpdateLog

STUDY = "trust/drawing/none/r0"


@pytest.fixture
def anyio_backend() -> str:
    """What is tested here knows nothing of the event loop."""
    return "asyncio"


async def finished(path: Path, **changes: Any) -> SweepFolder:
    folder = SweepFolder.create(path, sweep(**changes))
    result = await run_folder(folder, sweep(**changes))
    assert result.root is not None
    return folder


@pytest.mark.parametrize(
    "of",
    [sweep, pytest.param(issue_sweep, marks=pytest.mark.slow)],
    ids=["4 studies", "24 studies"],
)
async def test_studies_in_shards_have_the_roots_of_one_store(tmp_path: Path, of: Any) -> None:
    whole = await of(store=tmp_path / "whole.db").run()
    folder = SweepFolder.create(tmp_path / "sweep", of())
    assert folder.pending() == list(whole.studies)
    result = await run_folder(folder, of())
    assert result.root == whole.root == folder.root()
    assert (result.studies, result.curves()) == (whole.studies, whole.curves())
    assert folder.pending() == []
    with Store.open(whole.store) as store:
        roots = {study: store.verdicts.root(study) for study in whole.studies}
    assert {state.study: state.root for state in folder.status()} == roots


@pytest.mark.slow
@pytest.mark.parametrize("kills", [1, 5])
def test_another_process_takes_over_from_a_killed_one(tmp_path: Path, kills: int) -> None:
    whole, log = tmp_path / "whole", tmp_path / "whole.log"
    SweepFolder.create(whole, slow_sweep())
    assert worker(whole, log).wait() == 0
    n_calls = len(log.read_text().splitlines())
    path, log = tmp_path / "killed", tmp_path / "killed.log"
    folder = SweepFolder.create(path, slow_sweep(), shared=kills > 1)
    for turn in range(kills):
        process = worker(path, log)
        wait_for_lines(log, process, n_calls * (turn + 1) // (kills + 1))
        kill(process)
        assert folder.root() is None
    assert worker(path, log).wait() == 0
    assert folder.root() == SweepFolder.open(whole).root()
    asked = log.read_text().splitlines()
    # Two studies side by side: a kill may lose the answer of one call of each.
    assert n_calls <= len(asked) <= n_calls + 2 * kills
    assert len(set(asked)) == n_calls
    merge(folder, tmp_path / "killed.db")
    merge(SweepFolder.open(whole), tmp_path / "whole.db")
    assert learner_rows(tmp_path / "killed.db") == learner_rows(tmp_path / "whole.db")
    assert audit_store(tmp_path / "killed.db", find_game).level() != "fail"


async def test_a_training_study_keeps_its_weights_beside_its_shard(tmp_path: Path) -> None:
    def training_sweep(**more: Any) -> Sweep:
        given: dict[str, Any] = {"games": ["trust"], "agents": [agent(tmp_path)], "repeats": 2}
        given |= {"memories": [], "schedule": trainings.TINY, "seed": 3}
        return Sweep(**given | {"training": trainings.training(tmp_path)} | more)

    whole = await training_sweep(store=tmp_path / "whole.db").run()
    folder = SweepFolder.create(tmp_path / "sweep", training_sweep())
    result = await run_folder(folder, training_sweep())
    assert result.root == whole.root is not None
    out = tmp_path / "out.db"
    for _ in range(2):
        assert merge(folder, out).root == whole.root
    assert learner_rows(out) == learner_rows(tmp_path / "whole.db")
    for study in folder.studies:
        with closing(file.open_learner(out)) as db:
            made = [row for row in UpdateLog(db).of(study).values() if row.outcome == "trained"]
        assert made
        for row in made:
            assert (tmp_path / "out.db.weights" / row.location / "tally.json").is_file()
    audit = audit_folder(folder.path, find_game, whole.root, teachings=teachings())
    assert audit.level() != "fail"
    more = training_sweep(repeats=3, store=out)
    assert (await more.resume()).root is not None


async def test_what_a_folder_holds_of_the_seeds_is_its_owners_alone(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "sweep", memories=("none",), repeats=1)
    for path in (folder.manifest_path, folder.shard(STUDY)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.slow
async def test_a_sealed_sweep_keeps_its_shards_from_the_sealed_user(tmp_path: Path) -> None:
    def sealed(**more: Any) -> Sweep:
        return sweep(agents=("strategist",), memories=("history",), seal=Seal(), **more)

    folder = SweepFolder.create(tmp_path / "sweep", sealed())
    first = await run_folder(folder, sealed())
    assert first.root is not None
    assert (await run_folder(SweepFolder.open(folder.path), sealed())).root == first.root
    assert audit_folder(folder.path, find_game, first.root).level() != "fail"
    for path in folder.path.rglob("*"):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o022
        assert path.is_dir() or not stat.S_IMODE(path.stat().st_mode) & 0o077


async def test_seeds_are_drawn_once_for_a_folder(tmp_path: Path) -> None:
    given = sweep(seed=None, memories=("none",), repeats=1)
    folder = SweepFolder.create(tmp_path / "sweep", given)
    root = (await run_folder(folder, sweep(seed=None, memories=("none",), repeats=1))).root
    assert given.seed == int(folder.manifest.root_seed)
    again = sweep(seed=given.seed, salt=given.salt, memories=("none",), repeats=1)
    again.store = tmp_path / "whole.db"
    assert (await again.run()).root == root


async def test_a_full_disk_harms_one_study_and_names_it(tmp_path: Path) -> None:
    folder = await finished(tmp_path / "sweep", memories=("none",), repeats=2)
    folder.shard(STUDY).unlink()
    folder.plans(sweep(memories=("none",)))
    with folder.writer(STUDY, owner="worker 1") as store:
        (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
        store.connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match=rf"{store.path}.*full"), store.transaction():
            store.ledger.set_status(STUDY, "running", "x" * 100_000)
    assert [state.status for state in folder.status()] == ["pending", "done"]
    result = await run_folder(folder, sweep(memories=("none",)))
    assert result.root is not None


async def test_a_shard_that_cannot_be_written_leaves_the_other_studies_alone(
    tmp_path: Path,
) -> None:
    folder = SweepFolder.create(tmp_path / "sweep", sweep(memories=("none",)))
    folder.shard(STUDY).write_bytes(b"not a store at all, " * 400)
    result = await run_folder(folder, sweep(memories=("none",)))
    assert result.root is None
    assert list(result.outcome.unkept) == [STUDY]
    assert "file is not a database" in result.outcome.unkept[STUDY]
    assert [state.status for state in folder.status()] == ["unreadable", "done"]


async def test_a_folder_is_resumed_with_the_same_studies_alone(tmp_path: Path) -> None:
    folder = SweepFolder.create(tmp_path / "sweep", sweep())
    with pytest.raises(ConfigError, match="another specification than when the folder was made"):
        folder.plans(sweep(schedule=TINY.model_copy(update={"max_steps": 3})))
    with pytest.raises(ConfigError, match=r"has no study trust/drawing/none/r2; merge it and"):
        folder.plans(sweep(repeats=3))
    with pytest.raises(ConfigError, match="lacks the folder's study trust/drawing/none/r1"):
        folder.plans(sweep(repeats=1))


def test_a_folder_is_made_where_nothing_is(tmp_path: Path) -> None:
    path = tmp_path / "sweep"
    SweepFolder.create(path, sweep())
    with pytest.raises(StoreError, match=f"this sweep exists; continue it with .*resume {path}"):
        SweepFolder.create(path, sweep())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a.txt").touch()
    with pytest.raises(StoreError, match="the folder is not empty"):
        SweepFolder.create(tmp_path / "full", sweep())
    with pytest.raises(StoreError, match="expected a folder"):
        SweepFolder.create(tmp_path / "full" / "a.txt", sweep())


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ("{", "the manifest is broken: Expecting"),
        ("[]", "a manifest of format None"),
        ('{"format": 2}', "a manifest of format 2; this s3gym .* reads 1"),
        ('{"format": 2, "s3gym": "9.9"}', "a manifest of format 2, written by s3gym 9.9; this"),
        ('{"format": 2}', ".* with the s3gym that wrote it; a new run needs a new folder"),
        ('{"format": 1}', "the manifest is broken: s3gym: Field required"),
        ("", "the manifest is broken"),
        ("\ud800", "the manifest is broken"),
    ],
)
def test_a_broken_manifest_is_one_clear_error(tmp_path: Path, broken: str, message: str) -> None:
    path = tmp_path / "sweep"
    SweepFolder.create(path, sweep())
    (path / file.SWEEP).write_text(broken, errors="surrogatepass")
    with pytest.raises(StoreError, match=f"sweep.json: {message}"):
        SweepFolder.open(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("studies", []),
        ("studies", [{"id": STUDY, "spec": "x"}]),
        ("studies", [{"id": STUDY, "spec": "0" * 64}] * 2),
        ("root_seed", "seven"),
        ("root_seed", "9" * 5_000),
        ("new", 1),
    ],
)
def test_a_manifest_with_a_wrong_value_names_its_key(tmp_path: Path, key: str, value: Any) -> None:
    path = tmp_path / "sweep"
    SweepFolder.create(path, sweep())
    manifest = json.loads((path / file.SWEEP).read_text()) | {key: value}
    (path / file.SWEEP).write_text(json.dumps(manifest))
    with pytest.raises(StoreError, match=f"the manifest is broken: {key}"):
        SweepFolder.open(path)


def test_a_folder_that_is_none_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"not the folder of a sweep: it has no sweep\.json"):
        SweepFolder.open(tmp_path)
    with pytest.raises(StoreError, match="no such folder"):
        SweepFolder.open(tmp_path / "nothing")
    SweepFolder.create(tmp_path / "sweep", sweep())
    with pytest.raises(StoreError, match="expected a store file, got the folder of a sweep"):
        Store.open(tmp_path / "sweep")


async def test_a_shard_of_another_sweep_is_refused(tmp_path: Path) -> None:
    small: dict[str, Any] = {"memories": ("none",), "repeats": 1}
    folder = await finished(tmp_path / "sweep", **small)
    other = await finished(tmp_path / "other", **small | {"seed": 8})
    longer = TINY.model_copy(update={"max_steps": 3})
    unlike = await finished(tmp_path / "unlike", **small | {"schedule": longer})
    named = await finished(tmp_path / "named", **small | {"games": ("snake",)})
    for foreign, message in (
        (other.shard(STUDY), "a shard from another sweep: it has other seeds"),
        (unlike.shard(STUDY), f"a shard from another sweep: {STUDY} has another specification"),
        (named.shard("snake/drawing/none/r0"), f"expected the shard of '{STUDY}', it holds 'snake"),
    ):
        shutil.copyfile(foreign, folder.shard(STUDY))
        folder.plans(sweep(**small))
        with pytest.raises(StoreError, match=message), folder.writer(STUDY, owner="worker 1"):
            pass
        with pytest.raises(StoreError, match=message):
            merge(folder, tmp_path / "out.db", partial=True)


async def test_a_shard_from_a_folder_of_ones_own_is_taken_in(tmp_path: Path) -> None:
    small: dict[str, Any] = {"memories": ("none",), "repeats": 1}
    there = await finished(tmp_path / "worker", **small)
    foreign = await finished(tmp_path / "foreign", **small | {"seed": 8})
    folder = SweepFolder.create(tmp_path / "sweep", sweep(**small))
    with pytest.raises(StoreError, match="a shard from another sweep"):
        folder.take_in(STUDY, foreign.shard(STUDY))
    root = there.root()
    copy = tmp_path / "copy.db"
    shutil.copyfile(there.shard(STUDY), copy)
    folder.take_in(STUDY, there.shard(STUDY))
    assert folder.root() == root is not None
    assert not there.shard(STUDY).exists()
    with pytest.raises(StoreError, match="has this study's shard already"):
        folder.take_in(STUDY, copy)


def test_a_worker_that_does_not_see_the_drivers_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "driver").mkdir()
    (tmp_path / "worker").mkdir()
    token = write_token(tmp_path / "driver")
    must_be_shared(tmp_path / "driver", token)
    assert sorted(path.name for path in (tmp_path / "driver").iterdir()) == [".driver"]
    for unlike in (tmp_path / "worker", tmp_path / "nothing"):
        with pytest.raises(ConfigError, match=f"{unlike}: not shared with this worker"):
            must_be_shared(unlike, token)
    write_token(tmp_path / "worker")
    with pytest.raises(ConfigError, match="not shared"):
        must_be_shared(tmp_path / "worker", token)


def test_a_worker_with_another_version_is_refused_and_both_are_named() -> None:
    must_be_version(installed())
    with pytest.raises(
        ConfigError, match=rf"driver runs s3gym 99\.0, this worker s3gym {installed()}"
    ):
        must_be_version("99.0")


def test_shards_of_ids_that_look_alike_have_names_of_their_own(tmp_path: Path) -> None:
    from s3gym.cluster.files import shard_name

    names = ["a/b/c/r0", "a-b/c/r0", "A/b/c/r0", "a/b/c/r0 ", "../../x", "ä" * 300, "x" * 300]
    files = {shard_name(name).lower() for name in names}
    assert len(files) == len(names)
    assert all(os.path.basename(name) == name and len(name) < 120 for name in files)
    assert not any(name.startswith(".") for name in files)
