"""Self-judging measures and their coupling to later gains."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from s3gym.metrics import (
    Block,
    Judged,
    Scale,
    agreement,
    blocks,
    couple,
    judge,
    judged_pairs,
    nmae,
    nmae_clipped,
    over_confidence,
    pearson,
    reliability,
    scale_of,
    score_range,
    spearman,
    status_shares,
    tertile_gap,
    under_confidence,
)

# (s, r): both see an event; expected one that did not come; missed one; neither sees one
PAIRS = [(1.0, 2.0), (3.0, 0.0), (0.0, 1.0), (-1.0, -1.0)]
numbers = st.integers(-8, 8).map(lambda n: n / 2)
pair_lists = st.lists(st.tuples(numbers, numbers), max_size=30)


def test_the_four_cells_of_a_hand_worked_table() -> None:
    assert agreement(PAIRS) == 0.5
    assert over_confidence(PAIRS) == 0.25
    assert under_confidence(PAIRS) == 0.25


def test_nmae_brings_both_columns_to_their_own_extremes() -> None:
    # s: 1, 3, 0, -1 on [-1, 3] -> .5, 1, .25, 0; r: 2, 0, 1, -1 on [-1, 2] -> 1, 1/3, 2/3, 0
    assert nmae(PAIRS) == pytest.approx((0.5 + 2 / 3 + 5 / 12 + 0) / 4)


def test_nmae_clipped_stays_on_the_range_of_rewards() -> None:
    # s clipped to [-1, 2]: 1, 2, 0, -1
    assert nmae_clipped(PAIRS, (-1, 2)) == pytest.approx((1 + 2 + 1 + 0) / 3 / 4)


def test_one_wild_self_score_moves_nmae_but_not_the_clipped_variant_of_the_others() -> None:
    honest = [(1.0, 1.0), (0.0, 0.0)] * 10
    wild = [*honest, (1e308, 0.0)]
    assert nmae(honest) == 0
    assert (nmae(wild) or 0) > 0.45
    assert nmae_clipped(wild, (0, 1)) == pytest.approx(1 / 21)
    assert nmae([(1e308, 0.0), (-1e308, 1.0)]) == 1.0


def test_a_constant_column_counts_as_zero_and_two_tell_nothing() -> None:
    assert nmae([(1.0, 0.0), (1.0, 1.0)]) == 0.5
    assert nmae([(1.0, 0.0), (1.0, 0.0)]) is None


def test_nothing_judged_means_none() -> None:
    assert agreement([]) is None
    assert nmae([]) is None
    assert nmae_clipped([], (0, 1)) is None
    assert scale_of([]) is None
    assert judge([]).missing_share is None


def test_an_empty_reward_range_is_refused() -> None:
    with pytest.raises(ValueError, match="low < high"):
        nmae_clipped(PAIRS, (1, 1))


def test_missing_self_scores_and_end_steps_are_shares_and_never_zeros() -> None:
    found = judge(
        [
            Judged(1.0, 1.0),
            Judged(None, 0.0, "no_score"),
            Judged(0.0, 0.0, "end"),
            Judged(1.0, 0.0, "repaired"),
        ],
        (0, 1),
    )
    assert (found.n_steps, found.n_judged) == (4, 2)
    assert found.missing_share == pytest.approx(1 / 3)
    assert found.end_share == 0.25
    assert found.agreement == 0.5
    assert found.positive_self_scores == 1.0
    assert found.positive_rewards == 0.5
    assert found.nmae_clipped == 0.5


def test_a_self_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        judged_pairs([Judged(float("inf"), 0.0)])


def test_status_shares_are_sorted_and_sum_to_one() -> None:
    assert status_shares(["ok", "end", "ok", "no_score"]) == {
        "end": 0.25,
        "no_score": 0.25,
        "ok": 0.5,
    }
    assert status_shares([]) == {}


@given(pair_lists)
@settings(deadline=None, max_examples=100)
def test_agreement_and_both_errors_sum_to_one(pairs: list[tuple[float, float]]) -> None:
    shares = [agreement(pairs), over_confidence(pairs), under_confidence(pairs)]
    if pairs:
        assert sum(share or 0 for share in shares) == pytest.approx(1)
    else:
        assert shares == [None] * 3


@given(pair_lists, st.integers(1, 9), st.integers(-9, 9))
@settings(deadline=None, max_examples=100)
def test_nmae_lies_in_the_unit_interval_and_ignores_the_scale_of_either_column(
    pairs: list[tuple[float, float]], factor: int, shift: int
) -> None:
    error = nmae(pairs)
    moved = nmae([(factor * s + shift, r) for s, r in pairs])
    if error is None:
        assert moved is None
    else:
        assert 0 <= error <= 1
        assert moved == pytest.approx(error)


@given(pair_lists)
@settings(deadline=None, max_examples=50)
def test_reliability_bins_hold_every_step_once_in_rising_order(
    pairs: list[tuple[float, float]],
) -> None:
    bins = reliability(pairs, 5)
    assert sum(b.n_steps for b in bins) == len(pairs)
    assert [b.self_score for b in bins] == sorted(b.self_score for b in bins)
    assert len(bins) <= 7


@given(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=30))
@settings(deadline=None, max_examples=100)
def test_correlations_equal_scipys(pairs: list[tuple[float, float]]) -> None:
    left, right = [x for x, _ in pairs], [y for _, y in pairs]
    if len(set(left)) == 1 or len(set(right)) == 1:
        assert pearson(left, right) is None
        assert spearman(left, right) is None
    else:
        assert pearson(left, right) == pytest.approx(
            stats.pearsonr(left, right).statistic, abs=1e-9
        )
        assert spearman(left, right) == pytest.approx(
            stats.spearmanr(left, right).statistic, abs=1e-9
        )


def test_columns_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="equally long"):
        pearson([1.0], [])


def test_blocks_take_the_change_that_follows_them_and_skip_invalid_points() -> None:
    points = [(0, 1.0), (3, 2.0), (6, None), (9, 5.0), (12, 3.0), (15, 3.0)]
    scale = Scale(self_low=0, self_high=1, reward_low=0, reward_high=1)
    pairs = [(1.0, 1.0), (1.0, 0.0)]
    steps: dict[float, list[tuple[float, float]]] = dict.fromkeys((3, 6, 9, 12), pairs)
    assert score_range([points]) == 4.0
    assert blocks(points, steps, scale=scale, width=4.0) == [
        Block(agreement=0.5, error=0.5, gain=0.25),
        Block(agreement=0.5, error=0.5, gain=-0.5),
    ]
    assert blocks(points, steps, scale=scale, width=0.0) == []


def test_tertiles_do_not_depend_on_order_and_need_different_keys() -> None:
    assert tertile_gap([1, 2, 3, 4, 5, 6], [0, 0, 9, 9, 1, 2]) == 1.5
    assert tertile_gap([6, 1, 5, 2, 4, 3], [2, 0, 1, 0, 9, 9]) == 1.5
    assert tertile_gap([1, 1, 1], [1, 2, 3]) is None
    assert tertile_gap([1, 2], [1, 2]) is None


def test_coupling_of_blocks_whose_better_judging_goes_before_gains() -> None:
    found = couple([Block(agreement=i / 9, error=1 - i / 9, gain=i / 3) for i in range(9)])
    assert found.n_blocks == 9
    assert found.rho_agreement_gain == pytest.approx(1)
    assert found.rho_calibration_gain == pytest.approx(1)
    assert found.gap_agreement == pytest.approx(2)
    assert couple([]).rho_agreement_gain is None
