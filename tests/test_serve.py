"""An outside agent plays over MCP: four tools, one episode after the other, nothing withheld."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import TINY, learner_rows, verifier_rows

from s3gym import ConfigError, Sweep
from s3gym.cli.main import main
from s3gym.records import Decision, Turn
from s3gym.serve import OVER, Desk, NotNowError, Seen, outcome_reader, play_outside, tools
from s3gym.store import file

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed (issue 8)")
TOOLS = ["act", "observe", "recall", "rules"]
SECRETS = ("reward", "verdict", "seed", "salt", "grudger", "detective", "copycat")


# At the desk, without a server


async def at_desk(
    store: Path, agent: Callable[[Desk], Awaitable[None]], memory: str = "history", **more: Any
) -> Sweep:
    """Run a small study that an agent plays through the desk."""
    desk = Desk(outcome_reader(store))
    given: dict[str, Any] = {"repeats": 1, "seed": 7, "salt": "s", "schedule": TINY} | more
    sweep = Sweep(
        games=("trust",), agents=(desk.part("outside"),), memories=(memory,), store=store,
        at_most=1, **given,
    )  # fmt: skip
    study = sweep.resume if store.exists() else sweep.run
    await play_outside(desk, study, lambda: agent(desk))
    return sweep


async def play_all(desk: Desk, seen: list[Seen] | None = None) -> None:
    """Collaborate until the study is over."""
    while True:
        look = await desk.observe()
        while not look.done:
            look = await desk.act("collaborate", 2.0)
            if seen is not None:
                seen.append(look)
        if desk.farewell.is_set():
            return


async def test_the_outside_agent_plays_the_study_that_an_inside_one_would(tmp_path: Path) -> None:
    async def outside(turn: Turn) -> Decision:
        return Decision(action="collaborate", self_score=2.0)

    seen: list[Seen] = []
    await at_desk(tmp_path / "a.db", lambda desk: play_all(desk, seen))
    inside = Sweep(
        games=("trust",), agents=(outside,), memories=("history",), repeats=1, seed=7, salt="s",
        schedule=TINY, store=tmp_path / "b.db",
    )  # fmt: skip
    await inside.run()
    one, two = learner_rows(tmp_path / "a.db"), learner_rows(tmp_path / "b.db")
    assert one["steps"] == two["steps"]
    assert verifier_rows(tmp_path / "a.db")["scores"] == verifier_rows(tmp_path / "b.db")["scores"]
    steps = sorted(one["steps"], key=lambda row: (row[0].rpartition("/")[2], row[1]))
    told = sorted(
        (look.observation, look.feedback, int(look.done)) for look in seen if look.observation
    )
    assert told == sorted((row[10], row[11], row[12]) for row in steps)


async def test_rules_and_recall_say_what_a_turn_says(tmp_path: Path) -> None:
    recalled: list[str] = []

    async def agent(desk: Desk) -> None:
        rules = await desk.rules()
        assert "Trust Evolution" in rules
        assert "an episode of evaluation; it ends after at most 10 steps" in rules
        while not desk.farewell.is_set():
            recalled.append(await desk.recall())
            look = await desk.observe()
            while not look.done:
                look = await desk.act("cheat", 1.0)
        assert await desk.rules() == await desk.recall() == OVER

    await at_desk(tmp_path / "a.db", agent)
    assert recalled[0] == ""
    assert recalled[-2].count("Episode ") == 2
    assert recalled[-1] == OVER


async def test_a_new_episode_must_be_looked_at_first(tmp_path: Path) -> None:
    async def agent(desk: Desk) -> None:
        with pytest.raises(NotNowError, match="call observe"):
            await desk.act("cheat", 1.0)
        await desk.observe()
        for _ in range(10):
            look = await desk.act("cheat", 1.0)
        assert look.done
        with pytest.raises(NotNowError, match="call observe"):
            await desk.act("cheat", 1.0)

    await at_desk(tmp_path / "a.db", agent)


@pytest.mark.parametrize(
    ("action", "score"), [("x" * 200_000, 1.0), ("cheat", float("nan")), ("cheat", float("inf"))]
)
async def test_an_absurd_action_is_refused_and_the_study_goes_on(
    tmp_path: Path, action: str, score: float
) -> None:
    async def agent(desk: Desk) -> None:
        await desk.observe()
        with pytest.raises(NotNowError):
            await desk.act(action, score)
        look = await desk.act("cheat", None)
        assert not look.done

    await at_desk(tmp_path / "a.db", agent)
    (step,) = learner_rows(tmp_path / "a.db")["steps"]
    assert step[3] is None
    assert step[5] == "no_score"


async def test_an_agent_that_leaves_can_come_back(tmp_path: Path) -> None:
    async def leaves(desk: Desk) -> None:
        await desk.observe()
        for _ in range(13):
            look = await desk.act("collaborate", 2.0)
            if look.done:
                await desk.observe()

    store = tmp_path / "a.db"
    await at_desk(store, leaves)
    assert len(learner_rows(store)["steps"]) == 13
    await at_desk(store, play_all)
    await at_desk(tmp_path / "b.db", play_all)
    assert learner_rows(store)["steps"] == learner_rows(tmp_path / "b.db")["steps"]
    assert verifier_rows(store)["seals"] == verifier_rows(tmp_path / "b.db")["seals"]


async def test_calls_at_the_same_time_are_answered_one_after_the_other(tmp_path: Path) -> None:
    async def agent(desk: Desk) -> None:
        await desk.observe()
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(desk.act, "cheat", 1.0)
                group.start_soon(desk.observe)

    await at_desk(tmp_path / "a.db", agent)
    assert [row[1] for row in learner_rows(tmp_path / "a.db")["steps"]] == [0, 1, 2, 3]


async def test_a_study_that_fails_says_so_to_its_owner_alone(tmp_path: Path) -> None:
    async def agent(desk: Desk) -> None:
        look = await desk.observe()
        assert look == Seen(observation="", feedback=OVER, done=True)

    async def study() -> None:
        raise ConfigError("the secret reason")

    desk = Desk(lambda episode: None)
    with pytest.raises(ConfigError, match="secret reason"):
        await play_outside(desk, study, lambda: agent(desk))


# With the SDK's own client


async def tool_names(client: Any) -> list[str]:
    return sorted(tool.name for tool in (await client.list_tools()).tools)


async def test_the_server_has_four_tools_and_nothing_else() -> None:
    async with mcp.Client(tools(Desk(lambda episode: None))) as client:
        found = (await client.list_tools()).tools
        assert sorted(tool.name for tool in found) == TOOLS
        arguments = {tool.name: sorted(tool.input_schema.get("properties", {})) for tool in found}
        assert arguments == {"act": ["action", "self_score"], "observe": [], "recall": [],
                             "rules": []}  # fmt: skip
        assert (await client.list_resources()).resources == []
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []
        for name in ("reset", "seed", "score", "store"):
            assert (await client.call_tool(name, {})).is_error


async def play_with(client: Any) -> tuple[int, list[str]]:
    """Play until the study is over; return the episodes played and every text that was seen."""
    heard = [str(await client.call_tool("rules", {}))]
    assert await tool_names(client) == TOOLS
    early = await client.call_tool("act", {"action": "cheat"})
    assert early.is_error
    for n_episodes in range(100):
        heard.append((await client.call_tool("recall", {})).content[0].text)
        look = await client.call_tool("observe", {})
        assert set(look.structured_content) == {"observation", "feedback", "done"}
        if look.structured_content["done"]:
            return n_episodes, heard
        while not look.structured_content["done"]:
            look = await client.call_tool("act", {"action": "cheat", "self_score": 1})
            assert set(look.structured_content) == {"observation", "feedback", "done"}
            heard.append(json.dumps(look.structured_content))
    raise AssertionError("the study has no end")


def serve_command(store: Path, *more: str) -> list[str]:
    return [sys.executable, "-P", "-m", "s3gym", "serve", "--mcp", "--game", "trust", "--schedule",
            "quick", "--seed", "7", "--store", str(store), *more]  # fmt: skip


def check_store(store: Path, n_episodes: int, heard: list[str]) -> None:
    assert n_episodes == 6 + 3 * 2
    rows = verifier_rows(store)
    assert len(rows["scores"]) == n_episodes
    assert len(rows["seals"]) == 1
    db = file.open_reader(store)
    secrets = [row[0] for row in db.execute("SELECT value FROM secrets") if len(row[0]) > 3]
    db.close()
    text = "\n".join(heard).lower().replace("immediate reward", "").replace("reward of an", "")
    assert not [word for word in (*SECRETS, *secrets) if word in text]
    with pytest.raises(SystemExit) as caught:
        main(["audit", str(store), "--quiet"])
    assert not caught.value.code


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_study_is_played_over_stdio(tmp_path: Path) -> None:
    command, *arguments = serve_command(tmp_path / "out.db")
    errors = tmp_path / "errors.txt"

    async def play() -> tuple[int, list[str]]:
        parameters = mcp.StdioServerParameters(
            command="/bin/sh",
            args=["-c", 'exec "$0" "$@" 2>"$ERRORS"', command, *arguments],
            env=dict(os.environ) | {"ERRORS": str(errors)},
        )
        async with mcp.Client(parameters) as client:
            return await play_with(client)

    check_store(tmp_path / "out.db", *anyio.run(play))
    assert errors.read_text() == "s3gym: the study is over\n"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_study_is_played_over_http_on_loopback(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        serve_command(tmp_path / "out.db", "--http", str(port), "--memory", "none"),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.05)

        async def play() -> tuple[int, list[str]]:
            async with mcp.Client(f"http://127.0.0.1:{port}/mcp") as client:
                return await play_with(client)

        n_episodes, heard = anyio.run(play)
        out, err = server.communicate(timeout=30)
    finally:
        server.kill()
        server.wait()
    assert server.returncode == 0, err
    assert "1 of 1 studies done" in out
    check_store(tmp_path / "out.db", n_episodes, heard)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_study_that_was_left_is_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "out.db"

    async def leave() -> None:
        command, *arguments = serve_command(store)
        parameters = mcp.StdioServerParameters(command=command, args=arguments)
        async with mcp.Client(parameters) as client:
            await client.call_tool("observe", {})
            for _ in range(4):
                await client.call_tool("act", {"action": "cheat", "self_score": 1})

    async def come_back() -> tuple[int, list[str]]:
        command, *_ = serve_command(store)
        arguments = ["-P", "-m", "s3gym", "serve", "--mcp", "--store", str(store), "--resume"]
        parameters = mcp.StdioServerParameters(command=command, args=arguments)
        async with mcp.Client(parameters) as client:
            return await play_with(client)

    anyio.run(leave)
    assert len(learner_rows(store)["steps"]) == 4
    with pytest.raises(SystemExit) as caught:
        main(["resume", str(store)])
    assert caught.value.code == 2
    assert "go on with 's3gym serve --mcp --resume" in capsys.readouterr().err
    check_store(store, *anyio.run(come_back))


def test_serve_writes_over_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "out.db").write_text("a letter")
    with pytest.raises(SystemExit) as caught:
        main(serve_command(tmp_path / "out.db")[4:])
    assert caught.value.code == 2
    assert "name another file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--http", "99999"], "99999 is not in the range"),
        (["--name", "a/b c"], "'a-b-c' would do"),
        (["--http", "BUSY"], "cannot listen on 127.0.0.1:"),
    ],
)
def test_what_cannot_be_served_is_said_before_a_store_is_made(
    words: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.socket() as busy:
        busy.bind(("127.0.0.1", 0))
        busy.listen()
        port = str(busy.getsockname()[1])
        with pytest.raises(SystemExit) as caught:
            main(
                serve_command(tmp_path / "out.db", *(word.replace("BUSY", port) for word in words))[
                    4:
                ]
            )
    assert caught.value.code == 2
    assert says in capsys.readouterr().err
    assert not (tmp_path / "out.db").exists()
