"""A trainer that runs the user's own command: paths in, paths out, and every way it can fail."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import anyio
import pytest
from studies import learner_rows, verifier_rows
from trainings import (
    BASE,
    ONE,
    SCRIPT,
    STUDY,
    TallyChat,
    base_file,
    command_trainer,
    faults,
    study,
    tally,
    training,
    updates,
)

from s3gym.agents.train_command import CommandTrainer, weights_hash
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ServiceError
from s3gym.records import Message
from s3gym.store import file

EXAMPLE = Example(
    messages=(Message("system", "Play."), Message("user", "Ünïcode \u2028 state")),
    answer="Answer: cheat, Score: 2",
    weight=0.5,
    episode="trust/a/training/r0/x001",
    step=3,
)


async def trained(folder: Path, script: str = SCRIPT) -> ModelRef:
    """Return the weights after one update by a script."""
    trainer = command_trainer(folder, script)
    place = folder / "u001"
    place.mkdir(exist_ok=True)
    return await trainer.update([EXAMPLE] * 2, await trainer.base(), folder=place, seed=5)


async def test_a_command_reads_examples_and_base_and_writes_weights(tmp_path: Path) -> None:
    ref = await trained(tmp_path)
    made = json.loads((Path(ref.location) / "tally.json").read_text())
    assert made == {"cheat": BASE["cheat"] + 2 * 0.5, "collaborate": BASE["collaborate"]}
    assert ref.hash == command_trainer(tmp_path).fingerprint(ref.location)
    assert ref.log == {"losses": [1 / 3], "steps": 2, "seed": 5}
    assert json.loads((tmp_path / "base.json").read_text()) == BASE
    assert [path.name for path in (tmp_path / "u001").iterdir()] == ["weights"]


async def test_each_line_of_its_examples_is_a_chat_that_ends_with_the_answer(
    tmp_path: Path,
) -> None:
    copying = "import shutil, sys\nshutil.copy(sys.argv[1], sys.argv[3])"
    lines = Path((await trained(tmp_path, copying)).location).read_text().split("\n")
    assert json.loads(lines[0]) == {
        "messages": [
            {"role": "system", "content": "Play."},
            {"role": "user", "content": "Ünïcode \u2028 state"},
            {"role": "assistant", "content": "Answer: cheat, Score: 2"},
        ],
        "weight": 0.5,
        "episode": "trust/a/training/r0/x001",
        "step": 3,
        "origin": "kept",
    }
    assert lines[1:] == [lines[0], ""]


async def test_what_an_earlier_try_left_is_no_obstacle(tmp_path: Path) -> None:
    first = await trained(tmp_path)
    (tmp_path / "u001" / "try-old" / "weights").mkdir(parents=True)
    (tmp_path / "u001" / "junk").write_text("junk")
    assert (await trained(tmp_path)).hash == first.hash
    assert [path.name for path in (tmp_path / "u001").iterdir()] == ["weights"]


async def test_a_cancelled_update_ends_its_command_and_what_that_started(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(child.pid) + '\\n')\n"
        "time.sleep(60)\n"
    )
    pid = tmp_path / "pid"
    async with anyio.create_task_group() as group:
        group.start_soon(trained, tmp_path, script)
        while not (pid.exists() and pid.read_text().endswith("\n")):
            await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    with anyio.fail_after(5):
        while _lives(int(pid.read_text())):
            await anyio.sleep(0.005)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ("raise SystemExit('no memory left on device')", "exit code 1: no memory left on device"),
        ("", r"wrote nothing to \{out\}"),
        ("import sys, os\nos.mkdir(sys.argv[3])", r"wrote nothing to \{out\}"),
        ("import os\nos.kill(os.getpid(), 9)", "was killed by signal 9"),
        ("raise OSError(28, 'No space left on device')", "exit code 1: .*No space left"),
    ],
    ids=["fails", "writes-nothing", "writes-an-empty-folder", "is-killed", "full-disk"],
)
async def test_a_command_that_fails_is_one_clear_error(
    tmp_path: Path, script: str, says: str
) -> None:
    with pytest.raises(ServiceError, match=f"tally .*{says}"):
        await trained(tmp_path, script)


@pytest.mark.parametrize("log", ["[]", "{", "3"])
async def test_a_log_that_is_no_object_is_refused(tmp_path: Path, log: str) -> None:
    script = f"import sys\nfor path in sys.argv[3], sys.argv[5]: open(path, 'w').write({log!r})"
    with pytest.raises(ConfigError, match="expected a JSON object"):
        await trained(tmp_path, script)


async def test_a_loss_that_diverged_loses_no_weights(tmp_path: Path) -> None:
    script = (
        "import sys\nopen(sys.argv[3], 'w').write('{}')\n"
        "open(sys.argv[5], 'w').write('{\"losses\": [NaN, 1, Infinity]}')"
    )
    assert (await trained(tmp_path, script)).log == {"losses": [None, 1, None]}


@pytest.mark.parametrize("inside", ["", "/part"])
async def test_weights_that_are_links_are_refused(tmp_path: Path, inside: str) -> None:
    script = (
        f"import os, sys\nout = sys.argv[3]\n{'os.mkdir(out)' if inside else ''}\n"
        f"os.symlink('/etc/passwd', out + '{inside}')"
    )
    with pytest.raises(ConfigError, match=r"\{out\}: expected files, but .* is a link"):
        await trained(tmp_path, script)


def test_weights_are_hashed_by_names_and_contents(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, names in ((one, "ab"), (two, "ba")):
        folder.mkdir()
        for name in names:
            (folder / name).write_text(name)
    assert weights_hash(one) == weights_hash(two)
    (two / "a").rename(two / "c")
    assert weights_hash(one) != weights_hash(two)
    with pytest.raises(ConfigError, match="there are none"):
        weights_hash(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "command", [[], "python train.py {examples} {out}", ["python", "{examples}"]]
)
def test_a_command_must_say_where_examples_and_weights_go(tmp_path: Path, command: object) -> None:
    with pytest.raises(ConfigError, match=r"list of words with \{examples\} and \{out\}"):
        CommandTrainer(command, base_file(tmp_path), chat=TallyChat)  # type: ignore[arg-type]  # what a user may pass


def test_a_place_that_there_is_not_is_named_with_those_that_there_are(tmp_path: Path) -> None:
    base = base_file(tmp_path)
    with pytest.raises(ConfigError, match=r"no place \{nope\}; there are \{examples\}, .*\{log\}"):
        CommandTrainer(["train", "{examples}", "{out}", "--to={nope}"], base, chat=TallyChat)
    literal = ['{"rank": 8}', "{}", "${HOME}", "{{lr}}", "{1}"]
    CommandTrainer(["train", "{examples}{out}", *literal], base, chat=TallyChat)


async def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    trainer = CommandTrainer(["no-such", "{examples}{out}"], base_file(tmp_path), chat=TallyChat)
    with pytest.raises(ConfigError, match="there is no program 'no-such'"):
        await trainer.base()


def test_a_name_holds_no_folder_of_the_machine(tmp_path: Path) -> None:
    trainer = CommandTrainer(
        ["/usr/bin/python3", str(tmp_path / "train.py"), "{examples}", "--out={out}"],
        base_file(tmp_path),
        chat=TallyChat,
    )
    assert trainer.name == "command:python3 train.py {examples} --out={out}"


# In a study


async def test_one_update_of_a_study_by_a_command(tmp_path: Path) -> None:
    result = await study(
        tmp_path, schedule=ONE, training=training(tmp_path, command_trainer(tmp_path))
    ).run()
    first = updates(result.store)[1]
    assert first.outcome == "trained"
    assert sum(tally(result.store, 1).values()) == sum(BASE.values()) + first.n_examples
    assert not faults(result.store)
    plain = await study(tmp_path / "plain", schedule=ONE).run()
    assert learner_rows(plain.store) == learner_rows(result.store)


async def test_a_command_that_fails_pauses_its_study_and_can_be_resumed(tmp_path: Path) -> None:
    failing = command_trainer(tmp_path, "raise SystemExit('the disk is full')")
    first = await study(tmp_path, schedule=ONE, training=training(tmp_path, failing)).run()
    assert first.outcome.paused == (STUDY,)
    with closing(file.open_learner(first.store)) as db:
        assert re.search("the disk is full", db.execute("SELECT note FROM studies").fetchone()[0])
    assert set(updates(first.store)) == {0}
    mended = training(tmp_path, command_trainer(tmp_path))
    again = await study(tmp_path, schedule=ONE, training=mended).resume()
    whole = await study(tmp_path / "whole", schedule=ONE).run()
    assert learner_rows(again.store) == learner_rows(whole.store)


WORKER = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from test_train_command import SLOW, study
from trainings import command_trainer, training
folder = Path({folder!r})
run = study(folder, training=training(folder, command_trainer(folder, SLOW)))
run.resume_sync() if run.store.exists() else run.run_sync()
"""
SLOW = "import os, time\n" + SCRIPT.replace(
    "folder.mkdir()",
    "folder.mkdir()\n"
    "with open(os.environ['UPDATE_LOG'], 'a') as file: file.write(out + '\\n')\n"
    "time.sleep(10 if os.environ['SLOW'] in out else 0)",
)


def work(folder: Path, slow: str = "none of them") -> subprocess.Popen[bytes]:
    """Run or resume a study in which one update takes long."""
    script = WORKER.format(tests=str(Path(__file__).parent), folder=str(folder))
    environment = os.environ | {"UPDATE_LOG": str(folder / "updates.log"), "SLOW": slow}
    return subprocess.Popen([sys.executable, "-c", script], env=environment)


def started(folder: Path) -> list[str]:
    """Return the updates that were started, in order."""
    log = folder / "updates.log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [Path(line).parts[-3] for line in lines]


def killed_in(process: subprocess.Popen[bytes], folder: Path, expected: list[str]) -> None:
    """Kill a study in the middle of an update."""
    while started(folder) != expected and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert started(folder) == expected


@pytest.mark.parametrize(
    "kills", [["u002"], pytest.param(["u001", "u002"], marks=pytest.mark.slow)], ids="-".join
)
def test_a_killed_update_restarts_from_its_data_and_a_finished_one_is_not_repeated(
    tmp_path: Path, kills: list[str]
) -> None:
    ran: list[str] = []
    for kill in kills:
        finished = int(kill[1:]) - 1
        ran += ["u001", "u002"][len(set(ran)) - bool(ran) : finished + 1]
        killed_in(work(tmp_path, slow=kill), tmp_path, ran)
        assert set(updates(tmp_path / "a.db")) == set(range(finished + 1))
    assert work(tmp_path).wait(60) == 0
    assert started(tmp_path) == [*ran, "u002"]
    whole = study(tmp_path / "whole").run_sync().store
    assert learner_rows(tmp_path / "a.db") == learner_rows(whole)
    assert verifier_rows(tmp_path / "a.db") == verifier_rows(whole)
    left = sorted(path.name for path in (tmp_path / "a.db.weights" / STUDY).rglob("*"))
    assert left == ["tally.json", "tally.json", "u001", "u002", "weights", "weights"]
    assert not faults(tmp_path / "a.db")
