"""Exploration before evaluation, where both have work at the same moment."""

from itertools import pairwise

import anyio
import anyio.lowlevel

from s3gym.precedence import exploration_first, give_way
from s3gym.records import Phase

ROUNDS = 12


async def order(n_evaluations: int) -> list[str]:
    """Return who worked, when everybody always has something to do."""
    done: list[str] = []

    async def work(name: str, phase: Phase) -> None:
        for _ in range(ROUNDS):
            await give_way(phase)
            done.append(name)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(n_evaluations):
            group.start_soon(work, f"e{number}", Phase.EVALUATION)
        group.start_soon(work, "x", Phase.EXPLORATION)
    return done


async def test_of_many_evaluations_one_works_while_exploration_does() -> None:
    with exploration_first():
        done = await order(8)
    explored = [index for index, name in enumerate(done) if name == "x"]
    between = [later - earlier - 1 for earlier, later in pairwise(explored)]
    assert max(between) <= 2
    assert len(done) == 9 * ROUNDS


async def test_outside_a_run_nobody_gives_way() -> None:
    done = await order(8)
    explored = [index for index, name in enumerate(done) if name == "x"]
    # On the whole: in a round, trio begins at either end.
    assert explored[-1] - explored[0] > 4 * (ROUNDS - 1)
