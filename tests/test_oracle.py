"""Oracle arms: what memory is given changes, what is recorded does not, and all of it is marked."""

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from s3gym.api import Study, Sweep
from s3gym.audit import audit_store
from s3gym.catalog import find_game
from s3gym.errors import ConfigError, ProtocolBreachError
from s3gym.oracle import with_rewards
from s3gym.records import Cue, Decision, Episode, Observation, Recollection, Step
from s3gym.report import build_report, load_store, to_html
from s3gym.schedule import Schedule
from s3gym.verdict import Verdict

TINY = Schedule(exploration_episodes=2, evaluate_every=1, evaluation_episodes=1)


def episode(*self_scores: float | None) -> Episode:
    seen = Observation(text="o")
    return Episode(
        id="trust/a/m/r0/x001",
        game="trust",
        ordinal=1,
        rules="r",
        steps=tuple(
            Step(
                index=i,
                observation=seen,
                decision=Decision(action="cheat", self_score=score, note="n", raw="raw"),
                outcome=seen,
            )
            for i, score in enumerate(self_scores)
        ),
    )


def verdict(reward: float) -> Verdict:
    return Verdict(reward=reward, legal=True, terminated=False, truncated=False)


def test_only_the_self_scores_of_the_copy_change() -> None:
    before = episode(1.0, None)
    after = with_rewards(before, [verdict(3.0), verdict(-1.0)])
    assert [step.decision.self_score for step in after.steps] == [3.0, -1.0]
    assert [step.decision.self_score for step in before.steps] == [1.0, None]
    assert [s.decision.note for s in after.steps] == ["n", "n"]
    with pytest.raises(ProtocolBreachError, match="2 steps, but 1 verdicts"):
        with_rewards(before, [verdict(0.0)])


class Keeper:
    """A memory that shows what it was given."""

    recall_each = "episode"
    given: ClassVar[list[Episode]] = []

    async def record(self, episode: Episode) -> None:
        Keeper.given.append(episode)

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        return None

    async def recall(self, cue: Cue) -> Recollection:
        return Recollection()

    def freeze(self) -> "Keeper":
        return self


async def zero(turn: Any) -> tuple[str, float | None]:
    return ("cheat", 0.0)


async def run(store: Path, oracle: Any) -> None:
    Keeper.given = []
    await Study(
        game="trust",
        agent=zero,
        memory=Keeper,
        schedule=TINY,
        seed=3,
        repeats=1,
        store=store,
        oracle=oracle,
    ).run()


async def test_the_judge_gives_memory_the_rewards_and_leaves_the_record_alone(
    tmp_path: Path,
) -> None:
    await run(tmp_path / "plain.db", None)
    assert {s.decision.self_score for e in Keeper.given for s in e.steps} == {0.0}
    await run(tmp_path / "judge.db", "judge")
    rewards = [s.decision.self_score for e in Keeper.given for s in e.steps]
    (study,) = load_store(tmp_path / "judge.db").studies
    assert rewards == [step.reward for step in study.steps]
    assert any(rewards)
    assert {step.self_score for step in study.steps} == {0.0}


async def test_the_explorer_plays_exploration_and_not_the_evaluation(tmp_path: Path) -> None:
    await run(tmp_path / "explorer.db", "explorer")
    actions = {s.decision.action for e in Keeper.given for s in e.steps}
    assert "collaborate" in actions
    (study,) = load_store(tmp_path / "explorer.db").studies
    assert study.oracle == "explorer"
    assert audit_store(tmp_path / "explorer.db", find_game).level() == "warn"


async def test_a_study_outside_the_protocol_is_marked_everywhere(tmp_path: Path) -> None:
    path = tmp_path / "judge.db"
    await run(path, "judge")
    found = [f.message for f in audit_store(path, find_game).findings]
    assert "outside the protocol: oracle judge" in found
    report = build_report([load_store(path)])
    assert report.warnings[0].startswith("OUTSIDE THE PROTOCOL")
    assert "[oracle judge]" in report.summary[0]
    assert '<span class="worse">[oracle judge]</span>' in to_html(report)


async def test_a_store_takes_no_other_oracle_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "judge.db"
    await run(path, "judge")
    with pytest.raises(ConfigError, match="oracle"):
        await Study(
            game="trust", agent=zero, memory=Keeper, schedule=TINY, seed=3, repeats=1, store=path
        ).resume()


async def test_a_plain_study_says_nothing_of_oracles(tmp_path: Path) -> None:
    (plan,) = Sweep(games=["trust"], memories=["none"], repeats=1, schedule=TINY, seed=1).plans()
    assert "oracle" not in json.loads(plan.spec())


def test_an_unknown_oracle_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected one of judge, explorer, reward, got 'delphi'"):
        Sweep(oracle="delphi").plans()  # type: ignore[arg-type]  # what a user may type
