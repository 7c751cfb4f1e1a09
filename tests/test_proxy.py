"""The proxy: what an app gets is what its model said, and the study knows of every call."""

import json
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from model_server import ModelServer, Served, by_hash

from s3gym import Decision, Schedule, Study, Turn, as_agent, parse_reply
from s3gym.audit import audit_store
from s3gym.budget import Budget
from s3gym.catalog import find_game
from s3gym.errors import BudgetExhaustedError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.proxy import Serving, environment
from s3gym.proxy.recording import Recording
from s3gym.proxy.upstream import Request, read_reply
from s3gym.records import Usage
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
    assert "🙂" in through.text
    media = direct.headers["content-type"].partition(";")[0]
    assert {one.headers["content-type"].partition(";")[0] for one in (through, again)} == {media}
    assert len(server.requests(model)) == 2
    (row,) = call_rows(tmp_path / "a.db")
    used = server.requests(model)[1]
    assert row[-4:] == (used.input_tokens, 0, used.output_tokens, 0)


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


def app_of(url: str, model: str, *, stream: bool = False) -> Any:
    """Return an app that knows nothing of s3gym: it sends a prompt to an address."""

    async def app(prompt: str) -> str:
        async with httpx2.AsyncClient(timeout=20) as client:
            body = chat(model, prompt, stream=stream)
            answer = await client.post(f"{url}/v1/chat/completions", json=body)
            answer.raise_for_status()
        if not stream:
            return str(answer.json()["choices"][0]["message"]["content"])
        lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: {")]
        deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
        return "".join(delta.get("content") or "" for delta in deltas)

    return app
