"""Merging: the same roots, nothing twice, nothing that conflicts."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from studies import learner_rows, verifier_rows
from sweeps import sweep

from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.cluster.local import run_folder
from s3gym.cluster.merge import merge
from s3gym.cluster.reading import as_store
from s3gym.cluster.shards import SweepFolder
from s3gym.errors import StoreError
from s3gym.records import Turn
from s3gym.store import file
from s3gym.store.verdicts import store_root

STUDIES = tuple(f"trust/drawing/{memory}/r{n}" for memory in ("none", "history") for n in (0, 1))


@pytest.fixture
def anyio_backend() -> str:
    """What is tested here knows nothing of the event loop."""
    return "asyncio"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished folder, beside one store of the same sweep."""
    path = tmp_path_factory.mktemp("merge")
    sweep(store=path / "whole.db").run_sync()
    folder = SweepFolder.create(path / "sweep", sweep())
    anyio.run(run_folder, folder, sweep())
    return path


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> SweepFolder:
    """A copy of the finished folder."""
    shutil.copytree(made / "sweep", tmp_path / "sweep")
    return SweepFolder.open(tmp_path / "sweep")


def rows(path: Path) -> list[str]:
    """Return everything in a store, in the order in which it lies there."""
    with closing(sqlite3.connect(path)) as db:
        return list(db.iterdump())


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def test_a_merged_store_is_the_store_of_one_process(
    folder: SweepFolder, made: Path, tmp_path: Path
) -> None:
    merged = merge(folder, tmp_path / "out.db")
    with closing(file.open_reader(made / "whole.db")) as db:
        assert merged.root == store_root(db) is not None
        order = db.execute("SELECT rowid, id FROM studies ORDER BY rowid").fetchall()
    with closing(file.open_reader(tmp_path / "out.db")) as db:
        assert db.execute("SELECT rowid, id FROM studies ORDER BY rowid").fetchall() == order
        assert not file.is_shard(db)
    assert merged.added == folder.studies == STUDIES
    assert learner_rows(tmp_path / "out.db") == learner_rows(made / "whole.db")
    assert verifier_rows(tmp_path / "out.db") == verifier_rows(made / "whole.db")
    assert audit_store(tmp_path / "out.db", find_game).level() != "fail"


def test_merging_again_adds_nothing(folder: SweepFolder, tmp_path: Path) -> None:
    merge(folder, tmp_path / "out.db")
    before = rows(tmp_path / "out.db")
    again = merge(folder, tmp_path / "out.db")
    assert (again.added, again.replaced, again.kept) == ((), (), folder.studies)
    assert rows(tmp_path / "out.db") == before


def test_a_merge_goes_on_where_an_earlier_one_stopped(folder: SweepFolder, tmp_path: Path) -> None:
    whole = merge(folder, tmp_path / "whole.db")
    away = folder.shard(STUDIES[0]).rename(tmp_path / "away.db")
    first = merge(folder, tmp_path / "out.db", partial=True)
    assert (first.missing, first.root) == (STUDIES[:1], None)
    away.rename(folder.shard(STUDIES[0]))
    second = merge(folder, tmp_path / "out.db")
    assert (second.added, second.kept, second.root) == (STUDIES[:1], STUDIES[1:], whole.root)
    with closing(file.open_reader(tmp_path / "out.db")) as db:
        assert db.execute("SELECT id FROM studies ORDER BY rowid").fetchall() == [
            (study,) for study in STUDIES
        ]


async def test_a_study_that_got_on_replaces_its_beginning(tmp_path: Path) -> None:
    given: dict[str, Any] = {"memories": ("history",), "agents": (Stops,), "repeats": 1}
    folder = SweepFolder.create(tmp_path / "sweep", sweep(**given))
    (study,) = folder.studies
    Stops.at = 2
    assert list((await run_folder(folder, sweep(**given))).outcome.failed) == [study]
    with pytest.raises(StoreError, match=rf"{study} is failed, not done; finish it with"):
        merge(folder, tmp_path / "out.db")
    part = merge(folder, tmp_path / "out.db", partial=True)
    assert (part.added, part.unfinished, part.root) == ((study,), (study,), None)
    before = rows(tmp_path / "out.db")
    assert merge(folder, tmp_path / "out.db", partial=True).kept == (study,)
    assert rows(tmp_path / "out.db") == before
    Stops.at = None
    result = await run_folder(folder, sweep(**given))
    on = merge(folder, tmp_path / "out.db")
    assert (on.replaced, on.root) == ((study,), result.root)
    merge(folder, tmp_path / "new.db")
    assert learner_rows(tmp_path / "out.db") == learner_rows(tmp_path / "new.db")
    with closing(file.open_reader(tmp_path / "out.db")) as db:
        (n_times,) = db.execute("SELECT count(DISTINCT id) = count(*) FROM timings").fetchone()
        assert n_times


class Stops:
    """Raises in the exploration episode that ``at`` names."""

    at: int | None = None

    async def act(self, turn: Turn) -> str:
        if turn.episode.endswith(f"x{self.at or 0:03d}") and turn.index == 1:
            raise KeyError("stopped")
        return "Answer: cheat, Score: 1"


def test_a_shard_that_conflicts_with_the_store_is_refused(
    folder: SweepFolder, tmp_path: Path
) -> None:
    out = tmp_path / "out.db"
    merge(folder, out)
    whole = rows(out)
    path, study = folder.shard(STUDIES[0]), STUDIES[0]
    edit(path, "UPDATE seals SET root = 'another'")
    with pytest.raises(StoreError, match=f"{path}: conflicts with {out}: {study} is done in the"):
        merge(folder, out)
    edit(out, f"UPDATE studies SET status = 'running' WHERE id = '{study}'")
    edit(path, "UPDATE studies SET status = 'running'", "UPDATE scores SET hash = 'x'")
    before = rows(out)
    with pytest.raises(StoreError, match=f"{study}/e000.1 has other content in the shard"):
        merge(folder, out, partial=True)
    edit(path, f"DELETE FROM episodes WHERE id = '{study}/e000.1'")
    with pytest.raises(StoreError, match=f"the shard lacks {study}/e000.1, which the store has"):
        merge(folder, out, partial=True)
    assert rows(out) == before != whole


def test_a_shard_that_does_not_fit_its_seal_is_refused(folder: SweepFolder, tmp_path: Path) -> None:
    path = folder.shard(STUDIES[0])
    edit(path, "UPDATE seals SET root = 'another'")
    with pytest.raises(StoreError, match=f"{path}: seals {STUDIES[0]}: the study does not fit its"):
        merge(folder, tmp_path / "out.db")
    with closing(file.open_reader(tmp_path / "out.db")) as db:
        assert not db.execute("SELECT count(*) FROM studies").fetchone()[0]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE steps SET action = 'another' WHERE idx = 0",
        "UPDATE steps SET feedback = 'another' WHERE idx = 1",
        "DELETE FROM steps WHERE idx = 1",
        "UPDATE verdicts SET reward = reward + 1",
        "UPDATE scores SET score = score + 50",
    ],
)
def test_a_shard_that_was_edited_is_refused(
    folder: SweepFolder, tmp_path: Path, statement: str
) -> None:
    path, out = folder.shard(STUDIES[0]), tmp_path / "out.db"
    whole = path.read_bytes()
    edit(path, statement)
    says = f"{path}: (steps|verdicts|scores|episodes) {STUDIES[0]}/.*'s3gym audit {path}'"
    with pytest.raises(StoreError, match=says):
        merge(folder, out)
    path.write_bytes(whole)
    merge(folder, out)
    edit(path, statement)
    with pytest.raises(StoreError, match=r"names all that is damaged|conflicts with"):
        merge(folder, out)


def test_a_sweep_is_not_merged_into_its_own_folder(folder: SweepFolder) -> None:
    out = folder.path / "shards" / "out.db"
    with pytest.raises(StoreError, match=f"{out}: lies in the sweep's own folder"):
        merge(folder, out)
    assert not out.exists()


def test_a_damaged_shard_is_named_and_the_rest_stays(folder: SweepFolder, tmp_path: Path) -> None:
    path = folder.shard(STUDIES[1])
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as db:
        (page,) = db.execute("PRAGMA page_size").fetchone()
        (at,) = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'steps'").fetchone()
    path.write_bytes(whole[: (at - 1) * page] + b"\xff" * page + whole[at * page :])
    with pytest.raises(StoreError, match=f"{path}: damaged: .*malformed"):
        merge(folder, tmp_path / "out.db")
    path.write_bytes(whole)
    assert merge(folder, tmp_path / "out.db").kept == STUDIES[:1]


def test_a_merge_onto_a_full_disk_goes_on_when_there_is_room(
    folder: SweepFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    created = file.create

    def small(path: Path) -> sqlite3.Connection:
        db = created(path)
        db.execute("PRAGMA max_page_count = 40")
        return db

    monkeypatch.setattr(file, "create", small)
    out = tmp_path / "out.db"
    with pytest.raises(StoreError, match=rf"{out}: .*full; .* 's3gym merge {folder.path} {out}'"):
        merge(folder, out)
    assert merge(folder, out).root == folder.root()


def test_what_is_not_of_the_sweep_is_refused(folder: SweepFolder, tmp_path: Path) -> None:
    other = sweep(seed=8, memories=("none",), repeats=1, store=tmp_path / "other.db").run_sync()
    with pytest.raises(StoreError, match=r"other\.db: a store of another sweep .* other seeds"):
        merge(folder, other.store)
    larger = sweep(memories=("none",), repeats=3, store=tmp_path / "larger.db").run_sync()
    with pytest.raises(StoreError, match=r"larger\.db: holds trust/drawing/none/r2, which is no"):
        merge(folder, larger.store)
    (tmp_path / "text.db").write_text("not a store, " * 100)
    with pytest.raises(StoreError, match=r"text\.db"):
        merge(folder, tmp_path / "text.db")
    stranger = folder.path / "shards" / "stranger.db"
    shutil.copyfile(other.store, stranger)
    with pytest.raises(StoreError, match=f"{stranger}: belongs to no study of the sweep"):
        merge(folder, tmp_path / "out.db")


def test_unfinished_studies_are_merged_on_demand_alone(folder: SweepFolder, tmp_path: Path) -> None:
    folder.shard(STUDIES[1]).unlink()
    with pytest.raises(StoreError, match=rf"1 of 4 studies have not begun \({STUDIES[1]}\)"):
        merge(folder, tmp_path / "out.db")
    assert not (tmp_path / "out.db").exists()


@settings(deadline=None, max_examples=6)
@given(st.lists(st.sets(st.sampled_from(STUDIES), min_size=1), max_size=3))
def test_merging_piece_by_piece_in_any_order_gives_the_same_store(
    made: Path, pieces: list[set[str]]
) -> None:
    with TemporaryDirectory() as name:
        out, copy = Path(name) / "out.db", Path(name) / "sweep"
        shutil.copytree(made / "sweep", copy)
        folder, whole = SweepFolder.open(copy), SweepFolder.open(made / "sweep")
        for piece in [*pieces, set(STUDIES)]:
            for study in STUDIES:
                folder.shard(study).unlink(missing_ok=True)
                if study in piece:
                    shutil.copyfile(whole.shard(study), folder.shard(study))
            merged = merge(folder, out, partial=True)
        assert merged.root == whole.root()
        assert learner_rows(out) == learner_rows(made / "whole.db")
        assert verifier_rows(out) == verifier_rows(made / "whole.db")
        with closing(file.open_reader(out)) as db:
            assert db.execute("SELECT count(*) = count(DISTINCT id) FROM timings").fetchone()[0]


def test_a_merge_locks_no_worker_out(folder: SweepFolder, tmp_path: Path) -> None:
    folder.plans(sweep())
    with folder.writer(STUDIES[0], owner="worker 1") as store:
        merge(folder, tmp_path / "out.db")
        store.connection.execute("PRAGMA busy_timeout = 0")
        with closing(sqlite3.connect(tmp_path / "out.db")) as db, store.transaction():
            assert db.execute("SELECT count(*) FROM studies").fetchone() == (4,)
            merge(folder, tmp_path / "again.db")


def test_a_folder_is_read_as_the_store_that_a_merge_makes(
    folder: SweepFolder, tmp_path: Path
) -> None:
    merge(folder, tmp_path / "out.db")
    with as_store(folder.path) as store:
        assert learner_rows(store) == learner_rows(tmp_path / "out.db")
    assert not store.exists()
    with as_store(tmp_path / "out.db") as store:
        assert store == tmp_path / "out.db"


@pytest.mark.parametrize("journal", ["PERSIST", "WAL"])
def test_what_a_killed_worker_left_half_written_is_undone_by_a_reader(
    folder: SweepFolder, tmp_path: Path, journal: file.Journal
) -> None:
    study, path = STUDIES[0], folder.shard(STUDIES[0])
    db = file.open_writer(path, journal)
    db.execute("PRAGMA cache_size = 1")  # what does not fit goes to the file before the commit
    db.execute("PRAGMA cache_spill = 1")
    db.execute("BEGIN IMMEDIATE")
    db.execute("UPDATE steps SET raw = raw || hex(zeroblob(4000))")
    torn = tmp_path / "torn"
    torn.mkdir()
    for name in (path, *(path.with_name(path.name + end) for end in ("-journal", "-wal"))):
        if name.exists():
            shutil.copyfile(name, torn / name.name)
    db.close()
    whole = merge(folder, tmp_path / "whole.db").root
    for name in torn.iterdir():
        shutil.copyfile(name, path.parent / name.name)
    assert folder.status_of(study).status == "done"
    assert merge(folder, tmp_path / "out.db").root == whole
    assert learner_rows(tmp_path / "out.db") == learner_rows(tmp_path / "whole.db")
