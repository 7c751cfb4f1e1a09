"""Made-up exploration episodes for tests of training data."""

from collections.abc import Sequence
from typing import Any

from s3gym.records import Decision, Episode, Observation, Status, Step
from s3gym.sft import Explored

Said = tuple[str, float | None] | Decision


def step(index: int, said: Said, *, seen: str, outcome: str, done: bool) -> Step:
    if not isinstance(said, Decision):
        action, score = said
        line = f"Answer: {action}, Score: {score:g}" if score is not None else f"Answer: {action}"
        status: Status = "ok" if score is not None else "no_score"
        said = Decision(
            action=action, self_score=score, status=status, raw=f"I think, so I act.\n{line}"
        )
    return Step(
        index=index,
        observation=Observation(text=seen, feedback="" if not index else f"Did {index}."),
        decision=said,
        outcome=Observation(text=outcome, feedback=f"Did {index + 1}.", done=done),
    )


def explored(*said: Said, ordinal: int = 1, game: str = "trust", **more: Any) -> Explored:
    """Return an episode of these decisions; states are numbered, so prompts differ by step."""
    steps = tuple(
        step(
            index,
            item,
            seen=f"state {index}",
            outcome=f"state {index + 1}",
            done=index == len(said) - 1,
        )
        for index, item in enumerate(said)
    )
    episode = Episode(
        id=f"{game}/a/none/r0/x{ordinal:03d}",
        game=game,
        ordinal=ordinal,
        rules=f"Rules of {game}.",
        steps=steps,
    )
    return Explored(episode=episode, instruction="You play.", max_steps=10, **more)


def several(scores: Sequence[Sequence[float]], game: str = "trust") -> list[Explored]:
    """Return one episode per row of self-scores; every action is a word of its own."""
    return [
        explored(
            *((f"a{ordinal}{index}", score) for index, score in enumerate(row)),
            ordinal=ordinal,
            game=game,
        )
        for ordinal, row in enumerate(scores, 1)
    ]
