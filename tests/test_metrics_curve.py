"""Learning-curve metrics: hand-worked values, exact rationals, edge cases."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.metrics import (
    auc_plus,
    avg,
    best,
    delta_naba,
    final_change,
    gain,
    later,
    naba,
    pathway_wins,
    pooled_start,
    signed_area,
    slope,
)

THIRDS = [
    (0, 2 / 3),
    (3, 1 / 3),
    (6, 1.0),
    (9, 0.0),
    (12, 1 / 3),
]
scores = st.none() | st.integers(-30, 30).map(lambda n: n / 4)
curves = st.lists(scores, min_size=1, max_size=11).map(
    lambda ys: [(3 * i, y) for i, y in enumerate(ys)]
)


def exact_area(points: list[tuple[int, float | None]]) -> Fraction:
    """The integral of max(0, y - y0) by cutting every stretch at its crossing, in fractions."""
    kept = [
        (Fraction(x), Fraction(y) - Fraction(points[0][1] or 0)) for x, y in points if y is not None
    ]
    total = Fraction(0)
    for (x0, y0), (x1, y1) in pairwise(kept):
        cuts = [(x0, y0), (x1, y1)]
        if y0 * y1 < 0:
            cuts.insert(1, (x0 + (x1 - x0) * y0 / (y0 - y1), Fraction(0)))
        for (a, ya), (b, yb) in pairwise(cuts):
            total += (b - a) * (max(ya, Fraction(0)) + max(yb, Fraction(0))) / 2
    return total


def test_the_papers_0_417_needs_the_crossings() -> None:
    assert auc_plus(THIRDS) == pytest.approx(1 / 4 + 1 / 6)
    clipped = [(x, max(y, 2 / 3)) for x, y in THIRDS]
    assert auc_plus(clipped) == pytest.approx(1.0)


def test_a_game_scored_in_thirds_from_zero_gives_multiples_of_one_half() -> None:
    assert auc_plus([(0, 0.0), (3, 1 / 3), (6, 0.0)]) == pytest.approx(1.0)
    assert auc_plus([(0, 0.0), (3, 0.0), (6, 1 / 3)]) == pytest.approx(0.5)


def test_avg_and_best_leave_invalid_points_out() -> None:
    points = [(0, 1.0), (3, None), (6, 4.0)]
    assert avg(points) == 2.5
    assert best(points) == 4.0


def test_an_invalid_points_neighbours_are_joined() -> None:
    assert auc_plus([(0, 0.0), (3, None), (6, 2.0)]) == 6.0
    assert signed_area([(0, 0.0), (3, None), (6, -2.0)]) == -6.0


def test_invalid_points_at_the_end_shorten_the_curve() -> None:
    assert auc_plus([(0, 0.0), (3, 2.0), (6, None)]) == 3.0


@pytest.mark.parametrize(
    "points", [[], [(0, None), (3, 1.0)], [(3, 1.0), (6, 2.0)], [(0, 1.0), (3, None)]]
)
def test_without_a_baseline_or_a_second_point_there_is_no_area(
    points: list[tuple[int, float | None]],
) -> None:
    assert auc_plus(points) is None
    assert signed_area(points) is None
    assert naba(points) is None


def test_a_schedule_of_one_checkpoint_has_area_zero_and_no_gain() -> None:
    assert auc_plus([(0, 1.5)]) == 0.0
    assert gain([(0, 1.5)]) is None
    assert slope([(0, 1.5)]) is None
    assert final_change([(0, 1.5)]) is None


def test_nothing_valid_means_none_everywhere() -> None:
    empty: list[tuple[int, float | None]] = [(0, None), (3, None)]
    assert [f(empty) for f in (avg, best, later, gain, slope, final_change)] == [None] * 6


def test_a_pooled_baseline_replaces_the_curves_own() -> None:
    arm, control = [(0, 4.0), (3, 6.0)], [(0, 0.0), (3, 0.0)]
    baseline = pooled_start([arm, control])
    assert baseline == 2.0
    assert auc_plus(arm, baseline) == 9.0
    assert auc_plus([(0, None), (3, 2.0), (6, 4.0)], baseline) == 3.0


def test_naba_divides_by_the_first_score() -> None:
    assert naba([(0, 2.0), (3, 4.0)]) == 1.5


@pytest.mark.parametrize(("y0", "expected"), [(0.0, 6.0), (-1.0, 7.5)])
def test_naba_takes_the_first_positive_score_when_the_first_is_not(
    y0: float, expected: float
) -> None:
    assert naba([(0, y0), (3, 0.5), (6, 1.5)]) == pytest.approx(
        (auc_plus([(0, y0), (3, 0.5), (6, 1.5)]) or 0) / 0.5
    )
    assert expected > 0


def test_naba_is_none_when_no_score_is_positive() -> None:
    assert naba([(0, 0.0), (3, 0.0)]) is None
    assert naba([(0, -3.0), (3, -1.0)]) is None


def test_the_higher_naba_wins_and_a_pair_without_one_is_counted() -> None:
    found = pathway_wins([1.5, -0.5, 0.0, None, 2.0])
    assert (found.n_pairs, found.n_undefined) == (4, 1)
    assert (found.summary_wins, found.history_wins, found.ties) == (2, 1, 1)
    assert found.mean_delta_naba == 0.75
    assert pathway_wins([None]).mean_delta_naba is None


def test_delta_naba_is_summary_minus_history() -> None:
    assert delta_naba([(0, 1.0), (3, 3.0)], [(0, 1.0), (3, 2.0)]) == 1.5
    assert delta_naba([(0, 0.0), (3, 0.0)], [(0, 1.0), (3, 2.0)]) is None


def test_slope_is_per_exploration_episode() -> None:
    assert slope([(0, 1.0), (3, 2.0), (6, None), (9, 4.0)]) == pytest.approx(1 / 3)


def test_later_and_gain_start_after_checkpoint_zero() -> None:
    points = [(0, 1.0), (3, 2.0), (6, 6.0)]
    assert later(points) == 4.0
    assert gain(points) == 3.0
    assert final_change(points) == 5.0


@pytest.mark.parametrize(
    "points", [[(3, 1.0), (0, 1.0)], [(0, 1.0), (0, 2.0)], [(0, float("nan"))]]
)
def test_a_curve_out_of_order_or_not_finite_is_refused(points: list[tuple[int, float]]) -> None:
    with pytest.raises(ValueError, match="expected"):
        avg(points)


@given(curves)
@settings(deadline=None, max_examples=200)
def test_auc_plus_equals_the_integral_in_exact_fractions(
    points: list[tuple[int, float | None]],
) -> None:
    area = auc_plus(points)
    if area is None:
        assert points[0][1] is None or all(y is None for _, y in points[1:])
    else:
        assert area == pytest.approx(float(exact_area(points)), rel=1e-12, abs=1e-12)


@given(curves, st.integers(-5, 5))
@settings(deadline=None, max_examples=100)
def test_areas_ignore_a_shift_and_the_signed_area_is_never_larger(
    points: list[tuple[int, float | None]], shift: int
) -> None:
    area, signed = auc_plus(points), signed_area(points)
    moved = [(x, None if y is None else y + shift) for x, y in points]
    assert auc_plus(moved) == area
    assert (area is None) == (signed is None)
    if area is not None and signed is not None:
        assert area >= max(0.0, signed)
        mirrored = auc_plus([(x, None if y is None else -y) for x, y in points])
        assert mirrored is not None
        assert area - mirrored == pytest.approx(signed)


@given(curves)
@settings(deadline=None, max_examples=100)
def test_a_point_on_the_line_changes_no_area(points: list[tuple[int, float | None]]) -> None:
    dense: list[tuple[float, float | None]] = []
    for (x0, y0), (x1, y1) in pairwise(points):
        dense.append((x0, y0))
        if y0 is not None and y1 is not None:
            dense.append(((x0 + x1) / 2, (y0 + y1) / 2))
    dense.append(points[-1])
    before, after = auc_plus(points), auc_plus(dense)
    if before is None or after is None:
        assert before is after
    else:
        assert after == pytest.approx(before)
