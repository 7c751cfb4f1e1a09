"""Updating weights on this machine: with a tiny model where the libraries are installed."""

import errno
import json
import os
import resource
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from tiny_model import make_tiny_model, needs_training_libraries

from s3gym.agents.hf_device import Placement, one_gpu, place
from s3gym.agents.hf_weights import find_weights, import_library
from s3gym.agents.train_trl import TRLTrainer, _row
from s3gym.agents.trl_worker import UNWRITABLE, encoded, failure, padded
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ServiceError
from s3gym.records import Message

EXAMPLES = [
    Example(
        messages=(Message("system", "Play."), Message("user", f"Round {step}?")),
        answer=f"Answer: {('cheat', 'collaborate')[step % 2]}, Score: {step % 2 + 2}",
        episode="trust/a/training/r0/x001",
        step=step,
    )
    for step in range(4)
]


def torch_with(*, gpus: int = 0, bf16: bool = False, mps: bool = False) -> Any:
    """Return what a device is chosen by, of a machine that is not this one."""
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: gpus > 0,
            device_count=lambda: gpus,
            is_bf16_supported=lambda: bf16,
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: mps)),
    )


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_training_libraries()
    return make_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def anyio_backend() -> str:
    """An update takes long, and the seam below is the same on both: one will do."""
    return "asyncio"


def fake_model(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "chat_template.jinja").write_text("x")
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("device", "machine", "expected"),
    [
        ("auto", torch_with(), Placement("cpu", "float32")),
        ("auto", torch_with(gpus=1, bf16=True), Placement("cuda", "bfloat16")),
        ("auto", torch_with(gpus=1), Placement("cuda", "float32")),
        ("auto", torch_with(mps=True), Placement("mps", "float32")),
        ("cpu", torch_with(gpus=1, bf16=True), Placement("cpu", "float32")),
        ("cuda:1", torch_with(gpus=2, bf16=True), Placement("cuda:1", "bfloat16")),
    ],
)
def test_the_device_is_the_best_there_is(device: str, machine: Any, expected: Placement) -> None:
    assert place(device, machine) == expected


@pytest.mark.parametrize(
    ("device", "complaint"),
    [
        ("cuda", "torch finds no CUDA GPU here"),
        ("mps", "torch finds no Apple GPU here"),
        ("gpu", "expected device 'auto', 'cpu', 'cuda', 'mps' or 'cuda:NUMBER', got 'gpu'"),
        ("cpu:1", "got 'cpu:1'"),
    ],
)
def test_a_device_that_is_not_there_is_an_error(device: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        place(device, torch_with())
    with pytest.raises(ConfigError, match="finds 1 CUDA GPUs"):
        place("cuda:1", torch_with(gpus=1))


@pytest.mark.parametrize(
    ("device", "visible", "expected"),
    [
        ("auto", None, ("auto", "0")),
        ("cuda:1", None, ("cuda", "1")),
        ("cuda:1", "4, 7", ("cuda", "7")),
        ("cuda", "4,7", ("cuda", "4")),
        ("auto", "", ("auto", "")),
        ("cpu", None, ("cpu", "0")),
    ],
)
def test_an_update_sees_one_gpu(
    device: str, visible: str | None, expected: tuple[str, str]
) -> None:
    assert one_gpu(device, visible) == expected
    with pytest.raises(ConfigError, match="CUDA_VISIBLE_DEVICES shows 2 GPUs"):
        one_gpu("cuda:2", "4,7")


def test_the_name_holds_what_changes_the_weights(tmp_path: Path) -> None:
    base = fake_model(tmp_path / "m")
    assert TRLTrainer(f"hf:{base}").name == "trl lora rank=8 alpha=16 lr=0.0002 epochs=1 batch=4"
    full = TRLTrainer(base, method="full", batch=2, steps=9, template={"enable_thinking": False})
    assert full.name == "trl full lr=2e-05 epochs=1 batch=8 steps=9 enable_thinking=False"
    assert TRLTrainer(base, device="cpu", threads=2).name == TRLTrainer(base).name


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"device": 5}, "expected device 'auto', .* got 5"),
        ({"threads": "x"}, "expected threads of at least 1, got 'x'"),
        ({"threads": 1.5}, "expected threads of at least 1, got 1.5"),
        ({"template": 5}, "trainer trl: template: expected a table, got 5"),
        ({"chat": 5}, "trainer trl: chat: expected a table, got 5"),
    ],
)
def test_a_study_file_may_hold_any_value(tmp_path: Path, given: Any, says: str) -> None:
    base = fake_model(tmp_path / "m")
    with pytest.raises(ConfigError, match=says):
        TRLTrainer(base, **given)


def test_wrong_settings_are_named(tmp_path: Path) -> None:
    base = fake_model(tmp_path / "m")
    with pytest.raises(ConfigError, match=r"trainer trl: there is no setting 'ranks'; there are"):
        TRLTrainer(base, ranks=3)
    with pytest.raises(ConfigError, match=r"rank: .*greater than or equal to 1, got 0"):
        TRLTrainer(base, rank=0)
    with pytest.raises(ConfigError, match="none at '/nowhere'"):
        TRLTrainer("hf:/nowhere")
    with pytest.raises(ConfigError, match=r"chat: .*'heat'"):
        TRLTrainer(base, chat={"heat": 1}).chat(ModelRef(location=str(base), hash="0" * 64))
    (base / "chat_template.jinja").unlink()
    with pytest.raises(ConfigError, match="no chat template"):
        TRLTrainer(base)


@pytest.mark.parametrize("told", ["", "{", "[]", None])
def test_a_worker_that_could_not_write_its_reason_pauses(tmp_path: Path, told: str | None) -> None:
    trainer = TRLTrainer(fake_model(tmp_path / "m"))
    (tmp_path / "output.txt").write_text("last words")
    if told is not None:
        (tmp_path / "error.json").write_text(told)
    for code, says in ((UNWRITABLE, "the disk is full"), (1, "ended with exit code 1: last words")):
        error = trainer._failure(tmp_path, code)
        assert isinstance(error, ServiceError)
        assert says in str(error)


def test_an_adapter_is_never_a_pickle_beside_some_other_file(tmp_path: Path) -> None:
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text("{}")
    (adapter / "other.safetensors").write_bytes(b"x")
    (adapter / "adapter_model.bin").write_bytes(b"a pickle")
    with pytest.raises(ConfigError, match=r"adapter_model\.safetensors.*is a pickle"):
        find_weights(adapter, model=fake_model(tmp_path / "m"))


def test_weights_are_named_by_their_hash(tmp_path: Path) -> None:
    base = fake_model(tmp_path / "m")
    trainer = TRLTrainer(base)
    before = trainer.fingerprint(str(base))
    assert before == TRLTrainer(fake_model(tmp_path / "copy")).fingerprint(str(tmp_path / "copy"))
    (base / "model.safetensors").write_bytes(b"Weights")
    assert trainer.fingerprint(str(base)) != before


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "the disk is full"),
        (RuntimeError("IoError(Os { code: 28, message: No space left on device })"), "the disk is"),
        (MemoryError(), "out of memory; lower 'batch'"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "out of memory; lower 'batch'"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you"), "out of memory"),
        (ValueError("bad\nworse"), "training failed: ValueError: bad$"),
    ],
)
def test_each_failure_of_training_is_one_clear_error(error: Exception, said: str) -> None:
    with pytest.raises(ServiceError, match=said):
        raise failure(error)


async def update(trainer: TRLTrainer, folder: Path, examples: list[Example]) -> ModelRef:
    return await trainer.update(examples, await trainer.base(), folder=folder, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
async def test_an_update_gives_weights_that_play_and_repeats_itself(
    model: Path, tmp_path: Path, method: str
) -> None:
    trainer = TRLTrainer(model, method=method, epochs=2, learning_rate=1e-3, device="cpu")
    base = await trainer.base()
    untouched = files(model)
    first = await update(trainer, tmp_path / "a", EXAMPLES)
    assert first.hash == trainer.fingerprint(first.location) != base.hash
    if method == "lora":
        again = await update(trainer, tmp_path / "b", EXAMPLES)
        assert (first.hash, first.log) == (again.hash, again.log)
    assert (first.log["steps"], first.log["examples"], len(first.log["losses"])) == (2, 4, 2)
    assert first.log["losses"][1] < first.log["losses"][0]
    assert first.log["tokens"] > first.log["answer_tokens"] > 2 * 4 * 5
    assert first.machine["peak_mb"] > 100
    assert first.machine["seconds"] > 0
    assert files(model) == untouched
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["weights"]
    assert not [name for name in files(tmp_path / "a") if name.endswith((".bin", ".pt", ".pkl"))]
    chat = trainer.chat(first)
    reply = await chat.complete(EXAMPLES[0].messages, max_tokens=5, seed=1)
    assert reply.usage.output_tokens >= 1
    further = await trainer.update(EXAMPLES, first, folder=tmp_path / "c", seed=4)
    assert further.hash != first.hash
    assert further.log["losses"][0] < first.log["losses"][0]
    await chat.aclose()


@pytest.mark.slow
async def test_a_finished_update_is_found_and_a_half_finished_one_is_no_obstacle(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = TRLTrainer(model, steps=1, device="cpu")
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "adapter_model.safetensors").write_bytes(b"half")
    (tmp_path / "try-1").mkdir()
    made = await update(trainer, tmp_path, EXAMPLES)
    monkeypatch.setattr(sys, "executable", "/nowhere")  # nothing is started from here on
    assert await update(trainer, tmp_path, EXAMPLES) == made
    with pytest.raises(ServiceError, match="No such file"):
        await update(trainer, tmp_path, EXAMPLES[:2])


@pytest.mark.slow
async def test_a_heavier_example_pulls_harder(model: Path, tmp_path: Path) -> None:
    trainer = TRLTrainer(model, steps=1, learning_rate=1e-2, device="cpu")
    light = await update(trainer, tmp_path / "light", EXAMPLES)
    heavy = [replace(EXAMPLES[0], weight=5.0), *EXAMPLES[1:]]
    assert (await update(trainer, tmp_path / "heavy", heavy)).hash != light.hash


def as_tokens(
    model: Path, examples: list[Example], max_length: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    transformers = import_library("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(model)
    order: dict[str, Any] = {"template": {}, "max_length": max_length}
    return encoded(tokenizer, [_row(example) for example in examples], order, 4096)


@pytest.mark.slow
def test_weights_of_examples_are_relative(model: Path) -> None:
    heavy = [replace(example, weight=7.0 if example.step else 1.0) for example in EXAMPLES]
    rows, _ = as_tokens(model, heavy)
    assert [row["weight"] for row in rows] == [1 / 5.5, *[7 / 5.5] * 3]
    same, _ = as_tokens(model, [replace(example, weight=9.0) for example in EXAMPLES])
    assert [row["weight"] for row in same] == [1.0] * 4


@pytest.mark.slow
def test_the_answer_alone_is_learned_as_the_model_would_write_it(model: Path) -> None:
    tokenizer = import_library("transformers").AutoTokenizer.from_pretrained(model)
    rows, _ = as_tokens(model, EXAMPLES[:1])
    learned = [label for label in rows[0]["labels"] if label >= 0]
    assert tokenizer.decode(learned) == "Answer: cheat, Score: 2<|im_end|>"
    prompt = rows[0]["input_ids"][: -len(learned)]
    chat = [{"role": "system", "content": "Play."}, {"role": "user", "content": "Round 0?"}]
    asked = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert prompt == tokenizer(asked, add_special_tokens=False)["input_ids"]


@pytest.mark.slow
def test_examples_beyond_the_longest_are_left_out(model: Path) -> None:
    long = replace(EXAMPLES[0], messages=(Message("user", "word " * 300),))
    rows, too_long = as_tokens(model, [long, *EXAMPLES], 256)
    assert (len(rows), too_long) == (4, 1)
    with pytest.raises(ConfigError, match="all 1 examples are longer than 256 tokens"):
        as_tokens(model, [long], 256)


@pytest.mark.slow
def test_a_batch_lies_at_the_right_end_and_needs_a_mask_only_for_gaps(model: Path) -> None:
    torch = import_library("torch")
    rows, _ = as_tokens(
        model, [EXAMPLES[0], replace(EXAMPLES[1], messages=(Message("user", "x"),))]
    )
    made = padded(torch, rows, 0)
    assert made["input_ids"][:, -1].tolist() == made["labels"][:, -1].tolist()
    gaps = (made["attention_mask"] == 0).sum(1).tolist()
    assert sorted(gaps)[0] == 0 < sorted(gaps)[1]
    assert "attention_mask" not in padded(torch, rows[:1], 0)


def worker_of(folder: Path) -> int:
    """Return the process id of the worker that writes into a folder; 0 when there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode().split("\0")
        except OSError:
            continue
        if "s3gym.agents.trl_worker" in words and words[-2].startswith(str(folder)):
            return int(process.name)
    return 0


async def started(folder: Path) -> int:
    with anyio.fail_after(60):
        while not worker_of(folder):
            await anyio.sleep(0.02)
    return worker_of(folder)


async def gone(folder: Path) -> None:
    with anyio.fail_after(20):
        while worker_of(folder):
            await anyio.sleep(0.02)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes as Linux does, issue 7")
async def test_a_killed_worker_is_a_clear_error_and_leaves_no_weights(
    model: Path, tmp_path: Path
) -> None:
    async def kill() -> None:
        os.kill(await started(tmp_path), signal.SIGKILL)

    async with anyio.create_task_group() as group:
        group.start_soon(kill)
        with pytest.raises(ServiceError, match=r"because memory ran out.*stay as they are"):
            await update(TRLTrainer(model, device="cpu"), tmp_path, EXAMPLES)
    assert not (tmp_path / "weights").exists()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes as Linux does, issue 7")
async def test_a_cancelled_update_ends_its_worker(model: Path, tmp_path: Path) -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(update, TRLTrainer(model, device="cpu"), tmp_path, EXAMPLES)
        await started(tmp_path)
        group.cancel_scope.cancel()
    await gone(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["lora", "full"])
async def test_an_update_that_diverges_gives_no_weights(
    model: Path, tmp_path: Path, method: str
) -> None:
    wild = TRLTrainer(model, method=method, learning_rate=1e38, accumulate=1, device="cpu")
    with pytest.raises(ConfigError, match=r"the update diverged: .*lower 'learning_rate'"):
        await update(wild, tmp_path, EXAMPLES)
    assert not (tmp_path / "weights").exists()


ORPHANED = """
import anyio, sys
from pathlib import Path
from test_train_trl import EXAMPLES, update
from s3gym.agents.train_trl import TRLTrainer

anyio.run(update, TRLTrainer(sys.argv[1], epochs=1000, device="cpu"), Path(sys.argv[2]), EXAMPLES)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes as Linux does, issue 7")
async def test_a_killed_run_takes_its_worker_along(model: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-c", ORPHANED, str(model), str(tmp_path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    async with await anyio.open_process(words, env=environment) as process:
        await started(tmp_path)
        process.kill()
    await gone(tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(resource, "prlimit"), reason="limits a process as Linux does, issue 7"
)
@pytest.mark.parametrize("size", [50_000, 0])
async def test_a_full_disk_is_a_clear_error(model: Path, tmp_path: Path, size: int) -> None:
    async def limit() -> None:
        """No file of the worker can grow beyond a size; ours can, for one may hold this output."""
        worker = await started(tmp_path)
        resource.prlimit(worker, resource.RLIMIT_FSIZE, (size, size))

    async with anyio.create_task_group() as group:
        group.start_soon(limit)
        with pytest.raises(ServiceError, match=r"the disk is full.*stay as they are"):
            await update(TRLTrainer(model, steps=1, device="cpu"), tmp_path, EXAMPLES)
    assert not (tmp_path / "weights").exists()


@pytest.mark.slow
async def test_an_answer_that_the_tokenizer_breaks_is_named(model: Path, tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    for path in model.iterdir():
        (base / path.name).write_bytes(path.read_bytes())
    tokenizer = json.loads((base / "tokenizer.json").read_text())
    tokenizer["normalizer"] = {"type": "Lowercase"}
    (base / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(ConfigError, match="the tokenizer breaks the response contract: the answer"):
        await update(TRLTrainer(base, device="cpu"), tmp_path / "u", EXAMPLES)
