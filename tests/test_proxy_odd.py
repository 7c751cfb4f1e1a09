"""The proxy, when an app, a web page or a server sends what nobody should."""

import json
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio.to_thread
import httpx2
import pytest
from model_server import ModelServer, by_hash
from proxies import chat, plain_server, recording, serving
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.proxy import Serving
from s3gym.proxy.upstream import Request, Upstream, read_reply
from s3gym.records import Usage
from s3gym.store.store import Store


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(by_hash).running() as running:
        yield running


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=20) as found:
        yield found


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
