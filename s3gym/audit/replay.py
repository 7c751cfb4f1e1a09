"""Replay: each episode, re-executed from its seed and actions, gives every recorded value."""

import json
import sqlite3
from typing import Any

from pydantic import ValidationError

from s3gym.audit.findings import Audit, GameFinder
from s3gym.contracts.game import Clock, GameSpec, episode_rules, parse_options
from s3gym.errors import ConfigError, S3GymError
from s3gym.play import referee
from s3gym.records import Decision, Observation, Phase
from s3gym.seeds import EpisodeSeeds, SeedPlan
from s3gym.text import shorten


def check_replay(db: sqlite3.Connection, audit: Audit, find_game: GameFinder) -> None:
    """Re-execute every finished episode whose game is at hand in the recorded version."""
    secrets = dict(db.execute("SELECT key, value FROM secrets").fetchall())
    studies = db.execute(
        "SELECT id, game, game_version, repeat, spec FROM studies ORDER BY id"
    ).fetchall()
    for study, name, version, repeat, spec_text in studies:
        spec = _at_hand(find_game, name)
        if spec is None:
            audit.warn("replay", f"studies {study}", f"not checked: no game {name!r} at hand")
            continue
        if spec.version != version:
            audit.warn(
                "replay",
                f"studies {study}",
                f"not checked: played with version {version} of {name}, this is {spec.version}",
            )
            continue
        try:
            options = parse_options(spec, json.loads(spec_text)["options"])
        except ValidationError:
            audit.fail("replay", f"studies {study}", "its options are not valid for its game")
            continue
        plan = SeedPlan(root=int(secrets.get("root_seed", 0)), salt=secrets.get("salt", ""))
        _replay_study(db, audit, study, spec, options, plan.world(name, repeat))


def _at_hand(find_game: GameFinder, name: str) -> GameSpec | None:
    try:
        return find_game(name)
    except ConfigError:  # such as a damaged name
        return None


def _replay_study(
    db: sqlite3.Connection, audit: Audit, study: str, spec: GameSpec, options: Any, world: int
) -> None:
    setups = {phase.value: spec.setup(options, phase) for phase in Phase}
    for name, phase, rules, instruction, opening, max_steps, seed in db.execute(
        "SELECT e.id, e.phase, e.rules, e.instruction, e.opening, e.max_steps, c.seed "
        "FROM episodes e JOIN scores c ON c.episode = e.id "
        "WHERE e.study = ? AND e.status = 'done' ORDER BY e.id",
        (study,),
    ).fetchall():
        audit.count("replay")
        if phase not in setups:
            continue
        played = Phase(phase)
        if (rules, instruction) != (
            episode_rules(spec, options, played, max_steps),
            spec.instruction(options, played),
        ):
            audit.fail("replay", f"episodes {name}", "its rules are not those of its game")
        seeds = EpisodeSeeds(episode=seed, world=world, game=spec.name)
        try:
            _replay_episode(db, audit, name, spec.name, setups[phase], seeds, opening, max_steps)
        except (S3GymError, ValueError, TypeError, KeyError, IndexError) as error:
            audit.fail("replay", f"episodes {name}", f"cannot be replayed: {shorten(str(error))}")


def _replay_episode(
    db: sqlite3.Connection,
    audit: Audit,
    name: str,
    game: str,
    setup: Any,
    seeds: EpisodeSeeds,
    opening: str,
    max_steps: int,
) -> None:
    state = setup.game.start(seeds)
    if setup.game.observe(state, Clock(step=1, max_steps=max_steps)) != opening:
        audit.fail("replay", f"episodes {name}", "its seed gives another opening")
        return
    rewards: list[float] = []
    rows = db.execute(
        "SELECT s.idx, s.action, s.status, s.outcome, s.feedback, s.done, v.reward, v.legal, "
        "v.terminated, v.truncated FROM steps s LEFT JOIN verdicts v ON v.episode = s.episode "
        "AND v.idx = s.idx WHERE s.episode = ? ORDER BY s.idx",
        (name,),
    ).fetchall()
    over = False
    for index, action, status, text, feedback, done, *given in rows:
        if over:
            audit.fail("replay", f"steps {name} {index}", "played after the end of its episode")
            return
        decision = Decision(action=action, status=status)
        clock = Clock(step=index + 1, max_steps=max_steps)
        state, outcome, verdict = referee(game, setup, state, decision, clock)
        if outcome != Observation(text=text, feedback=feedback, done=bool(done)):
            audit.fail("replay", f"steps {name} {index}", "its action gives another outcome")
            return
        due = [verdict.reward, int(verdict.legal), int(verdict.terminated), int(verdict.truncated)]
        if given != due:
            audit.fail("replay", f"verdicts {name} {index}", "the verifier gives another verdict")
        rewards.append(verdict.reward)
        over = outcome.done
    if not over:
        audit.fail("replay", f"episodes {name}", "its recorded steps do not reach its end")
    (score,) = db.execute("SELECT score FROM scores WHERE episode = ?", (name,)).fetchone()
    if setup.verifier.score(tuple(rewards), state) != score:
        audit.fail("replay", f"scores {name}", "the verifier gives another score")
