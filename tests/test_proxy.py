"""The proxy: what an app gets is what its model said, and the study knows of every call."""

import json
import socket
import sqlite3
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
import uvicorn
from model_server import ModelServer, Served, by_hash
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from s3gym import Episode, Result, Schedule, Study, Turn, as_agent
from s3gym.audit import audit_store
from s3gym.budget import Budget
from s3gym.calls import CallSite
from s3gym.catalog import find_game
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ModelError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.proxy import Serving, environment
from s3gym.proxy.recording import Recording
from s3gym.proxy.upstream import Request, Upstream, read_reply
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


@contextmanager
def plain_server(routes: list[Route]) -> Iterator[str]:
    """Serve routes of one's own on loopback, and give the address."""
    settings = uvicorn.Config(
        Starlette(routes=routes), port=0, log_level="critical", lifespan="off"
    )
    found = uvicorn.Server(settings)
    thread = threading.Thread(target=found.run, daemon=True)
    thread.start()
    while not found.started:
        time.sleep(0.005)
    try:
        yield f"http://127.0.0.1:{found.servers[0].sockets[0].getsockname()[1]}"
    finally:
        found.should_exit = True
        thread.join(timeout=5)


def chat(model: str, prompt: str = "hello", **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": prompt}], **more}


def recording(store: Store, **more: Any) -> Recording:
    return Recording(store, Meter(Limits(LimitSettings(first_wait=0.01))), **more)


def serving(answer: Any, server: ModelServer) -> Serving:
    return Serving(answer, openai=server.openai_url, anthropic=server.url)


def call_rows(path: Path) -> list[Any]:
    db = sqlite3.connect(path)
    try:
        return db.execute("SELECT * FROM calls ORDER BY study, place, step, attempt").fetchall()
    finally:
        db.close()


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
    assert usage_of(tmp_path / "a.db") > 0 or stream


def usage_of(store: Path) -> int:
    return sum(row[-4] for row in call_rows(store))


async def test_a_budget_stops_an_app_behind_the_proxy_and_leaves_it_resumable(
    server: ModelServer, tmp_path: Path
) -> None:
    model = server.script(by_hash)
    meter = Meter(budget=Budget(max_tokens=3000))
    with pytest.raises(BudgetExhaustedError, match="max_tokens is used up"):
        await played(App(model), tmp_path / "a.db", server, limits=meter)
    n_calls = len(server.requests(model))
    assert 1 < n_calls < 30
    result = await played(App(model), tmp_path / "a.db", server)
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


DEEP = '{"messages":' + "[" * 100_000 + "]" * 100_000 + "}"
BAD = {
    "no JSON": (b"{", "no JSON"),
    "no object": (b"[]", "a JSON object, got list"),
    "nested": (DEEP.encode(), "nested too deeply"),
    "surrogate": (b'{"model": "\\ud800"}', "surrogate pair"),
    "digits": (b'{"max_tokens": ' + b"9" * 5_000 + b"}", "4300 digits"),
    "no UTF-8": (b'{"model": "\xff"}', "invalid start byte"),
}


@pytest.mark.parametrize("bad", sorted(BAD))
async def test_a_request_that_cannot_be_kept_is_refused_before_it_is_paid_for(
    bad: str, server: ModelServer, client: Any, tmp_path: Path
) -> None:
    body, says = BAD[bad]
    n_before = len(server.log)
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            answer = await client.post(f"{proxy.url}/v1/chat/completions", content=body)
            model = server.script(by_hash)
            after = await client.post(f"{proxy.url}/v1/chat/completions", json=chat(model))
    assert (answer.status_code, after.status_code) == (400, 200)
    assert says in answer.json()["error"]["message"]
    assert len(server.log) == n_before + 1


async def test_a_limit_beyond_all_bounds_is_kept_as_the_largest(
    server: ModelServer, client: Any, tmp_path: Path
) -> None:
    body = chat(server.script(by_hash), max_tokens=10**30)
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            answer = await client.post(f"{proxy.url}/v1/chat/completions", json=body)
    assert answer.status_code == 200


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


async def test_an_answer_that_is_no_text_is_refused_and_not_asked_for_again(
    client: Any, tmp_path: Path
) -> None:
    asked: list[str] = []

    async def speech(request: Any) -> Any:
        asked.append(request.url.path)
        return Response(b"\xff\xfb\x90", media_type="audio/mpeg")

    with (
        plain_server([Route("/v1/audio/speech", speech, methods=["POST"])]) as url,
        Store.create(tmp_path / "a.db") as store,
    ):
        async with Serving(recording(store).answer, openai=url, anthropic=url) as proxy:
            answer = await client.post(f"{proxy.url}/v1/audio/speech", json={"model": "m"})
    assert (answer.status_code, len(asked)) == (501, 1)


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


def post(url: str, path: str, body: bytes = b'{"model": "m"}', **headers: str) -> tuple[int, str]:
    """Send a request as it is, which HTTP clients would tidy up; return its status and reason."""
    host, _, port = url.removeprefix("http://").partition(":")
    lines = {"host": f"{host}:{port}", "content-length": str(len(body))} | headers
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{head}connection: close\r\n\r\n".encode())
        with suppress(OSError):  # it may have answered before it took in everything
            connection.sendall(body)
        answer = b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
    return int(answer.split()[1]), answer.rpartition("\r\n\r\n")[2]


COMPLETIONS = "/v1/chat/completions"


@pytest.mark.parametrize(
    ("path", "headers", "says"),
    [
        (COMPLETIONS, {"host": "evil.example:80"}, "not for the host 'evil.example:80'"),
        (COMPLETIONS, {"host": "[::"}, "not for the host"),
        (COMPLETIONS, {"origin": "http://evil.example"}, "pages from 'http://evil.example'"),
        (COMPLETIONS, {"origin": "null"}, "not for pages from 'null'"),
        ("/v1/../../admin", {}, "leads out of the API"),
        ("/v1/%2e%2e/%2e%2e/admin", {}, "leads out of the API"),
        ("/v1/x%5c..%5cadmin", {}, "leads out of the API"),
        ("/v1/x%07", {}, "not printable"),
    ],
)
async def test_what_comes_from_elsewhere_or_leads_elsewhere_is_refused(
    server: ModelServer, tmp_path: Path, path: str, headers: dict[str, str], says: str
) -> None:
    n_before = len(server.log)
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            status, body = await anyio.to_thread.run_sync(
                lambda: post(proxy.url, path, b'{"model": "m"}', **headers)
            )
    assert (status, len(server.log)) == (403, n_before)
    assert says in json.loads(body)["error"]["message"]


async def test_a_page_or_program_of_this_machine_may_ask(
    server: ModelServer, tmp_path: Path
) -> None:
    body = json.dumps(chat(server.script(by_hash))).encode()
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            for headers in ({"host": "localhost:1"}, {"origin": "http://127.0.0.1:3000"}):
                status, _ = await anyio.to_thread.run_sync(
                    lambda given: post(proxy.url, COMPLETIONS, body, **given), headers
                )
                assert status == 200


async def test_a_body_that_no_memory_holds_is_refused_while_it_comes(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s3gym.proxy.server.MOST_BODY", 1_000)
    with Store.create(tmp_path / "a.db") as store:
        async with serving(recording(store).answer, server) as proxy:
            status, body = await anyio.to_thread.run_sync(
                lambda: post(proxy.url, COMPLETIONS, b" " * 2_000_000)
            )
    assert (status, "larger than 1000 bytes" in body) == (413, True)


ODD = [
    '{"choices": 5}',
    '{"choices": [5, {"finish_reason": {"a": 1}}]}',
    '{"usage": 5, "id": {"a": 1}, "model": ["x"], "stop_reason": 7}',
    '{"usage": {"prompt_tokens": true, "prompt_tokens_details": 5, "completion_tokens": 1e400}}',
    '{"usage": {"completion_tokens": -5, "completion_tokens_details": {"reasoning_tokens": "x"}}}',
    f'{{"usage": {{"prompt_tokens": 1{"0" * 400}}}, "model": "{"m" * 10_000}"}}',
    "[" * 50_000,
    f"data: {'[' * 50_000}\n\n",
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_an_answer_of_any_shape_is_kept(text: str) -> None:
    assert read_reply(text) == Reply(text=text, usage=Usage(calls=1))


@pytest.mark.parametrize("status", [200, 401])
async def test_a_key_that_a_server_quotes_reaches_no_sealed_app_and_no_record(
    client: Any, tmp_path: Path, status: int
) -> None:
    async def quotes(request: Any) -> Response:
        key = request.headers["authorization"].removeprefix("Bearer ")
        return JSONResponse({"error": {"message": f"Received API Key = {key}"}}, status)

    with plain_server([Route(COMPLETIONS, quotes, methods=["POST"])]) as url:
        with Store.create(tmp_path / "a.db") as store:
            keys = {"OPENAI_API_KEY": "sk-real-key"}
            async with Serving(recording(store).answer, openai=url, keys=keys) as proxy:
                headers = {"authorization": "Bearer held-by-s3gym"}
                answer = await client.post(f"{proxy.url}{COMPLETIONS}", json={}, headers=headers)
    assert (answer.status_code, "sk-real-key" in answer.text) == (status, False)
    assert "Received API Key = held-by-s3gym" in answer.text


async def test_the_apps_own_key_stands_in_no_error(client: Any) -> None:
    async def quotes(request: Any) -> Response:
        return JSONResponse({"error": {"message": request.headers["authorization"]}}, 401)

    with plain_server([Route(COMPLETIONS, quotes, methods=["POST"])]) as url:
        request = Request(path=COMPLETIONS, body=b"{}", headers={"authorization": "Bearer sk-own"})
        upstream = Upstream(request, url, client)
        with pytest.raises(ModelError, match=r"answered 401: Bearer \[key\]"):
            await upstream.complete([], max_tokens=1)
