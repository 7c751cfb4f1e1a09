"""A tiny training pathway for tests: weights are a JSON file, the trainer a script."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from s3gym.agents.model import ModelAgent
from s3gym.agents.train_command import CommandTrainer
from s3gym.contracts.chat import Reply
from s3gym.records import Message
from s3gym.schedule import Schedule
from s3gym.seeds import Stream
from s3gym.sft import SFTPolicy
from s3gym.training import Training

SCRIPT = """
import json, sys
from pathlib import Path

examples, base, out, seed, log = sys.argv[1:]
old = Path(base) if Path(base).is_file() else Path(base, "tally.json")
tally = json.loads(old.read_text())
lines = [json.loads(line) for line in Path(examples).read_text().splitlines()]
for line in lines:
    answer = line["messages"][-1]["content"].rpartition("Answer: ")[2]
    action = answer.partition(",")[0]
    tally[action] = tally.get(action, 0) + line["weight"]
Path(out).mkdir()
Path(out, "tally.json").write_text(json.dumps(tally, sort_keys=True))
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
            file = self.path / "tally.json" if self.path.is_dir() else self.path
            self._tally = json.loads(file.read_text())
        actions = sorted(self._tally)
        drawn = Stream(seed or 0).weighted([self._tally[action] for action in actions])
        action = actions[drawn]
        return Reply(text=f"Answer: {action}, Score: {self.scores.get(action, 0)}", model="tally")

    async def aclose(self) -> None:
        """Note that it was closed."""
        self.closed = True


def base_file(folder: Path) -> Path:
    """Write the base weights and the trainer's script; return the weights' path."""
    folder.mkdir(exist_ok=True, parents=True)
    (folder / "train.py").write_text(SCRIPT)
    base = folder / "base.json"
    base.write_text(json.dumps(BASE))
    return base


def command_trainer(folder: Path, script: str | None = None, **more: Any) -> CommandTrainer:
    """Return a trainer that runs the script, or another one."""
    base = base_file(folder)
    if script is not None:
        (folder / "train.py").write_text(script)
    words = [sys.executable, str(folder / "train.py")]
    places = ["{examples}", "{base}", "{out}", "{seed}", "{log}"]
    return CommandTrainer([*words, *places], base, chat=TallyChat, name="tally", **more)


def training(folder: Path, script: str | None = None, **more: Any) -> Training:
    """Return a training pathway that keeps what the agent scored at least 2."""
    values = {"policy": SFTPolicy(min_score=2)} | more
    return Training(trainer=command_trainer(folder, script), **values)


def agent(folder: Path) -> ModelAgent:
    """Return the agent with the base weights."""
    return ModelAgent(TallyChat(base_file(folder)))
