"""Made-up episodes, for tests of memories, prompts and agents."""

from collections.abc import Sequence

from s3gym.records import Cue, Decision, Episode, Observation, Step

RULES = "Pick a or b."


def make_step(
    index: int = 0,
    *,
    text: str = "a board",
    action: str = "a",
    self_score: float | None = 0.0,
    note: str = "",
    feedback: str = "",
    after: str = "the next board",
    after_feedback: str = "done",
    done: bool = False,
) -> Step:
    """Return one step with the given texts."""
    return Step(
        index=index,
        observation=Observation(text=text, feedback=feedback),
        decision=Decision(action=action, self_score=self_score, note=note),
        outcome=Observation(text=after, feedback=after_feedback, done=done),
    )


def make_episode(
    ordinal: int = 1,
    *,
    n_steps: int = 3,
    texts: Sequence[str] | None = None,
    actions: Sequence[str] = ("a", "b"),
    self_scores: Sequence[float | None] = (1.0, 0.5),
    note: str = "",
    game: str = "toy",
    rules: str = RULES,
    study: str = "toy/agent/memory/r0",
) -> Episode:
    """Return an exploration episode whose steps join up.

    Args:
        ordinal: One-based position; part of the id, and of the default texts.
        n_steps: Number of steps; ignored when ``texts`` is given.
        texts: One observation per step, and one more for the last outcome.
        actions: Cycled through.
        self_scores: Cycled through.
        note: Note of every step.
        game: Name of the game.
        rules: The rules text.
        study: Beginning of the episode's id.
    """
    boards = texts or [f"episode {ordinal}, board {index}" for index in range(n_steps + 1)]
    last = len(boards) - 2
    steps = tuple(
        make_step(
            index,
            text=boards[index],
            feedback=f"You chose {actions[(index - 1) % len(actions)]}." if index else "",
            action=actions[index % len(actions)],
            self_score=self_scores[index % len(self_scores)],
            note=note,
            after=boards[index + 1],
            after_feedback=f"You chose {actions[index % len(actions)]}.",
            done=index == last,
        )
        for index in range(last + 1)
    )
    return Episode(
        id=f"{study}/x{ordinal:03}", game=game, ordinal=ordinal, rules=rules, steps=steps
    )


def make_cue(
    text: str = "a board",
    *,
    max_tokens: int = 100_000,
    trail: Sequence[Step] = (),
    game: str = "toy",
    rules: str = RULES,
) -> Cue:
    """Return a cue for a memory."""
    return Cue(
        game=game,
        rules=rules,
        observation=Observation(text=text),
        trail=tuple(trail),
        max_tokens=max_tokens,
    )
