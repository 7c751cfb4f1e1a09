"""The training pathway on the command line: study files, options, resumes, and clear refusals."""

import json
import sqlite3
import sys
from contextlib import closing
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from trainings import SCRIPT

from s3gym.cli.main import main
from s3gym.cli.moved import is_moved_agent, note_moved, words_of_record
from s3gym.cli.training import recorded_training
from s3gym.config import TrainingConfig, override, read_config, validated
from s3gym.errors import ConfigError
from s3gym.schedule import Schedule
from s3gym.store import file

OWN = """
import json
from pathlib import Path

from s3gym.agents.model import ModelAgent
from trainings import TallyChat, TallyTrainer

player = ModelAgent(TallyChat("base.json"))

def chat(path):
    return TallyChat(path)

def trainer(base, strength=1):
    return TallyTrainer(Path(base))

number = 3
"""
STUDY_FILE = f"""
pathway = "training"
agent = "own_training:player"
repeats = 1
seed = 3

[schedule]
exploration_episodes = 1
evaluation_episodes = 1
max_steps = 3

[training]
trainer = "command"
base = "base.json"
command = [
    "{sys.executable}", "train.py", "{{examples}}", "{{base}}", "{{out}}", "{{seed}}", "{{log}}",
]
chat = "own_training:chat"

[training.policy]
min_score = 1
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_training", raising=False)
    (tmp_path / "own_training.py").write_text(OWN)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "base.json").write_text(json.dumps({"cheat": 1, "collaborate": 1}))
    (tmp_path / "study.toml").write_text(STUDY_FILE)
    return tmp_path


def s3gym(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def config(text: str, *overrides: str) -> Path:
    path = Path("other.toml")
    path.write_text(text)
    return path


AGAIN = (
    "--agent=own_training:player",
    "--trainer-chat=own_training:chat",
    f"--trainer-command={sys.executable} train.py {{examples}} {{base}} {{out}} {{seed}} {{log}}",
)


def test_a_study_file_trains_beside_its_control_arm_and_is_read_by_every_command(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    with closing(file.open_learner(place / "a.db")) as db:
        studies = [row[0] for row in db.execute("SELECT id FROM studies ORDER BY id")]
        outcomes = [row[0] for row in db.execute("SELECT outcome FROM updates ORDER BY version")]
    assert studies == ["trust/player/none/r0", "trust/player/training/r0"]
    assert outcomes == ["base", "trained"]
    for command in (
        ["audit", "a.db", "--expect", _root(capsys)],
        ["report", "a.db", "--html", "page.html", "--json", "report.json"],
        ["status", "a.db"],
        ["compare", "a.db:trust/player/none", "a.db:trust/player/training"],
        ["export", "bundle", "a.db", "a.zip"],
        ["audit", "a.zip"],
        ["replay", "a.db", "trust/player/training/r0/x001"],
    ):
        assert s3gym(*command) == 0, command
    assert s3gym("resume", "a.db", *AGAIN) == 0
    assert s3gym("extend", "a.db", "--repeats=2", *AGAIN) == 0
    assert (place / "a.db.weights" / "trust/player/training/r1/u001").is_dir()
    assert s3gym("audit", "a.db") == 0


def _root(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.rpartition("root ")[2].split()[0]


@pytest.mark.parametrize("missing", [1, 2])
def test_a_resume_runs_no_command_and_imports_no_module_that_only_the_store_names(
    place: Path, capsys: pytest.CaptureFixture[str], missing: int
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    named = [word for index, word in enumerate(AGAIN) if index != missing]
    capsys.readouterr()
    assert s3gym("resume", "a.db", *named) == 2
    said = capsys.readouterr().err
    assert "not built in; name it again: --trainer-" in said
    assert AGAIN[missing].split("=")[0] in said


def test_a_trainer_of_ones_own_is_named_as_module_and_attribute(place: Path) -> None:
    own = ["--trainer=own_training:trainer", "--agent=own_training:player"]
    options = [
        "--pathway=training",
        "--memory=training",
        "--trainer-base=base.json",
        "--set=schedule.exploration_episodes=1",
        "--set=schedule.evaluation_episodes=1",
        "--set=schedule.max_steps=3",
        "--set=training.settings.strength=2",
        "--repeats=1",
    ]
    assert s3gym("run", *own, *options, "--store=a.db") == 0
    assert s3gym("resume", "a.db", own[1]) == 2
    assert s3gym("resume", "a.db", *own) == 0
    with closing(file.open_learner(place / "a.db")) as db:
        ((study, spec),) = db.execute("SELECT id, spec FROM studies").fetchall()
    assert study == "trust/player/training/r0"
    assert json.loads(spec)["training"]["origin"] == "own_training:trainer"


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (["training.trainer=tlr"], "no trainer is called 'tlr': did you mean 'trl'"),
        (["training.base=nowhere"], "there are none at"),
        (["training.chat=local:folder"], "expected a chat model with {weights} in its name"),
        (["training.chat=own_training:number"], "expected a function of a path"),
        (["training.trl.learning_rat=1"], "training.trl: trainer 'command' does not use it"),
        (["training.openai.epochs=1"], "it uses training.command and training.chat and"),
        (["training.trainer=own_training:trainer"], "training.command: trainer 'own_training:tr"),
        (["training.start=middle"], "training.start: input should be 'previous' or 'base'"),
        (["training.policy.quantile=0.5"], "one threshold is expected"),
        (["training.policy.min_scor=1"], "training.policy.min_scor: no such key"),
        (["training.comand=[]"], "training.comand: no such key; did you mean 'command'?"),
        (["training.command=['true']"], "expected a list of words with {examples} and {out}"),
        (["pathway=context", "schedule.evaluate_every=1"], "training: no study trains"),
        (["pathway=weights"], "pathway: input should be 'context' or 'training'"),
        (["agent=strategist"], "agent 'strategist' has no weights to update"),
        (["agent=['random', 'strategist']"], "expected one agent"),
        (["oracle=judge"], "'judge' is for memories"),
        (["sealed=true"], "cannot be sealed"),
    ],
)
def test_a_wrong_key_is_one_clear_error_before_anything_is_written(
    place: Path, capsys: pytest.CaptureFixture[str], overrides: list[str], says: str
) -> None:
    options = [f"--set={one}" for one in overrides]
    assert s3gym("run", "study.toml", *options, "--store=a.db", "--quiet") == 2
    assert says in capsys.readouterr().err
    assert not (place / "a.db").exists()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["settings.rank=2"], "training.settings: trainer 'trl' does not use it; it uses train"),
        (["chat='hf:x{weights}'"], "training.chat: trainer 'trl' does not use it"),
        (["trainer=openai", "trl.rank=2"], "training.trl: trainer 'openai' does not use it"),
        (["trl.rnk=2"], "there is no setting 'rnk'"),
        (["trl.chat.paralel=2"], "trainer trl: chat: got an unexpected keyword argument 'paralel'"),
        (
            ["trainer=own_training:trainer", "settings.weakness=2"],
            "'weakness'; its settings are: s",
        ),
        (["trainer=own_training:number"], "expected a class or a factory"),
        (["trainer=openai", "openai.epoch=2"], "got an unexpected keyword argument 'epoch'"),
    ],
)
def test_a_typo_in_a_trainers_own_table_or_another_trainers_table_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "a.safetensors"):
        (place / name).write_text("{}")
    words = ["--agent=openai:small", f"--trainer-base={place}", "--pathway=training", "--dry-run"]
    assert s3gym("run", *words, *(f"--set=training.{one}" for one in given)) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("trainer", ["command", "trl"])
def test_weights_that_cannot_keep_the_json_contract_are_refused_before_anything_runs(
    place: Path, capsys: pytest.CaptureFixture[str], trainer: str
) -> None:
    for name in ("config.json", "tokenizer.json", "chat_template.jinja", "a.safetensors"):
        (place / name).write_text("{}")
    words = [*AGAIN[2:], "--agent=openai:small", "--contract=json", "--pathway=training"]
    more = [f"--trainer={trainer}", f"--trainer-base={place}", "--dry-run"]
    assert s3gym("run", *(words if trainer == "command" else words[1:]), *more) == 2
    assert "the weights of trainer" in (said := capsys.readouterr().err)
    assert "answer as 'hf:' models, which have none; use 'line'" in said


def test_a_command_needs_its_words_and_weights_to_start_from(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = ["--pathway=training", "--agent=own_training:player", "--trainer=command"]
    assert s3gym("run", *plain) == 2
    assert "training.base: expected the weights to start from" in capsys.readouterr().err
    assert s3gym("run", *plain, "--trainer-base=base.json") == 2
    assert "training.command: expected the words of a command" in capsys.readouterr().err
    assert s3gym("run", *plain, "--trainer-command", "'a") == 2
    assert "No closing quotation" in capsys.readouterr().err


def test_a_failing_command_pauses_with_its_own_exit_code_and_resumes(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "train.py").write_text("raise SystemExit('out of memory')")
    assert s3gym("run", "study.toml", "--store=a.db") == 3
    assert "out of memory" in capsys.readouterr().err
    (place / "train.py").write_text(SCRIPT)
    assert s3gym("resume", "a.db", *AGAIN, "--quiet") == 0


def test_a_moved_store_is_resumed_from_elsewhere_with_the_same_weights_and_command(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    root = _root(capsys)
    monkeypatch.chdir(_moved(place, "a.db"))
    _unfinish(Path("kept/a.db"))
    assert s3gym("resume", "kept/a.db", *_again(), "--trainer-base=files/other.json") == 0
    assert _root(capsys) == root
    # What was extended keeps the words of the record, so it is resumed in any others again.
    assert s3gym("extend", "kept/a.db", "--repeats=2", *_again("files/other.json")) == 0
    with closing(file.open_learner(Path("kept/a.db"))) as db:
        assert len({row[0] for row in db.execute("SELECT spec FROM studies")}) == 4
        settings = db.execute("SELECT DISTINCT json_extract(spec, '$.settings') FROM studies")
        ((words,),) = settings.fetchall()
    assert json.loads(words)["training"]["base"] == "base.json"


def test_a_moved_folder_of_a_sweep_is_resumed_twice_from_elsewhere(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--store=sweep/", "--quiet") == 0
    root = _root(capsys)
    monkeypatch.chdir(_moved(place, "sweep"))
    for path in Path("kept/sweep").rglob("*.db"):
        _unfinish(path)
    assert s3gym("resume", "kept/sweep", *_again("files/other.json")) == 0
    assert _root(capsys) == root
    assert s3gym("resume", "kept/sweep", *_again()) == 0
    assert _root(capsys) == root
    Path("files/train.py").rename("train.py")
    assert s3gym("resume", "kept/sweep", *_again(script="train.py")) == 0


def _moved(place: Path, store: str) -> Path:
    """Move a store and all that its training needs; return the folder to work in."""
    for name in ("kept", "files"):
        (place / "new" / name).mkdir(parents=True)
    for path in place.glob(f"{store}*"):
        path.rename(place / "new" / "kept" / path.name)
    (place / "base.json").rename(place / "new" / "files" / "other.json")
    (place / "train.py").rename(place / "new" / "files" / "train.py")
    player = place / "own_training.py"
    player.write_text(OWN.replace('"base.json"', '"files/other.json"'))
    return place / "new"


def _again(base: str | None = None, script: str = "files/train.py") -> list[str]:
    words = [word.replace("train.py", script) for word in AGAIN]
    return words if base is None else [*words, f"--trainer-base={base}"]


def _unfinish(store: Path) -> None:
    with closing(sqlite3.connect(store)) as db:
        db.execute("UPDATE studies SET status = 'paused'")
        db.commit()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (["--trainer-base=other.json"], "holds other weights than the record's: expected hash"),
        (["--trainer-base=none.json"], "if it was moved, say where it is now by --trainer-base"),
        (["--trainer-command=true {examples} {out}"], "another command than the store's: true"),
        (["train.py", "-v train.py"], "another command than the store's: -v differs"),
        (["train.py", "elsewhere/train.py"], "elsewhere/train.py differs; expected"),
        (["train.py", "other.py"], "other.py differs; expected"),
        (["{log}", ""], "another command than the store's; expected"),
        (["--set=training.command=['true', '{examples}', '{out}']"], "the store's: true differs"),
    ],
)
def test_other_weights_and_other_commands_are_refused_by_a_resume(
    place: Path, capsys: pytest.CaptureFixture[str], given: list[str], says: str
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    capsys.readouterr()
    (place / "other.json").write_text('{"cheat": 7}')
    (place / "other.py").write_text(SCRIPT)
    words = (
        [word.replace(given[0], given[1]) for word in AGAIN]
        if len(given) == 2
        else [*AGAIN, *given]
    )
    assert s3gym("resume", "a.db", *words) == 2
    said = capsys.readouterr().err
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("key", ["training", "training.command", "agent"])
def test_a_wrong_value_for_a_resume_is_one_clear_error(
    place: Path, capsys: pytest.CaptureFixture[str], key: str
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    capsys.readouterr()
    assert s3gym("resume", "a.db", *AGAIN, f"--set={key}=5") == 2
    assert f"a.db: {key}: input should be a valid " in capsys.readouterr().err


def test_a_base_in_other_words_needs_a_record_of_its_hash(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    with closing(sqlite3.connect(place / "a.db")) as db:
        db.execute("DELETE FROM updates")
        db.commit()
    capsys.readouterr()
    (place / "base.json").rename("other.json")
    assert s3gym("resume", "a.db", *AGAIN, "--trainer-base=other.json") == 2
    assert "no study has begun to train" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("agents", "base", "given", "expected"),
    [
        (["hf:models/small"], None, ["hf:/elsewhere/small"], True),
        (["hf:models/small"], None, ["hf:/elsewhere/large"], False),
        (["hf:models/small"], "other", ["hf:/elsewhere/small"], False),
        (["hf:models/small", "hf:large"], None, ["hf:/elsewhere/small"], False),
        (["openai:models/small"], None, ["hf:/elsewhere/small"], False),
        (["hf:models/small"], None, [], False),
    ],
)
def test_an_agent_may_be_moved_when_its_weights_are_the_base(
    agents: list[str], base: str | None, given: list[str], expected: bool
) -> None:
    table = {} if base is None else {"base": base}
    assert is_moved_agent({"agent": agents, "training": table}, given) is expected
    assert not is_moved_agent({"agent": agents}, given)


@pytest.mark.parametrize(
    ("recorded", "given", "fits"),
    [
        ({"batch": 4, "accumulate": 1}, ["batch=1", "accumulate=4", "checkpointing=true"], True),
        ({"device": "cuda", "rank": 4}, ["device=cpu", "threads=1"], True),
        ({}, ["device=cpu"], True),
        ({"device": "cuda", "rank": 4}, ["device=cpu", "rank=8"], False),
        ({"max_length": 900}, ["max_length=500"], False),
        ({}, ["chat={max_wait=1}"], False),
    ],
)
def test_a_resume_may_fit_the_updates_of_trl_to_its_machine(
    recorded: dict[str, Any], given: list[str], fits: bool
) -> None:
    before = recorded_training(TrainingConfig(trl=recorded))
    values: dict[str, Any] = {"agent": ["hf:small"], "training": deepcopy(before)}
    for _ in range(2):  # a sweep's folder keeps what a resume was given, for the next one
        words = words_of_record(values)
        override(values, [f"training.trl.{setting}" for setting in given])
        note_moved(values, words)
    config = TrainingConfig(**values["training"])
    assert config.trl != recorded
    assert (recorded_training(config) == before) is fits
    words = words_of_record(values)
    override(values, ["training.trl=5"])
    note_moved(values, words)
    with pytest.raises(ConfigError, match="trl: input should be a valid dictionary, got 5"):
        validated(TrainingConfig, values["training"], "test")


def test_what_a_resume_found_moved_is_not_written_by_hand(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--set=training.recorded.base=x", "--store=a.db") == 2
    assert "training.recorded: a resume writes it" in capsys.readouterr().err


def test_recorded_replies_and_proxies_are_no_weights(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", "study.toml", "--store=a.db", "--quiet") == 0
    capsys.readouterr()
    assert s3gym("run", "study.toml", "--replay=a.db", "--store=b.db") == 2
    assert "needs its weights, not recorded replies" in capsys.readouterr().err
    assert s3gym("run", "study.toml", "--proxy=0", "--store=b.db") == 2
    assert "does not go by a proxy" in capsys.readouterr().err


def test_the_pathway_takes_the_papers_schedule_for_weights_and_its_control_arm() -> None:
    found = read_config(None, {"pathway": "training"})
    assert found.memory == ("none", "training")
    assert found.schedule == Schedule.paper_training()
    assert found.schedule.checkpoints == tuple(range(20))
    also = read_config(None, {"pathway": "training", "memory": ["history"]})
    assert also.memory == ("history", "training")
    alone = read_config(None, {"memory": "training"}, ["schedule.evaluation_episodes=1"])
    assert alone.memory == ("training",)
    assert alone.schedule == Schedule.paper_training(evaluation_episodes=1)
    with pytest.raises(ConfigError, match="exclude each other"):
        read_config(None, {"memory": ["training"], "pathway": "context"})


def test_a_store_made_in_python_is_resumed_in_python(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from trainings import TINY, training

    from s3gym.api import Study

    Study(
        game="trust",
        agent="own_training:player",
        training=training(place),
        schedule=TINY,
        repeats=1,
        seed=1,
        store=place / "a.db",
    ).run_sync()
    assert s3gym("resume", "a.db", "--agent=own_training:player") == 2
    assert "its trainer was given in Python" in capsys.readouterr().err
