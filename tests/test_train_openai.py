"""Fine-tuning by a provider, against a real server on loopback: nothing is paid for twice."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from finetune_server import FineTuneServer, fails, is_cancelled, succeeds

from s3gym.agents.model import ModelAgent
from s3gym.agents.openai_chat import OpenAIChat
from s3gym.agents.train_openai import OpenAIFineTune, Progress
from s3gym.api import Study
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ModelError, ServiceError
from s3gym.records import Message
from s3gym.schedule import Schedule
from s3gym.sft import SFTPolicy
from s3gym.training import Training

FILES, JOBS = "/v1/files", "/v1/fine_tuning/jobs"
EXAMPLES = [
    Example(
        messages=(Message("system", "Play."), Message("user", f"Round {step}?")),
        answer="Answer: cheat, Score: 3",
        episode="trust/a/training/r0/x001",
        step=step,
    )
    for step in range(3)
]


@pytest.fixture
def server() -> Iterator[FineTuneServer]:
    with FineTuneServer().running() as running:
        yield running


def trainer(server: FineTuneServer, **more: object) -> OpenAIFineTune:
    settings: dict[str, object] = {"base_url": server.url, "poll_seconds": 0.01} | more
    return OpenAIFineTune("small-1", **settings)  # type: ignore[arg-type]  # any mix of settings


async def updated(made: OpenAIFineTune, folder: Path, examples: list[Example]) -> ModelRef:
    try:
        return await made.update(examples, await made.base(), folder=folder, seed=7)
    finally:
        await made.aclose()


async def test_an_update_uploads_a_file_creates_a_job_and_names_its_model(
    server: FineTuneServer, tmp_path: Path
) -> None:
    made = trainer(server, epochs=2, arguments={"metadata": {"a": "b"}})
    ref = await updated(made, tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-1"
    assert ref.hash == made.fingerprint(ref.location)
    assert ref.log == {"losses": [1.0, 0.5, 1 / 3], "job": "ftjob-1", "tokens": 123}
    assert ref.machine == {"seconds": 60.0}
    asked = server.jobs["ftjob-1"]["asked"]
    assert asked["method"]["supervised"]["hyperparameters"] == {"n_epochs": 2}
    assert (asked["training_file"], asked["seed"], asked["metadata"]) == ("file-1", 7, {"a": "b"})
    chat = made.chat(ref)
    reply = await chat.complete([Message("user", "move?")], max_tokens=9)
    await chat.aclose()
    assert reply.model == ref.location


async def test_the_data_file_is_in_the_providers_chat_format(
    server: FineTuneServer, tmp_path: Path
) -> None:
    await updated(trainer(server), tmp_path, EXAMPLES)
    content = server.contents["file-1"]
    assert content == (tmp_path / "examples.jsonl").read_bytes()
    lines = [json.loads(line) for line in content.splitlines()]
    assert len(lines) == len(EXAMPLES)
    for line in lines:
        assert set(line) == {"messages"}
        assert [set(message) for message in line["messages"]] == [{"role", "content"}] * 3
        assert line["messages"][-1] == {
            "role": "assistant",
            "content": "Answer: cheat, Score: 3",
        }


async def test_weights_that_the_format_cannot_hold_are_refused(
    server: FineTuneServer, tmp_path: Path
) -> None:
    heavy = [replace(EXAMPLES[0], weight=2.0)]
    with pytest.raises(ConfigError, match=r"step 0 of trust.* the weight 2.*weights = 'uniform"):
        await updated(trainer(server), tmp_path, heavy)
    assert not server.asked


@pytest.mark.parametrize("path", [FILES, JOBS])
async def test_a_request_that_arrived_before_the_run_died_is_found_again(
    server: FineTuneServer, tmp_path: Path, path: str
) -> None:
    server.hang.add(path)
    for other in range(5):  # what is looked for stands on a later page
        server.files[f"old-{other}"] = _old_file(f"old-{other}")
    with anyio.move_on_after(5) as scope:
        async with anyio.create_task_group() as group:
            group.start_soon(updated, trainer(server), tmp_path, EXAMPLES)
            with anyio.fail_after(5):
                while path not in server.asked:
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
    assert not scope.cancelled_caught
    ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-1"
    assert server.asked.count(FILES) == server.asked.count(JOBS) == 1


def _old_file(name: str) -> dict[str, object]:
    return {
        "id": name,
        "object": "file",
        "bytes": 1,
        "created_at": 1,
        "filename": f"{name}.jsonl",
        "purpose": "fine-tune",
        "status": "processed",
    }


async def test_a_finished_update_is_asked_for_again_without_a_new_job(
    server: FineTuneServer, tmp_path: Path
) -> None:
    first = await updated(trainer(server), tmp_path, EXAMPLES)
    again = await updated(trainer(server), tmp_path, EXAMPLES)
    assert first == again
    assert len(server.jobs) == len(server.files) == 1


async def test_other_examples_are_another_update(server: FineTuneServer, tmp_path: Path) -> None:
    await updated(trainer(server), tmp_path, EXAMPLES)
    await updated(trainer(server), tmp_path, EXAMPLES[:2])
    assert len(server.jobs) == len(server.files) == 2


@pytest.mark.parametrize("ending", [fails, is_cancelled])
async def test_a_job_that_does_not_succeed_is_an_error_and_a_resume_asks_for_a_new_one(
    server: FineTuneServer, tmp_path: Path, ending: object
) -> None:
    server.ending = fails if ending is fails else is_cancelled
    said = "failed: the file is too small" if ending is fails else "was cancelled: no reason given"
    with pytest.raises(ServiceError, match=f"the fine-tuning job ftjob-1 {said}"):
        await updated(trainer(server), tmp_path, EXAMPLES)
    server.ending = succeeds
    ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-2"
    assert len(server.files) == 1


async def test_a_job_that_takes_too_long_is_waited_for_again(
    server: FineTuneServer, tmp_path: Path
) -> None:
    def stays(job: dict[str, object]) -> None:
        job["status"] = "running"

    server.ending = stays
    with pytest.raises(ServiceError, match=r"still 'running' after .* it goes on"):
        await updated(trainer(server, hours=0.05 / 3600), tmp_path, EXAMPLES)
    server.ending = succeeds
    assert (await updated(trainer(server), tmp_path, EXAMPLES)).location == "ft:small-1:ftjob-1"


@pytest.mark.parametrize("path", [FILES, JOBS])
async def test_a_failure_that_passes_is_tried_again(
    server: FineTuneServer, tmp_path: Path, path: str
) -> None:
    server.faults[path] = [503, 429]
    await updated(trainer(server), tmp_path, EXAMPLES)
    assert len(server.jobs) == len(server.files) == 1
    assert server.asked.count(path) == 3


async def test_a_refusal_for_good_names_the_reason(server: FineTuneServer, tmp_path: Path) -> None:
    server.faults[JOBS] = [400]
    with pytest.raises(ModelError, match="answered 400: scripted") as caught:
        await updated(trainer(server), tmp_path, EXAMPLES)
    assert not caught.value.retryable
    ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-1"


GARBAGE = [b"", b"null", b"[]", b"{}", b'"x"', b"<html>", b'{"id":', b"\xff", b"[" * 9_999]
GARBAGE += [b'{"id": null}', b'{"id": 5}', b'{"id": "../../files/x?y"}', b'{"id": "sk-secret-key"}']


@pytest.mark.parametrize("answer", ["file", "created", "job"])
async def test_an_answer_that_is_none_pauses_and_nothing_is_paid_for_twice(
    server: FineTuneServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-secret-key")
    made = trainer(server, api_key_env="MY_KEY", poll_seconds=0.001)
    listed = {"file": "files", "created": "jobs", "job": "job"}[answer]
    try:
        for body in GARBAGE:
            server.says = {answer: body, listed: body}
            with pytest.raises(ServiceError, match="answered 200, but with no ") as caught:
                await made.update(EXAMPLES, await made.base(), folder=tmp_path, seed=7)
            assert "sk-secret-key" not in str(caught.value)
    finally:
        await made.aclose()
    assert "sk-secret-key" not in (tmp_path / "openai.json").read_text()
    server.says = {}
    ref = await updated(made, tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-1"
    assert len(server.files) == len(server.jobs) == 1


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"fine_tuned_model": None}, "succeeded, but names no model"),
        ({"fine_tuned_model": ""}, "with no fine-tuning job: fine_tuned_model"),
        ({"fine_tuned_model": "small-1"}, "names the model that it started from"),
        ({"fine_tuned_model": "a\x1b[31m"}, "with no fine-tuning job: fine_tuned_model"),
        ({"fine_tuned_model": "./../x"}, "with no fine-tuning job: fine_tuned_model"),
        ({"fine_tuned_model": "x" * 10_000_000}, "with no fine-tuning job: fine_tuned_model"),
        ({"id": "ftjob-9"}, "the job 'ftjob-9' in place of 'ftjob-1'"),
        ({"status": "failed", "error": 5}, "failed: no reason given"),
        ({"status": "odd"}, "is still 'odd' after"),
    ],
)
async def test_a_server_that_lies_about_a_job_pauses_the_update(
    server: FineTuneServer, tmp_path: Path, lie: dict[str, object], said: str
) -> None:
    server.changes = lie
    with pytest.raises(ServiceError) as caught:
        await updated(trainer(server, hours=0.02 / 3600, poll_seconds=0.001), tmp_path, EXAMPLES)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    "lie",
    [
        {"trained_tokens": "many", "finished_at": "now"},
        {"trained_tokens": -5, "finished_at": -5},
        {"trained_tokens": 10**400, "finished_at": 10**400},
        {"trained_tokens": 1.5, "created_at": 10**11, "finished_at": 5},
    ],
)
async def test_numbers_that_tell_nothing_spoil_no_update(
    server: FineTuneServer, tmp_path: Path, lie: dict[str, object]
) -> None:
    server.changes = lie
    ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert "tokens" not in ref.log
    assert not ref.machine


EVENT = '{"id": "e1", "data": {"step": %s, "train_loss": %s}}'


@pytest.mark.parametrize(
    ("events", "losses"),
    [
        (EVENT % (1, "NaN"), []),
        (EVENT % (1, "1e999"), []),
        (EVENT % (1, f"1{'0' * 400}"), []),
        (EVENT % ("1e999", 1), []),
        (f'5, null, {EVENT % (1, 0.5)}, {{"id": "f", "data": 7}}', [0.5]),
    ],
)
async def test_losses_are_numbers_or_left_out(
    server: FineTuneServer, tmp_path: Path, events: str, losses: list[float]
) -> None:
    server.says["events"] = f'{{"data": [{events}], "has_more": false}}'.encode()
    ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert ref.log["losses"] == losses


async def test_a_list_that_says_for_ever_that_there_is_more_comes_to_an_end(
    server: FineTuneServer, tmp_path: Path
) -> None:
    server.says["events"] = f'{{"data": [{EVENT % (1, 0.5)}], "has_more": true}}'.encode()
    with anyio.fail_after(20):
        ref = await updated(trainer(server), tmp_path, EXAMPLES)
    assert ref.log["losses"] == [0.5, 0.5]


async def test_a_missing_key_is_found_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_API_KEY"):
        await OpenAIFineTune("openai:gpt-small").base()


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"hours": "x"}, "expected hours above 0, got 'x'"),
        ({"timeout": "x"}, "expected timeout above 0, got 'x'"),
        ({"base_url": 5}, "expected a base URL such as"),
        ({"api_key_env": 5}, "expected the name of an environment variable"),
        ({"arguments": 5}, "arguments: expected a table, got 5"),
        ({"chat": "x"}, "chat: expected a table, got 'x'"),
    ],
)
def test_a_study_file_may_hold_any_value(given: Any, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        OpenAIFineTune("m", **given)


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected n_epochs above 0, got 0"):
        OpenAIFineTune("m", epochs=0)
    with pytest.raises(ConfigError, match=r"chat: .*'heat'"):
        OpenAIFineTune("m", chat={"heat": 1})
    with pytest.raises(ConfigError, match="expected the id of a model, got 'openai:'"):
        OpenAIFineTune("openai:")


async def test_a_torn_state_file_is_no_obstacle(server: FineTuneServer, tmp_path: Path) -> None:
    (tmp_path / "openai.json").write_text('{"update": "x", "fi')
    assert (await updated(trainer(server), tmp_path, EXAMPLES)).location
    assert Progress(**json.loads((tmp_path / "openai.json").read_text())).job == "ftjob-1"


KILLED = """
import anyio, sys
from pathlib import Path
from test_train_openai import EXAMPLES, updated
from s3gym.agents.train_openai import OpenAIFineTune

made = OpenAIFineTune("small-1", base_url=sys.argv[1], poll_seconds=0.01)
anyio.run(updated, made, Path(sys.argv[2]), EXAMPLES)
"""


@pytest.mark.slow
@pytest.mark.parametrize("path", [FILES, JOBS])
def test_a_killed_process_loses_nothing_that_was_paid_for(
    server: FineTuneServer, tmp_path: Path, path: str
) -> None:
    server.hang.add(path)
    words = [sys.executable, "-c", KILLED, server.url, str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    with subprocess.Popen(words, env=environment) as process:

        async def asked() -> None:
            with anyio.fail_after(60):
                while path not in server.asked:
                    await anyio.sleep(0.02)

        anyio.run(asked)
        process.send_signal(signal.SIGKILL)
    ref = anyio.run(updated, trainer(server), tmp_path, EXAMPLES)
    assert ref.location == "ft:small-1:ftjob-1"
    assert server.asked.count(FILES) == server.asked.count(JOBS) == 1


async def test_a_study_trains_by_a_provider_and_is_audited(
    server: FineTuneServer, tmp_path: Path
) -> None:
    schedule = Schedule(
        exploration_episodes=2, evaluate_every=1, evaluation_episodes=1, max_steps=2
    )
    store = tmp_path / "a.db"
    result = await Study(
        game="trust",
        agent=ModelAgent(OpenAIChat("small-1", base_url=server.url), layout="cached"),
        training=Training(trainer=trainer(server), policy=SFTPolicy(min_score=1)),
        schedule=schedule,
        repeats=1,
        seed=3,
        store=store,
    ).run()
    assert not result.outcome.failed
    assert [checkpoint for checkpoint, _ in result.curve] == [0, 1, 2]
    assert [job["asked"]["model"] for job in server.jobs.values()] == [
        "small-1",
        "ft:small-1:ftjob-1",
    ]
    lines = [json.loads(line) for line in server.contents["file-1"].splitlines()]
    earlier = [one for line in lines for one in line["messages"][:-1] if one["role"] != "user"]
    assert {one.get("weight") for one in earlier if one["role"] == "assistant"} == {0}
    findings = audit_store(store, find_game).findings
    assert not [finding for finding in findings if finding.level == "fail"]
