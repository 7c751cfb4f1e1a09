"""The command line: its spellings, its exit codes, and one clear line for each mistake."""

import json
import logging
import re
import sqlite3
import sys
from contextlib import closing
from importlib.metadata import version
from pathlib import Path

import pytest

from s3gym.cli.console import PrintableFormatter
from s3gym.cli.main import COMMANDS, main
from s3gym.store.store import Store

QUICK = ["--schedule", "quick", "--seed", "7", "--repeats", "1", "--quiet"]
OWN = '''
"""A module of the user."""
import math, time

async def mine(turn):
    return "Answer: cheat, Score: 1"

def of_a_prompt(prompt: str):
    return f"{len(prompt.strip())} characters\\nAnswer: left, Score: 1"

async def raises(turn):
    raise KeyError("oh")

async def nan(turn):
    return "cheat", math.nan

async def blocks(turn):
    if turn.index == 3:
        time.sleep(30)
    return "cheat", 1.0

class NeedsArguments:
    def __init__(self, key):
        pass

number = 7

from types import SimpleNamespace

def game(name, version=1):
    return SimpleNamespace(
        name=name, version=version, options=None, anchors=None, instruction=None, rules=None,
        setup=None,
    )

class Spec:
    name, version, options, anchors, instruction, rules, setup = "spec", 1, *[None] * 5

slash, empty, half, versioned = game("a/b"), game(""), game("\\ud800"), game("a", "one")
'''


class Answer:
    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def s3gym(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> "Runner":
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_parts.py").write_text(OWN)
    return Runner(capsys)


class Runner:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Answer:
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        out, err = self._capsys.readouterr()
        code = caught.value.code
        return Answer(code if isinstance(code, int) else 0, out, err)


def test_the_main_job(s3gym: Runner) -> None:
    answer = s3gym(
        "run", "--game", "trust", "--agent", "strategist", "--memory", "none", "--memory",
        "history", "--schedule", "quick", "--seed", "7", "--repeats", "2", "--store", "out.db",
        "--quiet",
    )  # fmt: skip
    assert answer.code == 0, answer.err
    assert "4 of 4 studies done" in answer.out
    assert "replies that did not parse: 0 of" in answer.out
    root = re.search(r"root ([0-9a-f]{64})", answer.out)
    assert root
    assert s3gym("audit", "out.db", "--expect", root[1]).code == 0
    assert s3gym("audit", "out.db", "--expect", f" {root[1].upper()}\n").code == 0
    assert s3gym("audit", "out.db", "--expect", "0" * 64).code == 1
    assert s3gym("audit", "out.db", "--expect", "").code == 1
    status = s3gym("status", "out.db")
    assert f"all 4 studies done; root {root[1]}" in status.out
    replay = s3gym("replay", "out.db", "trust/strategist/history/r1/e006.2")
    assert replay.code == 0
    assert "self-score" in replay.out
    assert "score " in replay.out.splitlines()[-1]
    assert s3gym("report", "out.db", "--json", "a.json", "--html", "a.html").code == 0
    assert root[1] in Path("a.json").read_text()
    assert "<svg" in Path("a.html").read_text()


def test_the_same_command_twice_gives_the_same_report_and_root(s3gym: Runner) -> None:
    for name in ("a", "b"):
        assert s3gym("run", *QUICK, "--game", "snake", "--store", f"{name}.db").code == 0
        assert s3gym("report", f"{name}.db", "--json", f"{name}.json", "--quiet").code == 0
    one, two = (json.loads(Path(f"{name}.json").read_text()) for name in "ab")
    for report in (one, two):
        del report["timings"], report["provenance"]
    assert one == two


def test_extend_adds_repeats_and_keeps_what_is_there(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--store", "out.db").code == 0
    db = sqlite3.connect("out.db")
    before = db.execute("SELECT episode, hash FROM scores ORDER BY episode").fetchall()
    assert s3gym("extend", "out.db", "--repeats", "2", "--quiet").code == 0
    after = db.execute("SELECT episode, hash FROM scores ORDER BY episode").fetchall()
    db.close()
    assert set(before) < set(after)
    assert len(after) == 2 * len(before)
    fewer = s3gym("extend", "out.db", "--repeats", "1")
    assert fewer.code == 2
    assert "expected at least 2" in fewer.err
    assert s3gym("audit", "out.db", "--quiet").code == 0


def test_resume_of_a_finished_store_changes_nothing(s3gym: Runner) -> None:
    first = s3gym("run", *QUICK, "--store", "out.db")
    again = s3gym("resume", "out.db", "--quiet")
    assert again.code == 0
    assert again.out == first.out


def test_dry_run_shows_the_studies_and_writes_nothing(s3gym: Runner) -> None:
    answer = s3gym("run", "--dry-run", "--store", "out.db", "--set",
                   "schedule.exploration_episodes=9")  # fmt: skip
    assert answer.code == 0
    assert "trust/strategist/history/r2" in answer.out
    assert "checkpoints 0, 3, 6, 9" in answer.out
    assert not Path("out.db").exists()


def test_a_study_file_with_an_override(s3gym: Runner) -> None:
    Path("study.toml").write_text(
        'game = "snake"\nagent = "random"\nmemory = "none"\nrepeats = 1\nseed = 3\n'
        'schedule = "quick"\nstore = "file.db"\n[games.snake]\napples = 2\n'
    )
    assert (
        s3gym("run", "study.toml", "--set", "schedule.exploration_episodes=3", "--quiet").code == 0
    )
    db = sqlite3.connect("file.db")
    (spec,) = db.execute("SELECT spec FROM studies").fetchone()
    db.close()
    assert json.loads(spec)["options"]["apples"] == 2
    assert json.loads(spec)["schedule"]["exploration_episodes"] == 3


def test_games_lists_all_and_shows_both_setups_of_one(s3gym: Runner) -> None:
    listed = s3gym("games").out
    for name in ("chess", "minesweeper", "nullify", "pvz", "snake", "tetris", "trust"):
        assert re.search(rf"^{name} ", listed, re.MULTILINE)
    shown = s3gym("games", "snake").out
    assert "snake, exploration" in shown
    assert "snake, evaluation" in shown
    assert "apples = 3" in shown


def test_play_with_an_agent_shows_the_self_judging_table(s3gym: Runner) -> None:
    answer = s3gym("play", "trust", "--agent", "strategist", "--seed", "5")
    assert answer.code == 0
    assert "self-score" in answer.out
    assert "agreement" in answer.out
    assert re.search(r"score -?\d+ +\(seed 5\)", answer.out)


def test_check_shows_a_prompt_that_teaches_the_contract(s3gym: Runner) -> None:
    answer = s3gym("check", "own_parts:mine", "--show-prompt")
    assert answer.code == 0
    assert "Answer: <ACTION>, Score: <SELF-SCORE>" in answer.out
    assert s3gym("check", "own_parts:mine").code == 0
    assert s3gym("check", "own_parts:of_a_prompt").code == 0
    broken = s3gym("check", "own_parts:nan")
    assert broken.code == 1
    assert "nan" in broken.out


def test_check_asks_an_agent_to_play_the_game_that_is_named(s3gym: Runner) -> None:
    player = "s3gym.agents.strategist:StrategistAgent"
    assert "no strategies for the game 'canary'" in s3gym("check", player).out
    answer = s3gym("check", player, "--game", "snake")
    assert (answer.code, answer.out) == (0, f"{player}: keeps the contract of an agent\n")
    assert "did you mean 'snake'?" in s3gym("check", player, "--game", "snek").err


def test_doctor_shows_no_key(s3gym: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-90210")
    answer = s3gym("doctor")
    assert answer.code == 0
    assert "OPENAI_API_KEY: set" in answer.out
    assert "canary" not in answer.out + answer.err


DEEP = '{"a":' * 3_000


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["run", "--game", "snak"], 2, "no game is called 'snak': did you mean 'snake'?"),
        (["run", "--agent", "strategst"], 2, "did you mean 'strategist'?"),
        (["run", "--memory", "histry"], 2, "did you mean 'history'?"),
        (["run", "--game", "TRUST"], 2, "did you mean 'trust'?"),
        (["run", "--agent", "Human"], 2, "did you mean 'human'?"),
        (["run", "--memory", "onw"], 2, "did you mean 'own'"),
        (["run", "--memory", "trainig"], 2, "did you mean 'training'?"),
        (["run", "--agent", "openai"], 2, "did you mean 'openai:MODEL'"),
        (["run", "--agent", "gpt-4o"], 2, "human, local:FILE.gguf, openai:MODEL, random"),
        (["run", "--agent", "OpenAI:gpt-4o"], 2, "did you mean 'openai:gpt-4o'?"),
        (["run", "--agent", "antropic:opus"], 2, "did you mean 'anthropic:opus'?"),
        (["run", "--agent", "parts.py:A"], 2, "name it as in an import: 'parts:A'"),
        (["run", "--agent", "./parts.py:A"], 2, "name it as in an import: 'parts:A'"),
        (["run", "--agent", "mine/parts.py:A"], 2, "name it as in an import: 'mine.parts:A'"),
        (["run", "--agent", "missing_module:x"], 2, "there is no module 'missing_module'"),
        (["run", "--agent", "own_parts:missing"], 2, "has no attribute 'missing'"),
        (["run", "--agent", "own_parts:number"], 2, "expected a class, a factory"),
        (["run", "--agent", "own_parts:NeedsArguments"], 2, "called without arguments"),
        (["run", "--memory", "own"], 2, "memory 'own' needs an agent that owns its memory"),
        (["run", "--game", "own_parts:number"], 2, "expected a GameSpec"),
        (["run", "--game", "own_parts:Spec"], 2, "expected a GameSpec, got a class; give an inst"),
        (["check", "own_parts:Spec"], 2, "game 'Spec': expected a GameSpec, got a class"),
        (["run", "--game", "own_parts:slash"], 2, "letters, digits and '_', '-' or '.', got 'a/b'"),
        (["run", "--game", "own_parts:empty"], 2, "or '.', got ''"),
        (["run", "--game", "own_parts:half"], 2, "or '.', got '\\ud800'"),
        (["run", "--game", "own_parts:versioned"], 2, "a whole number as version, got 'one'"),
        (["run", "none.toml"], 2, "none.toml: no such file"),
        (
            ["run", "--set", "schedule.preset=[]"],
            2,
            "expected one of paper, paper_training, quick, got []",
        ),
        (["run", "--repeats", "0"], 2, "command line: repeats: "),
        (["run", "--set", "schedule.memory_tokens=-1"], 2, "schedule.memory_tokens: "),
        (["run", "--set", "games.snake.apples=1"], 2, "games.snake: this game is not part of"),
        (["run", "--game", "snake", "--set", "games.snake.appels=1"], 2, "did you mean 'apples'?"),
        (["run", "--game", "snake", "--set", "games.snake.apples=-1"], 2, "games.snake.apples: "),
        (["run", "--game", "trust", "--game", "trust"], 2, "two game parts are called 'trust'"),
        (["run", "--max-usd", "-1"], 2, "budget.usd: "),
        (["run", "--agent", "openai:"], 2, "openai"),
        (["status", "none.db"], 2, "none.db: no such store"),
        (["resume", "none.db"], 2, "none.db: no such store"),
        (["audit", "none.db"], 2, "none.db: no such store"),
        (["report", "none.db"], 2, "none.db"),
        (["status", "."], 2, "expected a store file, got a folder"),
        (["status", "own_parts.py"], 2, "own_parts.py: "),
        (["frobnicate"], 2, "No such command"),
        (["games", "snak"], 2, "did you mean 'snake'?"),
        (["check", "nothing"], 2, "expected module:attribute"),
    ],
)
def test_a_mistake_is_one_clear_line_and_the_documented_code(
    s3gym: Runner, arguments: list[str], code: int, says: str
) -> None:
    answer = s3gym(*arguments, *(["--store", "x.db"] if arguments[0] == "run" else []))
    assert answer.code == code, answer.err
    assert says in answer.err
    assert "Traceback" not in answer.err
    assert not Path("x.db").exists()


def test_a_store_of_another_version_and_another_sqlite_file_are_refused(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--store", "out.db").code == 0
    db = sqlite3.connect("out.db")
    db.execute("PRAGMA user_version = 99")
    db.close()
    said = s3gym("status", "out.db").err
    assert f"of version 99, written by s3gym {version('s3gym')}; this s3gym reads version 2" in said
    assert "with the s3gym that wrote it; a new run needs a new file" in said
    assert len(said.splitlines()) == 1
    db = sqlite3.connect("out.db")
    db.execute("DROP TABLE provenance")
    db.close()
    assert "of version 99; this s3gym reads version 2. Report" in s3gym("status", "out.db").err
    db = sqlite3.connect("other.db")
    db.execute("CREATE TABLE t (x)")
    db.close()
    assert "a SQLite file, but not an s3gym store" in s3gym("resume", "other.db").err


def make_damaged(s3gym: Runner, damage: str) -> None:
    """Run a short study into ``out.db`` and edit it by hand."""
    short = ["--set", "schedule.exploration_episodes=3", "--memory", "none"]
    assert s3gym("run", *QUICK, *short, "--store", "out.db").code == 0
    with closing(sqlite3.connect("out.db")) as db, db:
        db.execute(damage)


def refused_in_one_line(answer: Answer) -> None:
    assert answer.code == 2, answer.out
    assert len(answer.err.splitlines()) == 1
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("command", ["status", "report", "resume"])
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE studies SET spec = '{'",
        "UPDATE studies SET spec = '[]'",
        "UPDATE studies SET spec = '7'",
        "UPDATE studies SET spec = '{}'",
        "UPDATE studies SET spec = replace(spec, '\"evaluate_every\":3', '\"evaluate_every\":-3')",
        "UPDATE studies SET spec = CAST(x'ff' AS TEXT)",
        "UPDATE studies SET note = CAST(x'ff' AS TEXT)",
        "DROP TABLE studies",
    ],
)
def test_a_damaged_store_is_one_clear_line(s3gym: Runner, command: str, damage: str) -> None:
    make_damaged(s3gym, damage)
    if "note" in damage and command == "resume":
        return
    refused_in_one_line(s3gym(command, "out.db"))


@pytest.mark.parametrize(
    ("command", "damage"),
    [
        ("report", "UPDATE provenance SET value = '{\"prices\": 5}' WHERE key = 'budget'"),
        ("report", "UPDATE verdicts SET reward = 1.7e308"),
        ("report", "UPDATE scores SET score = -1e308"),
        ("export bundle", "UPDATE scores SET score = -1e308"),
        ("export sft", f"UPDATE steps SET usage = '{DEEP}'"),
        ("resume", "UPDATE provenance SET value = '[]' WHERE key = 'limits'"),
        ("resume", "UPDATE secrets SET value = '/../etc' WHERE key = 'root_seed'"),
    ],
)
def test_so_is_one_that_holds_what_nobody_writes(s3gym: Runner, command: str, damage: str) -> None:
    make_damaged(s3gym, damage)
    out = {"export bundle": ["x.zip"], "export sft": ["--out", "x.jsonl"]}.get(command, [])
    refused_in_one_line(s3gym(*command.split(), "out.db", *out))


@pytest.mark.parametrize(
    ("store", "says"),
    [(".", "a folder or device is there"), ("own_parts.py", "not a"), ("a" * 300, "too long")],
)
def test_run_refuses_an_odd_store(s3gym: Runner, store: str, says: str) -> None:
    answer = s3gym("run", *QUICK, "--store", store)
    assert answer.code == 2
    assert says in answer.err


def test_status_says_that_a_store_of_calls_alone_holds_no_study(s3gym: Runner) -> None:
    Store.create("calls.db").close()
    answer = s3gym("status", "calls.db")
    assert (answer.code, answer.out) == (0, "The store holds no study.\n")


def test_an_interrupted_run_names_its_own_store(
    s3gym: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*given: object) -> None:
        raise BaseExceptionGroup("", [BaseExceptionGroup("", [KeyboardInterrupt()])])

    monkeypatch.setattr("anyio.run", interrupted)
    answer = s3gym("run", *QUICK)
    assert answer.code == 130
    assert re.search(r"s3gym resume runs/trust-strategist-\d", answer.err)


def test_run_into_an_existing_store_names_resume(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--store", "out.db").code == 0
    answer = s3gym("run", *QUICK, "--store", "out.db")
    assert answer.code == 2
    assert "s3gym resume out.db" in answer.err


def test_resume_takes_other_limits_but_no_other_study(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--store", "out.db").code == 0
    assert s3gym("resume", "out.db", "--set", "model.concurrency=3").code == 0
    refused = s3gym("resume", "out.db", "--set", "schedule.evaluation_episodes=3")
    assert refused.code == 2
    assert "specification" in refused.err or "schedule" in refused.err
    unknown = s3gym("resume", "out.db", "--set", "model.conkurrency=3")
    assert unknown.code == 2
    assert "concurrency" in unknown.err


def test_an_agent_of_ones_own_must_be_named_again_on_resume(s3gym: Runner) -> None:
    run = ["run", *QUICK, "--agent", "own_parts:mine", "--memory", "none", "--store", "out.db"]
    assert s3gym(*run).code == 0
    answer = s3gym("resume", "out.db")
    assert answer.code == 2
    assert "name it again: --agent own_parts:mine" in answer.err
    assert s3gym("resume", "out.db", "--agent", "own_parts:mine", "--quiet").code == 0


def test_a_failing_plug_in_fails_its_study_and_the_sweep_goes_on(s3gym: Runner) -> None:
    answer = s3gym("run", *QUICK, "--agent", "own_parts:raises", "--agent", "own_parts:mine",
                   "--memory", "none", "--store", "out.db")  # fmt: skip
    assert answer.code == 4
    assert "agent 'raises' raised KeyError in act (step 0)" in answer.err
    assert "1 of 2 studies done" in answer.out
    assert "trust/mine/none/r0  done" in s3gym("status", "out.db").out


def test_a_plug_in_that_blocks_for_ever_is_broken_off(
    s3gym: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    from s3gym import sweep

    kwdefaults = {**(sweep.run_sweep.__kwdefaults__ or {}), "block_seconds": 0.2}
    monkeypatch.setattr(sweep.run_sweep, "__kwdefaults__", kwdefaults)
    answer = s3gym("run", *QUICK, "--agent", "own_parts:blocks", "--agent", "own_parts:mine",
                   "--memory", "none", "--store", "out.db")  # fmt: skip
    assert answer.code == 4
    assert "agent 'blocks' blocked the event loop" in answer.err
    assert "1 of 2 studies done" in answer.out


def test_an_unknown_episode_gets_near_matches(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--store", "out.db").code == 0
    answer = s3gym("replay", "out.db", "trust/strategist/history/r0/x1")
    assert answer.code == 2
    assert "did you mean trust/strategist/history/r0/x00" in answer.err


def test_every_command_has_help(s3gym: Runner) -> None:
    for command in COMMANDS:
        answer = s3gym(command, "--help")
        assert answer.code == 0
        assert "Usage:" in answer.out


def test_a_version_that_a_memory_never_had_is_an_error_and_not_the_newest(s3gym: Runner) -> None:
    assert s3gym("run", *QUICK, "--memory", "history", "--store", "a.db").code == 0
    assert "sources: none" in s3gym("memory", "show", "a.db", "--checkpoint", "0").out
    for words in (["show", "a.db", "--checkpoint", "99"], ["diff", "a.db", "1", "99"]):
        answer = s3gym("memory", *words)
        assert answer.code == 2
        assert "has versions 0 (nothing) to" in answer.err


def test_a_memory_that_does_not_describe_itself_is_told_from_a_study_that_is_not_there(
    s3gym: Runner, tmp_path: Path
) -> None:
    (tmp_path / "mute_memory.py").write_text(
        "from s3gym.memory.none import NoMemory\n"
        "class Mute:\n"
        "    recall_each, recall, record = 'episode', NoMemory.recall, NoMemory.record\n"
        "    consolidate, freeze = NoMemory.consolidate, NoMemory.freeze\n"
    )
    memories = ("--memory", "none", "--memory", "mute_memory:Mute", "--repeats", "1")
    assert s3gym("run", *QUICK, *memories, "--store", "a.db").code == 0
    for study, reason in {
        "trust/strategist/Mute/r0": "its memory has no describe()",
        "trust/strategist/none/r9": "no such study; there are: trust/strategist/none/r0",
    }.items():
        answer = s3gym("memory", "show", "a.db", "--study", study)
        assert answer.code == 2
        assert f"a.db: {study}: {reason}" in answer.err


def test_what_is_logged_shows_no_control_character_of_foreign_text() -> None:
    try:
        raise ValueError("\x1b[31mred\x1b]0;title\x07")
    except ValueError:
        record = logging.LogRecord("s3gym", 40, "", 1, "%s raised", ("\x9b2J",), sys.exc_info())
    text = PrintableFormatter("%(name)s: %(message)s").format(record)
    assert text.startswith("s3gym: \\x9b2J raised\nTraceback")
    assert text.endswith("ValueError: \\x1b[31mred\\x1b]0;title\\x07")
