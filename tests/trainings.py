"""A tiny training pathway for tests: weights are a JSON file, the trainer a script."""

import json
import sqlite3
import sys
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio.lowlevel

from s3gym.agents.model import ModelAgent
from s3gym.agents.train_command import CommandTrainer, weights_hash
from s3gym.api import Study
from s3gym.audit import audit_store
from s3gym.audit.findings import Audit
from s3gym.catalog import find_game, teachings
from s3gym.contracts.chat import Reply
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.records import Message
from s3gym.schedule import Schedule
from s3gym.seeds import Stream
from s3gym.sft import SFTPolicy
from s3gym.store import file
from s3gym.store.updates import UpdateLog, UpdateRow
from s3gym.training import Training

SCRIPT = """
import json, sys
from pathlib import Path

examples, base, out, seed, log = sys.argv[1:]
folder = Path(out)
old = Path(base) if Path(base).is_file() else Path(base, "tally.json")
tally = json.loads(old.read_text())
lines = [json.loads(line) for line in Path(examples).read_text().splitlines()]
for line in lines:
    answer = line["messages"][-1]["content"].rpartition("Answer: ")[2]
    action = answer.partition(",")[0]
    tally[action] = tally.get(action, 0) + line["weight"]
folder.mkdir()
Path(folder, "tally.json").write_text(json.dumps(tally, sort_keys=True))
told = {"losses": [1 / (1 + len(lines))], "steps": len(lines), "seed": int(seed)}
Path(log).write_text(json.dumps(told))
"""
BASE = {"cheat": 1, "collaborate": 1}
SCORES = {"cheat": 1, "collaborate": 2}
TINY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=1, max_steps=3)


class TallyChat:
    """Draws an action by the tally in its weights file, which it reads when it is first asked."""

    def __init__(self, path: str | Path, scores: dict[str, float] | None = None) -> None:
        self.name, self.path = "tally", Path(path)
        self.scores = SCORES if scores is None else scores
        self.closed = False
        self._tally: dict[str, float] | None = None

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        """Return an answer in the contract."""
        if self._tally is None:
            self._tally = read_tally(self.path)
        actions = sorted(self._tally)
        drawn = Stream(seed or 0).weighted([self._tally[action] for action in actions])
        action = actions[drawn]
        return Reply(text=f"Answer: {action}, Score: {self.scores.get(action, 0)}", model="tally")

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True


class TallyTrainer:
    """Trains in this process: counts the actions of its examples into the weights.

    Args:
        base: The file of the base weights.
        teach: From an example to the action that is learned; its own by default.
        before: Called before each update with its folder; may raise.
        opened: Takes every chat model that is made.
    """

    name = "tally"

    def __init__(
        self,
        base: Path,
        *,
        teach: Callable[[Example], str] | None = None,
        before: Callable[[Path], object] | None = None,
        opened: list[TallyChat] | None = None,
    ) -> None:
        self._base, self._teach, self._before = base, teach or taught, before
        self.opened = [] if opened is None else opened

    async def base(self) -> ModelRef:
        """Return the base weights."""
        return ModelRef(location=str(self._base), hash=self.fingerprint(str(self._base)))

    def fingerprint(self, location: str) -> str:
        """Return the hash of weights."""
        return weights_hash(Path(location))

    def chat(self, ref: ModelRef) -> TallyChat:
        """Return a chat model."""
        self.opened.append(TallyChat(ref.location))
        return self.opened[-1]

    async def update(
        self, examples: Sequence[Example], base: ModelRef, *, folder: Path, seed: int
    ) -> ModelRef:
        """Return new weights."""
        await anyio.lowlevel.checkpoint()
        if self._before is not None:
            self._before(folder)
        tally = read_tally(Path(base.location))
        for example in examples:
            action = self._teach(example)
            tally[action] = tally.get(action, 0) + example.weight
        weights = folder / "weights"
        weights.mkdir(exist_ok=True)
        (weights / "tally.json").write_text(json.dumps(tally, sort_keys=True))
        log = {"losses": [1 / (1 + len(examples))], "steps": len(examples), "seed": seed}
        found = self.fingerprint(str(weights))
        return ModelRef(location=str(weights), hash=found, log=log, machine={"peak_mb": 1.0})


def taught(example: Example) -> str:
    """Return the action of an example."""
    return example.answer.rpartition("Answer: ")[2].partition(",")[0]


def read_tally(path: Path) -> dict[str, float]:
    """Return the weights at a path."""
    file = path / "tally.json" if path.is_dir() else path
    tally: dict[str, float] = json.loads(file.read_text())
    return tally


def base_file(folder: Path) -> Path:
    """Write the base weights; return their path."""
    folder.mkdir(exist_ok=True, parents=True)
    base = folder / "base.json"
    base.write_text(json.dumps(BASE))
    return base


def command_trainer(folder: Path, script: str = SCRIPT, **more: Any) -> CommandTrainer:
    """Return a trainer that runs a script."""
    base = base_file(folder)
    (folder / "train.py").write_text(script)
    words = [sys.executable, str(folder / "train.py")]
    places = ["{examples}", "{base}", "{out}", "{seed}", "{log}"]
    values: dict[str, Any] = {"chat": TallyChat, "name": "tally"} | more
    return CommandTrainer([*words, *places], base, **values)


def training(folder: Path, trainer: Any = None, **more: Any) -> Training:
    """Return a training pathway that keeps what the agent scored at least 2."""
    values = {"policy": SFTPolicy(min_score=2)} | more
    return Training(trainer=trainer or TallyTrainer(base_file(folder)), **values)


def agent(folder: Path) -> ModelAgent:
    """Return the agent with the base weights."""
    return ModelAgent(TallyChat(base_file(folder)))


ONE = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, max_steps=3)
STUDY = "trust/tally/training/r0"


def study(folder: Path, store: str = "a.db", **more: Any) -> Study:
    values = {"schedule": TINY, "seed": 3, "repeats": 1, "agent": agent(folder)} | more
    if "training" not in values:
        values["training"] = training(folder)
    return Study(game="trust", store=folder / store, **values)


def audited(store: Path) -> Audit:
    return audit_store(store, find_game, teachings=teachings())


def faults(store: Path) -> list[str]:
    return [f"{f.check}: {f.where}" for f in audited(store).findings if f.level == "fail"]


def updates(store: Path, name: str = STUDY) -> dict[int, UpdateRow]:
    with closing(file.open_learner(store)) as db:
        return UpdateLog(db).of(name)


def tally(store: Path, version: int) -> dict[str, float]:
    row = updates(store)[version]
    folder = store.with_name(f"{store.name}.weights") / row.location
    found: dict[str, float] = json.loads((folder / "tally.json").read_text())
    return found


def edit(path: Path, statement: str, *values: object) -> int:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).rowcount
