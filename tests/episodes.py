"""A small episode loop for the tests of single games, until more than one game is at play.

It keeps the runner's rules: the clock and its cap, END, the invalid-action policy, rewards of
refused actions. ``choose`` is a strategy as in ``s3gym.agents.strategies.playbook``.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from s3gym.agents.strategies.playbook import Chooser, Move
from s3gym.contracts.game import Clock, GameSpec, Options, Transition
from s3gym.errors import InvalidActionError
from s3gym.records import Decision, Observation, Phase, Step, Turn
from s3gym.replies import is_end
from s3gym.seeds import EpisodeSeeds, Stream, derive


@dataclass(slots=True)
class Played:
    """One finished episode; ``states`` holds one state more than there are steps."""

    observations: list[str] = field(default_factory=list)
    feedback: list[str] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    states: list[Any] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    score: float = 0.0
    terminated: bool = False

    @property
    def actions(self) -> list[str]:
        return [step.decision.action for step in self.steps]

    @property
    def self_scores(self) -> list[float | None]:
        return [step.decision.self_score for step in self.steps]


def play_episode(
    spec: GameSpec,
    options: Options | None,
    phase: Phase,
    seed: int,
    choose: Chooser,
    world: int | None = None,
    start: Any = None,
    first_step: int = 1,
) -> Played:
    """Play one episode; ``start`` replaces the drawn first state."""
    options = spec.options() if options is None else options
    setup = spec.setup(options, phase)
    state = start
    if state is None:
        state = setup.game.start(EpisodeSeeds(episode=seed, world=world, game=spec.name))
    played = Played(states=[state])
    clock = Clock(step=first_step, max_steps=setup.max_steps)
    now = Observation(text=setup.game.observe(state, clock))
    played.observations.append(now.text)
    for number in range(first_step, setup.max_steps + 1):
        index = number - first_step
        turn_seed = derive("test agent", seed, phase.value, index)
        turn = Turn(
            episode="test",
            game=spec.name,
            phase=phase,
            rules=spec.rules(options, phase),
            instruction=spec.instruction(options, phase),
            observation=now,
            trail=tuple(played.steps),
            index=index,
            max_steps=setup.max_steps,
            seed=turn_seed,
        )
        move = choose(turn, Stream(turn_seed))
        reward = 0.0
        if is_end(move.action):
            done = Transition(state=state, terminated=True)
        else:
            try:
                done = setup.game.apply(state, move.action)
                reward = setup.verifier.reward(state, move.action, done.state)
            except InvalidActionError as error:
                ends = setup.on_invalid == "end"
                done = Transition(state=state, feedback=str(error), terminated=ends)
        state = done.state
        over = done.terminated or number == setup.max_steps
        shown = min(number if over else number + 1, setup.max_steps)
        text = setup.game.observe(state, Clock(step=shown, max_steps=setup.max_steps))
        after = Observation(text=text, feedback=done.feedback, done=over)
        decision = Decision(action=move.action, self_score=move.self_score)
        played.steps.append(Step(index=index, observation=now, decision=decision, outcome=after))
        played.observations.append(text)
        played.feedback.append(done.feedback)
        played.rewards.append(reward)
        played.states.append(state)
        now = after
        if over:
            played.terminated = done.terminated
            break
    played.score = setup.verifier.score(played.rewards, state)
    return played


def play_text(
    spec: GameSpec,
    options: Options | None,
    phase: Phase,
    seed: int,
    choose: Chooser,
    world: int | None = None,
) -> tuple[list[str], list[float], float]:
    """Play one episode and return its observations, rewards and score."""
    played = play_episode(spec, options, phase, seed, choose, world)
    return played.observations, played.rewards, played.score


def scripted(actions: Iterable[str]) -> Chooser:
    """Return a strategy that plays the listed actions, then END."""
    left = iter(actions)
    return lambda turn, stream: Move(action=next(left, "END"), self_score=0.0)


def mean_and_error(play: Callable[[int], float], seeds: Iterable[int]) -> tuple[float, float]:
    """Return the mean over the seeds and its standard error."""
    values = [play(seed) for seed in seeds]
    mean = sum(values) / len(values)
    variance = sum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, float((variance / len(values)) ** 0.5)
