"""The pytest plug-in: what its assertions let through, and how often they are wrong."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym import Decision, Schedule, Turn
from s3gym.metrics import estimate
from s3gym.pytest_plugin import (
    ERROR_RATE,
    Studies,
    assert_improves,
    assert_no_regression,
    contrasts,
    shown_above,
)
from s3gym.seeds import Stream
from s3gym.testing.canary import CanaryGame

DOORS = CanaryGame()
FAST = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=1)


async def better_with_memory(turn: Turn) -> Decision:
    """Plays a legal action when it remembers anything."""
    known = bool(turn.recollection.text)
    return Decision(action="left" if known else "nonsense", self_score=1.0)


async def worse_with_memory(turn: Turn) -> Decision:
    known = bool(turn.recollection.text)
    return Decision(action="nonsense" if known else "left", self_score=1.0)


async def indifferent(turn: Turn) -> Decision:
    return Decision(action="left", self_score=1.0)


def test_the_fixture_runs_a_memory_beside_its_control_arm(s3gym_study: Studies) -> None:
    result = s3gym_study(game=DOORS, agent=better_with_memory, memory="history", schedule=FAST)
    (found,) = contrasts(result)
    assert found.arm == "canary/better_with_memory/history"
    assert len(found.differences) == 6
    assert min(found.differences) > 0
    assert_improves(result)
    assert_no_regression(result, margin=0.5)


def test_a_memory_that_makes_things_worse_is_named(s3gym_study: Studies) -> None:
    result = s3gym_study(game=DOORS, agent=worse_with_memory, memory="history", schedule=FAST)
    with pytest.raises(AssertionError, match=r"shown to be worse .*\n.*/history: -"):
        assert_no_regression(result)
    with pytest.raises(AssertionError, match="not shown to improve"):
        assert_improves(result)


def test_no_difference_is_no_regression_and_no_improvement(s3gym_study: Studies) -> None:
    result = s3gym_study(game=DOORS, agent=indifferent, memory="history", schedule=FAST)
    assert_no_regression(result)
    assert_no_regression(result, margin=0.1)
    with pytest.raises(AssertionError, match="not shown to improve"):
        assert_improves(result)


async def test_studies_run_inside_an_async_test(s3gym_study: Studies) -> None:
    result = await s3gym_study.run(
        game=DOORS, agent=indifferent, memory="history", schedule=FAST, repeats=3
    )
    with pytest.raises(AssertionError, match="3 repeats tell little"):
        assert_no_regression(result, margin=1.0)


def test_an_agent_that_fails_fails_the_assertion_with_its_reason(s3gym_study: Studies) -> None:
    def broken(turn: Turn) -> str:
        raise KeyError("my bug")

    result = s3gym_study(game=DOORS, agent=broken, memory="history", schedule=FAST, repeats=1)
    with pytest.raises(AssertionError, match="my bug"):
        assert_no_regression(result)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(-40, 40).map(lambda n: n / 8), min_size=1, max_size=12))
def test_the_assertions_agree_with_the_report(differences: list[float]) -> None:
    direction = estimate(differences).direction
    assert shown_above(differences, 0.0, ERROR_RATE) == (direction == "better")
    assert shown_above([-value for value in differences], 0.0, ERROR_RATE) == (direction == "worse")


@pytest.mark.parametrize(("n", "error_rate"), [(3, 0.05), (6, 0.025), (6, 0.05), (10, 0.1)])
def test_without_an_effect_the_error_rate_is_kept(n: int, error_rate: float) -> None:
    stream = Stream(n)
    runs = 2000

    def difference() -> float:
        return sum(stream.uniform() for _ in range(12)) - 6

    wrong = sum(shown_above([difference() for _ in range(n)], 0.0, error_rate) for _ in range(runs))
    assert wrong / runs < error_rate + 3 * (error_rate / runs) ** 0.5


@pytest.mark.parametrize("error_rate", [0.0, 0.5, -1.0])
def test_an_error_rate_out_of_range_is_refused(error_rate: float) -> None:
    with pytest.raises(ValueError, match="error rate"):
        shown_above([1.0, 2.0, 3.0], 0.0, error_rate)


def test_pytest_loads_the_plug_in_by_itself(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.hasplugin("s3gym")


def test_stores_lie_in_the_folder_of_the_test(s3gym_study: Studies, tmp_path: Path) -> None:
    sweep = s3gym_study.sweep(game=DOORS, agent=indifferent, memory="history")
    assert sweep.store == tmp_path / "study-1.db"
    assert [plan.repeat for plan in sweep.plans()] == [*range(6)] * 2


def test_the_control_arm_can_be_run_alone(s3gym_study: Studies) -> None:
    result = s3gym_study(game=DOORS, agent=indifferent, memory="none", schedule=FAST, repeats=2)
    assert [study.partition("/none/")[2] for study in result.studies] == ["r0", "r1"]
    with pytest.raises(AssertionError, match="no memory beside 'none' to judge"):
        assert_improves(result)
