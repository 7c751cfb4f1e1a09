"""Comparing two sides, and putting the paper's figures beside one's own."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
from made_store import make_store
from rich.console import Console

from s3gym.errors import ConfigError, StoreError
from s3gym.metrics import repeats_needed, spearman
from s3gym.report import (
    GameFacts,
    Report,
    build_report,
    compare,
    load_side,
    load_store,
    paper_beside,
    paper_rows,
    paper_tables,
    power_rows,
    print_comparison,
    print_paper,
    print_power,
    select,
    to_html,
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare") / "run.db"
    return make_store(path, games=("trust", "snake"), repeats=3)


def test_two_arms_of_one_store_are_paired_on_their_seeds(store: Path) -> None:
    a = load_side(f"{store}:trust/strategist/none")
    b = load_side(f"{store}:trust/strategist/history")
    (row,) = compare(a, b).rows
    (expected,) = [r for r in build_report([load_store(store)]).comparisons if r.game == "trust"]
    assert row.paired
    assert row.difference == expected.mean
    assert (row.low, row.high) == (expected.low, expected.high)
    assert row.verdict.startswith("history is better than none")


def test_swapping_the_sides_turns_the_verdict(store: Path) -> None:
    a = load_side(f"{store}:trust/strategist/none")
    b = load_side(f"{store}:trust/strategist/history")
    (row,) = compare(b, a).rows
    assert row.direction == "worse"


def test_runs_with_other_seeds_are_independent_samples(store: Path, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other.db", root_seed=8, effect=40.0)
    found = compare(select(load_store(store), "trust"), load_store(other))
    assert [row.paired for row in found.rows] == [False, False]
    history = next(row for row in found.rows if row.a.endswith("history"))
    assert history.direction == "better"
    assert "B is better than A" in history.verdict


def test_arms_without_a_partner_are_named(store: Path, tmp_path: Path) -> None:
    other = make_store(tmp_path / "other.db", memories=("none", "summary"))
    found = compare(load_store(store), load_store(other))
    assert [row.a for row in found.rows] == ["strategist/none"]
    assert found.only_b == ["trust/strategist/summary"]
    assert "snake/strategist/history" in found.only_a


def test_other_options_and_schedules_are_noted(store: Path, tmp_path: Path) -> None:
    from s3gym.schedule import Schedule

    other = make_store(
        tmp_path / "o.db", schedule=Schedule.quick(max_steps=9), options={"rounds": 2}
    )
    notes = compare(load_store(store), load_store(other)).notes
    assert notes == ["the schedules differ", "the options of a game differ"]


def test_a_paired_row_shows_the_means_of_the_repeats_that_it_compares(
    store: Path, tmp_path: Path
) -> None:
    more = make_store(tmp_path / "more.db", repeats=5)
    rows = compare(select(load_store(store), "trust"), load_store(more)).rows
    assert [row.repeats for row in rows] == [3, 3]
    for row in rows:
        assert (row.mean_b or 0) - (row.mean_a or 0) == pytest.approx(row.difference)


def test_a_side_outside_the_protocol_is_marked_first_and_in_red(store: Path) -> None:
    plain = load_store(store)
    oracle = replace(
        plain, studies=tuple(replace(study, oracle="judge") for study in plain.studies)
    )
    found = compare(plain, oracle, name_a="plain.db", name_b="judge.db")
    warned = "OUTSIDE THE PROTOCOL: in judge.db memory saw the verifier's rewards"
    assert found.notes == [warned]
    out = io.StringIO()
    print_comparison(found, Console(file=out, width=200, force_terminal=True))
    assert f"\x1b[31m! {warned}" in out.getvalue()
    assert compare(plain, plain).notes == []


def test_sides_without_a_game_in_common_are_refused(store: Path) -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        compare(select(load_store(store), "trust"), select(load_store(store), "snake"))
    with pytest.raises(StoreError, match="no study starts with"):
        load_side(f"{store}:chess")


def test_a_comparison_prints_its_verdict_first(store: Path) -> None:
    a = load_side(f"{store}:snake/strategist/none")
    b = load_side(f"{store}:snake/strategist/history")
    out = io.StringIO()
    print_comparison(compare(a, b, name_a="x", name_b="y"), Console(file=out, width=80))
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("snake: history is better than none")
    assert max(map(len, lines)) <= 80
    assert "\x1b" not in out.getvalue()


def test_the_papers_rows_stand_below_ones_own(store: Path) -> None:
    rows = paper_rows(build_report([load_store(store)]))
    assert [(r.game, r.published) for r in rows[:2]] == [("snake", False), ("snake", True)]
    gpt = next(r for r in rows if r.who == "GPT-5.5" and r.game == "trust")
    assert (gpt.pathway, gpt.avg, gpt.auc_plus) == ("history", 7.848, 164.411)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Report:
    path = tmp_path_factory.mktemp("both") / "run.db"
    memories = ("none", "history", "summary")
    make_store(path, memories=memories, invalid=[("trust/strategist/summary/r2", 0)])
    return build_report([load_store(path)])


def test_summary_and_history_are_set_against_each_other_repeat_by_repeat(both: Report) -> None:
    nabas = {(row.memory, row.repeat): row.metrics["naba"] for row in both.studies}
    deltas = [(nabas["summary", r] or 0) - (nabas["history", r] or 0) for r in (0, 1)]
    (row,) = both.pathways
    assert (row.game, row.agent) == ("trust", "strategist")
    assert (row.wins.n_pairs, row.wins.n_undefined) == (2, 1)
    assert row.wins.summary_wins == sum(delta > 0 for delta in deltas)
    assert row.wins.mean_delta_naba == pytest.approx(sum(deltas) / 2)


def test_the_papers_tables_of_judging_coupling_and_pathways_stand_beside_ones_own(
    both: Report,
) -> None:
    judging, coupling, pathways = paper_beside(both)
    assert [(line.game, line.published) for line in judging.lines] == [
        ("trust", False),
        ("trust", True),
    ]
    assert judging.lines[1].cells[1:2] == ("0.392",)
    assert [line.game for line in coupling.lines] == ["all", "all", "trust", "trust"]
    assert pathways.lines[1].cells == ("7", "4", "3", "0", "+8.43")
    out = io.StringIO()
    print_paper(paper_rows(both), Console(file=out, width=80), paper_beside(both))
    page = to_html(both, paper=paper_rows(both), beside=paper_beside(both))
    for table in (judging, coupling, pathways):
        assert table.title in out.getvalue()
        assert f"<caption>{table.title.replace(chr(39), '&#39;')}</caption>" in page
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_games_that_the_paper_does_not_have_stand_beside_nothing(tmp_path: Path) -> None:
    path = make_store(tmp_path / "own.db", games=("chess_duel",), repeats=1)
    assert paper_beside(build_report([load_store(path)])) == []


def test_the_repeats_needed_follow_from_the_spread_that_was_seen(store: Path) -> None:
    facts = {"trust": GameFacts(random=0, reference=10, ceiling=20, reward_range=(0, 3))}
    rows = {row.game: row for row in power_rows(build_report([load_store(store)], facts))}
    trust = rows["trust"]
    assert [share for _, share, _ in trust.needed] == [0.05, 0.1, 0.25, 0.5]
    for effect, _, repeats in trust.needed:
        assert repeats == repeats_needed(trust.sd, effect)
    assert [share for _, share, _ in rows["snake"].needed] == [None]
    out = io.StringIO()
    print_power(list(rows.values()), Console(file=out, width=80))
    assert "50\xa0%" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= 80


def test_without_repeats_the_power_is_not_guessed(store: Path) -> None:
    one = select(load_store(store), "trust/strategist/none")
    out = io.StringIO()
    print_power(power_rows(build_report([one])), Console(file=out, width=200))
    assert "run a few first" in out.getvalue()


def wins(metric: str, game: str) -> tuple[int, int, int]:
    table = paper_tables()["table4"]
    pairs = [
        (table["summary"][metric][model][game], table["history"][metric][model][game])
        for model in paper_tables()["models"]
    ]
    return (
        sum(s > h for s, h in pairs),
        sum(s < h for s, h in pairs),
        sum(s == h for s, h in pairs),
    )


@pytest.mark.parametrize("game", ["minesweeper", "nullify", "pvz", "snake", "trust"])
def test_the_papers_win_counts_follow_from_its_table_of_auc_plus(game: str) -> None:
    printed = paper_tables()["table7_summary_vs_history"][game]
    expected = (printed["summary_wins"], printed["history_wins"], printed["ties"])
    assert wins("auc_plus", game) == expected


@pytest.mark.parametrize("game", ["chess", "tetris"])
def test_two_of_the_papers_win_counts_rest_on_first_scores_that_it_does_not_print(
    game: str,
) -> None:
    printed = paper_tables()["table7_summary_vs_history"][game]
    expected = (printed["summary_wins"], printed["history_wins"], printed["ties"])
    assert wins("auc_plus", game) != expected
    assert sum(expected) == printed["pairs"] == 7


def test_the_papers_nullify_areas_are_multiples_of_one_half_but_for_crossings() -> None:
    table = paper_tables()["table4"]
    areas = [
        table[way]["auc_plus"][model]["nullify"]
        for way in ("history", "summary")
        for model in paper_tables()["models"]
    ]
    odd = [area for area in areas if (2 * area) % 1]
    assert len(odd) == 3
    assert 0.417 in odd


def test_the_papers_agreement_and_errors_sum_to_one_in_every_game() -> None:
    for row in paper_tables()["table5_self_judging"].values():
        total = row["agreement"] + row["over_confidence"] + row["under_confidence"]
        assert total == pytest.approx(1, abs=0.0015)


def test_the_papers_ranks_of_models_by_avg_agree_between_pathways_in_most_games() -> None:
    table, models = paper_tables()["table4"], paper_tables()["models"]
    rhos = [
        spearman(
            [table["history"]["avg"][m][game] for m in models],
            [table["summary"]["avg"][m][game] for m in models],
        )
        for game in paper_tables()["games"]
    ]
    assert sum((rho or 0) > 0.5 for rho in rhos) >= 5
