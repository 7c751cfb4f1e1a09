"""The adapters against the real packages, in an environment of their own where that is needed."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from workshop import open_workshop

from s3gym.memory._embedders import HashingEmbedder, WordllamaEmbedder, unit_vectors
from s3gym.memory.adapters import langgraph_memory, mem0_memory
from s3gym.testing.episodes import make_cue, make_episode


def needs(package: str) -> pytest.MarkDecorator:
    missing = find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed; issue 4")


pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Embeddings:
    """Gives mem0 our own embedder: no network."""

    class config:
        embedding_dims = 64

    def embed(self, text: str, *args: Any, **options: Any) -> list[float]:
        return [float(value) for value in HashingEmbedder(64).embed_now([text])[0]]

    def embed_batch(self, texts: list[str], *args: Any, **options: Any) -> list[list[float]]:
        return [self.embed(text) for text in texts]


@needs("langgraph")
async def test_a_real_langgraph_store_gives_back_what_it_was_given() -> None:
    from langgraph.store.memory import InMemoryStore

    async def embed(texts: list[str]) -> list[list[float]]:
        return [[float(value) for value in row] for row in HashingEmbedder(64).embed_now(texts)]

    store = InMemoryStore(index={"dims": 64, "embed": embed, "fields": ["text"]})
    memory = langgraph_memory(store, k=1)
    assert (await memory.recall(make_cue())).text == ""
    for ordinal in (1, 2):
        await memory.record(make_episode(ordinal))
    found = await memory.recall(make_cue("Env: episode 2, board 0"))
    assert found.sources == ("toy/agent/memory/r0/x002",)
    assert found.text.startswith("- Env: episode 2, board 0")


@needs("mem0")
async def test_a_real_mem0_gives_back_what_it_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEM0_DIR", str(tmp_path))
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("OPENAI_API_KEY", "unused")
    from mem0 import AsyncMemory

    client = AsyncMemory.from_config(
        {
            "vector_store": {
                "provider": "qdrant",
                "config": {
                    "path": str(tmp_path / "qdrant"),
                    "embedding_model_dims": 64,
                    "collection_name": "s3gym",
                },
            },
            "history_db_path": str(tmp_path / "history.db"),
        }
    )
    client.embedding_model = Embeddings()
    memory = mem0_memory(client, k=1, infer=False)
    assert (await memory.recall(make_cue())).text == ""
    for ordinal in (1, 2):
        await memory.record(make_episode(ordinal))
    found = await memory.recall(make_cue("Env: episode 2, board 0"))
    assert found.sources == ("toy/agent/memory/r0/x002",)
    assert "episode 2" in found.text


@pytest.mark.parametrize(
    ("packages", "test"),
    [
        ("mem0ai", test_a_real_mem0_gives_back_what_it_was_given),
        ("langgraph", test_a_real_langgraph_store_gives_back_what_it_was_given),
    ],
)
def test_an_adapter_keeps_its_contract_with_the_package_of_today(
    tmp_path: Path, packages: str, test: Any
) -> None:
    with open_workshop(tmp_path, []) as workshop:
        said = workshop.tested(packages, "-m", "slow", f"{__file__}::{test.__name__}")
    assert "1 passed" in said


@needs("wordllama")
async def test_wordllama_loads_offline_and_brings_paraphrases_together() -> None:
    texts = ["keep away from the walls", "do not go near walls", "cheat in the first round"]
    vectors = await unit_vectors(WordllamaEmbedder(), texts)
    assert vectors.shape == (3, 256)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]
