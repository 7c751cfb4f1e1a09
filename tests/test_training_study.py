"""Experience goes into weights: explore, update, evaluate, and nothing of it is done twice."""

import json
import re
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from studies import learner_rows, verifier_rows
from trainings import BASE, TINY, TallyChat, TallyTrainer, agent, base_file, training

from s3gym.agents.model import ModelAgent
from s3gym.api import Study, Sweep
from s3gym.audit import audit_store
from s3gym.audit.findings import Audit
from s3gym.catalog import find_game, teachings
from s3gym.contracts.trainer import ModelRef
from s3gym.errors import ConfigError, ModelError, ServiceError, StoreError
from s3gym.forecast import forecast
from s3gym.halt import HaltedError, haltable
from s3gym.records import Decision, Turn
from s3gym.report import build_report, load_store, to_html
from s3gym.schedule import Schedule
from s3gym.sft import Explored, SFTPolicy
from s3gym.store import file
from s3gym.store.updates import UpdateLog, UpdateRow
from s3gym.training import Training

ONE = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1, max_steps=3)
STUDY = "trust/tally/training/r0"


def study(folder: Path, store: str = "a.db", **more: Any) -> Study:
    values = {"schedule": TINY, "seed": 3, "repeats": 1, "agent": agent(folder)} | more
    if "training" not in values:
        values["training"] = training(folder)
    return Study(game="trust", store=folder / store, **values)


def audited(store: Path) -> Audit:
    return audit_store(store, find_game, teachings=teachings())


def faults(store: Path) -> list[str]:
    return [f"{f.check}: {f.where}" for f in audited(store).findings if f.level == "fail"]


def updates(store: Path, name: str = STUDY) -> dict[int, UpdateRow]:
    with closing(file.open_learner(store)) as db:
        return UpdateLog(db).of(name)


def tally(store: Path, version: int) -> dict[str, float]:
    row = updates(store)[version]
    folder = store.with_name(f"{store.name}.weights") / row.location
    found: dict[str, float] = json.loads((folder / "tally.json").read_text())
    return found


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


def test_a_store_and_its_weights_can_be_moved_together(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"

    def down(folder: Path) -> None:
        if folder.name == "u002":
            raise ServiceError("down")

    broken = TallyTrainer(base_file(first), before=down)
    study(first, training=training(first, broken)).run_sync()
    second.mkdir()
    shutil.move(first / "a.db", second / "b.db")
    shutil.move(first / "a.db.weights", second / "b.db.weights")
    result = study(second, store="b.db").resume_sync()
    assert not result.outcome.paused
    whole = study(tmp_path / "whole").run_sync()
    assert learner_rows(result.store) == learner_rows(whole.store)


@pytest.mark.parametrize("what", ["changed", "missing"])
def test_weights_that_are_not_those_of_the_record_are_refused_when_they_are_needed(
    tmp_path: Path, what: str
) -> None:
    result = study(tmp_path).run_sync()
    weights = tmp_path / "a.db.weights" / STUDY / "u001" / "weights"
    kept = tmp_path / "kept"
    shutil.copytree(weights, kept)
    if what == "changed":
        (weights / "tally.json").write_text(json.dumps({"cheat": 1}))
    else:
        shutil.rmtree(weights)
    assert not faults(result.store)  # an audit needs no weights
    assert (study(tmp_path).resume_sync()).root == result.root  # nor does a finished study
    edit(result.store, "UPDATE studies SET status = 'paused'")
    assert (study(tmp_path).resume_sync()).root == result.root  # nor a run of recorded calls
    _forget(result.store, "e001.1")
    failed = study(tmp_path).resume_sync().outcome.failed[STUDY]
    assert re.search(r"the weights of update 1 .*(differ from the record|put them back)", failed)
    assert failed.count(STUDY) == 1 + failed.count(f".weights/{STUDY}")
    shutil.rmtree(weights, ignore_errors=True)
    shutil.copytree(kept, weights)
    again = study(tmp_path).resume_sync()
    assert again.root == result.root


@pytest.mark.parametrize("where", ["./../outside", "absolute"])
def test_weights_outside_of_the_stores_own_folder_are_refused(tmp_path: Path, where: str) -> None:
    result = study(tmp_path).run_sync()
    outside = tmp_path / "outside"
    shutil.copytree(tmp_path / "a.db.weights" / STUDY / "u001" / "weights", outside)
    location = str(outside) if where == "absolute" else where
    edit(result.store, "UPDATE updates SET location = ? WHERE version = 1", location)
    _forget(result.store, "e001.1")
    failed = study(tmp_path).resume_sync().outcome.failed[STUDY]
    assert re.search(r"names weights at .*outside of .*a\.db\.weights", failed)


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


def test_weights_that_are_gone_fail_their_own_study_and_the_others_go_on(tmp_path: Path) -> None:
    others = ("trust/tally/none/r0", "trust/tally/training/r1")
    values: dict[str, Any] = {"repeats": 2, "store": tmp_path / "a.db", "schedule": TINY, "seed": 3}

    def sweep() -> Sweep:
        parts: dict[str, Any] = {"agents": [agent(tmp_path)], "training": training(tmp_path)}
        return Sweep(games=["trust"], memories=["none"], **parts, **values)

    whole = sweep().run_sync()
    weights = tmp_path / "a.db.weights" / STUDY
    weights.rename(tmp_path / "kept")
    for name in (STUDY, *others):
        _forget(whole.store, "e002.1", name)
    result = sweep().resume_sync()
    assert list(result.outcome.failed) == [STUDY]
    assert "put them back: an update that is finished is not made" in result.outcome.failed[STUDY]
    with closing(file.open_reader(whole.store)) as db:
        states = dict(db.execute("SELECT id, status FROM studies").fetchall())
    assert {states[name] for name in others} == {"done"}
    assert states[STUDY] == "failed"
    (tmp_path / "kept").rename(weights)
    assert sweep().resume_sync().root == whole.root


def _forget(store: Path, episode: str, owner: str = STUDY) -> None:
    """Take an episode out of a store as if it had never been played."""
    name = f"{owner}/{episode}"
    for statement in (
        "DELETE FROM steps WHERE episode = ?",
        "DELETE FROM episodes WHERE id = ?",
        "DELETE FROM calls WHERE place = ?",
        "DELETE FROM verdicts WHERE episode = ?",
        "DELETE FROM scores WHERE episode = ?",
    ):
        edit(store, statement, name)
    edit(store, "UPDATE studies SET status = 'paused'")


def test_other_base_weights_than_recorded_are_refused(tmp_path: Path) -> None:
    study(tmp_path).run_sync()
    edit(tmp_path / "a.db", "UPDATE studies SET status = 'paused'")
    run = study(tmp_path)
    (tmp_path / "base.json").write_text(json.dumps({"cheat": 5}))
    failed = run.resume_sync().outcome.failed[STUDY]
    assert "the base weights of trainer 'tally' differ from the record" in failed


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


def test_a_trainer_that_changes_the_weights_it_starts_from_is_found(tmp_path: Path) -> None:
    base = base_file(tmp_path)

    def spoil(folder: Path) -> None:
        if folder.name == "u002":
            place = folder.parent / "u001" / "weights" / "tally.json"
            place.write_text(json.dumps({"cheat": 9}))

    spoiled = training(tmp_path, TallyTrainer(base, before=spoil))
    result = study(tmp_path, training=spoiled).run_sync()
    assert "changed the weights that it started from, in update 2" in result.outcome.failed[STUDY]


def test_a_folder_of_weights_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "a.db.weights").touch()
    with pytest.raises(StoreError, match=r"a\.db\.weights"):
        study(tmp_path).run_sync()
    assert set(updates(tmp_path / "a.db")) == {0}


def test_an_odd_name_leads_to_no_other_folder(tmp_path: Path) -> None:
    chat = TallyChat(base_file(tmp_path))
    chat.name = ".."
    result = study(tmp_path, agent=ModelAgent(chat), schedule=ONE).run_sync()
    (name,) = result.studies
    assert name == "trust/../training/r0"
    assert updates(result.store, name)[1].location == "./trust/_../training/r0/u001/weights"
    edit(result.store, "UPDATE studies SET status = 'paused'")
    assert (study(tmp_path, agent=ModelAgent(chat), schedule=ONE).resume_sync()).root


async def test_a_missing_base_is_one_clear_error_before_anything_is_written(
    tmp_path: Path,
) -> None:
    run = study(tmp_path)
    (tmp_path / "base.json").unlink()
    with pytest.raises(ConfigError, match=r"there are none at '.*base\.json'"):
        await run.run()
    assert not (tmp_path / "a.db").exists()


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


# The audit


def edit(path: Path, statement: str, *values: object) -> int:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(statement, values).rowcount


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("training")
    return study(folder).run_sync().store


SEAL = f"chain: seals {STUDY}"


@pytest.mark.parametrize(
    ("statement", "named"),
    [
        ("UPDATE updates SET n_examples = n_examples + 1 WHERE version = 1", "isolation"),
        ("UPDATE updates SET examples = 'x' WHERE version = 1", "isolation"),
        ("UPDATE updates SET sources = replace(sources, 'x001', 'e001.1')", "isolation"),
        ("UPDATE updates SET start_hash = 'x' WHERE version = 1", "chain"),
        ("UPDATE updates SET start = 2 WHERE version = 1", "chain"),
        ("UPDATE updates SET explorer = 7 WHERE version = 1", "chain"),
        ("UPDATE updates SET trainer = 'other' WHERE version = 1", "chain"),
        ("UPDATE updates SET policy = '{}' WHERE version = 1", "chain"),
        ("UPDATE updates SET outcome = 'unchanged' WHERE version = 1", "chain"),
        ("UPDATE updates SET outcome = 'nonsense' WHERE version = 1", "chain"),
        ("DELETE FROM updates WHERE version = 1", "completeness"),
        ("UPDATE updates SET version = 9 WHERE version = 1", "completeness"),
    ],
)
def test_an_edited_update_is_found_and_named(
    finished: Path, tmp_path: Path, statement: str, named: str
) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    assert not faults(store)
    assert edit(store, statement)
    found = faults(store)
    assert f"{named}: updates {STUDY} 1" in found
    assert SEAL in found


@pytest.mark.parametrize("column", ["location", "weights", "log", "chosen"])
def test_an_edited_value_of_an_update_breaks_the_seal(
    finished: Path, tmp_path: Path, column: str
) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    edit(store, f"UPDATE updates SET {column} = '{{}}' WHERE version = 2")
    assert SEAL in faults(store)


def test_an_episode_played_with_other_weights_is_found(finished: Path, tmp_path: Path) -> None:
    store = Path(shutil.copy(finished, tmp_path / "a.db"))
    edit(store, "UPDATE calls SET chat = 'tally@u002' WHERE place LIKE '%e001.1'")
    assert f"isolation: episodes {STUDY}/e001.1" in faults(store)


def test_evaluation_that_goes_into_weights_is_found(tmp_path: Path) -> None:
    """A cheating engine: it trains on what was evaluated."""
    import s3gym.weights as engine

    def cheating(plan: Any, training: Any, store: Any, number: int) -> Any:
        rows = store.connection.execute(
            "SELECT id, instruction, max_steps FROM episodes WHERE phase = 'evaluation'"
        ).fetchall()
        return [
            Explored(
                episode=store.ledger.load_episode(row[0]), instruction=row[1], max_steps=row[2]
            )
            for row in rows
        ]

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(engine, "explored_for", cheating)
        result = study(tmp_path, schedule=ONE).run_sync()
    assert f"isolation: updates {STUDY} 1" in faults(result.store)


def test_prompts_of_an_agent_of_its_own_are_named_as_not_checked(
    finished: Path,
) -> None:
    audit = audit_store(finished, find_game)
    assert audit.level() == "warn"
    assert any("examples not made again" in finding.message for finding in audit.findings)
