"""How much of a prompt a provider's prefix cache would serve, per layout.

    PYTHONSAFEPATH=1 python benchmarks/cached_share.py

Plays a game with each layout and counts, for every request, the tokens that it shares from its
start with the request before it in the same episode (for a first step: with the first of the
episode before), as an endpoint counts them that caches prefixes of at least 1,024 tokens in
pieces of 128. No network.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from s3gym.agents.model import ModelAgent
from s3gym.api import Study
from s3gym.contracts.chat import TokenCounter
from s3gym.records import LAYOUTS, Layout
from s3gym.schedule import Schedule
from s3gym.seeds import Stream
from s3gym.store import file
from s3gym.testing.fakes import Request, ScriptedChat
from s3gym.tokens import token_counter

SHORTEST, PIECE = 1024, 128
ACTIONS = {"trust": ("collaborate", "cheat"), "snake": ("UP", "DOWN", "LEFT", "RIGHT")}


def answer(game: str, request: Request) -> str:
    """Answer like a model that draws its actions."""
    return f"Answer: {Stream(request.seed or 0).pick(ACTIONS[game])}, Score: 0"


def sent(store: Path) -> Iterator[tuple[str, int, str]]:
    """Yield (episode, step, prompt as the text that a cache sees) of every stored request."""
    db = file.open_reader(store)
    try:
        texts = {
            name: f"<{role}>{content}"
            for name, role, content in db.execute("SELECT hash, role, content FROM messages")
        }
        rows = db.execute(
            "SELECT place, step, messages FROM calls WHERE purpose = 'act' ORDER BY place, step"
        )
        for place, step, messages in rows:
            yield place, step, "".join(texts[name] for name in json.loads(messages))
    finally:
        db.close()


def cached(older: str, text: str, counter: TokenCounter) -> int:
    """Return how many tokens of a text a cache would serve that holds an older one."""
    pairs = enumerate(zip(older, text, strict=False))
    shared = next((index for index, (a, b) in pairs if a != b), min(len(older), len(text)))
    tokens = counter.count(text[:shared])
    return tokens // PIECE * PIECE if tokens >= SHORTEST else 0


def share(store: Path, counter: TokenCounter) -> tuple[int, int, int]:
    """Return (requests, cached prompt tokens, all prompt tokens) of a store."""
    requests = served = total = 0
    before = first = ""
    for _, step, text in sent(store):
        older = before if step else first
        served += cached(older, text, counter)
        total += counter.count(text)
        requests += 1
        before = text
        if not step:
            first = text
    return requests, served, total


def measure(game: str, memory: str, episodes: int, layout: Layout) -> dict[str, object]:
    """Play exploration episodes one after the other and return the share of a layout."""
    chat = ScriptedChat(lambda request: answer(game, request))
    schedule = Schedule(
        exploration_episodes=episodes, evaluate_every=episodes, evaluation_episodes=1
    )
    with tempfile.TemporaryDirectory() as folder:
        Study(
            game=game,
            agent=ModelAgent(chat, layout=layout),
            memory=memory,
            repeats=1,
            seed=7,
            schedule=schedule,
            store=Path(folder) / "run.db",
        ).run_sync()
        counter = token_counter()
        requests, served, total = share(Path(folder) / "run.db", counter)
    return {
        "layout": layout,
        "requests": requests,
        "prompt_tokens": total,
        "cached_tokens": served,
        "cached_share": round(served / total, 3),
        "counter": counter.name,
    }


def main() -> None:
    """Print one JSON object per layout."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--game", choices=sorted(ACTIONS), default="trust")
    parser.add_argument("--memory", default="history")
    parser.add_argument("--episodes", type=int, default=6)
    options = parser.parse_args()
    for layout in LAYOUTS:
        result = measure(options.game, options.memory, options.episodes, layout)
        print(json.dumps({"game": options.game, "memory": options.memory} | result))


if __name__ == "__main__":
    main()
