"""Experience goes into weights: explore, update, evaluate, and nothing of it is done twice."""

import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from studies import learner_rows, verifier_rows
from trainings import (
    BASE,
    ONE,
    STUDY,
    TINY,
    TallyChat,
    TallyTrainer,
    agent,
    audited,
    base_file,
    edit,
    faults,
    study,
    tally,
    training,
    updates,
)

from s3gym.api import Sweep
from s3gym.contracts.trainer import ModelRef
from s3gym.errors import ConfigError, ModelError, ServiceError
from s3gym.forecast import forecast
from s3gym.halt import HaltedError, haltable
from s3gym.records import Decision, Turn
from s3gym.report import build_report, load_store, to_html
from s3gym.schedule import Schedule
from s3gym.sft import SFTPolicy
from s3gym.store import file
from s3gym.training import Training

# The cycle


async def test_one_update_learns_from_exploration_and_plays_with_what_it_learned(
    tmp_path: Path,
) -> None:
    result = await study(tmp_path, schedule=ONE).run()
    assert [point for point, _ in result.curve] == [0, 1]
    store = result.store
    base, first = updates(store).values()
    assert (base.outcome, base.location) == ("base", "base.json")
    assert (first.outcome, first.start, first.start_hash) == ("trained", 0, base.weights)
    assert first.sources == (f"{STUDY}/x001",)
    assert first.location == f"./{STUDY}/u001/weights"
    assert first.log["steps"] == first.n_examples > 0
    assert sum(tally(store, 1).values()) == sum(BASE.values()) + first.n_examples
    with closing(file.open_learner(store)) as db:
        chats = dict(db.execute("SELECT place, chat FROM calls GROUP BY place").fetchall())
    assert chats == {
        f"{STUDY}/x001": "tally@u000",
        f"{STUDY}/e000.1": "tally@u000",
        f"{STUDY}/e001.1": "tally@u001",
    }
    assert audited(store).level() != "fail"
    assert audited(store).looked_at["isolation"] > 0


def test_equal_runs_give_equal_rows_and_roots(tmp_path: Path) -> None:
    first = study(tmp_path / "a").run_sync()
    second = study(tmp_path / "b").run_sync()
    assert learner_rows(first.store) == learner_rows(second.store)
    assert first.root == second.root is not None


def test_a_training_arm_is_paired_with_its_control_arm(tmp_path: Path) -> None:
    result = Sweep(
        games=["trust"],
        agents=[agent(tmp_path)],
        memories=["none"],
        training=training(tmp_path),
        schedule=TINY,
        seed=3,
        repeats=2,
        store=tmp_path / "a.db",
    ).run_sync()
    assert result.studies == (
        "trust/tally/none/r0",
        "trust/tally/none/r1",
        "trust/tally/training/r0",
        "trust/tally/training/r1",
    )
    curves = result.curves()
    assert curves["trust/tally/none/r0"][0] == curves["trust/tally/training/r0"][0]
    seeds = verifier_rows(result.store)["scores"]
    of = {row[0]: row[4] for row in seeds}
    assert of[f"{STUDY}/e002.1"] == of["trust/tally/none/r0/e002.1"]
    report = build_report([load_store(result.store)])
    (comparison,) = report.comparisons
    assert (comparison.memory, comparison.repeats) == ("training", [0, 1])
    assert "training" in to_html(report)
    assert not faults(result.store)


def test_updates_from_the_base_are_given_all_episodes_so_far(tmp_path: Path) -> None:
    study(tmp_path, training=training(tmp_path, start="base")).run_sync()
    second = updates(tmp_path / "a.db")[2]
    assert second.start == 0
    assert second.sources == (f"{STUDY}/x001", f"{STUDY}/x002")
    assert sum(tally(tmp_path / "a.db", 2).values()) == sum(BASE.values()) + second.n_examples
    assert not faults(tmp_path / "a.db")


async def test_without_examples_weights_stay_as_they_are(tmp_path: Path) -> None:
    nothing = training(tmp_path, policy=SFTPolicy(min_score=99))
    result = await study(tmp_path, training=nothing).run()
    first, second = [updates(result.store)[number] for number in (1, 2)]
    assert first.outcome == second.outcome == "unchanged"
    assert first.weights == second.weights == updates(result.store)[0].weights
    assert first.chosen["dropped"] == {"self-score below the threshold": 3}
    assert not (tmp_path / "a.db.weights").exists()
    assert not faults(result.store)
    with closing(file.open_learner(result.store)) as db:
        assert db.execute("SELECT DISTINCT chat FROM calls").fetchall() == [("tally@u000",)]


async def test_a_model_is_closed_before_the_next_is_trained(tmp_path: Path) -> None:
    chats: list[TallyChat] = []
    closed: list[list[bool]] = []
    trainer = TallyTrainer(
        base_file(tmp_path),
        before=lambda folder: closed.append([chat.closed for chat in chats]),
        opened=chats,
    )
    await study(tmp_path, training=training(tmp_path, trainer)).run()
    assert closed == [[True], [True, True]]
    assert all(chat.closed for chat in chats)


# Policies that ask, oracles, variants


def test_a_policy_that_asks_is_recorded_and_audited(tmp_path: Path) -> None:
    asking = training(tmp_path, policy=SFTPolicy(policy="rejection", best_of=3, min_score=2))
    study(tmp_path, training=asking).run_sync()
    store = tmp_path / "a.db"
    with closing(file.open_learner(store)) as db:
        places = db.execute("SELECT DISTINCT place FROM calls WHERE purpose = 'sample'").fetchall()
    assert places == [(f"{STUDY}/u001",), (f"{STUDY}/u002",)]
    assert not faults(store)
    assert audited(store).level("barrier") == "pass"
    more = Path(shutil.copy(store, tmp_path / "more.db"))
    edit(
        more,
        "INSERT INTO calls SELECT study, place, step, purpose, 99, chat, layout, request_hash, "
        "messages, seed, max_tokens, reply, finish, model, request_id, input_tokens, "
        "cached_tokens, output_tokens, reasoning_tokens FROM calls WHERE purpose = 'sample' "
        "AND place LIKE '%/u001' AND attempt = 0",
    )
    assert f"isolation: updates {STUDY} 1" in faults(more)
    edit(store, "UPDATE calls SET reply = 'Answer: cheat, Score: 9' WHERE purpose = 'sample'")
    assert f"isolation: updates {STUDY} 1" in faults(store)


@pytest.mark.parametrize("policy", ["correct", "rejection"])
@pytest.mark.parametrize("start", ["previous", "base"])
def test_a_forecast_bounds_the_calls_of_a_policy_that_asks(
    tmp_path: Path, policy: Any, start: Any
) -> None:
    asking = SFTPolicy(policy=policy, best_of=3, min_score=2)
    run = study(tmp_path, training=training(tmp_path, policy=asking, start=start))
    (planned,) = run.plans()
    store = (run.run_sync()).store
    with closing(file.open_learner(store)) as db:
        question = "SELECT purpose NOT IN ('correct', 'sample'), count(*) FROM calls GROUP BY 1"
        examples, played = [row[1] for row in db.execute(question)]
    expected = forecast(planned)
    assert played <= expected.calls
    assert (
        examples
        <= expected.memory_calls
        == (2 if start == "previous" else 3) * 3 * (2 if policy == "rejection" else 1)
    )


def test_labelled_examples_are_outside_the_protocol_and_audited(tmp_path: Path) -> None:
    result = study(tmp_path, oracle="reward").run_sync()
    found = [f.message for f in audited(result.store).findings]
    assert "outside the protocol: oracle reward" in found
    assert not faults(result.store)
    plain = study(tmp_path, store="plain.db").run_sync()
    assert updates(plain.store)[1].examples != updates(result.store)[1].examples


def test_the_reference_player_may_explore_for_the_weights(tmp_path: Path) -> None:
    result = study(tmp_path, oracle="explorer").run_sync()
    assert updates(result.store)[1].outcome == "trained"
    assert not faults(result.store)


def harmful(folder: Path) -> TallyTrainer:
    """Return a trainer of weights that give up early, the more the longer they are trained."""
    return TallyTrainer(base_file(folder), teach=lambda example: "END")


@pytest.mark.parametrize("variant", ["roll_back", "keep_best"])
def test_a_variant_goes_back_to_weights_that_scored_better(tmp_path: Path, variant: Any) -> None:
    longer = Schedule(exploration_episodes=3, evaluate_every=1, evaluation_episodes=2, max_steps=8)
    variants = training(tmp_path, harmful(tmp_path), variant=variant)
    store = (study(tmp_path, training=variants, schedule=longer).run_sync()).store
    with closing(file.open_reader(store)) as db:
        curve = dict(
            db.execute("SELECT checkpoint, score FROM curves WHERE study = ?", (STUDY,)).fetchall()
        )
    assert curve[1] < curve[0]
    second = updates(store)[2]
    assert second.explorer == 0
    assert second.start == (0 if variant == "roll_back" else 1)
    assert not faults(store)
    warned = [f.message for f in audited(store).findings]
    assert f"outside the protocol: variant {variant}" in warned


def test_the_plain_protocol_never_goes_back(tmp_path: Path) -> None:
    store = (study(tmp_path, training=training(tmp_path, harmful(tmp_path))).run_sync()).store
    second = updates(store)[2]
    assert (second.explorer, second.start) == (1, 1)


# Resuming


async def test_an_outage_pauses_and_a_resume_goes_on_to_the_same_rows(tmp_path: Path) -> None:
    whole = (await study(tmp_path / "whole").run()).store

    calls: list[Path] = []

    def down(folder: Path) -> None:
        calls.append(folder)
        if len(calls) == 2:
            raise ServiceError("the cluster is down")

    def stumbling() -> Training:
        return training(tmp_path, TallyTrainer(base_file(tmp_path), before=down))

    first = await study(tmp_path, training=stumbling()).run()
    assert first.outcome.paused == (STUDY,)
    second = await study(tmp_path, training=stumbling()).resume()
    assert not second.outcome.paused
    assert [folder.name for folder in calls] == ["u001", "u002", "u002"]
    assert learner_rows(second.store) == learner_rows(whole)


def test_an_update_that_waits_for_its_turn_does_not_start_after_a_stop(tmp_path: Path) -> None:
    started: list[Path] = []
    with haltable() as halt:

        def stop(folder: Path) -> None:
            started.append(folder)
            halt.asked = True

        trainer = TallyTrainer(base_file(tmp_path), before=stop)
        with pytest.raises(HaltedError):
            study(tmp_path, training=training(tmp_path, trainer), repeats=3).run_sync()
    assert len(started) == 1


def test_another_policy_than_recorded_is_refused(tmp_path: Path) -> None:
    study(tmp_path).run_sync()
    other = training(tmp_path, policy=SFTPolicy(min_score=1))
    with pytest.raises(ConfigError, match="the store has training"):
        study(tmp_path, training=other).resume_sync()


# What goes wrong


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("nothing", "expected a ModelRef"),
        (ModelRef(location="", hash="x"), "the location '': expected a text"),
        (ModelRef(location="here", hash="x", log={"loss": float("nan")}), "in its answer"),
        (ModelRef(location="nowhere", hash="x"), "there are none at 'nowhere'"),
        (KeyError("oh"), "raised KeyError in update 1"),
        (ConfigError("its tokenizer splits the contract"), "its tokenizer splits the contract"),
    ],
    ids=["nonsense", "no-location", "not-json", "no-weights", "raises", "refuses"],
)
async def test_a_trainer_that_misbehaves_fails_its_study(
    tmp_path: Path, answer: object, says: str
) -> None:
    class Wrong(TallyTrainer):
        async def update(self, *given: Any, **more: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return answer

    result = await study(tmp_path, training=training(tmp_path, Wrong(base_file(tmp_path)))).run()
    assert says in result.outcome.failed[STUDY]
    assert not (await study(tmp_path).resume()).outcome.failed


def test_an_outage_while_a_policy_asks_pauses_and_pays_nothing_twice(
    tmp_path: Path,
) -> None:
    asked: list[int | None] = []

    class Faulty(TallyChat):
        async def complete(self, *given: Any, **more: Any) -> Any:
            asked.append(more["seed"])
            if len(asked) == 12:
                raise ModelError("wrong key", retryable=False)
            return await super().complete(*given, **more)

    class Faulted(TallyTrainer):
        def chat(self, ref: ModelRef) -> TallyChat:
            return Faulty(ref.location)

    policy = SFTPolicy(policy="rejection", best_of=4, min_score=2)
    faulted = training(tmp_path, Faulted(base_file(tmp_path)), policy=policy)
    first = study(tmp_path, training=faulted).run_sync()
    assert STUDY in first.outcome.refused
    again = study(tmp_path, training=faulted).resume_sync()
    assert not again.outcome.refused
    whole = study(tmp_path / "whole", training=training(tmp_path, policy=policy)).run_sync()
    assert learner_rows(again.store) == learner_rows(whole.store)


async def plain(turn: Turn) -> Decision:
    return Decision(action="cheat", self_score=0.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"agent": plain}, "agent 'plain' has no weights to update"),
        ({"training": None, "memory": "training"}, "needs a trainer"),
        ({"oracle": "judge"}, "'judge' is for memories"),
        ({"training": None, "oracle": "reward", "memory": "none"}, "no study trains"),
    ],
)
def test_parts_that_do_not_fit_are_refused(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        study(tmp_path, **change).run_sync()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"start": "middle"}, "start: expected 'previous' or 'base', got 'middle'"),
        ({"variant": "best"}, "variant: expected 'plain'"),
        ({"experience": "some"}, "experience: expected 'new' or 'all'"),
        ({"policy": "keep"}, "expected an SFTPolicy"),
        ({"update_seconds": 0}, "update_seconds above 0"),
        ({"side_by_side": 0}, "side_by_side of at least 1"),
        ({"trainer": object()}, "has no base and no update"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Training(**{"trainer": TallyTrainer(base_file(tmp_path))} | change)
