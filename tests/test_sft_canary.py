"""A reward that nobody can deduce stands in no training example, unless an oracle puts it there."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from studies import learner_rows, verifier_rows
from trainings import TINY, TallyTrainer, agent

from s3gym.api import Study
from s3gym.contracts.trainer import Example
from s3gym.sft import SFTPolicy
from s3gym.testing import CANARY, CanaryGame
from s3gym.training import Training

SHOWN = "90210"


class Watching(TallyTrainer):
    """Keeps every example that it is given."""

    seen: list[Example]

    async def update(self, examples: Sequence[Example], *given: Any, **more: Any) -> Any:
        self.seen = [*getattr(self, "seen", []), *examples]
        return await super().update(examples, *given, **more)


async def trained(folder: Path, policy: SFTPolicy, oracle: Any) -> tuple[Path, list[Example]]:
    learner = agent(folder)
    base = folder / "base.json"
    base.write_text(json.dumps({"left": 1, "neither": 1, "right": 1}))
    trainer = Watching(base)
    result = await Study(
        game=CanaryGame(),
        agent=learner,
        schedule=TINY,
        seed=3,
        repeats=1,
        store=folder / "a.db",
        training=Training(trainer=trainer, policy=policy),
        oracle=oracle,
    ).run()
    return result.store, trainer.seen


@pytest.mark.parametrize("name", ["keep", "drop", "correct", "rejection"])
async def test_the_canary_reward_reaches_no_example_and_no_weights(
    tmp_path: Path, name: Any
) -> None:
    store, examples = await trained(tmp_path, SFTPolicy(policy=name, min_score=0), None)
    assert CANARY in {row[2] for row in verifier_rows(store)["verdicts"]}
    assert examples
    assert SHOWN not in repr(examples)
    assert SHOWN not in repr(learner_rows(store))
    for path in store.with_name("a.db.weights").rglob("*.json"):
        assert SHOWN not in path.read_text()


async def test_an_oracle_teaches_the_reward_and_leaves_prompts_and_steps_alone(
    tmp_path: Path,
) -> None:
    store, examples = await trained(tmp_path, SFTPolicy(), "reward")
    assert {example.answer.partition(", ")[2] for example in examples} == {"Score: 90210.5"}
    assert "neither" not in {example.answer.split()[1] for example in examples}
    assert SHOWN not in repr([example.messages for example in examples])
    rows = learner_rows(store)
    assert SHOWN not in repr(rows["steps"] + rows["messages"] + rows["calls"])
