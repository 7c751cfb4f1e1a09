"""Bundles: one file to publish, which anybody can audit."""

import sqlite3
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from s3gym.api import Sweep
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.cli.main import group
from s3gym.errors import StoreError
from s3gym.report.bundle import unpacked, write_bundle
from s3gym.schedule import Schedule

TINY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=1)


@pytest.fixture
async def store(tmp_path: Path) -> Path:
    path = tmp_path / "run.db"
    await Sweep(games=["trust"], repeats=1, schedule=TINY, seed=3, store=path).run()
    return path


async def test_a_bundle_passes_the_audit_with_the_root_of_its_store(store: Path) -> None:
    out = store.with_name("run.zip")
    root = write_bundle(store, out, report_json="{}\n", page="<!DOCTYPE html>")
    with zipfile.ZipFile(out) as bundle:
        assert sorted(bundle.namelist()) == ["README.txt", "report.html", "report.json", "store.db"]
        assert f"--expect {root}" in bundle.read("README.txt").decode()
    with unpacked(out) as rows:
        audit = audit_store(rows, find_game, root)
        assert audit.level() == "warn"  # the schedule is not the paper's
        assert {finding.check for finding in audit.findings} == {"schedule"}
    assert not rows.exists()


async def test_equal_stores_give_equal_bundles(store: Path) -> None:
    outs = [store.with_name(f"{name}.zip") for name in "ab"]
    for out in outs:
        write_bundle(store, out, report_json="{}", page="")
    texts = [out.read_bytes().replace(out.name.encode(), b"") for out in outs]
    assert len(texts[0]) == len(texts[1])


async def test_without_prompts_the_audit_still_holds(store: Path) -> None:
    out = store.with_name("bare.zip")
    root = write_bundle(store, out, report_json="{}", page="", bodies=False)
    with unpacked(out) as rows:
        audit = audit_store(rows, find_game, root)
        db = sqlite3.connect(rows)
        assert db.execute("SELECT count(*) FROM messages").fetchone() == (0,)
        db.close()
    assert audit.level() == "warn"


async def test_the_command_line_writes_and_audits_a_bundle(store: Path) -> None:
    out = store.with_name("run.zip")
    done = CliRunner().invoke(group, ["export", "bundle", str(store), str(out)])
    assert done.exit_code == 0, done.output
    root = done.output.split("root ")[1].strip()
    done = CliRunner().invoke(group, ["audit", str(out), "--expect", root])
    assert done.exit_code == 0, done.output
    done = CliRunner().invoke(group, ["audit", str(out), "--expect", "0" * 64])
    assert done.exit_code == 1


async def test_an_edited_bundle_fails_the_audit(store: Path, tmp_path: Path) -> None:
    db = sqlite3.connect(store)
    db.execute("UPDATE scores SET score = score + 1")
    db.commit()
    db.close()
    out = tmp_path / "edited.zip"
    write_bundle(store, out, report_json="{}", page="")
    with unpacked(out) as rows:
        assert audit_store(rows, find_game).level() == "fail"


def test_a_zip_of_something_else_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as bundle:
        bundle.writestr("../store.db", "x")
    with pytest.raises(StoreError, match="not an s3gym bundle"), unpacked(path):
        pass


@pytest.mark.parametrize("damage", ["deflated", "lzma", "encrypted", "method", "cut", "short"])
def test_a_damaged_bundle_is_a_clear_error(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x.zip"
    packed = zipfile.ZIP_LZMA if damage == "lzma" else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", packed) as bundle:
        bundle.writestr("store.db", "0123456789" * 999 + "".join(map(chr, range(9, 900))))
    data = bytearray(path.read_bytes())
    header = data.find(b"PK\x01\x02")
    if damage in ("deflated", "lzma"):
        data[60:90] = bytes(30)
    elif damage == "encrypted":
        data[6], data[header + 8] = 1, 1
    elif damage == "method":
        data[8], data[header + 10] = 99, 99
    elif damage == "cut":
        data = data[:60] + data[header:]
    else:
        data = data[:60]
    path.write_bytes(data)
    with pytest.raises(StoreError, match=r"x\.zip: the bundle cannot be read"), unpacked(path):
        pass


def test_what_is_no_zip_passes_through(tmp_path: Path) -> None:
    with unpacked(tmp_path / "none.db") as path:
        assert path == tmp_path / "none.db"


def test_a_bundle_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    from made_store import make_store

    made = make_store(tmp_path / "run.db", repeats=1)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        write_bundle(made, tmp_path / "file" / "x.zip", report_json="", page="")
