"""Golden traces of single games: a header line, then one line per step.

The header names the game, the phase, the source of the numbers and the first state (``start``,
read by the test's own ``make_state``, or the ``seed`` that it is drawn from). A line holds an
action and everything that it must give.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from episodes import play_episode, scripted

from s3gym.agents.strategies.playbook import Chooser
from s3gym.contracts.game import GameSpec
from s3gym.records import Phase

GOLDEN = Path(__file__).parent / "golden"
REFERENCE = Path(__file__).parent.parent / "docs" / "reference"


def replay_trace(
    spec: GameSpec, header: dict[str, Any], actions: list[str], make_state: Callable[[Any], Any]
) -> list[dict[str, Any]]:
    """Return the lines that the actions give."""
    start = make_state(header["start"]) if "start" in header else None
    played = play_episode(
        spec,
        spec.options(**header.get("options", {})),
        Phase(header["phase"]),
        header.get("seed", 0),
        scripted(actions),
        start=start,
    )
    return [
        {
            "action": step.decision.action,
            "reward": reward,
            "feedback": step.outcome.feedback,
            "done": step.outcome.done,
            "observation": step.outcome.text.split("\n"),
        }
        for step, reward in zip(played.steps, played.rewards, strict=True)
    ] + [{"score": played.score}]


def read_trace(path: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a trace's header and lines."""
    header, *lines = map(json.loads, path.read_text(encoding="utf-8").splitlines())
    return header, lines


def transcript(spec: GameSpec, phase: Phase, seed: int, choose: Chooser, n_steps: int) -> str:
    """Return the beginning of an episode as the reference pages show it."""
    played = play_episode(spec, None, phase, seed, choose)
    lines = [played.observations[0]]
    for step in played.steps[:n_steps]:
        lines += [
            f"> Answer: {step.decision.action}, Score: {step.decision.self_score:g}",
            step.outcome.feedback,
            step.outcome.text,
        ]
    return "\n".join(lines)
