"""Studies where Python programs run them: in a notebook, in one event loop, one after the other."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from s3gym import ConfigError, Schedule, Study, Turn
from s3gym.pytest_plugin import Studies

TINY = Schedule.quick(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)


async def polite(turn: Turn) -> tuple[str, float]:
    return "collaborate", 2.0


def study() -> Study:
    return Study(game="trust", agent=polite, schedule=TINY, repeats=1, seed=7)


def test_studies_without_a_store_that_start_within_a_second_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stores = {study().run_sync().store for _ in range(4)}
    assert len(stores) == len(list((tmp_path / "runs").glob("trust-polite-*.db"))) == 4


async def test_so_are_those_that_run_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(study().run)
    assert len(list((tmp_path / "runs").glob("trust-polite-*.db"))) == 3


async def test_a_running_event_loop_is_told_to_await(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="an event loop runs here, as in a notebook: 'await' run"):
        study().run_sync()
    with pytest.raises(ConfigError, match="'await' run or resume"):
        study().resume_sync()
    with pytest.raises(ConfigError, match="an event loop runs here"):
        Studies(tmp_path)(game="trust", agent=polite, memory="history")


def test_an_error_of_a_study_comes_without_another_one_before_it() -> None:
    with pytest.raises(ConfigError, match="no game is called") as caught:
        Study(game="snek", agent=polite).run_sync()
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"schedule": "quick"}, "schedule: expected a Schedule, for example Schedule.quick()"),
        ({"schedule": None}, "schedule: expected a Schedule"),
        ({"repeats": "3"}, "repeats: expected a whole number of at least 1, got '3'"),
        ({"repeats": 0}, "repeats: expected a whole number of at least 1, got 0"),
        ({"at_most": 0}, "at_most: expected a whole number of at least 1, got 0"),
        ({"seed": -1}, "seed: expected a whole number of at least 0, got -1"),
        ({"seed": "x"}, "seed: expected a whole number of at least 0, got 'x'"),
        ({"seed": 2**63}, "seed: expected less than 2**63"),
    ],
)
def test_a_wrong_value_is_refused_before_a_store_is_made(
    tmp_path: Path, other: dict[str, Any], says: str
) -> None:
    given: dict[str, Any] = {"game": "trust", "agent": polite, "schedule": TINY, "seed": 7}
    with pytest.raises(ConfigError, match=re.escape(says)):
        Study(**given | other, store=tmp_path / "a.db").run_sync()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"schedule": Schedule(**TINY.model_dump() | {"max_steps": 5})}, "schedule.max_steps 64"),
        ({"options": {"trust": {"detective": "first_rounds"}}}, "options.detective 'any_round'"),
        ({"settings": {"mine": 1}}, "settings '{}'"),
    ],
)
def test_a_resume_that_does_not_fit_names_the_key_that_differs(
    tmp_path: Path, other: dict[str, Any], says: str
) -> None:
    store = tmp_path / "a.db"
    given: dict[str, Any] = {"game": "trust", "agent": polite, "schedule": TINY, "repeats": 1}
    Study(**given, store=store).run_sync()
    with pytest.raises(ConfigError, match=f"r0: the store has {re.escape(says)}, but this run has"):
        Study(**given | other, store=store).resume_sync()
