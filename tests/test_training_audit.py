"""What an audit finds in updates: edited rows, other weights, evaluation in the examples."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from trainings import ONE, STUDY, edit, faults, study

from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.sft import Explored


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    return study(folder).run_sync().store


SEAL = f"chain: seals {STUDY}"


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE updates SET n_examples = n_examples + 1 WHERE version = 1", "isolation"),
        ("UPDATE updates SET examples = 'x' WHERE version = 1", "isolation"),
        ("UPDATE updates SET sources = replace(sources, 'x001', 'e001.1')", "isolation"),
        ("UPDATE updates SET start_hash = 'x' WHERE version = 1", "chain"),
        ("UPDATE updates SET start = 2 WHERE version = 1", "chain"),
        ("UPDATE updates SET explorer = 7 WHERE version = 1", "chain"),
        ("UPDATE updates SET trainer = 'other' WHERE version = 1", "chain"),
        ("UPDATE updates SET policy = '{}' WHERE version = 1", "chain"),
        ("UPDATE updates SET outcome = 'unchanged' WHERE version = 1", "chain"),
        ("UPDATE updates SET outcome = 'nonsense' WHERE version = 1", "chain"),
        ("DELETE FROM updates WHERE version = 1", "completeness"),
        ("UPDATE updates SET version = 9 WHERE version = 1", "completeness"),
    ],
)
def test_an_edited_update_is_found_and_named(
    finished: Path, tmp_path: Path, statement: str, named: str
) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    assert not faults(store)
    assert edit(store, statement)
    found = faults(store)
    assert f"{named}: updates {STUDY} 1" in found
    assert SEAL in found


@pytest.mark.parametrize("column", ["location", "weights", "log", "chosen"])
def test_an_edited_value_of_an_update_breaks_the_seal(
    finished: Path, tmp_path: Path, column: str
) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    edit(store, f"UPDATE updates SET {column} = '{{}}' WHERE version = 2")
    assert SEAL in faults(store)


def test_an_episode_played_with_other_weights_is_found(finished: Path, tmp_path: Path) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    edit(store, "UPDATE calls SET chat = 'tally@u002' WHERE place LIKE '%e001.1'")
    assert f"isolation: episodes {STUDY}/e001.1" in faults(store)


def test_evaluation_that_goes_into_weights_is_found(tmp_path: Path) -> None:
    """A cheating engine: it trains on what was evaluated."""
    import s3gym.weights as engine

    def cheating(plan: Any, training: Any, store: Any, number: int) -> Any:
        rows = store.connection.execute(
            "SELECT id, instruction, max_steps FROM episodes WHERE phase = 'evaluation'"
        ).fetchall()
        return [
            Explored(
                episode=store.ledger.load_episode(row[0]), instruction=row[1], max_steps=row[2]
            )
            for row in rows
        ]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "explored_for", cheating)
        result = study(tmp_path, schedule=ONE).run_sync()
    assert f"isolation: updates {STUDY} 1" in faults(result.store)


def test_prompts_of_an_agent_of_its_own_are_named_as_not_checked(
    finished: Path,
) -> None:
    audit = audit_store(finished, find_game)
    assert audit.level() == "warn"
    assert any("examples not made again" in finding.message for finding in audit.findings)
