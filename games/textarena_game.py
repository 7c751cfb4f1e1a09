"""``TextArenaGame``: a single-player environment of TextArena as a game.

Observation: the messages of the environment that the last action brought; at first its prompt.
Actions:     any text; the environment itself finds its move in it, often in square brackets.
Reward:      the environment's reward at its end, 0 before.
Score:       the same.
Ends:        when the environment is done; the runner truncates after ``max_steps``.
Phases:      the same in both: what an action is, is the environment's to say.
Source:      the environment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from s3gym.contracts.game import Options
from s3gym.games._outside import Happened, OutsideSpec, anchors_of

OWN_ACTION = "PLAYER_ACTION"
"""Kind of the messages that only repeat what the agent did."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextArenaDriver:
    """Handles a single-player environment of TextArena."""

    make: Callable[[], Any]

    def open(self, seed: int) -> tuple[Any, str]:
        """Make and reset an environment."""
        environment = self.make()
        environment.reset(num_players=1, seed=seed)
        return environment, told(environment)

    def read(self, action: str) -> str:
        """Return the action as it is."""
        return action

    def step(self, environment: Any, action: str) -> Happened:
        """Do an action; the rewards are there when the environment is done."""
        done, _ = environment.step(action)
        text = told(environment)
        reward = 0.0
        if done:
            rewards, _ = environment.close()
            reward = float((rewards or {}).get(0, 0.0))
        return Happened(text=text or "Over.", feedback="", reward=reward, terminated=bool(done))


def told(environment: Any) -> str:
    """Return what the environment says to its player, without the player's own words."""
    _, messages = environment.get_observation()
    if isinstance(messages, str):
        return messages
    return "\n".join(
        str(text) for _, text, kind in messages if getattr(kind, "name", "") != OWN_ACTION
    )


class TextArenaGame(OutsideSpec):
    """A single-player environment of TextArena as a game; give it as ``game=``.

    TextArena seeds and draws from Python's global generator. An episode has that generator for
    itself while its environment runs, so that episodes side by side do not disturb one another;
    an environment that reads a clock or a network stays irreproducible, and audit says so.

    Its last words often tell how the game ended, which is its reward. They come with the end of
    the episode, but they are what a memory keeps: the barrier is as tight as the environment.

    Args:
        name: Name in ids and reports.
        make: Makes an environment; take the one without wrappers, for example
            ``lambda: textarena.make("GuessTheNumber-v0-raw")``, whose messages come once.
        rules: What the agent is told beside the environment's own prompt.
        max_steps: Step cap.
        score_range: Least and greatest reward.
        anchors: ``random``, ``reference`` and ``ceiling`` scores, where they are known.
        version: Raise it when the environment changes.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Any],
        *,
        rules: str,
        max_steps: int,
        score_range: tuple[float, float] = (-1.0, 1.0),
        anchors: Mapping[str, float] | None = None,
        version: int = 1,
    ) -> None:
        super().__init__(
            name=name,
            version=version,
            rules_text=rules,
            driver=TextArenaDriver(make=make),
            max_steps=max_steps,
            reward_range=(min(0.0, score_range[0]), max(0.0, score_range[1])),
            score_range=(min(0.0, score_range[0]), max(0.0, score_range[1])),
            anchors=anchors_of(anchors, score_range),
            options=Options,
        )
