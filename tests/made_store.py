"""A finished store without playing: made-up steps through the store's own writing functions."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from s3gym.contracts.chat import Reply
from s3gym.records import Decision, Message, Observation, Phase, Recollection, Status, Step, Usage
from s3gym.schedule import Schedule
from s3gym.seeds import Stream, derive
from s3gym.store.chain import canonical
from s3gym.store.ledger import EpisodeRow
from s3gym.store.store import Store
from s3gym.verdict import Verdict

NASTY = (
    "<script>alert('x')</script> \x1b[31mred\x1b[0m \x00\x07 \u202egnp.exe & \"quotes\" {{ 7*7 }}"
)


def board(stream: Stream, size: int) -> str:
    return "\n".join("".join(stream.pick(".#o") for _ in range(size)) for _ in range(size))


def make_store(
    path: Path,
    *,
    games: Sequence[str] = ("trust",),
    agents: Sequence[str] = ("strategist",),
    memories: Sequence[str] = ("none", "history"),
    repeats: int = 3,
    schedule: Schedule | None = None,
    n_steps: int = 4,
    effect: float = 1.0,
    root_seed: int = 7,
    invalid: Sequence[tuple[str, int]] = (),
    nasty: bool = False,
    size: int = 6,
    options: dict[str, Any] | None = None,
) -> Path:
    """Write a store whose history arms gain ``effect`` points per checkpoint, plus noise."""
    schedule = schedule or Schedule.quick()
    with Store.create(path) as store:
        store.note_provenance(command="s3gym run", python="3.11")
        for study in _studies(games, agents, memories, repeats):
            with store.transaction():
                _study(
                    store,
                    study,
                    schedule,
                    n_steps=n_steps,
                    effect=effect,
                    root_seed=root_seed,
                    absent=[at for name, at in invalid if name == "/".join(map(str, study))],
                    nasty=nasty,
                    size=size,
                    options=options or {},
                )
    return path


def _studies(
    games: Sequence[str], agents: Sequence[str], memories: Sequence[str], repeats: int
) -> Iterator[tuple[str, str, str, str]]:
    for game in games:
        for agent in agents:
            for memory in memories:
                for repeat in range(repeats):
                    yield game, agent, memory, f"r{repeat}"


def _study(
    store: Store,
    study: tuple[str, str, str, str],
    schedule: Schedule,
    *,
    n_steps: int,
    effect: float,
    root_seed: int,
    absent: Sequence[int],
    nasty: bool,
    size: int,
    options: dict[str, Any],
) -> None:
    game, agent, memory, repeat = study
    name = "/".join(study)
    spec = canonical(
        {
            "agent": {"name": agent, "origin": ""},
            "game": {"name": game, "version": 1},
            "memory": {"chat": None, "name": memory, "origin": ""},
            "options": options,
            "schedule": schedule.model_dump(mode="json"),
            "settings": "{}",
        }
    )
    store.ledger.add_study(
        name,
        game=game,
        game_version=1,
        agent=agent,
        memory=memory,
        repeat=int(repeat[1:]),
        spec=spec,
    )
    for invalid in absent:
        store.ledger.set_invalid(name, invalid, "the service stayed down")
    plans: list[tuple[Phase, int, int | None]] = [
        (Phase.EXPLORATION, ordinal, None)
        for ordinal in range(1, schedule.exploration_episodes + 1)
    ]
    plans += [
        (Phase.EVALUATION, index, checkpoint)
        for checkpoint in schedule.checkpoints
        if checkpoint not in absent
        for index in range(1, schedule.evaluation_episodes + 1)
    ]
    for phase, ordinal, checkpoint in plans:
        tail = f"x{ordinal:03d}" if checkpoint is None else f"e{checkpoint:03d}.{ordinal}"
        experience = (
            (ordinal - 1) // schedule.evaluate_every
            if checkpoint is None
            else checkpoint // schedule.evaluate_every
        )
        lift = effect * experience if memory != "none" else 0.0
        row = EpisodeRow(
            id=f"{name}/{tail}",
            study=name,
            game=game,
            phase=phase,
            ordinal=ordinal,
            checkpoint=checkpoint,
            rules=f"Rules of {game}.",
            instruction="Play.",
            opening=board(Stream(derive("board", root_seed, name, tail, 0)), size),
            max_steps=schedule.max_steps,
        )
        _episode(store, row, int(repeat[1:]), n_steps, lift, root_seed, nasty, size, memory)
    store.ledger.set_status(name, "done")
    store.verdicts.seal(name)


def _episode(
    store: Store,
    row: EpisodeRow,
    repeat: int,
    n_steps: int,
    lift: float,
    root_seed: int,
    nasty: bool,
    size: int,
    memory: str,
) -> None:
    stream = Stream(derive("made", root_seed, row.id))
    shared = Stream(
        derive("shared", root_seed, row.game, repeat, row.phase, row.checkpoint, row.ordinal)
    )
    previous = chain = store.ledger.start_episode(row)
    observation, total = Observation(text=row.opening), 0.0
    recalled = ""
    if memory != "none":
        recalled = store.ledger.add_recollection(
            Recollection(
                text=f"earlier {row.ordinal}",
                tokens=40 * row.ordinal,
                dropped=max(0, row.ordinal - 4),
            )
        )
    for index in range(n_steps):
        reward = float(shared.below(3)) + (lift / n_steps if stream.chance(0.9) else 0.0)
        self_score = reward if stream.chance(0.7) else float(stream.below(3))
        status: Status = "ok" if stream.chance(0.9) else "no_score"
        action = NASTY if nasty and index == 0 else stream.pick(["UP", "DOWN", "LEFT"])
        text = board(stream, size) + (f"\n{NASTY}" if nasty else "")
        outcome = Observation(
            text=text, feedback=NASTY if nasty else "You moved.", done=index == n_steps - 1
        )
        decision = Decision(
            action=action,
            self_score=self_score if status == "ok" else None,
            note=NASTY if nasty else "",
            status=status,
            raw=f"I think so.\nAnswer: {action}, Score: {self_score}",
            usage=Usage(calls=1, input_tokens=100, output_tokens=10),
        )
        step = Step(index=index, observation=observation, decision=decision, outcome=outcome)
        previous = store.ledger.add_step(row.id, step, recalled, previous)
        verdict = Verdict(
            reward=reward, legal=stream.chance(0.95), terminated=False, truncated=outcome.done
        )
        chain = store.verdicts.add(row.id, index, verdict, chain, previous)
        total += reward
        observation = outcome
    store.ledger.finish_episode(row.id, n_steps)
    seed = derive("seed", root_seed, row.game, repeat, row.phase, row.ordinal)
    store.verdicts.add_score(row.id, row.study, row.phase, row.checkpoint, seed, total, chain)


def make_calls(path: Path, study: str, n: int = 2) -> None:
    """Add model calls to a made store."""
    from s3gym.calls import CallSite

    with Store.open(path) as store, store.transaction():
        for index in range(n):
            store.ledger.add_call(
                CallSite(study=study, place="m001", step=0),
                "memory",
                index,
                chat="openai:small",
                layout="paper",
                request_hash="0",
                messages=[Message("user", "hello")],
                seed=None,
                max_tokens=10,
                reply=Reply(
                    text="hi",
                    model="small-1",
                    usage=Usage(calls=1, input_tokens=7, output_tokens=3),
                ),
            )
