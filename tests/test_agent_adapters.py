"""``as_agent``: functions and apps of frameworks as agents; the frameworks here are stand-ins."""

import sqlite3
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from studies import TINY

from s3gym import Decision, Episode, PluginError, Study, Sweep, Turn, as_agent
from s3gym.agents.adapted import conversation, later, opening
from s3gym.audit import audit_store
from s3gym.catalog import find_agent, find_game
from s3gym.errors import ConfigError, ModelError
from s3gym.parts import agent_part
from s3gym.records import Observation, Phase, Step
from s3gym.report import build_report, load_stores


def turn(**changes: Any) -> Turn:
    values: dict[str, Any] = {
        "episode": "e",
        "game": "trust",
        "phase": Phase.EVALUATION,
        "rules": "the rules",
        "instruction": "the instruction",
        "observation": Observation(text="the board", feedback="the feedback"),
        "max_steps": 10,
    }
    return Turn(**{**values, **changes})


def episode(action: str = "cheat") -> Episode:
    step = Step(
        index=0,
        observation=Observation(text="Round 1"),
        decision=Decision(action=action, self_score=2.0),
        outcome=Observation(text="All rounds", feedback="You cheated.", done=True),
    )
    return Episode(id="s/x001", game="trust", ordinal=1, rules="the rules", steps=(step,))


# Functions


async def test_a_function_of_a_prompt_gets_all_of_it() -> None:
    def bot(prompt: str) -> str:
        assert prompt.startswith("the instruction")
        assert prompt.endswith("Rules:\nthe rules\n\nthe feedback\n\nthe board")
        return "I think.\nAnswer: cheat, Score: 2"

    assert await as_agent(bot).act(turn()) == "I think.\nAnswer: cheat, Score: 2"


async def test_what_a_plain_function_gives_to_await_is_awaited() -> None:
    async def playing(now: Turn, action: str) -> tuple[str, float]:
        return action, 1.0

    def asked(prompt: str) -> Any:
        return playing(turn(), "cheat" if "the board" in prompt else "END")

    assert await find_agent(lambda now: playing(now, "cheat")).make().act(turn()) == ("cheat", 1.0)
    assert await as_agent(lambda now: playing(now, "cheat")).act(turn()) == ("cheat", 1.0)
    assert await find_agent(asked).make().act(turn()) == ("cheat", 1.0)


async def test_a_function_of_a_turn_may_answer_with_an_object_or_a_dictionary() -> None:
    async def one(now: Turn) -> Any:
        return SimpleNamespace(action="cheat", self_score=1.5)

    async def two(now: Turn) -> Any:
        return {"action": "END"}

    decision = await as_agent(one).act(turn())
    assert isinstance(decision, Decision)
    assert (decision.action, decision.self_score, decision.status) == ("cheat", 1.5, "ok")
    ended = await as_agent(two).act(turn())
    assert isinstance(ended, Decision)
    assert ended.status == "end"


def test_a_function_of_a_prompt_is_known_without_as_agent() -> None:
    def bot(prompt: str) -> str:
        return prompt

    def player(now: Turn) -> str:
        return now.rules

    assert type(find_agent(bot).make()).__name__ == "FunctionApp"
    assert type(find_agent(player).make()).__name__ == "FunctionAgent"
    assert (find_agent(bot).name, find_agent(bot).stateless) == ("bot", True)


def test_what_is_no_app_is_refused_with_what_was_expected() -> None:
    with pytest.raises(ConfigError, match="openai-agents, pydantic-ai, langgraph, smolagents"):
        as_agent(7)
    with pytest.raises(ConfigError, match="one argument"):
        as_agent(lambda: "no turn")
    with pytest.raises(ConfigError, match="no session"):
        as_agent(lambda prompt: prompt, session=True)


def test_an_agent_is_returned_as_it_is() -> None:
    class Mine:
        async def act(self, now: Turn) -> Decision:
            return Decision(action="cheat")

    mine = Mine()
    assert as_agent(mine) is mine


# Stand-ins for frameworks: each answers with how much it was shown


def answer_to(texts: list[str]) -> str:
    return f"Answer: cheat, Score: {len(texts)}"


@pytest.fixture
def openai_agents(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Agent:
        name, handoffs = "my player", ()

    async def run(app: Any, items: list[dict[str, str]]) -> Any:
        said = answer_to([item["content"] for item in items])
        used = SimpleNamespace(requests=1, input_tokens=len(items), output_tokens=3)
        return SimpleNamespace(
            final_output=said,
            context_wrapper=SimpleNamespace(usage=used),
            to_input_list=lambda: [*items, {"role": "assistant", "content": said}],
        )

    Agent.__module__ = "agents.agent"
    module = ModuleType("agents")
    module.Runner = SimpleNamespace(run=run)  # type: ignore[attr-defined] # a stand-in
    monkeypatch.setitem(sys.modules, "agents", module)
    return Agent()


@pytest.fixture
def pydantic_ai(monkeypatch: pytest.MonkeyPatch) -> Any:
    class Agent:
        name = None

        async def run(self, text: str, message_history: list[Any]) -> Any:
            said = answer_to([*message_history, text])
            return SimpleNamespace(
                output=said,
                usage=SimpleNamespace(requests=1, input_tokens=5, output_tokens=3),
                all_messages=lambda: [*message_history, text, said],
            )

    def keep(**fields: Any) -> Any:
        return fields

    Agent.__module__ = "pydantic_ai.agent"
    module = ModuleType("pydantic_ai.messages")
    for kind in ("ModelRequest", "ModelResponse", "UserPromptPart", "TextPart"):
        setattr(module, kind, keep)
    monkeypatch.setitem(sys.modules, "pydantic_ai.messages", module)
    return Agent()


class Graph:
    """Keeps the threads that it was run in, as a graph with a checkpointer does."""

    name, store = "graph", None

    def __init__(self) -> None:
        self.threads: list[str] = []

    async def ainvoke(self, state: dict[str, Any], config: dict[str, Any]) -> dict[str, Any]:
        self.threads.append(config["configurable"]["thread_id"])
        said = answer_to(state["messages"])
        used = {"input_tokens": len(state["messages"]), "output_tokens": 3}
        last = SimpleNamespace(content=[{"text": said}], usage_metadata=used)
        return {**state, "messages": [*state["messages"], last]}

    async def aget_state(self, config: dict[str, Any]) -> Any:
        assert config["configurable"]["thread_id"] == "mine"
        return SimpleNamespace(values={"messages": ["earlier"], "mood": "calm"})


Graph.__module__ = "langgraph.pregel"


class ToolAgent:
    """Has a memory of steps, as smolagents has."""

    def __init__(self) -> None:
        self.memory = SimpleNamespace(steps=["own step"])
        self.state: dict[str, Any] = {}
        self.managed_agents: dict[str, Any] = {}
        self.name = None

    def run(self, task: str, *, reset: bool, return_full_result: bool) -> str:
        assert not reset
        self.memory.steps.append(task)
        said = answer_to(self.memory.steps)
        used = SimpleNamespace(input_tokens=len(self.memory.steps), output_tokens=3)
        self.memory.steps.append(SimpleNamespace(token_usage=used))
        return said


ToolAgent.__module__ = "smolagents.agents"


@pytest.fixture
def smolagents(monkeypatch: pytest.MonkeyPatch) -> Any:
    def keep(**fields: Any) -> Any:
        return fields

    for name, kinds in (("memory", ("TaskStep", "ActionStep")), ("monitoring", ("Timing",))):
        module = ModuleType(f"smolagents.{name}")
        for kind in kinds:
            setattr(module, kind, keep)
        monkeypatch.setitem(sys.modules, f"smolagents.{name}", module)
    return ToolAgent()


@pytest.fixture(params=["openai_agents", "pydantic_ai", "langgraph", "smolagents"])
def app(request: pytest.FixtureRequest) -> Any:
    if request.param == "langgraph":
        return Graph()
    return request.getfixturevalue(request.param)


async def shown(agent: Any, **changes: Any) -> float:
    """Play a turn; return how many messages the app was shown."""
    decision = await agent.act(turn(**changes))
    assert isinstance(decision, Decision)
    assert (decision.action, decision.status) == ("cheat", "ok")
    assert decision.usage.calls == 1
    return float(decision.self_score or 0)


async def test_without_a_session_every_turn_starts_afresh(app: Any) -> None:
    agent = as_agent(app)
    part = find_agent(app)
    assert (part.stateless, part.isolated, part.forkable) == (True, True, None)
    assert await shown(agent) == await shown(agent, index=1) == 1


async def test_with_a_session_a_fork_remembers_and_is_thrown_away(app: Any) -> None:
    agent: Any = as_agent(app, session=True, name="remembers")
    assert agent_part(agent).forkable is not None
    one, two = await agent.fork(), await agent.fork()
    start = await shown(one)
    assert await shown(one, index=1) > start
    assert await shown(two) == start
    await agent.learn(episode())
    assert await shown(await agent.fork()) > start


async def test_a_thread_of_a_graph_is_read_and_never_written() -> None:
    graph = Graph()
    agent: Any = as_agent(graph, session="mine")
    fork = await agent.fork()
    assert await shown(fork) == 2
    assert fork._history["mood"] == "calm"
    assert await shown(await agent.fork()) == 2
    assert len(set(graph.threads)) == len(graph.threads)
    assert "mine" not in graph.threads


async def test_the_memory_of_a_smolagent_stays_as_it_was(smolagents: Any) -> None:
    agent: Any = as_agent(smolagents, session=True)
    assert await shown(await agent.fork()) == 2
    assert smolagents.memory.steps == ["own step"]


def test_a_graph_with_a_store_is_not_provably_isolated() -> None:
    graph = Graph()
    graph.store = object()  # type: ignore[assignment] # a stand-in
    part = find_agent(graph)
    assert (part.isolated, part.stateless) == (False, False)


async def test_an_outage_of_the_apps_model_is_no_fault_of_the_agent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class APIError(Exception):
        status_code = 503

    module = ModuleType("openai")
    module.APIError = APIError  # type: ignore[attr-defined] # a stand-in
    monkeypatch.setitem(sys.modules, "openai", module)

    class Broken(Graph):
        async def ainvoke(self, state: Any, config: Any) -> Any:
            raise APIError("come back later")

    with pytest.raises(ModelError, match="come back later") as caught:
        await as_agent(Broken()).act(turn())
    assert (caught.value.status, caught.value.retryable) == (503, True)


# Prompts of apps that remember


def test_an_app_that_remembers_is_told_the_rules_once() -> None:
    assert opening(turn()).count("Rules:\nthe rules") == 1
    assert later(turn(index=1), show_recollection=False) == (
        "the feedback\n\nthe board\n\n"
        "Last line of your reply: Answer: <ACTION>, Score: <SELF-SCORE>"
    )


def test_an_episode_becomes_a_conversation_with_its_last_words() -> None:
    (first, last) = conversation(episode())
    assert first[0].endswith("Rules:\nthe rules\n\nRound 1")
    assert first[1] == "Answer: cheat, Score: 2"
    assert last[0] == "The episode is over.\nYou cheated.\n\nAll rounds"


# Studies


class Counting:
    """Remembers how many episodes it learnt from; says so as its self-score."""

    def __init__(self, learnt: int = 0) -> None:
        self.learnt = learnt

    async def act(self, now: Turn) -> tuple[str, float]:
        return "cheat", float(self.learnt)

    async def fork(self) -> "Counting":
        return Counting(self.learnt)

    async def learn(self, lived: Episode) -> None:
        self.learnt += 1


def self_scores(store: Path) -> dict[str, set[float]]:
    db = sqlite3.connect(store)
    try:
        found: dict[str, set[float]] = {}
        for name, score in db.execute("SELECT episode, self_score FROM steps"):
            found.setdefault(name, set()).add(score)
        return found
    finally:
        db.close()


@pytest.mark.parametrize("agent", [Counting(), Counting, lambda: Counting()])
async def test_repeats_and_arms_share_no_memory(agent: Any, tmp_path: Path) -> None:
    sweep = Sweep(
        games=["trust"],
        agents=[find_agent(agent, "counting")],
        memories=["none", "own"],
        repeats=2,
        schedule=TINY,
        seed=1,
        store=tmp_path / "a.db",
    )
    result = await sweep.run()
    assert result.outcome.failed == {}
    found = self_scores(tmp_path / "a.db")
    for repeat in ("r0", "r1"):
        own, none = f"trust/counting/own/{repeat}", f"trust/counting/none/{repeat}"
        assert [found[f"{own}/{place}"] for place in ("x001", "x002")] == [{0.0}, {1.0}]
        assert [found[f"{own}/e{n:03d}.1"] for n in range(3)] == [{0.0}, {1.0}, {2.0}]
        assert {score for name in found if name.startswith(none) for score in found[name]} == {0.0}


async def test_an_episode_that_is_played_again_starts_from_an_untouched_copy(
    tmp_path: Path,
) -> None:
    broken: list[str] = ["e001.1"]
    odd: list[bool] = [False]

    class Diary(Counting):
        def __init__(self, learnt: int = 0) -> None:
            super().__init__(learnt)
            self.seen = 0

        async def act(self, now: Turn) -> tuple[str, float]:
            self.seen += 1
            if now.episode.endswith(tuple(broken)) and now.index == 4:
                broken.clear()
                raise ModelError("down", retryable=True)
            action = "collaborate" if odd[0] and now.index == 2 else "cheat"
            return action, float(self.seen)

        async def fork(self) -> "Diary":
            other = Diary(self.learnt)
            other.seen = self.seen
            return other

    def study() -> Study:
        return Study(
            game="trust", agent=Diary, memory="own", repeats=1, schedule=TINY, seed=2,
            store=tmp_path / "a.db",
        )  # fmt: skip

    assert (await study().run()).outcome.invalid
    odd[0] = True  # unlike its record: the attempt is abandoned and the episode played afresh
    assert (await study().resume()).outcome.invalid == ()
    assert self_scores(tmp_path / "a.db")["trust/Diary/own/r0/e001.1"] == set(
        map(float, range(1, 11))
    )


async def test_an_instance_whose_forks_cannot_learn_serves_one_study_alone(tmp_path: Path) -> None:
    class Plain:
        async def act(self, now: Turn) -> tuple[str, float]:
            return "cheat", 0.0

    class Lending(Counting):
        async def fork(self) -> Any:
            return Plain()

    study = Study(
        game="trust", agent=Lending(), memory="own", repeats=2, schedule=TINY,
        store=tmp_path / "a.db",
    )  # fmt: skip
    (reason,) = (await study.run()).outcome.failed.values()
    assert "pass a class or a factory" in reason


async def test_own_memory_needs_an_agent_that_learns(tmp_path: Path) -> None:
    class Forgetful:
        async def act(self, now: Turn) -> tuple[str, float]:
            return "cheat", 0.0

    with pytest.raises(ConfigError, match="needs an agent that owns its memory"):
        Study(game="trust", agent=Forgetful, memory="own").plans()
    study = Study(
        game="trust", agent=lambda: Forgetful(), memory="own", repeats=1, schedule=TINY,
        store=tmp_path / "a.db",
    )  # fmt: skip
    with pytest.raises(PluginError, match="no memory of its own"):
        raise PluginError(next(iter((await study.run()).outcome.failed.values())))


class Unforkable:
    """Learns, and cannot be copied."""

    def __init__(self) -> None:
        self.learnt = 0

    async def act(self, now: Turn) -> tuple[str, float]:
        return "cheat", float(self.learnt)

    async def learn(self, lived: Episode) -> None:
        self.learnt += 1


async def test_an_agent_that_cannot_fork_is_labelled_in_audit_and_report(tmp_path: Path) -> None:
    store = tmp_path / "a.db"
    study = Study(
        game="trust", agent=Unforkable(), memory="own", repeats=1, schedule=TINY, store=store
    )
    assert (await study.run()).outcome.failed == {}
    assert self_scores(store)["trust/Unforkable/own/r0/e002.1"] == {2.0}
    audit = audit_store(store, find_game)
    (finding,) = [one for one in audit.findings if one.check == "isolation"]
    assert (finding.level, finding.where) == ("warn", "studies trust/Unforkable/own/r0")
    assert "isolation not provable: its agent" in finding.message
    warnings = build_report(load_stores([store])).warnings
    assert [one for one in warnings if one.startswith("isolation not provable: agent 'Unforkable'")]


@pytest.mark.parametrize("declared", [True, False])
async def test_a_memory_outside_is_labelled_however_it_was_made(
    *, declared: bool, tmp_path: Path
) -> None:
    from s3gym.memory.adapters import FunctionMemory, from_functions

    kept: list[Episode] = []

    def recall(cue: Any) -> str:
        return f"{len(kept)} episodes"

    memory: Any = from_functions(kept.append, recall)
    if not declared:
        memory = lambda: FunctionMemory(kept.append, recall)  # noqa: E731
    store = tmp_path / "a.db"
    study = Study(
        game="trust", agent="random", memory=memory, repeats=1, schedule=TINY, store=store
    )
    assert (await study.run()).outcome.failed == {}
    messages = [one.message for one in audit_store(store, find_game).findings]
    assert [one for one in messages if one.startswith("isolation not provable: its memory")]
