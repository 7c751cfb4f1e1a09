"""Replaying golden traces: one header line, then one line per step.

A header names its source and may hold the first state; without one the seed draws it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from s3gym.contracts.game import Clock, GameSpec, parse_options
from s3gym.errors import InvalidActionError
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

GOLDEN = Path(__file__).parent / "golden"


def trace(name: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a trace's header and its steps."""
    header, *steps = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    return header, steps


def replay(
    spec: GameSpec,
    header: Mapping[str, Any],
    actions: Sequence[str],
    first_state: Callable[[Any], Any],
) -> Iterator[dict[str, Any]]:
    """Yield what each action gives, in the form of a trace's lines."""
    setup = spec.setup(parse_options(spec, header["options"]), Phase(header["phase"]))
    state = (
        first_state(header["start"])
        if "start" in header
        else setup.game.start(EpisodeSeeds(episode=header["seed"], game=spec.name))
    )
    for step, action in enumerate(actions, start=1):
        reward, legal, terminated = 0.0, True, False
        try:
            done = setup.game.apply(state, action)
        except InvalidActionError as error:
            feedback, legal = str(error), False
        else:
            reward = setup.verifier.reward(state, action, done.state)
            state, feedback, terminated = done.state, done.feedback, done.terminated
        clock = Clock(step=step + (not terminated), max_steps=setup.max_steps)
        yield {
            "action": action,
            "text": setup.game.observe(state, clock),
            "feedback": feedback,
            "reward": reward,
            "legal": legal,
            "terminated": terminated,
        }
