"""A study explores, consolidates, freezes and evaluates in the paper's order."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from studies import TINY, drawing, learner_rows, plan, run_plans, verifier_rows

from s3gym.contracts.memory import MemoryReader, RecallEach
from s3gym.errors import ModelError, StoreError
from s3gym.memory.history import HistoryMemory
from s3gym.memory.none import NoMemory
from s3gym.records import Cue, Episode, Phase, Recollection, Turn
from s3gym.schedule import Schedule
from s3gym.store.store import Store


class Spy:
    """A memory that writes down what happens to it."""

    recall_each: RecallEach = "episode"

    def __init__(self) -> None:
        self.log: list[str] = []

    async def record(self, episode: Episode) -> None:
        self.log.append(f"record {episode.ordinal}")

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        self.log.append("consolidate")

    async def recall(self, cue: Cue) -> Recollection:
        return Recollection(text=f"{len(self.log)} entries") if self.log else Recollection()

    def freeze(self) -> MemoryReader:
        view = Spy()
        view.log = list(self.log)
        return view


async def test_a_study_plays_what_its_schedule_says(tmp_path: Path) -> None:
    await run_plans(tmp_path / "a.db", [plan()])
    episodes = learner_rows(tmp_path / "a.db")["episodes"]
    assert [row[0].rpartition("/")[2] for row in episodes] == [
        "e000.1", "e000.2", "e001.1", "e001.2", "e002.1", "e002.2", "x001", "x002",
    ]  # fmt: skip
    assert {row[10] for row in episodes} == {"done"}


async def test_memory_records_and_consolidates_after_each_exploration_episode(
    tmp_path: Path,
) -> None:
    made: list[Spy] = []

    def factory() -> Any:
        made.append(Spy())
        return made[-1]

    await run_plans(tmp_path / "a.db", [plan(memory=factory)])
    assert made[0].log == ["record 1", "consolidate", "record 2", "consolidate"]


async def test_evaluation_reads_the_view_of_its_own_checkpoint(tmp_path: Path) -> None:
    recalled: dict[str, str] = {}

    async def agent(turn: Turn) -> tuple[str, float]:
        recalled[turn.episode.rpartition("/")[2]] = turn.recollection.text
        await anyio.sleep(0.001)
        return "cheat", 0.0

    await run_plans(tmp_path / "a.db", [plan(agent=agent, memory=Spy)])
    assert recalled["e000.1"] == "" == recalled["x001"]
    assert recalled["e001.1"] == "2 entries" == recalled["x002"]
    assert recalled["e002.2"] == "4 entries"


async def test_evaluation_runs_beside_the_exploration_that_follows(tmp_path: Path) -> None:
    order: list[str] = []

    async def agent(turn: Turn) -> tuple[str, float]:
        order.append(turn.episode.rpartition("/")[2])
        await anyio.sleep(0.001)
        return "cheat", 0.0

    await run_plans(tmp_path / "a.db", [plan(agent=agent)])
    assert order.index("x001") < len(order) - 1 - order[::-1].index("e000.1")
    assert order.index("e000.2") < len(order) - 1 - order[::-1].index("e000.1")


async def test_equal_plans_give_equal_rows_and_roots(tmp_path: Path) -> None:
    plans = [plan("trust"), plan("snake"), plan("snake", repeat=1)]
    await run_plans(tmp_path / "a.db", plans)
    await run_plans(tmp_path / "b.db", plans)
    assert learner_rows(tmp_path / "a.db") == learner_rows(tmp_path / "b.db")
    assert verifier_rows(tmp_path / "a.db") == verifier_rows(tmp_path / "b.db")


async def test_arms_share_game_seeds_and_repeats_do_not(tmp_path: Path) -> None:
    plans = [plan(memory=HistoryMemory), plan(memory=NoMemory), plan(repeat=1)]
    await run_plans(tmp_path / "a.db", plans)
    seeds = {row[0]: row[4] for row in verifier_rows(tmp_path / "a.db")["scores"]}
    history, none, other = (
        [seeds[name] for name in sorted(seeds) if name.startswith(f"{one.id}/")] for one in plans
    )
    assert history == none
    assert not set(history) & set(other)


async def test_an_outage_in_evaluation_leaves_an_invalid_point_that_resume_retries(
    tmp_path: Path,
) -> None:
    down = True

    async def agent(turn: Turn) -> Any:
        if down and turn.episode.endswith("e001.1"):
            raise ModelError("the service is down", retryable=True)
        return await drawing(turn)

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent)])
    assert outcome.invalid == ("trust/agent/history/r0",)
    with Store.open(path) as store:
        assert store.ledger.invalid(outcome.invalid[0]) == [(1, "the service is down")]
    down = False
    outcome = await run_plans(path, [plan(agent=agent)])
    assert outcome.invalid == ()
    await run_plans(tmp_path / "b.db", [plan(agent=agent)])
    assert learner_rows(path) == learner_rows(tmp_path / "b.db")
    assert verifier_rows(path) == verifier_rows(tmp_path / "b.db")


async def test_an_outage_in_exploration_pauses_the_study_and_keeps_its_steps(
    tmp_path: Path,
) -> None:
    calls = 0

    async def agent(turn: Turn) -> Any:
        nonlocal calls
        calls += 1
        if turn.episode.endswith("x002") and turn.index == 4 and calls < 1_000:
            calls += 1_000
            raise ModelError("the service is down", retryable=True)
        return await drawing(turn)

    path = tmp_path / "a.db"
    outcome = await run_plans(path, [plan(agent=agent)])
    assert outcome.paused == ("trust/agent/history/r0",)
    assert (await run_plans(path, [plan(agent=agent)])).paused == ()
    await run_plans(tmp_path / "b.db", [plan(agent=agent)])
    assert learner_rows(path) == learner_rows(tmp_path / "b.db")


async def test_a_finished_study_is_not_played_again(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    await run_plans(path, [plan()])

    async def never(turn: Turn) -> Any:
        raise AssertionError("played again")

    never.__name__ = "drawing"
    assert (await run_plans(path, [plan(agent=never)])).failed == {}


async def test_a_forkable_agent_learns_only_with_its_own_memory(tmp_path: Path) -> None:
    learned: list[str] = []

    class Keeper:
        def __init__(self, episodes: tuple[str, ...] = ()) -> None:
            self.episodes = episodes

        async def act(self, turn: Turn) -> tuple[str, float]:
            return ("cheat" if self.episodes else "collaborate"), 0.0

        async def fork(self) -> "Keeper":
            return Keeper(self.episodes)

        async def learn(self, episode: Episode) -> None:
            learned.append(episode.id)
            self.episodes = (*self.episodes, episode.id)

    from s3gym.catalog import find_memory

    own = plan(agent=Keeper())
    own = type(own)(**{
        name: getattr(own, name) for name in own.__dataclass_fields__ if name != "memory"
    }, memory=find_memory("own"))  # fmt: skip
    await run_plans(tmp_path / "a.db", [own])
    assert learned == [f"{own.id}/x001", f"{own.id}/x002"]
    actions = {
        row[0].rpartition("/")[2]: row[2] for row in learner_rows(tmp_path / "a.db")["steps"]
    }
    assert actions["e000.1"] == "collaborate"
    assert actions["e001.1"] == actions["e002.1"] == "cheat"
    learned.clear()
    await run_plans(tmp_path / "b.db", [plan(agent=Keeper(), memory=NoMemory)])
    assert learned == []


async def test_a_changed_game_option_is_refused_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "a.db"

    async def stops(turn: Turn) -> Any:
        raise ModelError("down", retryable=True)

    await run_plans(path, [plan("snake", agent=stops)])
    other = plan("snake", agent=stops, apples=1)
    with pytest.raises(StoreError, match="starts unlike the recorded episode"):
        await run_plans(path, [other])


def test_the_paper_schedule_has_the_papers_numbers() -> None:
    schedule = Schedule.paper()
    assert schedule.checkpoints == (0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30)
    assert (schedule.evaluation_episodes, schedule.max_steps) == (3, 64)
    assert (schedule.memory_tokens, schedule.reply_tokens) == (100_000, 14_000)
    quick = Schedule.quick()
    assert (quick.checkpoints, quick.evaluation_episodes) == ((0, 3, 6), 2)


def test_phases_are_told_apart_by_the_lowest_bit() -> None:
    seeds = plan(schedule=TINY).seeds
    for index in range(50):
        assert seeds.episode("trust", 0, Phase.EXPLORATION, index) % 2 == 0
        assert seeds.episode("trust", 0, Phase.EVALUATION, index) % 2 == 1
