"""``s3gym_task``: a game of ours as an Inspect task, for a model behind Inspect."""

from collections.abc import Mapping
from typing import Any

from s3gym.contracts.game import GameSpec
from s3gym.environments.table import Table
from s3gym.errors import MissingExtraError
from s3gym.prompts import RESPONSE_CONTRACT
from s3gym.records import Observation, Phase
from s3gym.replies import parse_reply

try:
    from inspect_ai import Task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessageSystem, ChatMessageUser
    from inspect_ai.scorer import Score, Target, mean, scorer, stderr
    from inspect_ai.solver import Generate, TaskState, solver
except ModuleNotFoundError as error:
    raise MissingExtraError("s3gym_task", "inspect") from error

SCORE, REWARDS, SELF_SCORES = "s3gym_score", "s3gym_rewards", "s3gym_self_scores"
"""Where a sample's store keeps what the verifier and the model said."""


def s3gym_task(
    game: str | GameSpec = "trust",
    *,
    episodes: int = 10,
    first_seed: int = 0,
    phase: str = "evaluation",
    options: Mapping[str, Any] | None = None,
    max_steps: int | None = None,
) -> Task:
    """Return a task of one game: each sample is an episode, its score the verifier's.

    The model has no memory between samples: this measures play, not learning.

    Args:
        game: Name or ``GameSpec``.
        episodes: Samples.
        first_seed: Seed of the first sample; the next ones follow.
        phase: ``evaluation`` (strict) or ``exploration`` (lenient).
        options: Switches of the game.
        max_steps: Step cap; the game's own when it is shorter.

    Raises:
        ConfigError: The game or a switch is wrong.
    """
    settings: dict[str, Any] = {
        "phase": Phase(phase),
        "options": options,
        "max_steps": max_steps,
    }
    table = Table(game, **settings)
    samples = [
        Sample(input=table.rules, id=f"{table.spec.name}-{seed}", metadata={"seed": seed})
        for seed in range(first_seed, first_seed + episodes)
    ]
    return Task(
        dataset=MemoryDataset(samples, name=table.spec.name),
        solver=_plays(game, settings),
        scorer=_verifier(),
        name=f"s3gym_{table.spec.name}",
        version=table.spec.version,
    )


@solver
def _plays(game: str | GameSpec, settings: dict[str, Any]) -> Any:
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        table = Table(game, **settings)
        observation = table.start(int(state.metadata["seed"]))
        system = f"{table.instruction}\n\n{RESPONSE_CONTRACT}\n\nRules:\n{table.rules}"
        state.messages = [
            ChatMessageSystem(content=system),
            ChatMessageUser(content=_heard(observation)),
        ]
        rewards: list[float] = []
        self_scores: list[float | None] = []
        while not observation.done:
            state = await generate(state)
            decision = parse_reply(state.output.completion)
            observation, verdict = table.step(decision)
            rewards.append(verdict.reward)
            self_scores.append(decision.self_score)
            if not observation.done:
                state.messages.append(ChatMessageUser(content=_heard(observation)))
        state.store.set(SCORE, table.score)
        state.store.set(REWARDS, rewards)
        state.store.set(SELF_SCORES, self_scores)
        state.completed = True
        return state

    return solve


@scorer(metrics=[mean(), stderr()])
def _verifier() -> Any:
    async def score(state: TaskState, target: Target) -> Score:
        return Score(
            value=float(state.store.get(SCORE, 0.0)),
            metadata={
                "rewards": state.store.get(REWARDS, []),
                "self_scores": state.store.get(SELF_SCORES, []),
            },
        )

    return score


def _heard(observation: Observation) -> str:
    if not observation.feedback:
        return observation.text
    return f"{observation.feedback}\n\n{observation.text}"
