"""Small studies for tests of the engine."""

from pathlib import Path
from typing import Any

from s3gym.broker import Limits
from s3gym.events import Event
from s3gym.games.snake import SPEC as SNAKE
from s3gym.games.trust import SPEC as TRUST
from s3gym.memory.history import HistoryMemory
from s3gym.memory.none import NoMemory
from s3gym.parts import agent_part, memory_part
from s3gym.plans import StudyPlan
from s3gym.records import Decision, Turn
from s3gym.schedule import Schedule
from s3gym.seeds import SeedPlan, Stream
from s3gym.store import file
from s3gym.store.store import Store
from s3gym.sweep import Outcome, add_studies, run_sweep
from s3gym.tokens import token_counter

TINY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=2)
SPECS: dict[str, Any] = {"trust": TRUST, "snake": SNAKE}
WORDS = {"trust": ("collaborate", "cheat"), "snake": ("UP", "LEFT", "DOWN", "RIGHT", "nonsense")}


async def drawing(turn: Turn) -> Decision:
    """An agent that draws among the words of its game, invalid ones too."""
    stream = Stream(turn.seed)
    return Decision(
        action=stream.pick(WORDS[turn.game]),
        self_score=round(stream.uniform() * 3 - 1, 3),
        note=f"remembered {len(turn.recollection.steps)} steps",
    )


def plan(
    game: Any = "trust",
    agent: Any = drawing,
    memory: Any = HistoryMemory,
    *,
    repeat: int = 0,
    schedule: Schedule = TINY,
    seed: int = 7,
    **options: Any,
) -> StudyPlan:
    """Return a small study plan."""
    spec = SPECS[game] if isinstance(game, str) else game
    names = {HistoryMemory: "history", NoMemory: "none"}
    return StudyPlan(
        game=spec,
        options=spec.options(**options),
        agent=agent_part(agent),
        memory=memory_part(memory, names.get(memory)),
        repeat=repeat,
        schedule=schedule,
        seeds=SeedPlan(root=seed, salt="s"),
        counter=token_counter("estimate"),
    )


async def run_plans(
    path: Path, plans: list[StudyPlan], limits: Limits | None = None, **more: Any
) -> Outcome:
    """Run plans into a new store, or take an existing one up."""
    new = not path.exists()
    with Store.create(path) if new else Store.open(path) as store:
        if new:
            with store.transaction():
                store.verdicts.set_secret("root_seed", str(plans[0].seeds.root))
                store.verdicts.set_secret("salt", plans[0].seeds.salt)
            add_studies(store, plans)
        return await run_sweep(plans, store, limits=limits, **more)


LEARNER_TABLES = (
    "studies",
    "episodes",
    "steps",
    "recollections",
    "messages",
    "memory_versions",
    "updates",
)
CALL_COLUMNS = "study, place, step, purpose, attempt, chat, layout, request_hash, messages, reply"


def learner_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every learner-side row, ordered by key."""
    db = file.open_learner(path)
    try:
        rows = {
            table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr)
            for table in LEARNER_TABLES
        }
        rows["calls"] = sorted(db.execute(f"SELECT {CALL_COLUMNS} FROM calls"), key=repr)
        return rows
    finally:
        db.close()


def verifier_rows(path: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Return every verdict, score and seal, ordered by key."""
    db = file.open_reader(path)
    try:
        return {
            table: sorted(db.execute(f"SELECT * FROM {table}"), key=repr)
            for table in ("verdicts", "scores", "seals")
        }
    finally:
        db.close()


def seen(events: list[Event], kind: str) -> list[Event]:
    """Return the events of one kind."""
    return [event for event in events if event.kind == kind]
