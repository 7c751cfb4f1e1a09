"""Report and audit say how an agent was kept apart, and whose isolation nobody can prove."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console
from studies import TINY
from test_agent_adapters import Unforkable

from s3gym import Episode, Seal, Study, Turn
from s3gym.cli.main import group
from s3gym.report import build_report, load_stores, print_table, to_html, to_json
from s3gym.serve import Desk
from s3gym.store.spec import kept_apart


def played(store: Path, **settings: Any) -> Path:
    given = {"agent": "random", "memory": "none", "repeats": 1, "schedule": TINY, "seed": 1}
    outcome = Study(game="trust", store=store, **(given | settings)).run_sync().outcome
    assert not outcome.failed
    return store


def table(*stores: Path) -> str:
    console = Console(width=200)
    with console.capture() as shown:
        print_table(build_report(load_stores(stores)), console)
    return shown.get()


def audited(store: Path) -> str:
    return CliRunner().invoke(group, ["audit", str(store)]).output


def test_in_process_is_said_too(tmp_path: Path) -> None:
    store = played(tmp_path / "a.db")
    assert "agents kept in process (1 of 1 studies)\n" in table(store)
    assert "kept  in process: 1 of 1 studies\n" in audited(store)
    (row,) = json.loads(to_json(build_report(load_stores([store]))))["studies"]
    assert (row["kept"], row["not_provable"]) == ("in process", [])


def test_a_seal_is_said_wherever_its_study_is(tmp_path: Path) -> None:
    plain, sealed = played(tmp_path / "a.db"), played(tmp_path / "b.db", seal=Seal())
    said = table(plain, sealed)
    assert "agents kept in process (1 of 2 studies): trust, random [a], none\n" in said
    assert "agents kept sealed (1 of 2 studies): trust, random [b], none\n" in said
    assert "kept  sealed: 1 of 1 studies\n" in audited(sealed)
    assert "<td>sealed</td><td>yes</td>" in to_html(build_report(load_stores([sealed])))


@pytest.mark.parametrize("memory", ["none", "own"])
def test_an_agent_that_cannot_fork_is_not_provably_isolated(memory: str, tmp_path: Path) -> None:
    store = played(tmp_path / "a.db", agent=Unforkable(), memory=memory)
    assert f"isolation not provable (agent): trust, Unforkable, {memory}\n" in table(store)
    assert "isolation not provable: its agent may keep experience" in audited(store)
    report = build_report(load_stores([store]))
    assert json.loads(to_json(report))["studies"][0]["not_provable"] == ["agent"]
    assert '<span class="worse">no: agent</span>' in to_html(report)


def test_the_level_comes_from_the_specification() -> None:
    def spec(**settings: object) -> dict[str, Any]:
        return {"agent": {"name": "a"}, "settings": json.dumps(settings)}

    assert kept_apart(spec()) == "in process"
    assert kept_apart(spec(sealed=True)) == "sealed"
    assert kept_apart(spec(sealed=True, sealed_user="nobody")) == "sealed as another user"
    assert kept_apart(spec() | {"agent": {"outside": True}}) == "over MCP"
    assert Desk(lambda episode: None).part("mcp").outside


@pytest.mark.parametrize("settings", ["", "[]", "null", 3])
def test_a_damaged_specification_claims_no_seal(settings: object) -> None:
    assert kept_apart({"agent": {"name": "a"}, "settings": settings}) == "in process"
    assert kept_apart({"agent": "a", "settings": "{}"}) == "in process"


class Eager:
    """Takes in every turn, not only what it learns; says so as its self-score."""

    def __init__(self, lived: int = 0, learnt: list[str] | None = None) -> None:
        self.lived, self.learnt = lived, [] if learnt is None else learnt

    async def act(self, turn: Turn) -> tuple[str, float]:
        self.lived += 1
        return "cheat", float(self.lived)

    async def fork(self) -> "Eager":
        return Eager(self.lived, self.learnt)

    async def learn(self, episode: Episode) -> None:
        self.learnt.append(episode.id)


def test_the_control_arm_plays_each_episode_on_a_copy_that_is_thrown_away(tmp_path: Path) -> None:
    agent = Eager()
    store = played(tmp_path / "a.db", agent=agent, memory="none")
    with closing(sqlite3.connect(store)) as db:
        rows = db.execute("SELECT idx, self_score FROM steps").fetchall()
    assert len(rows) == 80
    assert all(score == index + 1 for index, score in rows)
    assert (agent.lived, agent.learnt) == (0, [])
