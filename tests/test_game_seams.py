"""What holds for every built-in game, and what the engine makes of a game's setup and rules."""

import json
import sys
from itertools import product
from pathlib import Path

import pytest
from studies import plan, run_plans

from s3gym.agents.pictures import PICTURES
from s3gym.agents.reference import REFERENCE_PLAYERS
from s3gym.agents.strategies import PLAYBOOKS
from s3gym.api import Sweep
from s3gym.audit import audit_store
from s3gym.catalog import find_game, pictures
from s3gym.contracts.game import episode_rules
from s3gym.errors import ConfigError, MissingExtraError
from s3gym.games import GAMES
from s3gym.records import Phase
from s3gym.schedule import Schedule
from s3gym.store import file

CAPPED = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, max_steps=3)


def test_every_game_has_a_picture_a_playbook_and_a_reference_player() -> None:
    assert set(PICTURES) == set(PLAYBOOKS) == set(REFERENCE_PLAYERS) == set(GAMES)
    assert set(pictures(GAMES)) == set(GAMES)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_rules_name_a_cap_below_the_horizon_and_no_other(name: str) -> None:
    spec = find_game(name)
    for phase in Phase:
        options = spec.options()
        horizon, text = spec.setup(options, phase).max_steps, spec.rules(options, phase)
        assert episode_rules(spec, options, phase, horizon) == text
        assert episode_rules(spec, options, phase, 64) == text
        capped = episode_rules(spec, options, phase, 3)
        assert capped == f"{text}\nThis time everything ends after 3 steps at the latest."


async def test_a_capped_study_tells_its_cap_and_passes_the_audit(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan("snake", schedule=CAPPED)])
    db = file.open_reader(path)
    rules = {row[0] for row in db.execute("SELECT rules FROM episodes")}
    db.close()
    assert len(rules) == 2
    assert all("ends after 3 steps" in text for text in rules)
    assert audit_store(path, find_game).level() != "fail"


@pytest.fixture
def no_chess(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)


@pytest.mark.usefixtures("no_chess")
def test_a_missing_extra_is_named_before_anything_is_written(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    sweep = Sweep(
        games=("chess", "chess_duel"), agents=("random",), memories=("none",), store=store
    )
    with pytest.raises(MissingExtraError, match=r"pip install 's3gym\[chess\]'"):
        sweep.run_sync()
    assert not store.exists()


def test_a_missing_engine_is_named_before_anything_is_written(tmp_path: Path) -> None:
    pytest.importorskip("chess")
    store = tmp_path / "a.db"
    sweep = Sweep(
        games=("chess_duel",),
        agents=("random",),
        memories=("none",),
        options={"chess_duel": {"opponent": "/no/such/engine"}},
        store=store,
    )
    with pytest.raises(ConfigError, match="UCI engine's path"):
        sweep.run_sync()
    assert not store.exists()


TRACES = sorted((Path(__file__).parent / "golden").glob("*.jsonl"))


def test_every_game_has_a_golden_trace_of_each_phase() -> None:
    headers = [json.loads(path.read_text().partition("\n")[0]) for path in TRACES]
    assert {(each["game"], each["phase"]) for each in headers} == set(product(GAMES, Phase))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_a_golden_trace_says_something(path: Path) -> None:
    header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    assert path.name.startswith(f"{header['game']}.")
    assert header["source"]
    steps = [line for line in lines if "action" in line]
    assert steps
    assert all({"feedback", "reward"} < step.keys() for step in steps)
    assert all(step.get("text") or step.get("observation") for step in steps)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_the_golden_traces_of_a_game_show_a_reward(name: str) -> None:
    traces = [path for path in TRACES if path.name.startswith(f"{name}.")]
    lines = [json.loads(line) for path in traces for line in path.read_text().splitlines()]
    assert any(line.get("reward") for line in lines)


def test_every_golden_trace_is_replayed_by_a_test() -> None:
    source = "".join(path.read_text() for path in Path(__file__).parent.glob("test_game_*.py"))
    for path in TRACES:
        game, _, part = path.stem.partition(".")
        by_phase = part in set(Phase) and f'f"{game}.{{phase}}"' in source
        assert by_phase or f'"{path.stem}"' in source or f'glob("{game}.*.jsonl")' in source
