"""Embedders: from texts to unit vectors.

``HashingEmbedder`` is the default: numpy alone, deterministic, made for boards.
``WordllamaEmbedder`` (extra ``embed``) reads prose better; ``OpenAIEmbedder`` asks any server with
an OpenAI-compatible embeddings endpoint. Heavy packages are imported when they are first used.
"""

import json
import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from s3gym import calls
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError, MemoryFailure, MissingExtraError, ModelError
from s3gym.records import Message, Usage
from s3gym.text import shorten

Vectors = NDArray[np.float32]
MAX_CHARACTERS = 40_000
MAX_API_CHARACTERS = 16_000
BATCH = 64
GRAMS = (3, 4, 5)
KINDS = 4096
NEWLINE, LAST_BLANK = 10, 32


class Embedder(Protocol):
    """Turns texts into vectors.

    Attributes:
        name: Names model and settings, for records.
    """

    @property
    def name(self) -> str:
        """Short name for records."""
        ...

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text: shape (number of texts, dimensions), the same every time.

        Raises:
            ModelError: A server failed.
        """
        ...


async def unit_vectors(embedder: Embedder, texts: Sequence[str], dimensions: int = 0) -> Vectors:
    """Return checked vectors of length 1, or 0 where the embedder gave a zero vector.

    Args:
        embedder: Asked once.
        texts: At least one.
        dimensions: What earlier vectors had; 0 accepts any.

    Raises:
        MemoryFailure: The vectors have a wrong shape or hold NaN or infinity.
    """
    given = await embedder.embed(texts)
    try:
        found = np.asarray(given, dtype=np.float64)  # a square of float32 overflows at 2e19
    except (TypeError, ValueError) as error:
        raise MemoryFailure(
            f"embedder {embedder.name!r}: expected vectors, got {shorten(given)}"
        ) from error
    expected = f"({len(texts)}, {dimensions or 'dimensions'})"
    if found.ndim != 2 or found.shape[0] != len(texts) or found.shape[1] < 1:
        raise MemoryFailure(
            f"embedder {embedder.name!r}: expected vectors of shape {expected}, got {found.shape}"
        )
    if dimensions and found.shape[1] != dimensions:
        raise MemoryFailure(
            f"embedder {embedder.name!r}: expected vectors of shape {expected}, got {found.shape}"
        )
    if not np.isfinite(found).all():
        bad = int((~np.isfinite(found)).any(axis=1).sum())
        raise MemoryFailure(f"embedder {embedder.name!r}: {bad} vectors hold NaN or infinity")
    found = found / np.maximum(np.abs(found).max(axis=1, keepdims=True), 1e-300)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found / np.where(lengths > 0, lengths, 1), dtype=np.float32)


def _mixed(values: NDArray[np.uint64], salt: int) -> NDArray[np.uint64]:
    """Scramble 64-bit values (the finaliser of splitmix64)."""
    mixed = values + np.uint64(salt * 0x9E3779B97F4A7C15 % 2**64)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


class HashingEmbedder:
    """Hashed features: character 3- to 5-grams, and (row, column, character) cells.

    Cells make two boards that differ in one place near neighbours; n-grams find what moved.
    Rare characters of a text weigh more than its background. Both parts have length 1 before
    they are added. Texts longer than 40,000 characters count by their first and last half.

    Args:
        dimensions: Length of a vector, at least 16.

    Raises:
        ConfigError: ``dimensions`` is too small.
    """

    def __init__(self, dimensions: int = 512) -> None:
        if not isinstance(dimensions, int) or dimensions < 16:
            raise ConfigError(f"expected dimensions of at least 16, got {dimensions!r}")
        self.dimensions = dimensions
        self.name = f"hashing-{dimensions}"

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text; a text without visible characters gets zeros."""
        return self.embed_now(texts)

    def embed_now(self, texts: Sequence[str]) -> Vectors:
        """Do what ``embed`` does, without waiting."""
        return np.stack([self._one(text) for text in texts])

    def _one(self, text: str) -> Vectors:
        if len(text) > MAX_CHARACTERS:
            text = text[: MAX_CHARACTERS // 2] + text[-MAX_CHARACTERS // 2 :]
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        codes = points.astype(np.uint64)
        both: NDArray[np.float64] = _unit(self._grams(codes)) + _unit(self._cells(codes))
        return np.asarray(_unit(both), dtype=np.float32)

    def _grams(self, codes: NDArray[np.uint64]) -> NDArray[np.float64]:
        total = np.zeros(self.dimensions)
        for n in GRAMS:
            if len(codes) < n or not (codes > LAST_BLANK).any():
                continue
            rolled = np.zeros(len(codes) - n + 1, dtype=np.uint64)
            for offset in range(n):
                rolled = rolled * np.uint64(1_000_003) + codes[offset : len(codes) - n + 1 + offset]
            total += self._spread(_mixed(rolled, n), None)
        return np.sign(total) * np.sqrt(np.abs(total))

    def _cells(self, codes: NDArray[np.uint64]) -> NDArray[np.float64]:
        places = np.arange(len(codes))
        ends = codes == NEWLINE
        rows = np.cumsum(ends)
        starts = np.maximum.accumulate(np.where(ends, places + 1, 0)) if len(codes) else places
        seen = codes > LAST_BLANK
        if not seen.any():
            return np.zeros(self.dimensions)
        shown, columns = codes[seen], (places - starts)[seen]
        kinds = (shown % np.uint64(KINDS)).astype(np.int64)
        counts = np.bincount(kinds, minlength=KINDS)[kinds]
        keys = (rows[seen].astype(np.uint64) << np.uint64(42)) ^ (
            columns.astype(np.uint64) << np.uint64(21)
        )
        return self._spread(_mixed(keys ^ shown, 1), 1 / np.sqrt(counts))

    def _spread(
        self, hashes: NDArray[np.uint64], weights: NDArray[np.float64] | None
    ) -> NDArray[np.float64]:
        buckets = ((hashes >> np.uint64(1)) % np.uint64(self.dimensions)).astype(np.int64)
        signs = np.where(hashes & np.uint64(1), 1.0, -1.0)
        signed = signs if weights is None else weights * signs
        return np.bincount(buckets, signed, self.dimensions).astype(np.float64)


def _unit(vector: NDArray[np.float64]) -> NDArray[np.float64]:
    length = float(np.sqrt((vector * vector).sum()))
    return vector / length if length else vector


class WordllamaEmbedder:
    """Static word vectors of 256 dimensions, offline from the wheel (extra ``embed``)."""

    name = "wordllama-256"

    def __init__(self) -> None:
        self._model: Any = None

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text.

        Raises:
            MissingExtraError: The package is not installed.
        """
        if self._model is None:
            try:
                import wordllama
            except ImportError:
                raise MissingExtraError("WordllamaEmbedder", "embed") from None
            folder = Path(wordllama.__file__).parent
            self._model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
        return np.asarray(self._model.embed([text or " " for text in texts]), dtype=np.float32)


class _EmbeddingChat:
    """An embeddings endpoint in the form of a chat model.

    So a study's broker records, limits and replays its calls like any other: one message per
    text, vectors in base64.
    """

    def __init__(self, owner: "OpenAIEmbedder") -> None:
        self.name, self.endpoint, self._owner = owner.name, owner.endpoint, owner

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        return await self._owner.ask([message.content for message in messages])


class OpenAIEmbedder:
    """Embeddings from an OpenAI-compatible server, through ``s3gym.calls``.

    Texts are cut at 16,000 characters and sent in batches of 64; an empty text is sent as a blank.

    Args:
        model: Name of the embedding model.
        base_url: Address of the server; default OpenAI's.
        api_key_env: Environment variable that holds the key; never the key itself.
        client: An ``openai.AsyncOpenAI`` or anything with ``embeddings.create``; default a new one.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        base_url: str | None = None,
        api_key_env: str = "OPENAI_API_KEY",
        client: Any = None,
    ) -> None:
        self.model = model
        self.name = f"openai:{model}"
        self.endpoint = base_url or "openai"
        self._key_env = api_key_env
        self._base_url = base_url
        self._owned = client is None
        self._client = client

    async def embed(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text.

        Raises:
            ModelError: The server failed.
            MemoryFailure: The reply holds another number of vectors.
        """
        found: list[Vectors] = []
        for start in range(0, len(texts), BATCH):
            batch = [text[:MAX_API_CHARACTERS] or " " for text in texts[start : start + BATCH]]
            reply = await calls.complete(
                _EmbeddingChat(self),
                [Message("user", text) for text in batch],
                purpose="embed",
                layout="embedding",
                max_tokens=1,
            )
            packed = np.frombuffer(b64decode(json.loads(reply.text)["vectors"]), dtype="<f4")
            if packed.size == 0 or packed.size % len(batch):
                raise MemoryFailure(
                    f"embedder {self.name!r}: expected {len(batch)} equal vectors, got "
                    f"{packed.size} numbers"
                )
            found.append(packed.reshape(len(batch), -1).astype(np.float32))
        return np.concatenate(found)

    async def ask(self, texts: Sequence[str]) -> Reply:
        """Send one request; the reply's text is JSON with the vectors in base64."""
        import openai

        try:
            answer = await self._opened().embeddings.create(
                model=self.model, input=list(texts), encoding_format="float"
            )
        except openai.APIStatusError as error:
            again = error.status_code in (408, 409, 429) or error.status_code >= 500
            raise ModelError(f"{self.name}: status {error.status_code}", retryable=again) from error
        except openai.APIError as error:
            raise ModelError(f"{self.name}: {type(error).__name__}", retryable=True) from error
        vectors = np.asarray([item.embedding for item in answer.data], dtype="<f4")
        used = getattr(getattr(answer, "usage", None), "prompt_tokens", 0) or 0
        return Reply(
            text=json.dumps({"vectors": b64encode(vectors.tobytes()).decode()}),
            usage=Usage(calls=1, input_tokens=used),
            model=getattr(answer, "model", "") or self.model,
        )

    async def aclose(self) -> None:
        """Close the client, when it is our own."""
        if self._owned and self._client is not None:
            await self._client.close()

    def _opened(self) -> Any:
        if self._client is None:
            import openai

            key = os.environ.get(self._key_env)
            if not key:
                raise ConfigError(f"{self.name}: the environment variable {self._key_env} is empty")
            self._client = openai.AsyncOpenAI(api_key=key, base_url=self._base_url, max_retries=0)
        return self._client
