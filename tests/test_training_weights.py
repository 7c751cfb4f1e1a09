"""Weights beside a store: moved, edited, gone, and where they may lie."""

import json
import re
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from studies import learner_rows
from trainings import (
    ONE,
    STUDY,
    TINY,
    TallyChat,
    TallyTrainer,
    agent,
    base_file,
    edit,
    faults,
    study,
    training,
    updates,
)

from s3gym.agents.model import ModelAgent
from s3gym.api import Sweep
from s3gym.errors import ConfigError, ServiceError, StoreError
from s3gym.store import file


def test_a_store_and_its_weights_can_be_moved_together(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def down(folder: Path) -> None:
        if folder.name == "u002":
            raise ServiceError("down")

    broken = TallyTrainer(base_file(first), before=down)
    study(first, training=training(first, broken)).run_sync()
    second.mkdir()
    shutil.move(first / "a.db", second / "b.db")
    shutil.move(first / "a.db.weights", second / "b.db.weights")
    result = study(second, store="b.db").resume_sync()
    assert not result.outcome.paused
    whole = study(tmp_path / "whole").run_sync()
    assert learner_rows(result.store) == learner_rows(whole.store)


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_weights_that_are_not_those_of_the_record_are_refused_when_they_are_needed(
    tmp_path: Path, what: str
) -> None:
    result = study(tmp_path).run_sync()
    weights = tmp_path / "a.db.weights" / STUDY / "u001" / "weights"
    kept = tmp_path / "kept"
    shutil.copytree(weights, kept)
    if what == "changed":
        (weights / "tally.json").write_text(json.dumps({"cheat": 1}))
    else:
        shutil.rmtree(weights)
    assert not faults(result.store)  # an audit needs no weights
    assert (study(tmp_path).resume_sync()).root == result.root  # nor does a finished study
    edit(result.store, "UPDATE studies SET status = 'paused'")
    assert (study(tmp_path).resume_sync()).root == result.root  # nor a run of recorded calls
    _forget(result.store, "e001.1")
    failed = study(tmp_path).resume_sync().outcome.failed[STUDY]
    assert re.search(r"the weights of update 1 .*(differ from the record|put them back)", failed)
    assert failed.count(STUDY) == 1 + failed.count(f".weights/{STUDY}")
    shutil.rmtree(weights, ignore_errors=True)
    shutil.copytree(kept, weights)
    again = study(tmp_path).resume_sync()
    assert again.root == result.root


@pytest.mark.parametrize("where", ["./../outside", "absolute"])
def test_weights_outside_of_the_stores_own_folder_are_refused(tmp_path: Path, where: str) -> None:
    result = study(tmp_path).run_sync()
    outside = tmp_path / "outside"
    shutil.copytree(tmp_path / "a.db.weights" / STUDY / "u001" / "weights", outside)
    location = str(outside) if where == "absolute" else where
    edit(result.store, "UPDATE updates SET location = ? WHERE version = 1", location)
    _forget(result.store, "e001.1")
    failed = study(tmp_path).resume_sync().outcome.failed[STUDY]
    assert re.search(r"names weights at .*outside of .*a\.db\.weights", failed)


def test_weights_that_are_gone_fail_their_own_study_and_the_others_go_on(tmp_path: Path) -> None:
    others = ("trust/tally/none/r0", "trust/tally/training/r1")
    values: dict[str, Any] = {"repeats": 2, "store": tmp_path / "a.db", "schedule": TINY, "seed": 3}

    def sweep() -> Sweep:
        parts: dict[str, Any] = {"agents": [agent(tmp_path)], "training": training(tmp_path)}
        return Sweep(games=["trust"], memories=["none"], **parts, **values)

    whole = sweep().run_sync()
    weights = tmp_path / "a.db.weights" / STUDY
    weights.rename(tmp_path / "kept")
    for name in (STUDY, *others):
        _forget(whole.store, "e002.1", name)
    result = sweep().resume_sync()
    assert list(result.outcome.failed) == [STUDY]
    assert "put them back: an update that is finished is not made" in result.outcome.failed[STUDY]
    with closing(file.open_reader(whole.store)) as db:
        states = dict(db.execute("SELECT id, status FROM studies").fetchall())
    assert {states[name] for name in others} == {"done"}
    assert states[STUDY] == "failed"
    (tmp_path / "kept").rename(weights)
    assert sweep().resume_sync().root == whole.root


def _forget(store: Path, episode: str, owner: str = STUDY) -> None:
    """Take an episode out of a store as if it had never been played."""
    name = f"{owner}/{episode}"
    for statement in (
        "DELETE FROM steps WHERE episode = ?",
        "DELETE FROM episodes WHERE id = ?",
        "DELETE FROM calls WHERE place = ?",
        "DELETE FROM verdicts WHERE episode = ?",
        "DELETE FROM scores WHERE episode = ?",
    ):
        edit(store, statement, name)
    edit(store, "UPDATE studies SET status = 'paused'")


def test_other_base_weights_than_recorded_are_refused(tmp_path: Path) -> None:
    study(tmp_path).run_sync()
    edit(tmp_path / "a.db", "UPDATE studies SET status = 'paused'")
    run = study(tmp_path)
    (tmp_path / "base.json").write_text(json.dumps({"cheat": 5}))
    failed = run.resume_sync().outcome.failed[STUDY]
    assert "the base weights of trainer 'tally' differ from the record" in failed


def test_a_trainer_that_changes_the_weights_it_starts_from_is_found(tmp_path: Path) -> None:
    base = base_file(tmp_path)

    def spoil(folder: Path) -> None:
        if folder.name == "u002":
            place = folder.parent / "u001" / "weights" / "tally.json"
            place.write_text(json.dumps({"cheat": 9}))

    spoiled = training(tmp_path, TallyTrainer(base, before=spoil))
    result = study(tmp_path, training=spoiled).run_sync()
    assert "changed the weights that it started from, in update 2" in result.outcome.failed[STUDY]


def test_a_folder_of_weights_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.db.weights").touch()
    with pytest.raises(StoreError, match=r"a\.db\.weights"):
        study(tmp_path).run_sync()
    assert set(updates(tmp_path / "a.db")) == {0}


def test_an_odd_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    chat = TallyChat(base_file(tmp_path))
    chat.name = ".."
    result = study(tmp_path, agent=ModelAgent(chat), schedule=ONE).run_sync()
    (name,) = result.studies
    assert name == "trust/../training/r0"
    assert updates(result.store, name)[1].location == "./trust/_../training/r0/u001/weights"
    edit(result.store, "UPDATE studies SET status = 'paused'")
    assert (study(tmp_path, agent=ModelAgent(chat), schedule=ONE).resume_sync()).root


async def test_a_missing_base_is_one_clear_error_before_anything_is_written(
    tmp_path: Path,
) -> None:
    run = study(tmp_path)
    (tmp_path / "base.json").unlink()
    with pytest.raises(ConfigError, match=r"there are none at '.*base\.json'"):
        await run.run()
    assert not (tmp_path / "a.db").exists()
