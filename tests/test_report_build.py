"""Loading a store and building a report from it."""

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest
from made_store import make_calls, make_store

from s3gym.errors import StoreError
from s3gym.metrics import auc_plus
from s3gym.report import (
    GameFacts,
    StoreRecord,
    build_report,
    load_episode,
    load_store,
    load_stores,
    select,
    tables,
    to_json,
    write_csv,
    write_svg,
)
from s3gym.report.records import StudyRecord
from s3gym.report.stages import Stages, explain
from s3gym.schedule import Schedule

FACTS = {"trust": GameFacts(random=2, reference=12, ceiling=20, reward_range=(0, 3))}
STUDY = "trust/strategist/history/r1"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = make_store(tmp_path_factory.mktemp("store") / "run.db", invalid=[(STUDY, 3)])
    make_calls(path, "trust/strategist/history/r0")
    return path


@pytest.fixture(scope="module")
def record(store: Path) -> StoreRecord:
    return load_store(store)


def study_of(record: StoreRecord, name: str = STUDY) -> StudyRecord:
    return next(study for study in record.studies if study.id == name)


@pytest.mark.parametrize("score", [1.7e308, float("inf"), float("nan")])
def test_scores_that_no_sum_can_hold_are_one_clear_error(record: StoreRecord, score: float) -> None:
    study = study_of(record)
    wild = tuple(step._replace(self_score=score, reward=1e308) for step in study.steps)
    broken = replace(record, studies=(replace(study, steps=wild),))
    with pytest.raises(StoreError, match=r"run\.db: holds scores that cannot be added up"):
        build_report([broken], FACTS)


def test_every_study_is_loaded_with_its_points(store: Path, record: StoreRecord) -> None:
    assert len(record.studies) == 6
    db = sqlite3.connect(store)
    for study in record.studies:
        curve = dict(db.execute("SELECT checkpoint, score FROM curves WHERE study=?", (study.id,)))
        for checkpoint, score in study.points:
            if (study.id, checkpoint) == (STUDY, 3):
                assert score is None
            else:
                assert score == pytest.approx(curve[checkpoint])
    db.close()
    assert study_of(record).invalid == ((3, "the service stayed down"),)


def test_exploration_steps_carry_reward_and_self_score_side_by_side(
    store: Path, record: StoreRecord
) -> None:
    study = study_of(record)
    assert len(study.steps) == 24
    episode = load_episode(store, f"{STUDY}/x002")
    assert [(s.self_score, s.reward) for s in study.steps if s.ordinal == 2] == [
        (s.self_score, s.reward) for s in episode.steps
    ]
    assert study.exploration[1].score == pytest.approx(sum(s.reward or 0 for s in episode.steps))


def test_an_episode_shows_each_observation_before_its_action(store: Path) -> None:
    episode = load_episode(store, f"{STUDY}/e006.2")
    db = sqlite3.connect(store)
    (opening,) = db.execute("SELECT opening FROM episodes WHERE id=?", (episode.id,)).fetchone()
    outcomes = [
        row[0]
        for row in db.execute(
            "SELECT outcome FROM steps WHERE episode=? ORDER BY idx", (episode.id,)
        )
    ]
    db.close()
    assert [s.observation for s in episode.steps] == [opening, *outcomes[:-1]]
    assert episode.closing == outcomes[-1]
    assert (episode.phase, episode.place) == ("evaluation", 6)


def test_an_unknown_episode_is_a_clear_error(store: Path) -> None:
    with pytest.raises(StoreError, match="no episode is called 'x'"):
        load_episode(store, "x")


def test_usage_comes_from_the_calls_and_else_from_the_steps(record: StoreRecord) -> None:
    with_calls = study_of(record, "trust/strategist/history/r0")
    purposes = {entry.purpose: entry.usage for entry in with_calls.usage}
    assert purposes["memory"].calls == 2
    assert purposes["memory"].input_tokens == 14
    assert purposes["act"].calls == 4 * (6 + 6)
    assert [entry.purpose for entry in study_of(record).usage] == ["act"]


def test_tokens_and_dollars_are_given_per_point_gained(record: StoreRecord) -> None:
    report = build_report([record], FACTS, price=lambda usage: 0.5)
    (gain,) = [row.mean or 0 for row in report.comparisons]
    (cost,) = [row for row in report.costs if row.memory == "history"]
    assert cost.usd is not None
    assert cost.usd_per_point == cost.usd / gain
    assert cost.tokens_per_point == (cost.input_tokens + cost.output_tokens) / gain
    assert all(row.usd_per_point is None for row in report.costs if row.memory == "none")


def test_a_budget_that_cut_recollections_is_reported(record: StoreRecord) -> None:
    study = study_of(record)
    assert study.recalls.first_cut == 5
    assert study.recalls.most_tokens == 240
    assert 0 < study.recalls.n_cut < study.recalls.n_steps
    assert study_of(record, "trust/strategist/none/r0").recalls.n_steps == 0


def test_episodes_that_are_not_finished_are_left_out(tmp_path: Path) -> None:
    path = make_store(tmp_path / "run.db", repeats=1, memories=("none",))
    db = sqlite3.connect(path)
    db.execute("UPDATE episodes SET status = 'playing' WHERE id LIKE '%/x006' OR id LIKE '%e006.1'")
    db.execute("UPDATE studies SET status = 'running'")
    db.commit()
    db.close()
    (study,) = load_store(path).studies
    assert len(study.exploration) == 5
    assert len(study.steps) == 20
    assert study.points[-1] == (6, None)
    report = build_report([load_store(path)])
    assert "1 of 1 studies are not finished" in report.warnings[0]
    assert "no control arm" not in report.summary[0] or not report.comparisons


@pytest.mark.parametrize("content", [b"", b"not a database at all, but long enough to look at" * 9])
def test_a_file_that_is_no_store_is_a_clear_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"x\.db"):
        load_store(path)


def test_a_store_in_a_read_only_folder_is_read(tmp_path: Path) -> None:
    path = make_store(tmp_path / "deep" / "run.db", repeats=1)
    path.parent.chmod(0o500)
    try:
        assert len(load_store(path).studies) == 2
    finally:
        path.parent.chmod(0o700)


def test_studies_are_selected_by_a_prefix_of_whole_names(record: StoreRecord) -> None:
    assert len(select(record, "trust/strategist/none").studies) == 3
    assert len(select(record, "trust/strategist/none/r1").studies) == 1
    with pytest.raises(StoreError, match="there are: trust/strategist/history"):
        select(record, "trust/strat")


def test_the_report_recomputes_the_metrics_of_every_study(record: StoreRecord) -> None:
    report = build_report([record], FACTS)
    for row, study in zip(report.studies, record.studies, strict=True):
        assert row.id == study.id
        assert row.metrics["auc_plus"] == auc_plus(study.points)
    assert report.departures[0].setting == "evaluation_episodes"
    assert report.roots[""] is not None
    assert report.picks[0].episodes.keys() == {"best", "median", "worst"}


def test_a_gain_is_found_and_its_sentence_stands_first(record: StoreRecord) -> None:
    report = build_report([record], FACTS)
    (row,) = report.comparisons
    assert row.direction == "better"
    assert report.summary[0].startswith("trust, strategist: history is better than none by")


def test_without_a_control_arm_the_summary_says_what_is_missing(record: StoreRecord) -> None:
    report = build_report([select(record, "trust/strategist/history")], FACTS)
    assert "add memory none" in report.summary[0]
    assert report.comparisons == []
    assert report.stages == []


def test_one_repeat_cannot_tell(record: StoreRecord) -> None:
    few = replace(record, studies=tuple(s for s in record.studies if s.repeat == 0))
    report = build_report([few], FACTS)
    assert "one run cannot tell" in report.summary[0]
    assert report.comparisons[0].low is None
    assert report.stages[0].weakest == ""


def test_an_empty_store_gives_an_empty_report() -> None:
    report = build_report([StoreRecord(studies=())])
    assert report.summary == []
    assert json.loads(to_json(report))["arms"] == []


def test_skill_is_given_for_default_options_only(record: StoreRecord) -> None:
    assert build_report([record], FACTS).arms[0].skill is not None
    other = {"trust": replace(FACTS["trust"], default_options={"rounds": 3})}
    report = build_report([record], other)
    assert report.arms[0].skill is None
    assert report.anchors == {}


def test_equal_runs_give_equal_json_outside_timings_and_provenance(tmp_path: Path) -> None:
    texts = []
    for name in ("a.db", "b.db"):
        path = make_store(tmp_path / name, repeats=2)
        report = json.loads(to_json(build_report([load_store(path)], FACTS)))
        assert report.pop("provenance") != {}
        report.pop("timings")
        texts.append(json.dumps(report))
    assert texts[0] == texts[1]


def test_json_holds_nine_significant_digits_and_sorted_keys(record: StoreRecord) -> None:
    text = to_json(build_report([record], FACTS))
    found = json.loads(text)
    assert list(found) == sorted(found)
    assert json.dumps(found, indent=1, sort_keys=True) + "\n" == text
    numbers = [row["metrics"]["avg"] for row in found["studies"]]
    assert all(number == float(f"{number:.9g}") for number in numbers)


def test_two_stores_are_told_apart_by_their_file_names(tmp_path: Path) -> None:
    paths = [
        make_store(tmp_path / f"{name}.db", root_seed=seed, repeats=2)
        for name, seed in (("one", 1), ("two", 2))
    ]
    report = build_report(load_stores(paths), FACTS)
    assert {row.store for row in report.arms} == {"one", "two"}
    assert len(report.comparisons) == 2
    assert set(report.roots) == {"one", "two"}
    assert "[one]" in report.summary[0]


def test_measures_over_all_stores_leave_out_what_is_outside_the_protocol(
    record: StoreRecord,
) -> None:
    oracle = replace(
        record,
        studies=tuple(
            replace(study, store="oracle judge", oracle="judge") for study in record.studies
        ),
    )
    plain, both = build_report([record], FACTS), build_report([record, oracle], FACTS)
    assert len(both.studies) == 2 * len(plain.studies)
    assert (both.coupling, both.run_level) == (plain.coupling, plain.run_level)
    assert build_report([oracle], FACTS).coupling == plain.coupling


def test_csv_has_a_file_per_table_and_a_row_per_point(record: StoreRecord, tmp_path: Path) -> None:
    report = build_report([record], FACTS)
    written = write_csv(report, tmp_path / "csv")
    assert {path.stem for path in written} == set(tables(report))
    lines = (tmp_path / "csv" / "points.csv").read_text().splitlines()
    assert len(lines) == 1 + 6 * 3
    assert lines[0] == "study,store,game,agent,memory,repeat,checkpoint,score"


def test_a_name_that_starts_like_a_formula_is_disarmed_in_csv(
    record: StoreRecord, tmp_path: Path
) -> None:
    study = replace(record.studies[0], agent="=cmd()")
    report = build_report([replace(record, studies=(study,))])
    write_csv(report, tmp_path)
    assert "'=cmd()" in (tmp_path / "arms.csv").read_text()


def test_figures_are_written_with_their_own_style(record: StoreRecord, tmp_path: Path) -> None:
    import xml.etree.ElementTree as ET

    written = write_svg(build_report([record], FACTS), tmp_path)
    assert {path.stem for path in written} == {
        "curves-trust-strategist",
        "judging-trust-strategist",
    }
    for path in written:
        assert "<style>" in path.read_text()
        ET.parse(path)


def test_a_folder_that_cannot_be_written_is_a_clear_error(
    record: StoreRecord, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    report = build_report([record])
    for write in (write_csv, write_svg):
        with pytest.raises(StoreError, match="file"):
            write(report, tmp_path / "file" / "x")


@pytest.mark.parametrize(
    ("stages", "direction", "n", "share", "weakest", "says"),
    [
        (Stages(0.9, 0.9, 0.2), "better", 3, 0.5, "improving", "moves later scores little"),
        (Stages(0.1, 0.9, 0.9), "better", 3, 0.5, "testing", "far from the reference"),
        (Stages(0.9, 0.05, 0.5), "worse", 3, 0.5, "judging", "hardly depend"),
        (Stages(0.9, 0.95, 0.9), "better", 3, 0.5, "", "cannot tell"),
        (Stages(0.9, 0.7, 0.9), "better", 3, 0.5, "judging", "No stage is weak"),
        (Stages(0.9, 0.1, 0.0), "unclear", 3, 0.5, "judging", "not clear yet"),
        (Stages(0.9, 0.9, 0.2), "unclear", 2, 0.5, "", "2 paired repeats"),
        (Stages(0.0, None, None), "unclear", 3, 0.0, "testing", "never met a reward"),
        (Stages(None, 0.4, None), "unclear", 3, 0.5, "", "too little is measured"),
        (Stages(None, None, None), "unclear", 3, None, "", "No exploration step"),
    ],
)
def test_the_weakest_stage_is_named_only_when_the_data_can_tell(
    stages: Stages, direction: str, n: int, share: float | None, weakest: str, says: str
) -> None:
    found, sentence = explain(stages, direction, n, share)
    assert found == weakest
    assert says in sentence


def test_the_schedule_of_the_paper_has_no_departures(tmp_path: Path) -> None:
    path = make_store(
        tmp_path / "p.db", repeats=1, memories=("none",), n_steps=1, schedule=Schedule.paper()
    )
    assert build_report([load_store(path)]).departures == []
