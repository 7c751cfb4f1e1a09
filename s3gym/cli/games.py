"""``s3gym games`` and ``s3gym play``: what there is to play, and playing it oneself."""

import secrets
from typing import Any

import anyio
import click

from s3gym.agents.human import HumanAgent
from s3gym.answered import decide
from s3gym.api import game_options
from s3gym.catalog import find_agent, find_game, names
from s3gym.cli.console import say
from s3gym.cli.parts import find_own_modules
from s3gym.config import read_config
from s3gym.contracts.agent import Agent
from s3gym.contracts.game import Clock
from s3gym.errors import ConfigError
from s3gym.play import referee
from s3gym.prompts import number
from s3gym.records import Observation, Phase, Step, Turn
from s3gym.seeds import SEED_BITS, EpisodeSeeds, derive


@click.command("games")
@click.argument("game", required=False)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a switch.")
def games_command(game: str | None, overrides: tuple[str, ...]) -> None:
    """List the games, or show the rules text of both setups of one game."""
    if game is None:
        for name in names("game"):
            _list_game(name)
        return
    find_own_modules()
    spec = find_game(game)
    options = _options(spec, overrides)
    for phase in Phase:
        setup = spec.setup(options, phase)
        say(
            f"--- {spec.name}, {phase}: at most {setup.max_steps} steps, scores "
            f"{setup.score_range[0]:g} to {setup.score_range[1]:g}"
        )
        say(spec.rules(options, phase))
    say("--- switches (--set games.NAME.KEY=VALUE)")
    for key, field in spec.options.model_fields.items():
        say(f"{key} = {getattr(options, key)!r}  {field.description or ''}".rstrip())


def _list_game(name: str) -> None:
    try:
        spec = find_game(name)
    except ConfigError as error:
        say(f"{name:12} {error}")
        return
    anchors = spec.anchors
    say(
        f"{name:12} version {spec.version}; scores in evaluation: random {anchors.random:g}, "
        f"reference {anchors.reference:g}, ceiling {anchors.ceiling:g}"
    )


def _options(spec: Any, overrides: tuple[str, ...]) -> Any:
    config = read_config(None, {}, overrides)
    return game_options(spec, config.games.get(spec.name, {}), "--set")


@click.command("play")
@click.argument("game")
@click.option("--seed", type=int, help="Episode seed; drawn when it is missing.")
@click.option("--strict", is_flag=True, help="Play the evaluation setup.")
@click.option("--agent", default="human", help="Who plays (default: you).")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a switch.")
def play_command(
    game: str, seed: int | None, agent: str, overrides: tuple[str, ...], *, strict: bool
) -> None:
    """Play one episode and see how well you judged yourself."""
    find_own_modules()
    spec = find_game(game)
    phase = Phase.EVALUATION if strict else Phase.EXPLORATION
    drawn = secrets.randbits(SEED_BITS) if seed is None else seed
    player = HumanAgent() if agent == "human" else find_agent(agent).make()
    steps, rewards, score = anyio.run(_play, spec, _options(spec, overrides), phase, drawn, player)
    say(f"\n{steps[-1].outcome.feedback}\n{steps[-1].outcome.text}")
    say("\nstep  action                self-score  reward")
    for step, reward in zip(steps, rewards, strict=True):
        decision = step.decision
        say(
            f"{step.index + 1:4}  {decision.action[:20]:20}  "
            f"{number(decision.self_score):>10}  {reward:6.9g}"
        )
    judged = [
        (step.decision.self_score, reward)
        for step, reward in zip(steps, rewards, strict=True)
        if step.decision.self_score is not None and step.decision.status != "end"
    ]
    if judged:
        agreed = sum((own > 0) == (reward > 0) for own, reward in judged) / len(judged)
        say(f"agreement {agreed:.0%} over {len(judged)} judged steps")
    say(f"score {score:.9g}  (seed {drawn})")


async def _play(
    spec: Any, options: Any, phase: Phase, seed: int, player: Agent
) -> tuple[list[Step], list[float], float]:
    setup = spec.setup(options, phase)
    seeds = EpisodeSeeds(episode=seed, world=derive("play", seed), game=spec.name)
    state = setup.game.start(seeds)
    clock = Clock(step=1, max_steps=setup.max_steps)
    observation = Observation(text=setup.game.observe(state, clock))
    steps: list[Step] = []
    rewards: list[float] = []
    while not observation.done:
        turn = Turn(
            episode="play",
            game=spec.name,
            phase=phase,
            rules=spec.rules(options, phase),
            instruction=spec.instruction(options, phase),
            observation=observation,
            trail=tuple(steps),
            index=len(steps),
            max_steps=setup.max_steps,
            seed=derive("play", seed, len(steps)),
        )
        decision = decide("player", await player.act(turn))
        clock = Clock(step=len(steps) + 1, max_steps=setup.max_steps)
        state, outcome, verdict = referee(spec.name, setup, state, decision, clock)
        steps.append(
            Step(index=len(steps), observation=observation, decision=decision, outcome=outcome)
        )
        rewards.append(verdict.reward)
        observation = outcome
    return steps, rewards, float(setup.verifier.score(tuple(rewards), state))
