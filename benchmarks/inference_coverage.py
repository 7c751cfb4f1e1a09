"""What the report's intervals and verdicts are worth, by simulation.

Run: ``python benchmarks/inference_coverage.py [--simulations 4000] [--seed 1]
[--designs poisson stuck]``. For every design
and number of repeats it prints: how often the primary interval covers the true difference (goal:
at least 93 % at nominal 95 %), how often a verdict names a difference that is not there (goal: at
most 5 %) or has the wrong sign, how often no interval is given, and the power where there is a
true gain. Beside it: how often an unguarded "AUC+ above 0" would claim learning.

Designs (11 checkpoints, 3 evaluation episodes each, the paper's schedule; two arms on the same
evaluation seeds):

* ``poisson``, ``rare``, ``coin``: Poisson(3), Bernoulli(.03), Bernoulli(.5) scores, all
  independent;
* ``persistent``: every evaluation seed has a level of its own, shared by all checkpoints and both
  arms (crossed seeds); what a memory holds wanders from checkpoint to checkpoint and stays;
* ``stuck``: as above, but a memory is good or bad from the first checkpoint on;
* ``... +1``: the same with a true gain.
"""

import argparse
from collections.abc import Callable

import numpy as np

from s3gym.metrics import auc_plus, estimate, naba

CHECKPOINTS = tuple(range(0, 31, 3))
EPISODES = 3
Rng = np.random.Generator
Curves = tuple[np.ndarray, np.ndarray]
"""Mean scores of the arm and of the control: shape (repeats, checkpoints)."""


def independent(draw: Callable[[Rng, tuple[int, ...], float], np.ndarray], gain: float = 0.0):
    """Independent scores, the same at every checkpoint after 0."""

    def make(rng: Rng, repeats: int) -> Curves:
        shape = (repeats, len(CHECKPOINTS), EPISODES)
        arm, control = draw(rng, shape, gain), draw(rng, shape, 0.0)
        arm[:, 0] = draw(rng, (repeats, EPISODES), 0.0)
        return arm.mean(axis=2), control.mean(axis=2)

    return make


def crossed(step: float, level: float, gain: float = 0.0):
    """Crossed seeds; the memory's effect is a random walk plus a level drawn once a repeat."""

    def make(rng: Rng, repeats: int) -> Curves:
        shape = (repeats, len(CHECKPOINTS), EPISODES)
        seeds = rng.gamma(3.0, 1.0, (repeats, 1, EPISODES))
        walk = rng.normal(0, step, (repeats, len(CHECKPOINTS))).cumsum(axis=1)
        walk += rng.normal(0, level, (repeats, 1)) + gain
        walk[:, 0] = 0
        arm = seeds + walk[:, :, None] + rng.normal(0, 1, shape)
        control = seeds + rng.normal(0, 1, shape)
        return arm.mean(axis=2), control.mean(axis=2)

    return make


def poisson(rng: Rng, shape: tuple[int, ...], gain: float) -> np.ndarray:
    """Scores around 3."""
    return rng.poisson(3 + gain, shape).astype(float)


def bernoulli(p: float) -> Callable[[Rng, tuple[int, ...], float], np.ndarray]:
    """Scores of 0 or 1."""
    return lambda rng, shape, gain: (rng.random(shape) < p + gain).astype(float)


DESIGNS: dict[str, tuple[float, Callable[[Rng, int], Curves]]] = {
    "poisson": (0.0, independent(poisson)),
    "rare": (0.0, independent(bernoulli(0.03))),
    "coin": (0.0, independent(bernoulli(0.5))),
    "persistent": (0.0, crossed(0.3, 0.0)),
    "stuck": (0.0, crossed(0.1, 1.0)),
    "poisson +1": (1.0, independent(poisson, 1.0)),
    "rare +.1": (0.1, independent(bernoulli(0.03), 0.1)),
    "coin +.2": (0.2, independent(bernoulli(0.5), 0.2)),
    "persistent +1": (1.0, crossed(0.3, 0.0, 1.0)),
    "stuck +1": (1.0, crossed(0.1, 1.0, 1.0)),
}


def simulate(rng: Rng, design: str, repeats: int, n: int) -> dict[str, float]:
    """Return what the intervals and verdicts of a design are worth."""
    truth, make = DESIGNS[design]
    covered = given = named = wrong = claimed = 0
    for _ in range(n):
        arm, control = make(rng, repeats)
        found = estimate((arm - control)[:, 1:].mean(axis=1).tolist())
        if found.low is not None and found.high is not None:
            given += 1
            covered += found.low <= truth <= found.high
        if found.direction != "unclear":
            named += 1
            wrong += truth == 0 or (found.direction == "better") != (truth > 0)
        curve = list(zip(CHECKPOINTS, arm[0].tolist(), strict=True))
        claimed += (auc_plus(curve) or 0) > 0
    return {
        "coverage": covered / max(given, 1),
        "no interval": 1 - given / n,
        "named": named / n,
        "wrong": wrong / n,
        "auc_plus": claimed / n,
    }


def without_learning(rng: Rng, n: int) -> None:
    """Print what NABA gives for Poisson(3) scores and no learning at all."""
    values, above = [], 0
    for _ in range(n):
        scores = rng.poisson(3.0, (len(CHECKPOINTS), EPISODES)).mean(axis=1)
        curve = list(zip(CHECKPOINTS, scores.tolist(), strict=True))
        above += (auc_plus(curve) or 0) > 0
        if (value := naba(curve)) is not None:
            values.append(value)
    print(
        f"no learning, Poisson(3), {n} curves: mean NABA {np.mean(values):.1f}, 95th percentile "
        f"{np.percentile(values, 95):.1f}, AUC+ > 0 in {above / n:.0%}\n"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--simulations", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    without_learning(rng, options.simulations)
    columns = ("design", "R", "coverage", "no interval", "named", "false/wrong", "AUC+ > 0")
    print("".join(f"{column:>14}" for column in columns))
    worst = {"coverage": 1.0, "wrong": 0.0}
    for design in options.designs:
        for repeats in (3, 6, 10):
            found = simulate(rng, design, repeats, options.simulations)
            worst["coverage"] = min(worst["coverage"], found["coverage"])
            worst["wrong"] = max(worst["wrong"], found["wrong"])
            shares = ("coverage", "no interval", "named", "wrong", "auc_plus")
            cells = "".join(f"{found[name]:>14.1%}" for name in shares)
            print(f"{design:>14}{repeats:>14}{cells}")
    error = 1.96 * (0.05 * 0.95 / options.simulations) ** 0.5
    print(
        f"\nworst coverage {worst['coverage']:.1%} (goal: at least 93 %), most false or wrong "
        f"verdicts {worst['wrong']:.1%} (goal: at most 5 %); simulation error ± {error:.1%}. "
        f"'named' is the power where the design has a gain."
    )


if __name__ == "__main__":
    main()
