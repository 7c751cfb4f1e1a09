"""``s3gym export sft``: the documented format, the datasheet, and exploration alone."""

import json
import shutil
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest
from chat_format import LEAST, faults, is_trl_prompt_completion
from studies import TINY, plan, run_plans

from s3gym.agents.answers import JsonContract
from s3gym.agents.model import ModelAgent
from s3gym.api import Study
from s3gym.cli.main import main
from s3gym.memory.history import HistoryMemory
from s3gym.memory.none import NoMemory
from s3gym.records import Layout, Message
from s3gym.replies import parse_reply
from s3gym.schedule import Schedule
from s3gym.sft import SFTPolicy, build_sft
from s3gym.store import file
from s3gym.store.explored import load_explored
from s3gym.store.hashes import message_hash
from s3gym.testing import CANARY, CanaryGame
from s3gym.testing.fakes import Request, ScriptedChat

PAIR = ["prompt", "completion"]
WORDS = ("collaborate", "cheat", "dance")


def answer(request: Request) -> str:
    digit = int(sha256(request.text.encode()).hexdigest(), 16)
    line = f"Answer: {WORDS[digit % 3]}, Score: {digit % 5 - 1}"
    return (line, f"So.\n{line}", f"**{line}**", "Well \u2028 \N{SNOWMAN}.")[digit // 64 % 4]


def agent(layout: Layout = "paper", **more: Any) -> Any:
    return lambda: ModelAgent(ScriptedChat(answer), layout=layout, **more)


class Exporter:
    """Runs the command and keeps what it printed."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.said = ""

    def __call__(self, *options: str, out: str = "data.jsonl", store: str = "a.db") -> int:
        target = str(self.folder / out)
        with pytest.raises(SystemExit) as ended:
            main(["export", "sft", str(self.folder / store), "--out", target, *options])
        self.said = "".join(self._capsys.readouterr())
        return int(ended.value.code or 0)

    def rows(self, out: str = "data.jsonl") -> list[Any]:
        return [json.loads(line) for line in (self.folder / out).read_text().splitlines()]

    def sheet(self, out: str = "data.datasheet.json") -> Any:
        return json.loads((self.folder / out).read_text())


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of two arms."""
    folder = tmp_path_factory.mktemp("sft")
    more = Schedule(exploration_episodes=4, evaluate_every=2, evaluation_episodes=2)
    arms: list[tuple[Layout, Any]] = [
        ("paper", NoMemory),
        ("cached", NoMemory),
        ("paper", HistoryMemory),
    ]
    plans = [
        plan(agent=agent(layout), memory=memory, schedule=more, repeat=repeat)
        for repeat, (layout, memory) in enumerate(arms)
    ]
    anyio.run(run_plans, folder / "a.db", plans)
    return folder


@pytest.fixture
def export(stores: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Exporter:
    shutil.copy(stores / "a.db", tmp_path / "a.db")
    return Exporter(tmp_path, capsys)


def study(export: Exporter, repeat: int) -> str:
    with closing(file.open_learner(export.folder / "a.db")) as db:
        return str(db.execute("SELECT id FROM studies WHERE repeat = ?", (repeat,)).fetchone()[0])


def test_the_file_keeps_every_documented_rule(export: Exporter) -> None:
    assert export("--policy", "keep", "--min-score", "0") == 0, export.said
    data = (export.folder / "data.jsonl").read_bytes()
    assert not faults(data)
    assert len(export.rows()) >= LEAST
    assert data.isascii()
    for row in export.rows():
        assert parse_reply(row["messages"][-1]["content"]).status == "ok"


@pytest.mark.parametrize(
    "row",
    [
        "[]",
        "{}",
        '{"messages": []}',
        '{"messages": [{"role": "user", "content": "x"}]}',
        '{"messages": [{"role": "assistant"}]}',
        '{"messages": [{"role": "assistant", "content": ""}]}',
        '{"messages": [{"role": "model", "content": "x"}]}',
        '{"messages": [{"role": "assistant", "content": "x", "weight": 0}]}',
        '{"messages": [{"role": "assistant", "content": "x", "weight": 0.5}]}',
        '{"messages": [{"role": "assistant", "content": "x", "score": 1}]}',
        '{"messages": [{"role": "assistant", "content": "x"}], "reward": 1}',
        "{",
    ],
)
def test_the_check_of_the_format_finds_faults(row: str) -> None:
    good = '{"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "x"}]}'
    assert not faults(f"{good}\n".encode())
    assert faults(f"{good}\n{row}\n".encode())
    assert faults(good.encode())


def test_prompts_are_byte_for_byte_what_the_agent_was_sent(export: Exporter) -> None:
    assert export("--memory", "none", "--min-score", "-5", "--no-dedupe") == 0
    examples = export.sheet()["examples"]
    assert len(examples) > 40
    with closing(file.open_learner(export.folder / "a.db")) as db:
        for row, example in zip(export.rows(), examples, strict=True):
            (sent,) = db.execute(
                "SELECT messages FROM calls WHERE place = ? AND step = ? AND purpose = 'act'",
                (example["episode"], example["step"]),
            ).fetchone()
            prompt = row["messages"][:-1]
            stable = {
                message_hash(Message(item["role"], item["content"], flag)): item
                for item in prompt
                for flag in (True, False)
            }
            assert [stable[name] for name in json.loads(sent)] == prompt


def test_earlier_answers_in_a_prompt_are_read_and_not_taught(export: Exporter) -> None:
    assert export("--study", study(export, 1), "--min-score", "-5") == 0
    weights = [
        [message.get("weight") for message in row["messages"] if message["role"] == "assistant"]
        for row in export.rows()
    ]
    assert max(len(found) for found in weights) > 5
    assert all(found == [0] * (len(found) - 1) + [None] for found in weights)
    assert not faults((export.folder / "data.jsonl").read_bytes())


def test_what_a_memory_recalled_is_left_out(export: Exporter) -> None:
    assert export("--memory", "history", "--min-score", "-5") == 0
    assert "What you remember" not in (export.folder / "data.jsonl").read_text()


def test_a_contract_of_the_agents_own_is_taught_as_the_papers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Structured(ScriptedChat):
        def with_schema(self, schema: Any) -> "Structured":
            return self

    chat = Structured(lambda request: '{"action": "cheat", "self_score": 2}')
    own = plan(agent=lambda: ModelAgent(chat, JsonContract()), memory=NoMemory)
    anyio.run(run_plans, tmp_path / "a.db", [own])
    export = Exporter(tmp_path, capsys)
    assert export() == 0
    assert {row["messages"][-1]["content"] for row in export.rows()} == {"Answer: cheat, Score: 2"}
    assert "Answer: <ACTION>" in export.rows()[0]["messages"][0]["content"]


def test_prompt_and_completion_is_trls_other_type(export: Exporter) -> None:
    assert export("--format", "prompt-completion", "--min-score", "0") == 0
    assert all(is_trl_prompt_completion(row) for row in export.rows())
    assert export.sheet()["file"]["format"] == "prompt-completion"


@pytest.mark.slow
def test_trl_takes_both_formats(export: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    trl = pytest.importorskip("trl", reason="the extra train is not installed (issue 7)")
    datasets = pytest.importorskip("datasets", reason="the extra train is not installed (issue 7)")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for form, columns in (("messages", ["messages"]), ("prompt-completion", PAIR)):
        assert export("--format", form, "--min-score", "0") == 0, export.said
        data = datasets.load_dataset(
            "json",
            data_files=str(export.folder / "data.jsonl"),
            split="train",
            cache_dir=str(export.folder / "cache"),
        )
        assert data.column_names == columns
        assert data.num_rows == len(export.rows())
        assert trl.is_conversational(data[0])


def test_equal_stores_give_equal_bytes(export: Exporter) -> None:
    options = ("--policy", "drop", "--quantile", "0.5", "--weights", "score", "--balance")
    for out in ("one/data.jsonl", "two/data.jsonl"):
        assert export(*options, out=out) == 0
    for name in ("data.jsonl", "data.datasheet.json"):
        one, two = ((export.folder / which / name).read_bytes() for which in ("one", "two"))
        assert one == two


def test_the_datasheet_accounts_for_every_step_and_every_line(export: Exporter) -> None:
    assert export("--min-score", "1", "--cap", "20") == 0
    sheet, rows = export.sheet(), export.rows()
    data = (export.folder / "data.jsonl").read_bytes()
    assert sheet["file"]["sha256"] == sha256(data).hexdigest()
    assert sheet["file"]["bytes"] == len(data)
    counts = sheet["counts"]
    assert counts["kept"] == len(rows) == len(sheet["examples"]) == 20
    assert counts["kept"] + counts["dropped"] == counts["steps"]
    assert sum(sheet["dropped"].values()) == counts["dropped"] == len(sheet["left_out"])
    assert sum(found["steps"] for found in sheet["statuses"].values()) == counts["steps"]
    assert sheet["statuses"]["no_action"]["kept"] == 0 < sheet["statuses"]["no_action"]["steps"]
    assert sheet["games"]["trust"] == {"steps": counts["steps"], "kept": 20, "threshold": 1.0}
    assert sheet["policy"]["min_score"] == 1.0
    assert [item["line"] for item in sheet["examples"]] == list(range(1, 21))
    for item, row in zip(sheet["examples"], rows, strict=True):
        said = parse_reply(row["messages"][-1]["content"])
        assert (said.action, said.self_score) == (item["action"], item["self_score"])
    episodes = [episode for study in sheet["studies"] for episode in study["episodes"]]
    assert sum(episode["kept"] for episode in episodes) == 20
    with closing(file.open_learner(export.folder / "a.db")) as db:
        for episode in episodes:
            assert db.execute(
                "SELECT episode FROM steps WHERE hash = ?", (episode["hash"],)
            ).fetchone() == (episode["id"],)


def test_examples_hash_is_what_the_store_gives_again(export: Exporter) -> None:
    first = study(export, 0)
    assert export("--study", first, "--min-score", "0") == 0
    with closing(file.open_learner(export.folder / "a.db")) as db:
        data = build_sft(load_explored(db, first), SFTPolicy(min_score=0))
    assert export.sheet()["examples_sha256"] == data.hash


def test_only_exploration_is_ever_exported(export: Exporter) -> None:
    assert export("--policy", "drop", "--min-score", "-9", "--no-dedupe") == 0
    sheet = export.sheet()
    named = {item["episode"] for item in (*sheet["examples"], *sheet["left_out"])}
    with closing(file.open_learner(export.folder / "a.db")) as db:
        known = dict(db.execute("SELECT id, phase FROM episodes"))
    assert named == {episode for episode, phase in known.items() if phase == "exploration"}
    assert "evaluation" in known.values()


def test_no_reward_stands_in_what_is_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def left(turn: Any) -> tuple[str, float]:
        return "left", 0.5

    anyio.run(run_plans, tmp_path / "a.db", [plan(CanaryGame(), agent=left)])
    export = Exporter(tmp_path, capsys)
    assert export() == 0
    for path in (tmp_path / "data.jsonl", tmp_path / "data.datasheet.json"):
        assert str(CANARY) not in path.read_text()
        assert "90210" not in path.read_text()


def test_an_unfinished_episode_is_left_out(export: Exporter) -> None:
    with closing(file.open_writer(export.folder / "a.db")) as db:
        db.execute(
            "UPDATE episodes SET status = 'playing' WHERE phase = 'exploration' AND ordinal = 2"
        )
    assert export("--policy", "drop", "--min-score", "-9") == 0
    assert not [item for item in export.sheet()["examples"] if item["episode"].endswith("x002")]
    assert export.sheet()["counts"]["episodes"] == 9


async def test_an_oracles_store_says_so(tmp_path: Path) -> None:
    await Study(
        game="trust",
        agent="strategist",
        memory="none",
        schedule=TINY,
        seed=3,
        repeats=1,
        store=tmp_path / "a.db",
        oracle="explorer",
    ).run()
    with pytest.raises(SystemExit) as ended:
        main(["export", "sft", str(tmp_path / "a.db"), "--out", str(tmp_path / "data.jsonl")])
    assert ended.value.code == 0
    sheet = json.loads((tmp_path / "data.datasheet.json").read_text())
    assert [study["oracle"] for study in sheet["studies"]] == ["explorer"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--quantile", "2"), "quantile: input should be less than 1, got 2.0"),
        (("--min-score", "1", "--positive"), "one threshold is expected, got min_score and pos"),
        (("--policy", "correct"), "a training study does and records; expected keep or drop"),
        (("--cap", "0"), "cap: input should be greater than or equal to 1, got 0"),
        (("--min-score", "99"), "no step becomes an example; of its exploration: "),
        (("--game", "snake"), "no study fits --study, --game, --agent and --memory; there are: tr"),
        (("--out", "a.db"), "would replace the store"),
        (("--out", "/proc/none/data.jsonl"), "/proc/none/data.jsonl: No such file"),
        (("--format", "csv"), "'csv' is not one of"),
    ],
)
def test_a_mistake_is_one_clear_line(
    export: Exporter,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    said: str,
) -> None:
    monkeypatch.chdir(export.folder)
    before = sorted(export.folder.iterdir())
    assert export(*options) == 2
    assert said in export.said
    assert sorted(export.folder.iterdir()) == before


def test_a_store_without_a_finished_episode_says_so(export: Exporter) -> None:
    with closing(file.open_writer(export.folder / "a.db")) as db:
        db.execute("UPDATE episodes SET status = 'playing'")
    assert export() == 2
    assert "no exploration episode is finished" in export.said


def test_a_bundle_is_a_store_too(export: Exporter) -> None:
    with pytest.raises(SystemExit):
        main(["export", "bundle", str(export.folder / "a.db"), str(export.folder / "a.zip")])
    assert export("--min-score", "0", out="b.jsonl", store="a.zip") == 0
    assert export("--min-score", "0") == 0
    assert export.rows("b.jsonl") == export.rows()


def test_an_earlier_export_is_replaced_and_any_other_file_only_by_force(
    export: Exporter,
) -> None:
    data, sheet = export.folder / "data.jsonl", export.folder / "data.datasheet.json"
    assert export("--min-score", "0") == 0
    assert export("--cap", "1") == 0
    first = data.read_bytes()
    data.write_bytes(first + b'{"messages": "by hand"}\n')
    assert export("--cap", "1") == 2
    assert "data.jsonl exists and is not an export as it was written" in export.said
    assert data.read_bytes() != first
    assert export("--cap", "1", "--force") == 0
    assert data.read_bytes() == first
    sheet.unlink()
    assert export("--cap", "1") == 2
    data.unlink()
    sheet.write_text('{"file": "of somebody else"}')
    assert export("--cap", "1") == 2
    assert "data.datasheet.json exists and is not" in export.said
    assert len(export.said.splitlines()) == 1
