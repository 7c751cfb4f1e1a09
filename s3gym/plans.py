"""What fixes a study and each of its episodes: parts, schedule, seeds and ids."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.game import GameSpec, Options, episode_rules
from s3gym.oracle import Oracle
from s3gym.parts import AgentPart, MemoryPart
from s3gym.play import EpisodePlan
from s3gym.records import Phase
from s3gym.rulings import check_game_text, check_setup
from s3gym.schedule import Schedule
from s3gym.seams import ruled
from s3gym.seeds import SEED_BITS, EpisodeSeeds, SeedPlan, derive
from s3gym.store.chain import canonical
from s3gym.store.ledger import EpisodeRow
from s3gym.text import shorten
from s3gym.training import Training


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPlan:
    """Everything that fixes a study.

    With an ``oracle`` it is outside the protocol; an ``explorer`` explores in the agent's place;
    ``training`` puts experience into weights instead of a memory.
    """

    game: GameSpec
    options: Options
    agent: AgentPart
    memory: MemoryPart
    repeat: int
    schedule: Schedule
    seeds: SeedPlan
    counter: TokenCounter
    settings: str = "{}"
    oracle: Oracle | None = None
    explorer: AgentPart | None = None
    training: Training | None = None

    @property
    def id(self) -> str:
        """For example ``trust/strategist/history/r0``."""
        return f"{self.game.name}/{self.agent.name}/{self.memory.name}/r{self.repeat}"

    def spec(self) -> str:
        """Return what fixes the study's results, as canonical JSON."""
        return canonical(
            {
                "agent": {"name": self.agent.name, "origin": self.agent.origin}
                | ({"outside": True} if self.agent.outside else {}),
                "counter": self.counter.name,
                "game": {"name": self.game.name, "version": self.game.version},
                "isolated": {"agent": self.agent.isolated, "memory": self.memory.isolated},
                "memory": {
                    "chat": None if self.memory.chat is None else self.memory.chat.name,
                    "name": self.memory.name,
                    "origin": self.memory.origin,
                },
                "options": self.options.model_dump(mode="json"),
                "repeat": self.repeat,
                "schedule": self.schedule.model_dump(mode="json"),
                "settings": self.settings,
            }
            | ({"oracle": self.oracle} if self.oracle else {})
            | ({"training": self.training.spec() | self._prompts()} if self.training else {})
        )

    def _prompts(self) -> dict[str, str]:
        return {"prompts": self.agent.teaching.name if self.agent.teaching else ""}

    @property
    def n_episodes(self) -> int:
        """Episodes of both phases."""
        schedule = self.schedule
        return schedule.exploration_episodes + schedule.evaluation_episodes * len(
            schedule.checkpoints
        )


def difference(recorded: str, given: str) -> str:
    """Return the first key in which two specifications of a study differ, and its values."""
    old, new, path = json.loads(recorded), json.loads(given), ""
    while isinstance(old, dict) and isinstance(new, dict):
        key = next((key for key in sorted({*old, *new}) if old.get(key) != new.get(key)), None)
        if key is None:
            return "the specifications differ"
        old, new, path = old.get(key), new.get(key), f"{path}.{key}" if path else key
    return f"the store has {path} {shorten(old)}, but this run has {shorten(new)}"


def episode_id(study: str, phase: Phase, ordinal: int, checkpoint: int | None) -> str:
    """Return an episode's id: ``STUDY/x007`` explores, ``STUDY/e009.1`` evaluates.

    Args:
        study: Id of the study.
        phase: Which phase the episode belongs to.
        ordinal: One-based: of all exploration episodes, or within a checkpoint.
        checkpoint: Exploration episodes before it; only for evaluation.
    """
    if phase is Phase.EXPLORATION:
        return f"{study}/x{ordinal:03d}"
    return f"{study}/e{checkpoint:03d}.{ordinal}"


def plan_episode(
    plan: StudyPlan, phase: Phase, ordinal: int, checkpoint: int | None
) -> EpisodePlan:
    """Return everything that fixes one episode of a study."""
    game, schedule, seeds = plan.game, plan.schedule, plan.seeds
    setup = check_setup(
        game.name, ruled(game.name, "setup", lambda: game.setup(plan.options, phase))
    )
    max_steps = min(setup.max_steps, schedule.max_steps)
    rules = ruled(game.name, "rules", lambda: episode_rules(game, plan.options, phase, max_steps))
    instruction = ruled(game.name, "instruction", lambda: game.instruction(plan.options, phase))
    index, block = ordinal - 1, checkpoint or 0
    return EpisodePlan(
        row=EpisodeRow(
            id=episode_id(plan.id, phase, ordinal, checkpoint),
            study=plan.id,
            game=game.name,
            phase=phase,
            ordinal=ordinal,
            checkpoint=checkpoint,
            rules=check_game_text(game.name, "rules", rules),
            instruction=check_game_text(game.name, "instruction", instruction),
            opening="",
            max_steps=max_steps,
        ),
        setup=setup,
        seeds=EpisodeSeeds(
            episode=seeds.episode(game.name, plan.repeat, phase, index, block),
            world=seeds.world(game.name, plan.repeat),
            game=game.name,
        ),
        agent_seed=lambda step: seeds.agent(game.name, plan.repeat, phase, index, step, block),
        memory_tokens=schedule.memory_tokens,
        reply_tokens=schedule.reply_tokens,
        act_seconds=schedule.act_seconds,
        memory_seconds=schedule.memory_seconds,
        episode_seconds=schedule.episode_seconds,
    )


def seed_plan(
    seed: int | None, salt: str | None, schedule: Schedule, *, sealed: bool = False
) -> SeedPlan:
    """Return the seeds of a run.

    With a seed everything is reproducible, the salt of the evaluation seeds included. Without
    one, seed and salt are drawn from the system and stand in the store only. A sealed run draws
    them in any case and mixes a given seed in, because an agent could try small seeds until one
    gives the seeds of its own turns; both stand in its store, so it is audited and resumed.
    """
    root = secrets.randbits(SEED_BITS) if seed is None else seed
    if salt is None:
        salt = secrets.token_hex(16) if seed is None or sealed else f"{derive('salt', root):x}"
        root = derive("sealed", root, salt) if sealed else root
    return SeedPlan(root=root, salt=salt, fresh_evaluation_seeds=schedule.fresh_evaluation_seeds)


def default_store(plans: Sequence[StudyPlan]) -> Path:
    """Return a new file name under ``runs/``, to the microsecond: runs may start together."""
    stamp = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S-%f")
    first = plans[0]
    return Path("runs") / f"{first.game.name}-{first.agent.name}-{stamp}.db"
