"""Sweeps in folders on the command line: the folder stands wherever a store can."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Served, by_hash

from s3gym.cli.folders import kept_config
from s3gym.cli.main import main
from s3gym.cluster.shards import SweepFolder
from s3gym.config import RunConfig, validated
from s3gym.store import file
from s3gym.store.store import Store

KEY = "sk-canary-90210-folder"
SMALL = (
    "--game=trust", "--seed=7", "--quiet", "--set=schedule.exploration_episodes=2",
    "--set=schedule.evaluate_every=1", "--set=schedule.evaluation_episodes=1",
    "--set=schedule.max_steps=3",
)  # fmt: skip
CELLS = ("--agent=strategist", "--memory=none", "--memory=history", "--repeats=2")
STUDY = "trust/strategist/history/r1"
Capture = pytest.CaptureFixture[str]


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


class Runner:
    def __init__(self, capsys: Capture) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Answer:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        out, err = self._capsys.readouterr()
        assert isinstance(caught.value.code, int)
        return Answer(caught.value.code, out, err)


@pytest.fixture
def s3gym(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Runner:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MY_KEY", KEY)
    return Runner(capsys)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


def root(text: str) -> str:
    found = re.search(r"root +([0-9a-f]{64})", text)
    assert found, text
    return found[1]


def test_a_folder_serves_wherever_a_store_does(s3gym: Runner) -> None:
    whole = s3gym("run", *SMALL, *CELLS, "--store=whole.db")
    ran = s3gym("run", *SMALL, *CELLS, "--store=sweep/")
    assert (ran.code, ran.out.replace("sweep", "whole.db")) == (0, whole.out)
    status, plain = s3gym("status", "sweep"), s3gym("status", "whole.db")
    assert sorted(status.out.splitlines()) == sorted(plain.out.splitlines())
    audit = s3gym("audit", "sweep", "--expect", root(whole.out))
    assert (audit.code, audit.out) == (0, s3gym("audit", "whole.db").out)
    for name in ("sweep", "whole.db"):
        wrote = s3gym("report", name, f"--json={name}.json", f"--html={name}.html", "--quiet")
        assert wrote.code == 0, wrote.err
    one, two = (json.loads(Path(f"{name}.json").read_text()) for name in ("sweep", "whole.db"))
    assert next(iter(one["provenance"].values()))["path"] == "sweep"
    for report in (one, two):
        del report["timings"], report["provenance"]
    assert one == two
    assert Path("sweep.html").read_text().count("<svg") > 0
    assert s3gym("report", "sweep").out == s3gym("report", "whole.db").out
    for command in (
        ("compare", "STORE:trust/strategist/none", "STORE:trust/strategist/history"),
        ("replay", "STORE"),
        ("replay", "STORE", f"{STUDY}/e001.1"),
        ("memory", "show", "STORE", "--study", STUDY),
        ("plan", "--power", "STORE"),
    ):
        first, second = (
            s3gym(*(word.replace("STORE", name) for word in command))
            for name in ("sweep", "whole.db")
        )
        assert first.code == second.code == 0, first.err
        assert first.out.replace("sweep", "whole.db") == second.out
    for name in ("sweep", "whole.db"):
        assert s3gym("export", "sft", name, f"--out={name}.jsonl").code == 0
    assert Path("sweep.jsonl").read_text() == Path("whole.db.jsonl").read_text() != ""
    assert s3gym("export", "bundle", "sweep", "b.zip").code == 0
    assert s3gym("audit", "b.zip", "--expect", root(whole.out)).code == 0


def test_merge_makes_a_store_and_goes_on_with_it(s3gym: Runner) -> None:
    ran = s3gym("run", *SMALL, *CELLS, "--store=sweep/")
    shard = SweepFolder.open("sweep").shard(STUDY)
    away = shard.rename("away.db")
    refused = s3gym("merge", "sweep", "out.db")
    assert (refused.code, Path("out.db").exists()) == (2, False)
    assert f"1 of 4 studies have not begun ({STUDY}); finish them with 's3gym resume" in refused.err
    part = s3gym("merge", "sweep", "out.db", "--partial")
    assert part.out.startswith("studies: 3 added, 1 not begun\n")
    assert "root not sealed" in part.out
    assert s3gym("audit", "sweep").out.count(f"studies {STUDY}: has not begun") == 1
    assert "root  not sealed" in s3gym("audit", "sweep").out
    assert s3gym("audit", "sweep", "--expect", root(ran.out)).code == 1
    away.rename(shard)
    on = s3gym("merge", "sweep", "out.db")
    assert on.out.startswith("studies: 1 added, 3 there already\n")
    assert root(on.out) == root(ran.out) == root(s3gym("audit", "out.db").out)
    assert s3gym("resume", "out.db", "--quiet").code == 0
    assert s3gym("extend", "out.db", "--repeats=3", "--quiet").code == 0
    larger = s3gym("merge", "sweep", "out.db")
    assert (larger.code, "which is no study of sweep" in larger.err) == (2, True)


def test_an_unfinished_folder_is_resumed_as_it_was_begun(
    s3gym: Runner, server: ModelServer
) -> None:
    model = server.script(by_prompt)
    given = (
        *SMALL, f"--agent=openai:{model}", f"--base-url={server.openai_url}",
        "--api-key-env=MY_KEY", "--memory=history", "--repeats=2", "--set=jobs=1",
    )  # fmt: skip
    whole = s3gym("run", *given, "--store=whole.db")
    before = len(server.requests(model))
    stopped = s3gym("run", *given, "--store=sweep/", "--max-tokens=1500")
    assert stopped.code == 3, stopped.err
    assert "s3gym resume sweep --max-tokens ..." in stopped.err
    status = s3gym("status", "sweep")
    assert "paused" in status.out
    assert "2 of 2 studies unfinished, 0 workers write: s3gym resume sweep" in status.out
    again = s3gym("resume", "sweep", "--quiet")
    assert again.code == 3  # the budget counts what the folder has cost, and is remembered
    done = s3gym("resume", "sweep", "--quiet", "--max-tokens=1000000")
    assert (done.code, root(done.out)) == (0, root(whole.out))
    assert len(server.requests(model)) == 2 * before  # nothing was paid for twice
    assert SweepFolder.open("sweep").manifest.config is not None
    for path in Path("sweep").rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes()


def by_prompt(body: dict[str, Any]) -> Served:
    return by_hash({"messages": body["messages"], "seed": body["seed"]})


def test_a_folder_is_named_by_a_slash_or_an_engine(s3gym: Runner) -> None:
    small = (*SMALL, "--agent=random", "--memory=none", "--repeats=1")
    assert s3gym("run", *small, "--store=one", "--engine=local").code == 0
    assert s3gym("run", *small, "--engine=local").code == 0
    assert len([path for path in Path("runs").iterdir() if path.is_dir()]) == 1
    for again in ("one", "one/"):
        exists = s3gym("run", *small, f"--store={again}")
        assert exists.code == 2
        assert "this sweep exists; continue it with 's3gym resume one'" in exists.err
    Path("full").mkdir()
    Path("full/a.txt").touch()
    full = s3gym("run", *small, "--store=full/")
    assert (full.code, "the folder is not empty" in full.err) == (2, True)
    Path("file").touch()
    assert s3gym("run", *small, "--store=file/").code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resume", "nothing", "--engine=local"), "nothing is not the folder of a sweep"),
        (("merge", "nothing", "out.db"), "nothing: no such folder"),
        (("merge", ".", "out.db"), "not the folder of a sweep: it has no sweep.json"),
        (("run", "--engine=abacus"), "'abacus' is not "),
        (("run", "--store=new/", "--address=auto"), "--address auto: needs an --engine"),
        (("plan", "--call-seconds=0"), "--call-seconds"),
    ],
)
def test_a_mistake_is_one_clear_line(
    s3gym: Runner, arguments: tuple[str, ...], message: str
) -> None:
    answer = s3gym(*arguments)
    assert answer.code == 2
    assert message in answer.err
    assert "Traceback" not in answer.err


def test_what_is_wrong_with_a_folder_is_said_in_one_line(s3gym: Runner) -> None:
    small = (*SMALL, "--agent=random", "--memory=none", "--repeats=2")
    assert s3gym("run", *small, "--store=sweep/").code == 0
    folder = SweepFolder.open("sweep")
    first, second = map(folder.shard, folder.studies)
    shard = s3gym("resume", str(first))
    assert (shard.code, "written to through the sweep's folder alone" in shard.err) == (2, True)
    extend = s3gym("extend", "sweep", "--repeats=3")
    assert (extend.code, "s3gym merge sweep OUT.db" in extend.err) == (2, True)
    shutil.copyfile(first, second)
    for command in (("report",), ("audit",), ("merge",)):
        answer = s3gym(*command, "sweep", *(["out.db"] if command == ("merge",) else []))
        assert answer.code == 2
        assert "expected the shard of 'trust/random/none/r1'" in answer.err
    resumed = s3gym("resume", "sweep", "--quiet")
    assert (resumed.code, "1 of 2 studies done" in resumed.out) == (2, True)
    status = s3gym("status", "sweep")
    assert (status.code, "trust/random/none/r1  unreadable" in status.out) == (2, True)
    manifest = folder.manifest_path.read_text()
    folder.manifest_path.write_text(manifest.replace('"format": 1', '"format": 2'))
    for command in (("status",), ("resume",), ("report",), ("audit",)):
        answer = s3gym(*command, "sweep")
        assert answer.code == 2
        assert "a manifest of format 2, written by s3gym" in answer.err


def test_a_full_disk_leaves_the_other_studies_done_and_is_named(
    s3gym: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = (*SMALL, "--agent=random", "--memory=none", "--repeats=3")
    opened = file.open_writer

    def small_disk(path: Path, journal: file.Journal = "WAL") -> Any:
        db = opened(path, journal)
        if "-r1-" in path.name:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            db.execute(f"PRAGMA max_page_count = {pages}")
        return db

    monkeypatch.setattr(file, "open_writer", small_disk)
    answer = s3gym("run", *small, "--store=sweep/")
    assert answer.code == 2
    assert "2 of 3 studies done" in answer.out
    assert re.search(r"sweep/shards/trust-random-none-r1-\w+\.db: .*full", answer.err)
    monkeypatch.undo()
    with pytest.raises(SystemExit):
        main(["status", "elsewhere"])


@pytest.mark.parametrize(
    "given",
    [{}, {"pathway": "training"}, {"memory": ["none", "training"]}, {"games": {"snake": {}}}],
)
def test_the_configuration_that_a_folder_keeps_is_that_of_the_run(given: dict[str, Any]) -> None:
    config = validated(RunConfig, given, "test")
    kept = json.loads(json.dumps(kept_config(config)))
    assert validated(RunConfig, kept, "folder").memory == config.memory
    assert kept_config(validated(RunConfig, kept, "folder")) == kept


def test_plan_says_when_one_machine_is_enough(s3gym: Runner) -> None:
    assert "no model is called" in s3gym("plan", "--quiet").out
    small = s3gym("plan", "--quiet", "--agent=openai:m", "--memory=none", "--rpm=60").out
    assert "3 studies side by side, at most 12 calls in flight" in small
    assert "1,890 calls of 5 s take about 31.5 min, set by model.rpm" in small
    assert "one machine is enough: 1 calls per second of the about 100" in small
    large = s3gym(
        "plan", "--quiet", "--agent=openai:m", "--memory=none", "--repeats=5000", "--jobs=5000",
        "--set=model.concurrency=5000", "--call-seconds=1",
    ).out  # fmt: skip
    assert "set by the processor" in large
    assert "more than one machine ends it sooner" in large
    assert "one machine is enough" not in large


def test_an_ordinary_store_has_no_fence(tmp_path: Path) -> None:
    with Store.create(tmp_path / "a.db") as store:
        assert store.fence is None
        assert not file.is_shard(store.connection)
