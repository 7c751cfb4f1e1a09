"""A sealed app behind the proxy: it calls its model, and never holds the key."""

import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from model_server import ModelServer, by_hash
from sealed_runs import notes, only, sweep

from s3gym import Schedule, Seal
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.proxy import Exchange, Serving
from s3gym.proxy.upstream import PLACEHOLDER, Request, Upstream

ONE_EACH = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a sealed run needs Linux (issue 8)"
)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer().running() as running:
        assert running.script(by_hash) == "scripted-1"
        yield running


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_sealed_app_plays_behind_the_proxy_with_a_key_that_it_never_holds(
    server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "the-real-key")
    store = tmp_path / "a.db"
    found = sweep(store, "sealed_agents:shop_bot", schedule=ONE_EACH)
    async with found.proxy(openai=server.openai_url):
        result = await found.run()
    assert not result.outcome.failed, only(result)
    assert {*notes(store)} == {f"child {PLACEHOLDER}"}
    assert {entry.headers["authorization"] for entry in server.log} == {"Bearer the-real-key"}
    with closing(sqlite3.connect(store)) as db:
        assert db.execute("SELECT count(*) FROM calls").fetchone() == (30,)
        assert "the-real-key" not in str(db.execute("SELECT * FROM calls, messages").fetchall())
    assert audit_store(store, find_game).level() != "fail"
    assert found.seal == Seal(), "outside the proxy the seal is as it was"


@pytest.mark.parametrize(
    ("path", "header", "sent", "came"),
    [
        ("/v1/chat/completions", "authorization", f"Bearer {PLACEHOLDER}", "Bearer real"),
        ("/v1/messages", "x-api-key", PLACEHOLDER, "real"),
        ("/v1/chat/completions", "authorization", "Bearer own", "Bearer own"),
        ("/v1/chat/completions", "x-note", PLACEHOLDER, PLACEHOLDER),
    ],
)
async def test_a_key_is_put_in_where_a_placeholder_stands(
    path: str, header: str, sent: str, came: str, server: ModelServer
) -> None:
    async def answer(request: Request, upstream: Upstream) -> str:
        reply = await upstream.complete(request.messages(), max_tokens=9)
        return reply.text

    body = b'{"model": "scripted-1", "messages": [{"role": "user", "content": "hello"}]}'
    keys = {"OPENAI_API_KEY": "real", "ANTHROPIC_API_KEY": "real"}
    async with Serving(answer, openai=server.url, anthropic=server.url, keys=keys) as serving:
        request = Request(path=path, body=body, headers={header: sent})
        exchange: Exchange = await serving._exchange(request)
    assert exchange.status == 200
    assert [entry.headers[header] for entry in server.log] == [came]


@pytest.mark.parametrize(
    "path", ["/v1/images/generations", "/v1/fine_tuning/jobs", "/v1/messages/"]
)
async def test_our_key_pays_for_calls_of_models_alone(path: str, server: ModelServer) -> None:
    async def answer(request: Request, upstream: Upstream) -> str:
        return (await upstream.complete([], max_tokens=9)).text

    async with Serving(answer, openai=server.url, anthropic=server.url, keys={}) as serving:
        statuses = []
        for sent in (f"Bearer {PLACEHOLDER}", "Bearer own"):
            request = Request(path=path, body=b'{"model": "m"}', headers={"Authorization": sent})
            exchange: Exchange = await serving._exchange(request)
            statuses.append((exchange.status, b"calls of models alone" in exchange.body))
    assert statuses[0] == (403, True)
    assert statuses[1][1] is False
    assert {entry.headers["authorization"] for entry in server.log} <= {"Bearer own"}
