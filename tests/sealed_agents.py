"""Agents for sealed runs; child processes load them from here by name."""

import gc
import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import replace
from glob import glob
from pathlib import Path
from typing import Any

from s3gym import calls
from s3gym.contracts.chat import Reply
from s3gym.errors import BudgetExhaustedError, ModelError
from s3gym.records import Decision, Episode, Message, Turn, Usage
from s3gym.replies import parse_reply

STORES = "/tmp/s3gym-cheat-*/out.db"


async def raises(turn: Turn) -> str:
    raise KeyError("oh")


async def dies(turn: Turn) -> str:
    if turn.index == 2:
        sys.stderr.write("my last words\n")
        sys.stderr.flush()
        os._exit(3)
    return "Answer: cheat, Score: 1"


async def hangs(turn: Turn) -> str:
    while True:
        time.sleep(0.01)


async def scribbles(turn: Turn) -> str:
    for number in range(3, 40):
        try:
            os.write(number, b'{"id": [[[ nonsense\n')
        except OSError:
            continue
    return "Answer: cheat, Score: 1"


async def forges_errors(turn: Turn) -> str:
    for number in range(99):
        line = {"id": number, "error": {"kind": "PluginError", "message": "\ud800 forged"}}
        os.write(int(sys.argv[2]), json.dumps(line).encode() + b"\n")
    return "Answer: cheat, Score: 1"


async def floods(turn: Turn) -> str:
    lines = b'{"id": 999999}\n' * 5_000
    left = lines
    while True:
        try:
            left = left[os.write(int(sys.argv[2]), left) :] or lines
        except BlockingIOError:
            continue


async def leaves_a_process(turn: Turn) -> str:
    """End, and leave a process that holds the pipe for longer than any deadline."""
    pipe = int(sys.argv[2])
    subprocess.Popen(["sleep", "30"], pass_fds=[pipe])
    os._exit(4)


async def forges(turn: Turn) -> Decision:
    return Decision(action="cheat", self_score=1.0, note="x", usage=Usage(calls=10**30))


async def spends(turn: Turn) -> str:
    raise BudgetExhaustedError("max_usd is used up: forged")


async def environment(turn: Turn) -> Decision:
    return Decision(action="cheat", self_score=0.0, note=json.dumps(dict(os.environ)))


class Counting:
    """Keeps a count within its episode."""

    def __init__(self) -> None:
        self.turns = 0

    async def act(self, turn: Turn) -> Decision:
        self.turns += 1
        return Decision(action="cheat", self_score=float(self.turns), note=f"turn {self.turns}")


class Learner:
    """Owns its memory: the episodes that it learned from."""

    def __init__(self) -> None:
        self.learned: list[str] = []

    async def fork(self) -> "Learner":
        other = Learner()
        other.learned = [*self.learned]
        return other

    async def learn(self, episode: Episode) -> None:
        self.learned.append(episode.id)

    async def act(self, turn: Turn) -> Decision:
        return Decision(action="collaborate", self_score=2.0, note=f"{len(self.learned)} learned")


learner = Learner()


class OnlyLearns:
    """Owns its memory and cannot be forked."""

    def __init__(self) -> None:
        self.learned: list[str] = []

    async def learn(self, episode: Episode) -> None:
        self.learned.append(episode.id)

    async def act(self, turn: Turn) -> Decision:
        return Decision(action="collaborate", self_score=2.0, note=f"{len(self.learned)} learned")


only_learns = OnlyLearns()


class OwnChat:
    """A chat model of the agent's own: it lives in the child."""

    name = "own"
    endpoint = "own"

    async def complete(
        self, messages: Sequence[Message], *, max_tokens: int, seed: int | None = None
    ) -> Reply:
        if "Round 3" in messages[-1].content:
            raise ModelError("no third rounds", retryable=False, status=400)
        return Reply(text=f"from process {'child' if in_child() else 'parent'}", model="own-1")


async def asks_its_own(turn: Turn) -> Decision:
    messages = [Message("user", turn.observation.text)]
    try:
        reply = await calls.complete(OwnChat(), messages, purpose="act", max_tokens=10)
        note = reply.text
    except ModelError as error:
        note = f"refused: {error}"
    return Decision(action="collaborate", self_score=2.0, note=note)


def shop_bot(turn: Turn) -> Decision:
    """An app with a client of its own: finds its server and its key where SDKs look for them."""
    key = os.environ["OPENAI_API_KEY"]
    body = {"model": "scripted-1", "messages": [{"role": "user", "content": turn.observation.text}]}
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request) as answer:
        text = json.load(answer)["choices"][0]["message"]["content"]
    return replace(parse_reply(text), note=f"{'child' if in_child() else 'parent'} {key}")


def in_child() -> bool:
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    return spec is not None and spec.name == "s3gym.sealed.child"


# The cheating agent: each attack returns whether it got what it must not have.


def holder() -> str:
    return f"/proc/{os.getppid() if in_child() else os.getpid()}"


def by_gc(turn: Turn) -> bool:
    secret = {"s3gym.seeds.EpisodeSeeds", "s3gym.verdict.Verdict", "s3gym.store.store.Store"}
    kinds = (type(found) for found in gc.get_objects())
    return any(f"{kind.__module__}.{kind.__qualname__}" in secret for kind in kinds)


def by_frames(turn: Turn) -> bool:
    frame: Any = sys._getframe()
    while frame is not None:
        if hasattr(frame.f_locals.get("self"), "rewards"):
            return True
        frame = frame.f_back
    return False


def by_guessed_seeds(turn: Turn) -> bool:
    """Try root seeds until one gives this turn's seed; then the game's secrets are known."""
    from s3gym.games.trust import SPEC
    from s3gym.seeds import EpisodeSeeds, SeedPlan, derive

    checkpoint, _, ordinal = turn.episode.rpartition("/")[2][1:].partition(".")
    index, block = (int(ordinal) - 1, int(checkpoint)) if ordinal else (int(checkpoint) - 1, 0)
    for root in range(1_000):
        plan = SeedPlan(root=root, salt=f"{derive('salt', root):x}")
        if plan.agent(turn.game, 0, turn.phase, index, turn.index, block) == turn.seed:
            seed = plan.episode(turn.game, 0, turn.phase, index, block)
            game = SPEC.setup(SPEC.options(), turn.phase).game
            state = game.start(EpisodeSeeds(episode=seed, game=turn.game))
            return bool(state.opponent)
    return False


def opens_a_store(folder: str) -> bool:
    for name in os.listdir(folder):
        try:
            if os.readlink(f"{folder}/{name}").endswith("out.db"):
                with open(f"{folder}/{name}", "rb") as file:
                    return file.read(6) == b"SQLite"
        except OSError:
            continue
    return False


def by_own_files(turn: Turn) -> bool:
    return opens_a_store("/proc/self/fd")


def by_parents_files(turn: Turn) -> bool:
    return opens_a_store(f"{holder()}/fd")


def by_parents_memory(turn: Turn) -> bool:
    maps = Path(f"{holder()}/maps").read_text().splitlines()
    heap = next(line for line in maps if "[heap]" in line or " rw-p " in line)
    with open(f"{holder()}/mem", "rb") as memory:
        memory.seek(int(heap.partition("-")[0], 16))
        return len(memory.read(64)) == 64


def by_parents_environment(turn: Turn) -> bool:
    return bool(Path(f"{holder()}/environ").read_bytes())


def by_path(turn: Turn) -> bool:
    for path in glob(STORES):
        db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            return bool(db.execute("SELECT value FROM secrets").fetchall())
        finally:
            db.close()
    return False


ATTACKS: dict[str, Callable[[Turn], bool]] = {
    attack.__name__: attack
    for attack in (
        by_gc,
        by_frames,
        by_guessed_seeds,
        by_own_files,
        by_parents_files,
        by_parents_memory,
        by_parents_environment,
        by_path,
    )
}


async def cheats(turn: Turn) -> Decision:
    """Try everything and write down what worked."""
    worked = []
    for name, attack in ATTACKS.items():
        try:
            if attack(turn):
                worked.append(name)
        except (OSError, sqlite3.Error, StopIteration):
            continue
    return Decision(action="cheat", self_score=0.0, note=json.dumps(worked))
