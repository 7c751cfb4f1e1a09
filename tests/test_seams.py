"""A plug-in that misbehaves fails its own study with one clear line; the sweep goes on."""

import asyncio  # noqa: TID251 - what a second Ctrl-C ends
import sys
import time
from asyncio import CancelledError  # noqa: TID251 - what a careless agent raises
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from studies import drawing, plan, run_plans

from s3gym.answered import decide
from s3gym.calls import complete
from s3gym.contracts.chat import Reply
from s3gym.contracts.memory import MemorySnapshot
from s3gym.errors import InvalidActionError, ModelError, PluginError, StoreError
from s3gym.games.trust import SPEC as TRUST
from s3gym.memory.none import NoMemory
from s3gym.records import Cue, Decision, Message, Phase, Recollection, Turn, Usage
from s3gym.schedule import Schedule
from s3gym.seams import guarded
from s3gym.store.store import Store

HASTY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=2, act_seconds=0.05)


async def raises(turn: Turn) -> Any:
    raise KeyError("missing")


async def nonsense(turn: Turn) -> Any:
    return 42


async def hangs(turn: Turn) -> Any:
    await anyio.sleep(60)


async def not_a_number(turn: Turn) -> Any:
    return "cheat", float("nan")


async def infinite(turn: Turn) -> Any:
    return "cheat", float("inf")


async def words_as_score(turn: Turn) -> Any:
    return "cheat", "high"


async def huge_action(turn: Turn) -> Any:
    return "x" * 10_000_000, 0.0


async def huge_note(turn: Turn) -> Any:
    return Decision(action="cheat", note="x" * 10_000_000)


async def number_as_action(turn: Turn) -> Any:
    return Decision(action=7)  # type: ignore[arg-type] # what a careless agent does


async def odd_status(turn: Turn) -> Any:
    return Decision(action="cheat", status="fine")  # type: ignore[arg-type] # as above


class OddText(str):
    """Text whose own methods tell lies, also to SQLite."""

    def __conform__(self, protocol: object) -> object:
        return object()

    def __len__(self) -> int:
        return 0

    def isascii(self) -> bool:
        return True


class Touchy(int):
    """A number that raises when it is compared."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("do not touch")

    __ge__ = __le__ = __eq__
    __hash__ = int.__hash__


class TouchyText(str):
    """Text that raises when it is compared."""

    __eq__ = Touchy.__eq__
    __hash__ = str.__hash__


class Masked:
    """Raises when it is asked what it is."""

    @property  # type: ignore[misc] # it cannot be set
    def __class__(self) -> Any:
        raise RuntimeError("do not look")


async def masked(turn: Turn) -> Any:
    return Masked()


async def touchy_status(turn: Turn) -> Any:
    return Decision(action="cheat", status=TouchyText("ok"))  # type: ignore[arg-type] # as above


async def touchy_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=Touchy(1)))


class FailsToStart:
    def __init__(self) -> None:
        raise RuntimeError("no licence")

    async def act(self, turn: Turn) -> Any:
        return "cheat", 0.0


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Drastic(BaseException):
    pass


async def huge_score(turn: Turn) -> Any:
    return "cheat", 10**400


async def absurd_score(turn: Turn) -> Any:
    return "cheat", 1e308


async def absurd_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=1, input_tokens=2**62))


async def no_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=None)  # type: ignore[arg-type] # as above


async def odd_repairs(turn: Turn) -> Any:
    return Decision(action="cheat", repairs=(7,))  # type: ignore[arg-type] # as above


async def negative_usage(turn: Turn) -> Any:
    return Decision(action="cheat", usage=Usage(calls=-1))


async def raises_unspeakable(turn: Turn) -> Any:
    raise Unspeakable


async def returns_unspeakable(turn: Turn) -> Any:
    return Unspeakable()


async def exits(turn: Turn) -> Any:
    sys.exit(3)


async def drastic(turn: Turn) -> Any:
    raise Drastic


async def closes(turn: Turn) -> Any:
    raise GeneratorExit


def exits_in_a_thread(turn: Turn) -> Any:
    sys.exit(3)


def hangs_in_a_thread(turn: Turn) -> Any:
    Event().wait(30)


class ExitsAtStart:
    def __init__(self) -> None:
        sys.exit(3)

    async def act(self, turn: Turn) -> Any:
        return "cheat", 0.0


@pytest.mark.parametrize(
    ("agent", "says"),
    [
        (huge_score, "returned the self-score 1000"),
        (no_usage, "returned None as usage"),
        (negative_usage, "as usage: expected a Usage with counts from 0 on"),
        (odd_repairs, "returned 7 as repairs"),
        (raises_unspeakable, "raised Unspeakable in act (step 0): a Unspeakable that cannot be"),
        (returns_unspeakable, "returned a Unspeakable that cannot be shown: expected"),
        (exits, "raised SystemExit in act (step 0)"),
        (drastic, "raised Drastic in act (step 0)"),
        (closes, "raised GeneratorExit in act (step 0)"),
        (masked, "raised RuntimeError in what it gave: 'do not look'"),
        (touchy_status, "raised RuntimeError in what it gave: 'do not touch'"),
        (touchy_usage, "as usage: expected a Usage with counts from 0 on"),
        (exits_in_a_thread, "raised SystemExit in act (step 0)"),
        (hangs_in_a_thread, "did not answer act (step 0) within 0.05 s"),
        (ExitsAtStart, "raised SystemExit in its construction"),
        (raises, "agent 'raises' raised KeyError in act (step 0)"),
        (nonsense, "returned 42: expected a Decision, a string or a pair"),
        (hangs, "did not answer act (step 0) within 0.05 s"),
        (not_a_number, "returned the self-score nan: expected a finite number or None"),
        (absurd_score, "self-score 1e+308: expected a finite number or None, from -1e+15 to 1e+15"),
        (absurd_usage, "as usage: expected a Usage with counts from 0 on"),
        (infinite, "returned the self-score inf"),
        (words_as_score, "returned the self-score 'high'"),
        (huge_action, "returned a action of 10000000 characters: expected at most 100000"),
        (huge_note, "returned a note of 10000000 characters"),
        (number_as_action, "returned 7 as action: expected a string"),
        (odd_status, "returned the status 'fine'"),
        (FailsToStart, "agent 'FailsToStart' raised RuntimeError in its construction"),
    ],
)
async def test_a_bad_agent_fails_its_study_and_no_other(
    tmp_path: Path, agent: Any, says: str
) -> None:
    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent, schedule=HASTY), plan(schedule=HASTY)])
    assert list(outcome.failed) == [f"trust/{agent.__name__}/history/r0"]
    assert says in outcome.failed[f"trust/{agent.__name__}/history/r0"]
    assert "\n" not in next(iter(outcome.failed.values()))
    with Store.open(path) as store:
        assert store.ledger.status("trust/drawing/history/r0") == "done"
        assert store.ledger.status(next(iter(outcome.failed))) == "failed"


async def test_an_agent_that_blocks_the_loop_is_named_and_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def blocks(turn: Turn) -> Any:
        if turn.index == 2:
            time.sleep(0.4)
        return "cheat", 0.0

    # No memory: a vocabulary that is loaded at the first count would hold the loop as well.
    plans = [plan(agent=blocks, memory=NoMemory), plan(memory=NoMemory)]
    outcome = await run_plans(tmp_path / "a.db", plans, block_seconds=0.1)
    assert list(outcome.failed) == ["trust/blocks/none/r0"]
    assert "blocked the event loop" in outcome.failed["trust/blocks/none/r0"]
    assert "agent 'blocks' blocks the event loop" in caplog.text


async def test_a_plain_function_runs_in_a_thread_and_may_block(tmp_path: Path) -> None:
    def slow(turn: Turn) -> Any:
        if turn.index == 2:
            Event().wait(0.6)
        return "cheat", 0.0

    outcome = await run_plans(
        tmp_path / "a.db", [plan(agent=slow, memory=NoMemory)], block_seconds=0.5
    )
    assert outcome.failed == {}


class BadMemory:
    recall_each = "episode"

    def __init__(self, **faults: Any) -> None:
        self._faults = faults

    def _do(self, what: str) -> Any:
        if what in self._faults:
            raise self._faults[what]

    async def record(self, episode: Any) -> None:
        self._do("record")

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        self._do("consolidate")

    async def recall(self, cue: Cue) -> Any:
        self._do("recall")
        return self._faults.get("answer", Recollection())

    def freeze(self) -> Any:
        self._do("freeze")
        return self


async def test_a_cancellation_that_nobody_asked_for_fails_its_study(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        if anyio.get_cancelled_exc_class() is not CancelledError:
            raise Drastic  # trio's cannot be made by hand
        raise CancelledError

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=agent), plan()])
    assert list(outcome.failed) == ["trust/agent/history/r0"]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio only scopes cancel
async def test_a_task_that_asyncio_cancels_is_no_mistake_of_its_plug_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    task = asyncio.ensure_future(guarded("agent 'mine'", "act", anyio.sleep_forever, 60))
    await anyio.lowlevel.checkpoint()
    task.cancel()
    with pytest.raises(CancelledError):
        await task
    assert not caplog.records


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # on trio only scopes cancel
@pytest.mark.parametrize("waits", [True, False], ids=["and waits", "and answers"])
@pytest.mark.parametrize("phase", Phase)
async def test_an_agent_that_cancels_its_task_fails_its_study_and_no_other(
    tmp_path: Path, phase: Phase, waits: bool
) -> None:
    async def agent(turn: Turn) -> Any:
        task = asyncio.current_task()
        if turn.phase is phase and task is not None:
            task.cancel()
            if waits:
                await anyio.sleep(1)
        return "cheat", 0.0

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent), plan()])
    assert list(outcome.failed) == ["trust/agent/history/r0"]
    assert "cancel" in outcome.failed["trust/agent/history/r0"].lower()
    with Store.open(path) as store:
        assert store.ledger.status("trust/agent/history/r0") == "failed"
        assert store.ledger.status("trust/drawing/history/r0") == "done"


async def test_a_mistake_beside_a_cancellation_is_its_plug_ins() -> None:
    async def stumbles() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            raise ValueError("x")

    async def act() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(stumbles)
            await anyio.sleep_forever()

    with anyio.move_on_after(0.01), pytest.raises(PluginError, match="agent 'mine' raised"):
        await guarded("agent 'mine'", "act", act, 60)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # closed by hand, in the midst of a loop
async def test_a_coroutine_that_is_closed_is_no_mistake_of_its_plug_in(
    caplog: pytest.LogCaptureFixture,
) -> None:
    waiting = guarded("agent 'mine'", "act", anyio.sleep_forever, 60)
    waiting.send(None)
    waiting.close()
    assert not caplog.records


class OddChat:
    """A chat model that answers what it is given."""

    endpoint = "odd"

    def __init__(self, reply: Any, name: Any = "odd") -> None:
        self.reply, self.name = reply, name

    async def complete(self, messages: Any, *, max_tokens: int, seed: int | None = None) -> Any:
        return self.reply


FINE = Reply(text="Answer: cheat, Score: 1")


@pytest.mark.parametrize(
    ("chat", "asked", "says"),
    [
        (OddChat(None), {}, "raised AttributeError in act"),
        (OddChat(Reply(text=7)), {}, "chat model 'odd' answered 7 as text"),  # type: ignore[arg-type] # as above
        (OddChat(replace(FINE, finish=None)), {}, "answered None as finish"),  # type: ignore[arg-type] # as above
        (OddChat(FINE, name=("a", "b")), {}, "('a', 'b') as the model's name"),
        (OddChat(FINE), {"max_tokens": "nine"}, "max_tokens 'nine': expected a count"),
        (OddChat(FINE), {"max_tokens": 10**30}, "expected a count"),
        (OddChat(FINE), {"seed": 2**64}, "expected a 64-bit integer"),
        (OddChat(FINE), {"layout": None}, "None as layout: expected a string"),
        (OddChat(FINE), {"purpose": ("act",)}, "as purpose: expected a string"),
        (OddChat(FINE), {"messages": [Message(role=5, content="x")]}, "as the role of a message"),  # type: ignore[arg-type] # as above
        (OddChat(FINE), {"messages": ["x"]}, "a model call with 'x': expected a Message"),
    ],
)
async def test_a_call_that_no_store_can_keep_fails_its_study_and_no_other(
    tmp_path: Path, chat: Any, asked: dict[str, Any], says: str
) -> None:
    async def agent(turn: Turn) -> Any:
        given: dict[str, Any] = {"messages": turn.messages(), "purpose": "act", "max_tokens": 9}
        given |= asked
        return (await complete(chat, **given)).text

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent), plan(), plan("snake")])
    assert list(outcome.failed) == ["trust/agent/history/r0"]
    assert says in outcome.failed["trust/agent/history/r0"]
    with Store.open(path) as store:
        assert store.ledger.status("snake/drawing/history/r0") == "done"


async def test_an_outage_inside_an_agents_own_task_group_is_an_outage(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        raise ExceptionGroup("side by side", [ModelError("down", retryable=True)])

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=agent)])
    assert outcome.paused == ("trust/agent/history/r0",)


async def test_a_part_that_cannot_be_closed_spoils_nothing(tmp_path: Path) -> None:
    class Sticky:
        async def act(self, turn: Turn) -> Any:
            return await drawing(turn)

        async def aclose(self) -> None:
            raise RuntimeError("stuck")

    outcome = await run_plans(tmp_path / "a.db", [plan(agent=Sticky)])
    assert outcome.failed == {}
    with Store.open(tmp_path / "a.db") as store:
        assert store.ledger.status("trust/Sticky/history/r0") == "done"


@pytest.mark.parametrize("what", ["record", "consolidate", "recall", "freeze"])
async def test_a_bad_memory_fails_its_study(tmp_path: Path, what: str) -> None:
    outcome = await run_plans(
        tmp_path / "a.db", [plan(memory=lambda: BadMemory(**{what: RuntimeError("broken")}))]
    )
    (reason,) = outcome.failed.values()
    assert f"raised RuntimeError in {what}: 'broken'" in reason


async def test_a_memory_that_recalls_nonsense_fails_its_study(tmp_path: Path) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=lambda: BadMemory(answer="a text"))])
    (reason,) = outcome.failed.values()
    assert "recalled 'a text': expected a Recollection" in reason


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Recollection(text="x", sources=(7,)), "returned 7 as sources"),  # type: ignore[arg-type]
        (Recollection(text="x", tokens=-1), "recalled -1 as tokens"),
        (Recollection(text="x", dropped=None), "recalled None as dropped"),  # type: ignore[arg-type]
        (Recollection(text="x", steps=(1,)), "as steps: expected Step"),  # type: ignore[arg-type]
        (Recollection(text="x" * 20_000_001), "returned a recollection of 20000001 characters"),
    ],
)
async def test_a_memory_that_recalls_odd_values_fails_its_study(
    tmp_path: Path, answer: Recollection, says: str
) -> None:
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=lambda: BadMemory(answer=answer))])
    (reason,) = outcome.failed.values()
    assert says in reason


@pytest.mark.parametrize("name", ["isolated", "recall_each", "describe"])
async def test_an_attribute_of_a_memory_that_raises_fails_its_study(
    tmp_path: Path, name: str
) -> None:
    class Raising(NoMemory):
        pass

    setattr(Raising, name, property(lambda self: 1 // 0))
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Raising), plan()])
    assert list(outcome.failed) == ["trust/drawing/Raising/r0"]
    assert "memory 'Raising' raised ZeroDivisionError" in next(iter(outcome.failed.values()))


async def test_texts_that_tell_lies_are_kept_as_plain_text(tmp_path: Path) -> None:
    async def agent(turn: Turn) -> Any:
        return Decision(action="cheat", note=OddText("a \ud800"))

    class Memory(NoMemory):
        async def recall(self, cue: Cue) -> Recollection:
            return Recollection(text=OddText("b"), sources=(OddText("c"),))

    path = tmp_path / "a.db"
    game = BadGame("observe", OddText("board"))
    outcome = await run_plans(path, [plan(game, agent=agent, memory=Memory), plan()])
    assert outcome.failed == {}
    with Store.open(path) as store:
        notes = store.connection.execute("SELECT DISTINCT note FROM steps").fetchall()
    assert ("a ?",) in notes


async def test_a_recollection_with_a_lone_surrogate_is_kept_without_it(tmp_path: Path) -> None:
    memory = lambda: BadMemory(answer=Recollection(text="\ud800 x", sources=("\ud800",)))  # noqa: E731
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=memory)])
    assert outcome.failed == {}


@pytest.mark.parametrize("lacks", ["recall_each", "recall", "freeze"])
async def test_a_memory_without_a_method_fails_its_study(tmp_path: Path, lacks: str) -> None:
    class Lacking(BadMemory):
        pass

    setattr(Lacking, lacks, None)
    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Lacking)])
    assert list(outcome.failed) == ["trust/drawing/Lacking/r0"]
    with Store.open(tmp_path / "a.db") as store:
        assert store.ledger.status("trust/drawing/Lacking/r0") == "failed"


@pytest.mark.parametrize("snapshot", ["a text", MemorySnapshot(text="x", state={"a": object()})])
async def test_a_memory_that_describes_nonsense_fails_its_study(
    tmp_path: Path, snapshot: Any
) -> None:
    class Describing(BadMemory):
        def describe(self) -> Any:
            return snapshot

    outcome = await run_plans(tmp_path / "a.db", [plan(memory=Describing)])
    assert list(outcome.failed) == ["trust/drawing/Describing/r0"]


class BadGame:
    """Trust with one method broken."""

    def __init__(self, what: str, answer: Any) -> None:
        self.what, self.answer = what, answer
        self.name, self.version = "trust", 1
        self.options, self.anchors = TRUST.options, TRUST.anchors

    def instruction(self, options: Any, phase: Phase) -> Any:
        return self._do("instruction", TRUST.instruction(options, phase))

    def rules(self, options: Any, phase: Phase) -> Any:
        return self._do("rules", TRUST.rules(options, phase))

    def setup(self, options: Any, phase: Phase) -> Any:
        setup = TRUST.setup(options, phase)
        inner, judge, outer = setup.game, setup.verifier, self

        class Rules:
            def start(self, seeds: Any) -> Any:
                return outer._do("start", inner.start(seeds))

            def observe(self, state: Any, clock: Any) -> Any:
                return outer._do("observe", inner.observe(state, clock))

            def apply(self, state: Any, action: str) -> Any:
                return outer._do("apply", inner.apply(state, "cheat"))

        class Judge:
            def reward(self, before: Any, action: str, after: Any) -> Any:
                return outer._do("reward", judge.reward(before, "cheat", after))

            def score(self, rewards: Any, final: Any) -> Any:
                return outer._do("score", judge.score(rewards, final))

        changed: Any = replace(setup, game=Rules(), verifier=Judge())
        return self._do("setup", changed)

    def _do(self, what: str, usual: Any) -> Any:
        if what != self.what:
            return usual
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.mark.parametrize(
    "what", ["instruction", "rules", "setup", "start", "observe", "apply", "reward", "score"]
)
@pytest.mark.parametrize(
    "answer",
    [
        object(),
        10**400,
        ValueError("4711"),
        StoreError("4711"),
        SystemExit("4711"),
        GeneratorExit("4711"),
        Drastic(),
    ],
    ids=lambda answer: type(answer).__name__,
)
async def test_a_bad_game_fails_its_study_and_no_other(
    tmp_path: Path, what: str, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if what == "start" and not isinstance(answer, BaseException):
        pytest.skip("a state may be anything")
    game = BadGame(what, answer)
    outcome = await run_plans(tmp_path / "a.db", [plan(game), plan("snake")])
    assert list(outcome.failed) == ["trust/drawing/history/r0"]
    assert "4711" not in repr(outcome) + caplog.text


async def test_a_refusal_that_cannot_be_told_is_a_mistake_of_the_game(tmp_path: Path) -> None:
    game = BadGame("apply", InvalidActionError(Unspeakable()))
    outcome = await run_plans(tmp_path / "a.db", [plan(game), plan("snake")])
    assert list(outcome.failed) == ["trust/drawing/history/r0"]
    assert "raised RuntimeError in refusal" in next(iter(outcome.failed.values()))


async def test_a_refusal_outside_apply_is_a_mistake_of_the_game(tmp_path: Path) -> None:
    game = BadGame("observe", InvalidActionError("no"))
    outcome = await run_plans(tmp_path / "a.db", [plan(game)])
    assert "raised InvalidActionError in observe" in next(iter(outcome.failed.values()))


async def test_a_game_that_blocks_the_loop_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broken: list[str] = []
    game = BadGame("", None)
    game._do = lambda what, usual: time.sleep(0.5 * (what == "rules")) or usual  # type: ignore[method-assign, func-returns-value] # blocks
    once = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
    plans = [plan(game, schedule=once)]
    await run_plans(tmp_path / "a.db", plans, block_seconds=0.1, interrupt=broken.append)
    assert "game 'trust'" in broken


async def test_a_memory_over_budget_is_cut_at_a_line_end(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(100))
    seen: list[str] = []

    async def agent(turn: Turn) -> Any:
        seen.append(turn.recollection.text)
        return await drawing(turn)

    small = Schedule(
        exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, memory_tokens=20
    )
    await run_plans(
        tmp_path / "a.db",
        [plan(agent=agent, memory=lambda: BadMemory(answer=Recollection(text=text)),
              schedule=small)],
    )  # fmt: skip
    assert seen[0]
    assert text.startswith(seen[0] + "\n")


def test_a_string_goes_through_the_response_contract() -> None:
    decision = decide("agent", "thinking\nAnswer: cheat, Score: 3")
    assert (decision.action, decision.self_score, decision.status) == ("cheat", 3.0, "ok")


def test_a_lone_surrogate_is_replaced() -> None:
    assert decide("agent", ("\ud800 cheat", 1)).action == "? cheat"


def test_end_is_recognised_in_any_case() -> None:
    assert decide("agent", (" end ", 1)).status == "end"
    assert decide("agent", Decision(action="END")).status == "end"


def test_a_truth_value_of_numpy_is_a_number() -> None:
    import numpy as np

    assert decide("agent", ("cheat", np.float32(0.5))).self_score == 0.5
    with pytest.raises(PluginError):
        decide("agent", ("cheat", "0.5"))


async def test_a_plug_in_that_was_broken_off_once_is_not_blamed_later(tmp_path: Path) -> None:
    first = True

    async def blocks_and_raises(turn: Turn) -> Any:
        nonlocal first
        if first:
            first = False
            time.sleep(0.4)
            raise RuntimeError("broken off")
        return "cheat", 0.0

    plans = [plan(agent=blocks_and_raises, memory=NoMemory, repeat=repeat) for repeat in (0, 1)]
    outcome = await run_plans(tmp_path / "a.db", plans, block_seconds=0.1, at_most=1)
    (reason,) = outcome.failed.values()  # of whichever study came first
    assert "raised RuntimeError" in reason
