"""What the games cost without an engine: steps per second, time of a reset, memory of an episode.

Run: python benchmarks/games.py [GAME ...]

* steps/s: ``apply`` and ``observe`` of recorded evaluation episodes, per second of processor time
  on one core, without engine and store. The actions are recorded first, by a player whose
  episodes last, and are not timed. The best of ``ROUNDS`` runs counts: other work on the machine
  can only slow a run down.
* reset: ``start`` of fresh evaluation seeds, median, in milliseconds of processor time.
* memory: peak of what Python allocates during one episode that keeps every state and text, in
  KiB; refused actions fill it up to 64 steps where the rules let an episode go on.

A row ends with ``ok``, or with the limit that it misses. Chess has a limit on its reset alone and
chess_duel has none: a reply of its opponent is a search.
"""

import argparse
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from s3gym.agents.reference import pvz as reference_pvz
from s3gym.agents.strategies import playbook_of
from s3gym.catalog import find_game
from s3gym.contracts.game import Clock, Setup
from s3gym.errors import InvalidActionError, MissingExtraError
from s3gym.games import GAMES
from s3gym.records import Decision, Observation, Phase, Step, Turn
from s3gym.seeds import EpisodeSeeds, Stream

LEAST_STEPS = {name: 5_000 for name in GAMES if name not in ("chess", "chess_duel")}
MOST_RESET = {"chess": 60.0}
STAYING = {
    "chess": "stay",
    "chess_duel": "capture-first",
    "minesweeper": "single-cell",
    "nullify": "vanishing-first",
    "snake": "shortest-path",
    "tetris": "lookahead",
    "trust": "contrarian",
}
"""Game -> a strategy whose episodes last; pvz is left to its reference player."""
EPISODES = {"chess": 12, "chess_duel": 3}
ROUNDS = 5
SECONDS = 0.2
LONGEST = 64
WORLD = 1


@dataclass(frozen=True, slots=True)
class Recorded:
    """An episode to be played again: its seed and its actions."""

    seed: int
    actions: tuple[str, ...]


def seeds(name: str, seed: int) -> EpisodeSeeds:
    """Return the seeds of one episode."""
    return EpisodeSeeds(episode=seed, world=WORLD, game=name)


def record(name: str, setup: Setup[Any], rules: str, seed: int) -> Recorded:
    """Play an episode by the text and return its actions."""
    choose = (
        playbook_of(name).strategies[STAYING[name]] if name in STAYING else reference_pvz.choose
    )
    state = setup.game.start(seeds(name, seed))
    trail: list[Step] = []
    for number in range(1, setup.max_steps + 1):
        clock = Clock(step=number, max_steps=setup.max_steps)
        now = Observation(text=setup.game.observe(state, clock))
        turn = Turn(
            episode="benchmark", game=name, phase=Phase.EVALUATION, rules=rules, instruction="",
            observation=now, trail=tuple(trail), index=number - 1, max_steps=setup.max_steps,
            seed=number,
        )  # fmt: skip
        action = choose(turn, Stream(number)).action
        if action == "END":
            break
        decision = Decision(action=action)
        trail.append(Step(index=number - 1, observation=now, decision=decision, outcome=now))
        try:
            done = setup.game.apply(state, action)
        except InvalidActionError:
            continue
        state = done.state
        if done.terminated:
            break
    return Recorded(seed, tuple(step.decision.action for step in trail))


def replay(setup: Setup[Any], state: Any, actions: tuple[str, ...], keep: list[Any]) -> None:
    """Apply the actions and observe after each of them."""
    game, cap = setup.game, setup.max_steps
    for number, action in enumerate(actions, start=1):
        try:
            state = game.apply(state, action).state
        except InvalidActionError as error:
            keep.append(str(error))
        keep.append((state, game.observe(state, Clock(step=min(number + 1, cap), max_steps=cap))))


def steps_per_second(name: str, setup: Setup[Any], episodes: list[Recorded]) -> float:
    """Return the rate of the fastest round."""
    first = [(setup.game.start(seeds(name, each.seed)), each.actions) for each in episodes]
    n_steps = sum(len(actions) for _, actions in first)

    def once() -> float:
        began = time.process_time()
        for state, actions in first:
            replay(setup, state, actions, [])
        return time.process_time() - began

    once()
    rates = []
    for _ in range(ROUNDS):
        spent, n_passes = 0.0, 0
        while spent < SECONDS:
            spent += once()
            n_passes += 1
        rates.append(n_steps * n_passes / spent)
    return max(rates)


def reset_milliseconds(name: str, setup: Setup[Any]) -> float:
    """Return the median time of a start; the tables that a process builds once do not count."""
    setup.game.start(seeds(name, 0))
    times = []
    for seed in range(1, 31):
        began = time.process_time()
        setup.game.start(seeds(name, seed))
        times.append(time.process_time() - began)
    return median(times) * 1e3


def episode_kibibytes(name: str, setup: Setup[Any], episode: Recorded) -> tuple[int, float]:
    """Return steps and peak KiB of an episode of which every state and text is kept."""
    actions = (*episode.actions, *["?"] * LONGEST)[: min(LONGEST, setup.max_steps)]
    if setup.on_invalid == "end" or name in ("chess", "pvz"):
        actions = episode.actions
    kept: list[Any] = []
    tracemalloc.start()
    state = setup.game.start(seeds(name, episode.seed))
    replay(setup, state, actions, kept)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return len(actions), peak / 1024


def row(name: str) -> str:
    """Return the line of one game."""
    spec = find_game(name)
    options = spec.options()
    setup = spec.setup(options, Phase.EVALUATION)
    rules = spec.rules(options, Phase.EVALUATION)
    episodes = [record(name, setup, rules, seed) for seed in range(EPISODES.get(name, 6))]
    reset = reset_milliseconds(name, setup)
    rate = steps_per_second(name, setup, episodes)
    n_steps, memory = episode_kibibytes(name, setup, max(episodes, key=lambda e: len(e.actions)))
    missed = []
    if rate < LEAST_STEPS.get(name, 0):
        missed.append(f"below {LEAST_STEPS[name]:,} steps/s")
    if reset > MOST_RESET.get(name, float("inf")):
        missed.append(f"reset above {MOST_RESET[name]:g} ms")
    return (
        f"{name:12} {rate:10,.0f} {reset:10.3f} {memory:10,.0f} {n_steps:6}   "
        f"{'; '.join(missed) or 'ok'}"
    )


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("games", nargs="*", default=sorted(GAMES), metavar="GAME")
    say: Callable[[str], None] = print
    say("limits: at least 5,000 steps/s but for chess and chess_duel; reset of chess within 60 ms")
    say(f"{'game':12} {'steps/s':>10} {'reset ms':>10} {'KiB':>10} {'steps':>6}   verdict")
    for name in parser.parse_args().games:
        try:
            say(row(name))
        except MissingExtraError as error:
            say(f"{name:12} {error}")


if __name__ == "__main__":
    main()
