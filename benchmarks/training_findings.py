"""What the training pathway does to a small real model, on trust.

    python benchmarks/training_findings.py models/smollm2-135m --out runs/training
    python benchmarks/training_findings.py models/smollm2-135m --out runs/training --table

A model of 135 million parameters hardly ever keeps the response contract. So there are two bases:
the model as it is, and the model after one update on answers in the contract whose actions and
self-scores were drawn at random: it can speak, and knows nothing about playing well. Arms:

* ``self``: the protocol. Examples are chosen by the agent's own self-scores.
* ``reward``: outside the protocol, a check of the pipe. Examples are chosen, and labelled, by the
  verifier's rewards.
* ``raw``: as ``self``, from the model as it is.

Every arm is a store of its own under ``--out`` and is taken up where it stopped.
"""

import argparse
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio

from s3gym.agents.hf_chat import HFChat
from s3gym.agents.model import ModelAgent
from s3gym.agents.train_trl import TRLTrainer
from s3gym.api import Result, Study
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.contracts.trainer import Example
from s3gym.oracle import Oracle
from s3gym.records import Turn
from s3gym.schedule import Schedule
from s3gym.seeds import Stream, derive
from s3gym.sft import SFTPolicy
from s3gym.store.explored import load_explored
from s3gym.store.file import open_reader
from s3gym.training import Training

GAME = "trust"
ARMS: dict[str, Oracle | None] = {"self": None, "reward": "reward", "raw": None}
PAYOFFS = {"collaborate": ("2", "-1"), "cheat": ("3", "0")}
"""What the printed rules say that an action may pay, so a self-score is one of them."""


async def speaker(turn: Turn) -> tuple[str, float]:
    """Draw an action and a self-score; nothing in them depends on the turn."""
    stream = Stream(derive("speaker", turn.seed))
    action = stream.pick(sorted(PAYOFFS))
    return action, float(stream.pick(PAYOFFS[action]))


def spoken(store: Path, layout: ModelAgent) -> list[Example]:
    """Return first steps in the contract, of actions and self-scores that were drawn.

    Later steps show answers in the contract, which the model then copies.
    """
    if not store.exists():
        schedule = Schedule(exploration_episodes=8, evaluate_every=8, evaluation_episodes=1)
        Study(
            game=GAME, agent=speaker, schedule=schedule, seed=1, repeats=1, store=store
        ).run_sync()
    db = open_reader(store)
    try:
        study = db.execute("SELECT id FROM studies").fetchone()[0]
        return [
            Example(
                messages=tuple(layout.prompt(item.turn(step))),
                answer=f"Answer: {step.decision.action}, Score: {step.decision.self_score:g}",
                episode=item.episode.id,
                step=step.index,
                origin="drawn",
            )
            for item in load_explored(db, study)
            for step in item.episode.steps[:1]
        ]
    finally:
        db.close()


def speaking(model: Path, out: Path, options: argparse.Namespace) -> Path:
    """Return the base that can speak: the model after one update on drawn answers."""
    trainer = TRLTrainer(model, accumulate=2, epochs=options.speech_epochs, learning_rate=1e-3)

    async def update() -> str:
        examples = spoken(out / "speech.db", agent_of(model, options))
        ref = await trainer.update(examples, await trainer.base(), folder=out / "speech", seed=1)
        print("speech:", json.dumps(dict(ref.log)), json.dumps(dict(ref.machine)), flush=True)
        return ref.location

    spoken(out / "speech.db", agent_of(model, options))
    return Path(anyio.run(update))


def agent_of(base: Path, options: argparse.Namespace) -> ModelAgent:
    """Return the agent that plays with a base."""
    return ModelAgent(HFChat(base, temperature=options.temperature), layout="cached")


def study(arm: str, base: Path, out: Path, options: argparse.Namespace) -> Study:
    """Return an arm's studies."""
    trainer = TRLTrainer(
        base,
        epochs=options.epochs,
        accumulate=2,
        learning_rate=options.rate,
        chat={"temperature": options.temperature},
    )
    policy = SFTPolicy(positive=True, cap=options.cap, dedupe=False)
    schedule = Schedule(
        exploration_episodes=options.updates * options.explore,
        evaluate_every=options.explore,
        evaluation_episodes=options.episodes,
        reply_tokens=options.reply_tokens,
    )
    return Study(
        game=GAME,
        agent=agent_of(base, options),
        training=Training(trainer=trainer, policy=policy),
        schedule=schedule,
        seed=11,
        repeats=options.seeds,
        oracle=ARMS[arm],
        store=out / f"{arm}.db",
    )


def run(arm: str, base: Path, out: Path, options: argparse.Namespace) -> None:
    """Run an arm, or take it up where it stopped."""
    made = study(arm, base, out, options)
    result: Result = made.resume_sync() if (out / f"{arm}.db").exists() else made.run_sync()
    print(arm, result.curve, result.outcome, flush=True)


def table(store: Path) -> str:
    """Return what a store holds, checkpoint by checkpoint, as a table in Markdown."""
    db = open_reader(store)
    try:
        lines = [
            "| checkpoint | strict score, each repeat | replies in the contract | legal actions "
            "| examples, each repeat | last loss, each repeat |",
            "|---|---|---|---|---|---|",
        ]
        for (checkpoint,) in db.execute(
            "SELECT DISTINCT checkpoint FROM episodes WHERE checkpoint IS NOT NULL ORDER BY 1"
        ).fetchall():
            updates = _updates(db, checkpoint)
            lines.append(
                f"| {checkpoint} | {', '.join(_scores(db, checkpoint))} "
                f"| {_share(db, checkpoint)} | {_legal(db, checkpoint)} "
                f"| {', '.join(str(n) for n, _ in updates)} "
                f"| {', '.join(loss for _, loss in updates)} |"
            )
        failed = [one for one in audit_store(store, find_game).findings if one.level == "fail"]
        return "\n".join([*lines, "", f"audit: {len(failed)} faults"])
    finally:
        db.close()


def _scores(db: sqlite3.Connection, checkpoint: int) -> list[str]:
    rows = db.execute(
        "SELECT e.study, avg(s.score) FROM episodes e JOIN scores s ON s.episode = e.id "
        "WHERE e.checkpoint = ? GROUP BY e.study ORDER BY e.study",
        (checkpoint,),
    )
    return [f"{score:.1f}" for _, score in rows]


def _share(db: sqlite3.Connection, checkpoint: int) -> str:
    good, n = db.execute(
        "SELECT sum(s.status IN ('ok', 'end')), count(*) FROM steps s "
        "JOIN episodes e ON s.episode = e.id WHERE e.checkpoint = ?",
        (checkpoint,),
    ).fetchone()
    return f"{good} of {n}"


def _legal(db: sqlite3.Connection, checkpoint: int) -> str:
    good, n = db.execute(
        "SELECT sum(v.legal), count(*) FROM verdicts v JOIN episodes e ON v.episode = e.id "
        "WHERE e.checkpoint = ?",
        (checkpoint,),
    ).fetchone()
    return f"{good} of {n}"


def _updates(db: sqlite3.Connection, checkpoint: int) -> list[tuple[int, str]]:
    rows: list[tuple[int, Any]] = db.execute(
        "SELECT n_examples, log FROM updates WHERE version = ? ORDER BY study", (checkpoint,)
    ).fetchall()
    found = []
    for n, log in rows:
        losses: Sequence[float] = json.loads(log).get("losses") or []
        found.append((n, f"{losses[-1]:.3f}" if losses else "none"))
    return found


def main() -> None:
    """Run the arms, or print what is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--arms", nargs="+", choices=sorted(ARMS), default=list(ARMS))
    parser.add_argument("--updates", type=int, default=6)
    parser.add_argument("--explore", type=int, default=1, help="episodes per update")
    parser.add_argument("--episodes", type=int, default=2, help="strict episodes per checkpoint")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--cap", type=int, default=6, help="most examples of an update")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--speech-epochs", type=int, default=1)
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate")
    parser.add_argument("--reply-tokens", type=int, default=24)
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--table", action="store_true", help="print what is there, run nothing")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.table:
        base = speaking(options.model, options.out, options)
        for arm in options.arms:
            run(arm, options.model if arm == "raw" else base, options.out, options)
    for arm in options.arms:
        if (options.out / f"{arm}.db").exists():
            print(f"\n{arm}:\n{table(options.out / f'{arm}.db')}")


if __name__ == "__main__":
    main()
