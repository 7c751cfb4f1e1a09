"""The proxy: what an app gets is what its model said, and the study knows of every call."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from model_server import ModelServer, Served, by_hash
from proxies import call_rows, chat, plain_server, recording, serving
from starlette.responses import JSONResponse
from starlette.routing import Route

from s3gym import Episode, Result, Schedule, Study, Turn, as_agent
from s3gym.audit import audit_store
from s3gym.budget import Budget
from s3gym.calls import CallSite
from s3gym.catalog import find_game
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.proxy import Serving, environment
from s3gym.proxy.upstream import Request, estimated, read_reply
from s3gym.records import Message, Usage
from s3gym.store.store import Store

TINY = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
TEXT = "Größe: ein Schritt 🙂\nAnswer: collaborate, Score: 2"


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(by_hash).running() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=20) as found:
        yield found


WIRES = [
    ("/v1/chat/completions", {}),
    ("/v1/chat/completions", {"stream": True, "stream_options": {"include_usage": True}}),
    ("/v1/messages", {"max_tokens": 50}),
    ("/v1/messages", {"max_tokens": 50, "stream": True}),
]


@pytest.mark.parametrize(("path", "more"), WIRES)
async def test_an_app_gets_every_byte_that_its_model_sent(
    path: str, more: dict[str, Any], server: ModelServer, client: Any, tmp_path: Path
) -> None:
    model = server.script([Served(text=TEXT)] * 3)
    body = chat(model, **more)
    direct = await client.post(f"{server.url}{path}", json=body)
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            through = await client.post(f"{proxy.url}{path}", json=body)
        async with serving(recording(store, replay=True).answer, server) as proxy:
            again = await client.post(f"{proxy.url}{path}", json=body)
    assert through.status_code == again.status_code == 200
    assert through.content == again.content == direct.content
    assert "🙂" in through.text or not more.get("stream")
    media = direct.headers["content-type"].partition(";")[0]
    assert {one.headers["content-type"].partition(";")[0] for one in (through, again)} == {media}
    assert len(server.requests(model)) == 2
    (row,) = call_rows(tmp_path / "a.db")
    used = server.requests(model)[1]
    assert row[-4:] == (used.input_tokens, 0, used.output_tokens, 0)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # a stream of theirs is untidy on trio
@pytest.mark.parametrize("stream", [False, True])
async def test_the_official_sdks_read_what_comes_through(
    *, stream: bool, server: ModelServer, tmp_path: Path
) -> None:
    import anthropic
    import openai

    model = server.script(lambda body: Served(text=TEXT))
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            prompt: Any = [{"role": "user", "content": "hello"}]
            async with openai.AsyncOpenAI(api_key="k", base_url=f"{proxy.url}/v1") as one:
                if stream:
                    events = await one.chat.completions.create(
                        model=model, messages=prompt, stream=True
                    )
                    text = "".join([event.choices[0].delta.content or "" async for event in events])
                else:
                    answer = await one.chat.completions.create(model=model, messages=prompt)
                    text = answer.choices[0].message.content or ""
            async with anthropic.AsyncAnthropic(api_key="k", base_url=proxy.url) as two:
                ask: Any = {"model": model, "messages": prompt, "max_tokens": 9}
                if stream:
                    async with two.messages.stream(**ask) as pieces:
                        other = "".join([piece async for piece in pieces.text_stream])
                else:
                    other = "".join(
                        block.text for block in (await two.messages.create(**ask)).content
                    )
    assert text == other == TEXT
    assert [row[5] for row in call_rows(tmp_path / "a.db")] == [
        f"openai:{model}",
        f"anthropic:{model}",
    ]


async def test_the_apps_key_reaches_the_server_and_not_the_store(
    server: ModelServer, client: Any, tmp_path: Path
) -> None:
    model = server.script([Served()])
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            await client.post(
                f"{proxy.url}/v1/chat/completions",
                json=chat(model),
                headers={"authorization": "Bearer sk-secret"},
            )
    assert server.requests(model)[0].headers["authorization"] == "Bearer sk-secret"
    assert b"sk-secret" not in (tmp_path / "a.db").read_bytes()


async def test_an_outage_is_tried_again_and_a_refusal_reaches_the_app_as_it_came(
    server: ModelServer, client: Any, tmp_path: Path
) -> None:
    steady = server.script([Served(status=503), Served(fault="half"), Served()])
    wrong = server.script([Served(status=422, message="no such field", code="bad")])
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            url = f"{proxy.url}/v1/chat/completions"
            assert (await client.post(url, json=chat(steady))).status_code == 200
            refusal = await client.post(url, json=chat(wrong))
            nonsense = await client.post(url, content=b"[1]")
    assert len(server.requests(steady)) == 3
    assert (refusal.status_code, refusal.json()["error"]["message"]) == (422, "no such field")
    assert refusal.headers["x-should-retry"] == "false"
    assert len(server.requests(wrong)) == 1
    assert nonsense.status_code == 400
    assert len(call_rows(tmp_path / "a.db")) == 1


class App:
    """An app that knows nothing of s3gym; it breaks at one of its calls, once."""

    def __init__(self, model: str, *, breaks_at: int = 0, stream: bool = False) -> None:
        self.model, self.breaks_at, self.stream = model, breaks_at, stream
        self.url = ""
        self.asked = 0
        self.client: Any = None

    async def answer(self, prompt: str) -> str:
        self.asked += 1
        if self.asked == self.breaks_at:
            raise KeyError("a bug of the app")
        body = chat(self.model, prompt, stream=self.stream)
        answer = await self.client.post(f"{self.url}/v1/chat/completions", json=body)
        answer.raise_for_status()
        if not self.stream:
            return str(answer.json()["choices"][0]["message"]["content"])
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
        return "".join(delta.get("content") or "" for delta in deltas)


def study(app: App, store: Path, **more: Any) -> Study:
    async def answer(prompt: str) -> str:
        return await app.answer(prompt)

    return Study(
        game="trust",
        agent=as_agent(answer, name="app"),
        memory="history",
        schedule=TINY,
        seed=3,
        repeats=1,
        store=store,
        **more,
    )


async def played(app: App, store: Path, server: ModelServer, **more: Any) -> Result:
    found = study(app, store, **more)
    async with (
        httpx2.AsyncClient(timeout=20) as app.client,
        found.proxy(openai=server.openai_url) as app.url,
    ):
        return await (found.resume() if store.exists() else found.run())


@pytest.mark.parametrize("stream", [False, True])
async def test_a_study_records_an_app_behind_its_proxy_and_pays_no_call_twice(
    *, stream: bool, server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_hash)
    broken = App(model, breaks_at=14, stream=stream)
    result = await played(broken, tmp_path / "a.db", server)
    assert "a bug of the app" in result.outcome.failed["trust/app/history/r0"]
    paid = len(server.requests(model))
    result = await played(App(model, stream=stream), tmp_path / "a.db", server)
    assert (result.outcome.failed, result.root is None) == ({}, False)
    n_calls = len(server.requests(model))
    assert 0 < paid < n_calls
    assert len(call_rows(tmp_path / "a.db")) == n_calls == 30
    whole = await played(App(model, stream=stream), tmp_path / "b.db", server)
    assert whole.root == result.root
    audit = audit_store(tmp_path / "a.db", find_game)
    assert audit.level() != "fail", audit.findings
    assert usage_of(tmp_path / "a.db") > 0


def usage_of(store: Path) -> int:
    return sum(row[-4] for row in call_rows(store))


@pytest.mark.parametrize("stream", [False, True])
async def test_a_budget_stops_an_app_behind_the_proxy_and_leaves_it_resumable(
    *, stream: bool, server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_hash)
    meter = Meter(budget=Budget(max_tokens=3000))
    with pytest.raises(BudgetExhaustedError, match="max_tokens is used up"):
        await played(App(model, stream=stream), tmp_path / "a.db", server, limits=meter)
    n_calls = len(server.requests(model))
    assert 1 < n_calls < 30
    result = await played(App(model, stream=stream), tmp_path / "a.db", server)
    assert result.root is not None
    assert len(server.requests(model)) == 30


async def test_an_outage_behind_the_proxy_pauses_the_study_in_place_of_blaming_the_app(
    server: ModelServer, tmp_path: Path
) -> None:
    down = [True]

    def script(body: dict[str, Any]) -> Served:
        return Served(status=503) if down[0] else by_hash(body)

    model = server.script(script)
    quick = LimitSettings(first_wait=0.01, longest_wait=0.01, deadline_seconds=0.05)
    result = await played(App(model), tmp_path / "a.db", server, limits=Meter(Limits(quick)))
    assert (result.outcome.failed, result.root) == ({}, None)
    assert result.outcome.paused == ("trust/app/history/r0",)
    down[0] = False
    assert (await played(App(model), tmp_path / "a.db", server)).root is not None


async def test_a_call_between_turns_is_refused_with_its_reason(
    server: ModelServer, client: Any, tmp_path: Path
) -> None:
    idle = study(App("any"), tmp_path / "a.db")
    async with idle.proxy(openai=server.openai_url) as url:
        answer = await client.post(f"{url}/v1/chat/completions", json=chat("any"))
    assert answer.status_code == 409
    assert "no turn is being played" in answer.json()["error"]["message"]


async def test_an_app_that_remembers_learns_behind_the_proxy(
    server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_hash)
    app = App(model)

    class Reflecting:
        def __init__(self) -> None:
            self.lessons = ""

        async def act(self, turn: Turn) -> str:
            return await app.answer(f"{self.lessons}\n{turn.observation.text}")

        async def fork(self) -> "Reflecting":
            other = Reflecting()
            other.lessons = self.lessons
            return other

        async def learn(self, episode: Episode) -> None:
            self.lessons += await app.answer(f"What is to be learnt from {episode.steps[-1]}?")

    found = Study(
        game="trust", agent=Reflecting(), memory="own", schedule=TINY, seed=3, repeats=1,
        store=tmp_path / "a.db",
    )  # fmt: skip
    async with (
        httpx2.AsyncClient(timeout=20) as app.client,
        found.proxy(openai=server.openai_url) as app.url,
    ):
        result = await found.run()
    assert result.outcome.failed == {}
    places = [row[1].rpartition("/")[2] for row in call_rows(tmp_path / "a.db")]
    assert {place: places.count(place) for place in sorted(set(places))} == {
        "e000.1": 10,
        "e001.1": 10,
        "m001": 1,
        "x001": 10,
    }


def test_a_request_is_kept_part_by_part_and_without_its_headers() -> None:
    body = chat("m", temperature=0.5, max_tokens=7)
    body["messages"].append({"role": "assistant", "content": "hi"})
    request = Request(
        path="/v1/chat/completions", body=json.dumps(body).encode(), headers={"x-api-key": "secret"}
    )
    head, *parts = request.messages()
    assert [part.role for part in parts] == ["user", "assistant"]
    assert json.loads(head.content)["body"] == {
        "model": "m",
        "temperature": 0.5,
        "max_tokens": 7,
        "messages": 2,
    }
    assert request.max_tokens() == 7
    assert (request.provider, "secret" in repr(request)) == ("openai", False)
    assert Request(path="/v1/messages?beta=true", body=b"{}").provider == "anthropic"


def test_the_tokens_of_a_stream_that_tells_none_are_estimated() -> None:
    told = 'data: {"usage": {"prompt_tokens": 3, "completion_tokens": 4}}\n\n'
    silent = 'data: {"choices": [{"delta": {"content": "one "}}]}\n\n' * 5
    request = Request(path="/v1/chat/completions", body=b'{"messages": []}')

    def tokens(text: str) -> tuple[int, int]:
        usage = estimated(read_reply(text), request).usage
        return usage.input_tokens, usage.output_tokens

    assert tokens(silent) == (6, 5)
    assert tokens(silent + told) == (3, 4)
    assert tokens('{"choices": []}') == tokens("neither") == (0, 0)


def test_usage_is_read_from_a_responses_stream_too() -> None:
    done = {
        "type": "response.completed",
        "response": {
            "id": "resp_1",
            "model": "m-2",
            "usage": {
                "input_tokens": 10,
                "input_tokens_details": {"cached_tokens": 4},
                "output_tokens": 6,
                "output_tokens_details": {"reasoning_tokens": 5},
            },
        },
    }
    text = f'event: x\ndata: {{"type": "x"}}\n\ndata: {json.dumps(done)}\n\n'
    reply = read_reply(text)
    assert reply.usage == Usage(
        calls=1, input_tokens=10, cached_tokens=4, output_tokens=6, reasoning_tokens=5
    )
    assert (reply.text, reply.model, reply.request_id) == (text, "m-2", "resp_1")


def test_the_environment_points_both_sdks_at_the_proxy() -> None:
    found = environment("http://127.0.0.1:9")
    assert found["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert found["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:9"


async def test_what_an_app_asks_about_models_passes_and_is_no_call(
    client: Any, tmp_path: Path
) -> None:
    asked: list[tuple[str, str]] = []

    async def models(request: Any) -> Any:
        asked.append((request.url.path, request.headers.get("authorization", "")))
        return JSONResponse({"data": [{"id": "m"}]})

    with (
        plain_server([Route("/v1/models", models)]) as url,
        Store.create(tmp_path / "a.db") as store,
    ):
        recorder = recording(store)
        key = {"authorization": "Bearer k"}
        async with Serving(recorder.answer, openai=url, anthropic=url) as proxy:
            answer = await client.get(f"{proxy.url}/v1/models", headers=key)
            wrong = await client.get(f"{proxy.url}/v1/files")
        async with Serving(recorder.answer, openai=url, anthropic=url, offline=True) as proxy:
            refused = await client.get(f"{proxy.url}/v1/models")
    assert (answer.status_code, answer.json()) == (200, {"data": [{"id": "m"}]})
    assert asked == [("/v1/models", "Bearer k")]
    assert (wrong.status_code, refused.status_code) == (405, 404)
    assert call_rows(tmp_path / "a.db") == []


def test_a_message_that_was_undone_is_kept_the_next_time(tmp_path: Path) -> None:
    site, message = CallSite(study="proxy", place="proxy", step=0), Message("user", "hello")

    def add(store: Store, most: int) -> None:
        with store.transaction():
            store.ledger.add_call(
                site, "act", 0, chat="c", layout="proxy", request_hash="h", messages=[message],
                seed=None, max_tokens=most, reply=Reply(text="x"),
            )  # fmt: skip

    with Store.create(tmp_path / "a.db") as store:
        with pytest.raises(OverflowError):
            add(store, 10**30)
        add(store, 10)
        assert store.connection.execute("SELECT content FROM messages").fetchall() == [("hello",)]


async def test_a_store_of_calls_without_a_study_has_nothing_to_fail(
    server: ModelServer, client: Any, tmp_path: Path
) -> None:
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            body = chat(server.script(by_hash))
            await client.post(f"{proxy.url}/v1/chat/completions", json=body)
    audit = audit_store(tmp_path / "a.db", find_game)
    assert audit.level() == "warn"
    assert "1 calls that 's3gym proxy' recorded" in audit.findings[0].message
