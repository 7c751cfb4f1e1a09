"""The training part of a report: weights, losses, contract shares, and transfer by its name."""

import io
import json
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from html_checker import Checker
from made_store import make_store
from rich.console import Console

from s3gym.report import (
    Report,
    StoreRecord,
    build_report,
    load_store,
    print_table,
    tables,
    to_html,
    to_json,
    write_csv,
    write_svg,
)
from s3gym.report.records import StudyRecord
from s3gym.report.trained import machine_of, progress
from s3gym.schedule import Schedule
from s3gym.store.chain import canonical
from s3gym.store.store import Store, now
from s3gym.store.updates import UpdateOutcome, UpdateRow

SPEC = {
    "experience": "new",
    "origin": "",
    "policy": {"policy": "keep", "positive": True},
    "prompts": "line/paper",
    "start": "previous",
    "trainer": "trl lora",
    "variant": "plain",
}
LOSSES = [3.0, 1.5]


def store_of(
    path: Path,
    *,
    outcomes: Mapping[int, UpdateOutcome] | None = None,
    spec: Mapping[str, Any] = SPEC,
    log: Mapping[str, Any] | None = None,
    **more: Any,
) -> Path:
    """Write a store with a training arm; its updates are made up, too."""
    make_store(path, memories=more.pop("memories", ("none", "training")), **more)
    told = {"losses": LOSSES, "tokens": 700, "steps": 9} if log is None else log
    with Store.open(path) as store:
        for study, text in store.connection.execute(
            "SELECT id, spec FROM studies WHERE memory = 'training'"
        ).fetchall():
            changed = canonical(json.loads(text) | {"training": dict(spec)})
            with store.transaction():
                store.connection.execute(
                    "UPDATE studies SET spec = ? WHERE id = ?", (changed, study)
                )
                for version in Schedule.quick().checkpoints:
                    outcome = (outcomes or {}).get(version, "trained" if version else "base")
                    store.updates.add(update(study, version, outcome, told))
                    if outcome == "trained":
                        store.note_time("update", f"{study}/u{version:03d}", now(), 2.0)
            store.note_provenance(
                **{
                    f"update {study}/u003": {
                        "seconds": 1.5,
                        "peak_mb": 900 + len(study),
                        "peak_gpu_mb": 64.5,
                    }
                }
            )
    return path


def update(study: str, version: int, outcome: UpdateOutcome, log: Mapping[str, Any]) -> UpdateRow:
    trained = outcome == "trained"
    return UpdateRow(
        study=study,
        version=version,
        outcome=outcome,
        start=max(0, version - 3),
        trainer="trl lora",
        policy="{}",
        n_examples=10 if trained else 0,
        chosen={"kept": {"kept": 10}, "dropped": {"no self-score": 2}} if version else {},
        location="./x",
        weights="0" * 64,
        log=log if trained else {},
    )


@pytest.fixture(scope="module")
def harmed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return store_of(tmp_path_factory.mktemp("harmed") / "a.db", effect=-3.0)


@pytest.fixture(scope="module")
def report(harmed: Path) -> Report:
    return build_report([load_store(harmed)])


def curve(study: StudyRecord, *scores: float | None) -> StudyRecord:
    points = tuple(zip(study.schedule.checkpoints, scores, strict=True))
    return replace(study, points=points)


def with_curves(path: Path, curves: Sequence[Sequence[float | None]]) -> StoreRecord:
    """Return a record whose training studies have these curves, without a control arm."""
    record = load_store(path)
    trained = [study for study in record.studies if study.training is not None]
    chosen = tuple(curve(study, *found) for study, found in zip(trained, curves, strict=False))
    return replace(record, studies=chosen)


# What became of the scores


def test_negative_transfer_is_called_by_its_name(report: Report) -> None:
    (row,) = report.transfer
    assert (row.transfer, row.against, row.repeats) == ("negative", "none", [0, 1, 2])
    assert row.sentence.startswith("negative transfer: training is worse than none by -")
    assert f"{row.n_worse} of 6 checkpoints after training score below the base" in row.sentence
    (summary,) = report.summary
    assert "negative transfer: " in summary
    assert "training is worse than none" in summary


def test_positive_transfer_is_found_too(tmp_path: Path) -> None:
    report = build_report([load_store(store_of(tmp_path / "a.db", effect=3.0))])
    (row,) = report.transfer
    assert row.transfer == "positive"
    assert "negative" not in report.summary[0]


def test_without_a_control_arm_each_study_is_held_against_its_own_base(harmed: Path) -> None:
    curves = [(10, 4, 6), (11, 5, 7), (9, 2.5, 6)]
    (row,) = build_report([with_curves(harmed, curves)]).transfer
    assert (row.against, row.transfer) == ("base", "negative")
    assert row.base.mean == 10
    assert row.later.mean == pytest.approx((5 + 6 + 4.25) / 3)
    assert row.later_best.mean == pytest.approx((6 + 7 + 6) / 3)
    assert row.final_change.mean == pytest.approx((-4 - 4 - 3) / 3)
    assert (row.n_worse, row.n_points) == (6, 6)
    assert "training is worse than the base weights by -4.92 points" in row.sentence


def test_one_run_cannot_tell_but_may_look_like_it(harmed: Path) -> None:
    report = build_report([with_curves(harmed, [(23, 6, 6)])])
    (row,) = report.transfer
    assert row.transfer == "unclear"
    assert row.sentence == (
        "this looks like negative transfer, but one run cannot tell whether training beats the "
        "base weights (-17 points seen); 2 of 2 checkpoints after training score below the base "
        "weights"
    )
    assert "this looks like negative transfer" in report.summary[0]


def test_an_invalid_base_leaves_its_repeat_out(harmed: Path) -> None:
    (row,) = build_report([with_curves(harmed, [(None, 6, 6), (5, 6, None)])]).transfer
    assert (row.n_worse, row.n_points) == (0, 1)
    assert row.final_change.n == 1


def test_nothing_scored_yet_is_said_as_such(harmed: Path) -> None:
    (row,) = build_report([with_curves(harmed, [(None, None, None)])]).transfer
    assert row.sentence == "no score after training is known yet"


def test_weights_that_never_changed_are_no_transfer(tmp_path: Path) -> None:
    same: dict[int, UpdateOutcome] = {3: "unchanged", 6: "unchanged"}
    report = build_report([load_store(store_of(tmp_path / "a.db", outcomes=same))])
    (row,) = report.transfer
    assert row.sentence == "no update changed the weights: no step became an example"
    assert progress(report, row)[:3] == (0, 6, 0)


# What became of the weights


def test_every_version_has_its_row_with_score_and_contract_share(
    harmed: Path, report: Report
) -> None:
    assert len(report.training) == 3
    row = report.training[1]
    assert (row.trainer, row.start, row.variant) == ("trl lora", "previous", "plain")
    assert (row.n_examples, row.tokens) == (20, 1400)
    assert [cell.outcome for cell in row.updates] == ["base", "trained", "trained"]
    assert [cell.losses for cell in row.updates] == [[], LOSSES, LOSSES]
    study = next(study for study in report.studies if study.id == row.study)
    assert [(cell.version, cell.score) for cell in row.updates] == study.points
    with closing(sqlite3.connect(harmed)) as db:
        for cell in row.updates:
            inside, n = db.execute(
                "SELECT sum(s.status = 'ok'), count(*) FROM steps s JOIN episodes e "
                "ON e.id = s.episode WHERE e.study = ? AND e.checkpoint = ?",
                (row.study, cell.version),
            ).fetchone()
            assert cell.contract == inside / n


def test_a_repaired_reply_is_outside_the_contract_and_a_clean_end_inside(tmp_path: Path) -> None:
    path = store_of(tmp_path / "a.db", repeats=1)
    with closing(sqlite3.connect(path)) as db:
        evaluation = "episode LIKE '%/training/%/e000.%'"
        db.execute(f"UPDATE steps SET status = 'end', repairs = '[]' WHERE {evaluation}")
        db.execute(f"UPDATE steps SET repairs = '[\"x\"]' WHERE {evaluation} AND idx = 0")
        db.commit()
    (row,) = build_report([load_store(path)]).training
    assert row.updates[0].contract == 0.75


def test_tokens_are_unknown_where_one_trainer_call_does_not_tell(tmp_path: Path) -> None:
    report = build_report([load_store(store_of(tmp_path / "a.db", log={"losses": LOSSES}))])
    assert report.training[0].tokens is None
    assert progress(report, report.transfer[0]).tokens is None


def test_what_a_trainer_tells_may_be_nonsense(tmp_path: Path) -> None:
    log = {"losses": ["x", 1.0, None, True], "tokens": "many", "steps": 1.5}
    report = build_report([load_store(store_of(tmp_path / "a.db", log=log))])
    cell = report.training[0].updates[1]
    assert (cell.losses, cell.tokens, cell.steps) == ([1.0], None, None)
    assert "NaN" not in to_json(report)


def test_seconds_and_memory_stand_in_the_timings_alone(harmed: Path, report: Report) -> None:
    (row,) = report.transfer
    found = progress(report, row)
    assert found.seconds == 3 * (1.5 + 2.0)  # the trainer's own word where it gave one
    assert (found.peak_mb, found.peak_gpu_mb) == (928, 64.5)
    assert machine_of(report, report.training[0]) == {
        "n": 2,
        "seconds": 3.5,
        "peak_mb": 928,
        "peak_gpu_mb": 64.5,
    }
    assert "(GPU 64)" in to_html(report)
    stripped = replace(report, timings={}, provenance={})
    assert progress(stripped, row).seconds is None
    assert "928" not in to_json(stripped)
    assert not [key for key in report.provenance[""] if key.startswith("update")]


def test_equal_runs_give_equal_rows(tmp_path: Path) -> None:
    one, two = (build_report([load_store(store_of(tmp_path / name))]) for name in ("a.db", "b.db"))
    assert one.training == two.training
    assert one.transfer == two.transfer


# How it is marked


def test_the_schedule_of_training_is_held_against_the_papers_own(tmp_path: Path) -> None:
    path = store_of(tmp_path / "a.db", repeats=1, memories=("training",))
    record = load_store(path)
    (study,) = record.studies
    paper = replace(study, schedule=Schedule.paper_training())
    assert build_report([replace(record, studies=(paper,))]).departures == []
    rows = build_report([record]).departures
    assert {row.setting: row.paper for row in rows}["exploration_episodes"] == 19


@pytest.mark.parametrize("variant", ["keep_best", "roll_back"])
def test_a_variant_that_looks_at_evaluation_is_outside_the_protocol(
    tmp_path: Path, variant: str
) -> None:
    path = store_of(tmp_path / "a.db", repeats=1, spec=SPEC | {"variant": variant})
    report = build_report([load_store(path)])
    assert report.warnings[0].startswith("OUTSIDE THE PROTOCOL: training ")
    assert f"(variant {variant})" in report.warnings[0]
    assert ("training.variant", variant) in [(row.setting, row.here) for row in report.departures]


def test_examples_chosen_by_rewards_are_outside_the_protocol(harmed: Path) -> None:
    record = load_store(harmed)
    labelled = [replace(study, oracle="reward", store="oracle reward") for study in record.studies]
    report = build_report([replace(record, studies=tuple(labelled))])
    assert report.warnings[0] == (
        "OUTSIDE THE PROTOCOL: in [oracle reward] training examples were chosen by the verifier's "
        "rewards"
    )
    assert report.training[0].store == "oracle reward"


def test_a_store_without_training_says_nothing_of_it(tmp_path: Path) -> None:
    report = build_report([load_store(make_store(tmp_path / "a.db", repeats=1))])
    assert (report.training, report.transfer) == ([], [])
    assert 'id="training"' not in to_html(report)
    assert "Training" not in shown(report)


# How it is shown


def shown(report: Report) -> str:
    out = io.StringIO()
    print_table(report, Console(file=out, width=80))
    return out.getvalue()


def test_the_table_fits_80_columns(report: Report) -> None:
    text = shown(report)
    assert max(map(len, text.splitlines())) <= 80
    assert "Training: scores by weights" in text
    assert "negative" in text
    assert "6 of 6" in text


def test_the_page_shows_curves_losses_and_updates(report: Report) -> None:
    page = to_html(report)
    checker = Checker()
    checker.feed(page)
    assert (checker.wrong, checker.open) == ([], [])
    assert "training" in checker.ids
    assert '<td class="name worse">negative</td>' in page
    assert "Loss: trust, strategist" in page
    assert "Replies inside the contract: trust, strategist" in page
    assert "Updates of trust/strategist/training/r2" in page
    assert "2 no self-score" in page


def test_what_a_trainer_calls_itself_is_text(tmp_path: Path) -> None:
    path = store_of(tmp_path / "a.db", spec=SPEC | {"trainer": "<script>x</script>"})
    page = to_html(build_report([load_store(path)]))
    assert "<script>x" not in page
    assert "&lt;script&gt;x" in page


def test_files_hold_the_updates_and_the_figures(report: Report, tmp_path: Path) -> None:
    names = {path.name for path in write_svg(report, tmp_path / "svg")}
    assert {"losses-trust-strategist.svg", "contract-trust-strategist.svg"} <= names
    assert {"transfer.csv", "updates.csv"} <= {p.name for p in write_csv(report, tmp_path)}
    rows = tables(report)["updates"]
    assert len(rows) == 9
    assert rows[1]["losses"] == "[3.0, 1.5]"
    assert rows[1]["dropped.no self-score"] == 2
