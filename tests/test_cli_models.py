"""Models on the command line: run, stop at a budget, resume, replay, report; never a key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Served, by_hash

from s3gym.cli.main import main
from s3gym.cli.report import pricing
from s3gym.cli.run import recorded_config
from s3gym.records import Usage
from s3gym.report.records import ModelUsage
from s3gym.store import file

KEY = "sk-canary-90210-cli"
SMALL = (
    "--game=trust",
    "--memory=none",
    "--repeats=1",
    "--seed=7",
    "--set=schedule.exploration_episodes=1",
    "--set=schedule.evaluate_every=1",
    "--set=schedule.evaluation_episodes=1",
    "--set=schedule.max_steps=3",
)
N_CALLS = 9


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        yield running


@pytest.fixture(autouse=True)
def _place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    monkeypatch.chdir(tmp_path)


def s3gym(*arguments: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(arguments))
    code = caught.value.code
    assert isinstance(code, int)
    return code


def run(server: ModelServer, model: str, *more: str) -> int:
    return s3gym(
        "run",
        *SMALL,
        f"--agent=openai:{model}",
        f"--base-url={server.openai_url}",
        "--api-key-env=MY_KEY",
        "--store=a.db",
        *more,
    )


def by_prompt(body: dict[str, Any]) -> Served:
    return by_hash({"messages": body["messages"], "seed": body["seed"]})


def calls(store: str) -> list[tuple[Any, ...]]:
    db = file.open_reader(Path(store))
    try:
        return db.execute("SELECT place, step, request_hash, reply FROM calls").fetchall()
    finally:
        db.close()


def test_a_budget_stops_a_run_and_resume_pays_for_the_rest_alone(
    server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model = server.script(by_prompt)
    assert run(server, model, "--max-tokens=1000") == 3
    assert "max_tokens is used up" in capsys.readouterr().err
    paid = len(server.requests(model))
    assert 0 < paid < N_CALLS
    resumed = ("resume", "a.db", "--api-key-env=MY_KEY")
    assert s3gym(*resumed) == 3  # the cap is the run's until another one is given
    assert "s3gym resume a.db --max-tokens" in capsys.readouterr().err
    assert len(server.requests(model)) == paid
    assert s3gym(*resumed, "--max-tokens=100000") == 0
    assert len(server.requests(model)) == len(calls("a.db")) == N_CALLS
    assert s3gym("audit", "a.db") == 0


def test_a_price_of_ones_own_serves_resume_and_report(server: ModelServer) -> None:
    model = server.script(by_prompt)
    Path("study.toml").write_text(
        f'[budget.prices."{model}"]\ninput = 2.0\noutput = 8.0\n', encoding="utf-8"
    )
    assert run(server, model, "study.toml", "--max-usd=0.002") == 3
    assert s3gym("resume", "a.db", "--api-key-env=MY_KEY", "--max-usd=1") == 0
    assert s3gym("report", "a.db", "--json=a.json", "--quiet") == 0
    log = server.requests(model)
    paid = sum(2 * entry.input_tokens + 8 * entry.output_tokens for entry in log) / 1e6
    assert len(log) == N_CALLS
    cost = json.loads(Path("a.json").read_text())["costs"][0]
    assert cost["usd"] == pytest.approx(paid)


def test_the_limits_of_a_run_are_those_of_its_resume(server: ModelServer) -> None:
    model = server.script(by_prompt)
    more = ("--set=model.deadline_seconds=77", "--set=model.concurrency=3", "--rpm=60000")
    assert run(server, model, *more, "--max-tokens=1000") == 3
    held = recorded_config(Path("a.db"))["model"]
    assert {"deadline_seconds": 77, "concurrency": 3, "rpm": 60000}.items() <= held.items()


def test_a_store_replays_without_a_server_and_without_a_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = server.script(by_prompt)
    assert run(server, model, "--layout=cached") == 0
    asked = len(server.requests(model))
    monkeypatch.delenv("MY_KEY")
    again = (*SMALL, "--layout=cached", f"--agent=openai:{model}", "--replay=a.db")
    code = s3gym("run", *again, "--store=b.db")
    assert len(server.requests(model)) == asked
    assert code == 0
    assert calls("b.db") == calls("a.db")


def test_json_and_asking_again_work_from_the_command_line(server: ModelServer) -> None:
    def answer(body: dict[str, Any]) -> Served:
        if len(body["messages"]) == 2:
            return Served(text='{"action": "cheat"}')
        return Served(text='{"action": "cheat", "self_score": 3}')

    model = server.script(answer)
    assert run(server, model, "--contract=json", "--reask=1") == 0
    db = file.open_reader(Path("a.db"))
    statuses = dict(db.execute("SELECT status, count(*) FROM steps GROUP BY status").fetchall())
    db.close()
    assert statuses["repaired"] >= 3
    assert "response_format" in server.requests(model)[0].body


def test_a_refused_key_fails_the_study_with_the_providers_words_and_without_the_key(
    server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    denied = Served(status=401, message=f"no such key: {KEY}")
    model = server.script(lambda body: denied)
    assert run(server, model) == 3
    shown = capsys.readouterr()
    assert "no such key: [key]" in shown.err
    assert KEY not in shown.err + shown.out
    assert KEY.encode() not in Path("a.db").read_bytes()
    assert len(server.requests(model)) <= 2


def test_a_report_prices_a_provider_at_its_own_address_only(server: ModelServer) -> None:
    model = server.script(by_prompt)
    assert run(server, model) == 0
    assert s3gym("report", "a.db", "--json=a.json", "--quiet") == 0
    cost = json.loads(Path("a.json").read_text())["costs"][0]
    log = server.requests(model)
    assert cost["calls"] == len(log)
    assert cost["input_tokens"] == sum(entry.input_tokens for entry in log)
    assert cost["output_tokens"] == sum(entry.output_tokens for entry in log)
    assert cost["usd"] is None
    usage = ModelUsage("gpt-4o", f"openai:{model}", "act", Usage(calls=1, input_tokens=10))
    assert pricing((Path("a.db"),))(usage) is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--agent=openai:",), "expected a chat model such as"),
        (("--agent=openai:m", "--api-key-env=NOT_SET"), "variable NOT_SET, which is not set"),
        (("--agent=openai:m", "--base-url=http://u:p@h/v1"), "put the key into an environment"),
        (("--agent=local:none.gguf",), "expected a GGUF file"),
        (
            ("--agent=openai:m", "--base-url=http://h/v1", "--set=model.thinking_tokens=9"),
            "takes no setting 'thinking_tokens'",
        ),
        (
            ("--agent=anthropic:m", "--base-url=http://h", "--set=model.thinking_tokens=14000"),
            "model.thinking_tokens must be below schedule.reply_tokens",
        ),
        (
            ("--agent=openai:m", "--base-url=http://localhost:1/v1", "--max-usd=1"),
            "the price of 'openai:m' is not known",
        ),
    ],
)
def test_mistakes_are_found_before_anything_is_sent(
    more: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert s3gym("run", *SMALL, *more, "--store=a.db") == 2
    assert words in capsys.readouterr().err.replace("\n", " ")
    assert not Path("a.db").exists()


def test_the_doctor_reaches_a_server_and_asks_it_when_told_to(
    server: ModelServer, capsys: pytest.CaptureFixture[str]
) -> None:
    model = server.script([Served()])
    options = (f"--agent=openai:{model}", f"--base-url={server.openai_url}", "--api-key-env=MY_KEY")
    assert s3gym("doctor", *options) == 0
    assert f"{server.openai_url}: reachable" in capsys.readouterr().out
    assert not server.requests(model)
    assert s3gym("doctor", *options, "--live") == 0
    said = capsys.readouterr().out
    assert f"answered by {model}, 3 prompt and 4 new tokens" in said
    assert KEY not in said


def test_the_doctor_says_what_is_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert s3gym("doctor", "--agent=openai:m", "--base-url=http://127.0.0.1:9/v1") == 3
    assert "http://127.0.0.1:9/v1 cannot be reached" in capsys.readouterr().err
    assert s3gym("doctor", "--agent=openai:m", "--api-key-env=NOT_SET") == 2
    assert s3gym("doctor", "--live") == 2
