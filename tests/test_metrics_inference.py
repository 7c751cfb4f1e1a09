"""Inference by repeat: intervals, exact p, power, verdict sentences."""

import sys
from itertools import product
from math import sqrt
from subprocess import run

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from s3gym.metrics import (
    benjamini_hochberg,
    estimate,
    is_flat,
    least_p,
    minimum_detectable_effect,
    null_band,
    paired_difference,
    paired_differences,
    repeats_needed,
    sign_flip_p,
    skill,
    t_interval,
    verdict,
)
from s3gym.metrics.curve import Points

values = st.lists(st.integers(-20, 20).map(lambda n: n / 4), min_size=6, max_size=11)


def test_the_primary_estimand_is_the_mean_of_the_checkpoints_after_zero() -> None:
    arm = [(0, 9.0), (3, 3.0), (6, 5.0), (9, None), (12, 7.0)]
    control = [(0, 1.0), (3, 1.0), (6, 2.0), (9, 4.0), (12, None)]
    assert paired_difference(arm, control) == 2.5
    assert paired_difference([(0, 1.0), (3, None)], control) is None


def test_repeats_are_paired_by_their_number() -> None:
    arm: dict[int, Points] = {
        0: [(0, 0.0), (3, 1.0)],
        2: [(0, 0.0), (3, 5.0)],
        3: [(0, 0.0), (3, None)],
    }
    control: dict[int, Points] = {
        0: [(0, 0.0), (3, 0.5)],
        1: [(0, 0.0), (3, 9.0)],
        3: [(0, 0.0), (3, 1.0)],
    }
    assert paired_differences(arm, control) == {0: 0.5}


def test_the_t_interval_of_a_hand_worked_sample() -> None:
    low, high = t_interval([1.0, 2.0, 3.0]) or (0, 0)
    assert (low, high) == pytest.approx((2 - 4.302652730 / sqrt(3), 2 + 4.302652730 / sqrt(3)))


@pytest.mark.parametrize("sample", [[], [1.0], [1.0, 2.0], [1.0, 1.0, 1.0]])
def test_no_interval_is_given_where_the_spread_is_not_known(sample: list[float]) -> None:
    assert t_interval(sample) is None


def test_six_equal_signs_give_the_least_p() -> None:
    assert sign_flip_p([1, 2, 3, 4, 5, 6]) == 2 / 64 == least_p(6)
    assert sign_flip_p([-1.0] * 6) == 2 / 64
    assert sign_flip_p([1.0] * 5) is None
    assert least_p(5) is None
    assert sign_flip_p([0.0] * 6) == 1.0
    assert sign_flip_p([1.0] * 45) is None


@given(values)
@settings(deadline=None, max_examples=60)
def test_the_sign_flip_p_equals_counting_every_assignment(sample: list[float]) -> None:
    goal = abs(sum(sample))
    far = sum(
        abs(sum(s * v for s, v in zip(signs, sample, strict=True))) >= goal
        for signs in product((1, -1), repeat=len(sample))
    )
    assert sign_flip_p(sample) == pytest.approx(far / 2 ** len(sample))


@given(values)
@settings(deadline=None, max_examples=60)
def test_the_interval_equals_scipys(sample: list[float]) -> None:
    found = t_interval(sample)
    if len(set(sample)) > 1:
        expected = stats.ttest_1samp(sample, 0).confidence_interval(0.95)
        assert found == pytest.approx((expected.low, expected.high))
    else:
        assert found is None


@given(values)
@settings(deadline=None, max_examples=60)
def test_swapping_the_arms_mirrors_everything(sample: list[float]) -> None:
    here, there = estimate(sample), estimate([-v for v in sample])
    mirror = {"better": "worse", "worse": "better", "unclear": "unclear"}
    assert there.direction == mirror[here.direction]
    assert there.p == here.p
    if here.low is not None:
        assert there.high == pytest.approx(-here.low)


def test_benjamini_hochberg_by_hand() -> None:
    assert benjamini_hochberg([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 4 / 75, 4 / 75, 0.5])
    assert benjamini_hochberg([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
@settings(deadline=None, max_examples=60)
def test_benjamini_hochberg_equals_scipys(ps: list[float]) -> None:
    assert benjamini_hochberg(ps) == pytest.approx(stats.false_discovery_control(ps).tolist())


@pytest.mark.parametrize("n", [3, 6, 10, 30])
def test_the_detectable_effect_has_the_promised_power(n: int) -> None:
    effect = minimum_detectable_effect(2.0, n)
    assert effect is not None
    shift, critical = effect * sqrt(n) / 2.0, stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(critical, n - 1, shift) + stats.nct.cdf(-critical, n - 1, shift)
    assert power == pytest.approx(0.8, abs=1e-6)


def test_the_repeats_needed_are_the_fewest_that_reach_the_power() -> None:
    n = repeats_needed(1.0, 1.0)
    assert n == 10
    assert (minimum_detectable_effect(1.0, 10) or 9) <= 1 < (minimum_detectable_effect(1.0, 9) or 0)
    assert repeats_needed(1.0, 100.0) == 3
    assert repeats_needed(1.0, 1e-6) is None
    assert minimum_detectable_effect(1.0, 2) is None
    with pytest.raises(ValueError, match="above 0"):
        repeats_needed(1.0, 0.0)


def test_one_run_cannot_tell_however_large_the_gain() -> None:
    assert "one run cannot tell" in verdict(estimate([100.0]), "history")
    two = estimate([100.0, 101.0])
    assert (two.low, two.high, two.p, two.direction) == (None, None, None, "unclear")
    assert "one run cannot tell" in verdict(two, "history")
    assert "nothing to compare" in verdict(estimate([]), "history")


def test_a_clear_gain_and_a_clear_loss_are_named() -> None:
    assert verdict(estimate([2.0, 2.1, 1.9]), "history").startswith("history is better than none")
    assert verdict(estimate([-2.0, -2.1, -1.9]), "history").startswith("history is worse than none")


def test_an_unclear_result_says_what_would_have_been_found() -> None:
    sentence = verdict(estimate([1.0, -1.0, 0.5]), "history")
    assert sentence.startswith("cannot tell")
    assert "4 of 5" in sentence


def test_equal_repeats_are_no_certainty_until_the_sign_flip_says_so() -> None:
    assert "do not differ in any of 3" in verdict(estimate([0.0] * 3), "history")
    assert estimate([5.0] * 3).direction == "unclear"
    assert verdict(estimate([5.0] * 3), "history").startswith("too few repeats")
    assert estimate([5.0] * 6).direction == "better"
    assert "in all 6 repeats" in verdict(estimate([5.0] * 6), "history")


def test_from_six_repeats_on_both_the_interval_and_the_p_must_agree() -> None:
    found = estimate([10.0, 10.0, 10.0, 10.0, 10.0, -1.0])
    assert found.low is not None
    assert found.low > 0
    assert found.p is not None
    assert found.p > 0.05
    assert found.direction == "unclear"


def test_values_that_are_not_finite_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        estimate([float("nan")])


def test_the_null_band_says_when_it_is_zero_by_construction() -> None:
    flat, noisy = [(0, 1.0), (3, 1.0)], [(0, 1.0), (3, 2.0)]
    assert is_flat(flat)
    assert null_band([0.0, 0.0], [flat, flat]).by_construction
    band = null_band([0.0, None, 1.5], [flat, noisy])
    assert (band.low, band.high, band.n, band.by_construction) == (0.0, 1.5, 2, False)
    assert null_band([]).low is None


def test_skill_is_0_for_random_and_1_for_reference_play() -> None:
    assert skill(10.7, 10.7, 16.97) == 0
    assert skill(16.97, 10.7, 16.97) == 1
    assert skill(1.0, 2.0, 2.0) is None


def test_importing_the_metrics_imports_neither_numpy_nor_scipy() -> None:
    code = "import sys, s3gym.metrics; print({'numpy', 'scipy'} & set(sys.modules))"
    done = run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
