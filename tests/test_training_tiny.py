"""The training pathway whole: a tiny real model, TRL, a study that dies and goes on."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from tiny_model import make_speaking_model, make_tiny_model, needs_training_libraries

from s3gym.agents.hf_chat import HFChat
from s3gym.agents.model import ModelAgent
from s3gym.agents.train_trl import TRLTrainer
from s3gym.api import Study
from s3gym.audit import audit_store
from s3gym.catalog import find_game, teachings
from s3gym.records import Message
from s3gym.schedule import Schedule
from s3gym.sft import SFTPolicy
from s3gym.testing.fakes import ScriptedChat
from s3gym.training import Training

STUDY = """
pathway = "training"
game = "trust"
memory = "training"
repeats = 1
seed = 5

[schedule]
exploration_episodes = 2
evaluate_every = 1
evaluation_episodes = 1
max_steps = 4
reply_tokens = 16

[model]
layout = "cached"
temperature = 0.5

[training.policy]
min_score = 1

[training.trl]
learning_rate = 1e-3
device = "cpu"
"""


def prompts(store: Path) -> Sequence[Sequence[Message]]:
    """Return what an agent is asked on trust, in the layout of the study."""
    chat = ScriptedChat(lambda request: "Answer: cheat, Score: 3")
    schedule = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
    Study(
        game="trust",
        agent=ModelAgent(chat, layout="cached"),
        schedule=schedule,
        repeats=1,
        seed=1,
        store=store,
    ).run_sync()
    return [request.messages for request in chat.requests]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny model that can speak."""
    needs_training_libraries()
    folder = tmp_path_factory.mktemp("speaking")
    return make_speaking_model(folder / "tiny", prompts(folder / "prompts.db"))


@pytest.fixture
def place(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a current folder with a study file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(f'agent = "hf:{tiny}"\n{STUDY}')
    return tmp_path


def s3gym(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "s3gym", *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"PYTHONSAFEPATH": "1"},
    )


def finished(*words: str) -> str:
    process = s3gym(*words)
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 0, said
    return said


def rows(store: Path, query: str) -> list[tuple[object, ...]]:
    db = sqlite3.connect(f"file:{store}?mode=ro", uri=True)
    try:
        return db.execute(query).fetchall()
    finally:
        db.close()


def n_updates(store: Path) -> int:
    try:
        return int(str(rows(store, "SELECT count(*) FROM updates WHERE version > 0")[0][0]))
    except sqlite3.OperationalError:  # not there yet
        return 0


def test_one_update_of_a_real_model_is_made_played_with_and_audited(tmp_path: Path) -> None:
    needs_training_libraries()
    model, store = make_tiny_model(tmp_path / "tiny"), tmp_path / "a.db"
    Study(
        game="trust",
        agent=ModelAgent(HFChat(model, device="cpu"), layout="cached"),
        training=Training(
            trainer=TRLTrainer(model, device="cpu", steps=2), policy=SFTPolicy(min_score=0)
        ),
        oracle="explorer",  # random weights give no answer that could become an example
        schedule=Schedule(
            exploration_episodes=1,
            evaluate_every=1,
            evaluation_episodes=1,
            max_steps=3,
            reply_tokens=4,
        ),
        repeats=1,
        seed=5,
        store=store,
    ).run_sync()
    query = "SELECT outcome, n_examples, weights FROM updates ORDER BY version"
    (base, _, before), (outcome, n_examples, after) = rows(store, query)
    assert (base, outcome, n_examples) == ("base", "trained", 3)
    assert before != after
    assert rows(store, "SELECT count(*) FROM scores") == [(1 + 2,)]
    audit = audit_store(store, find_game, teachings=teachings())
    assert {finding.check for finding in audit.findings} == {"schedule"}  # the oracle is named


@pytest.mark.slow
def test_a_training_study_of_a_real_model_survives_a_kill_and_a_move_and_is_audited(
    place: Path, tiny: Path
) -> None:
    store = place / "a.db"
    process = s3gym("run", "study.toml", "--store", "a.db", "--quiet")
    deadline = time.monotonic() + 300
    while n_updates(store) < 1 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    first = rows(store, "SELECT version, outcome, weights, log FROM updates ORDER BY version")
    assert [row[0] for row in first] == [0, 1]
    shutil.copytree(tiny, place / "moved" / tiny.name)
    finished("resume", "a.db", f"--agent=hf:moved/{tiny.name}", "--quiet")
    after = rows(store, "SELECT version, outcome, weights, log FROM updates ORDER BY version")
    assert after[:2] == first, "a finished update was made again"
    assert [(row[0], row[1]) for row in after] == [(0, "base"), (1, "trained"), (2, "trained")]
    assert len({row[2] for row in after}) == 3
    log = json.loads(str(after[1][3]))
    assert log["steps"] >= 1
    assert log["device"] == "cpu"
    scores = rows(store, "SELECT count(*) FROM scores")
    assert scores == [(2 + 3,)]
    findings = audit_store(store, find_game).findings
    assert not [finding for finding in findings if finding.level == "fail"]
    weights = sorted(path.name for path in Path("a.db.weights").rglob("*.safetensors"))
    assert weights == ["adapter_model.safetensors"] * 2


@pytest.mark.slow
def test_a_study_whose_trainer_is_interrupted_ends_as_if_nothing_had_happened(
    place: Path,
) -> None:
    finished("run", "study.toml", "--store", "a.db", "--quiet")
    store = place / "b.db"
    process = s3gym("run", "study.toml", "--store", "b.db", "--quiet")
    deadline = time.monotonic() + 300
    while not list(place.glob("b.db.weights/**/try-*/output.txt")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert n_updates(store) == 0
    finished("resume", "b.db", "--quiet")
    query = "SELECT version, outcome, examples, weights FROM updates ORDER BY version"
    assert rows(store, query) == rows(place / "a.db", query)
    query = "SELECT episode, idx, hash FROM steps ORDER BY episode, idx"
    assert rows(store, query) == rows(place / "a.db", query)
    said = finished(
        "export", "sft", "a.db", "--policy", "keep", "--min-score", "1", "--out", "d.jsonl"
    )
    lines = [json.loads(line) for line in (place / "d.jsonl").read_text().splitlines()]
    assert lines, said
    for line in lines:
        assert set(line) == {"messages"}
        roles = [message["role"] for message in line["messages"]]
        assert roles[0] == "system"
        assert roles[-1] == "assistant"
