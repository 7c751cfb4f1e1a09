"""``s3gym status``: how the studies of a store stand."""

from collections.abc import Sequence
from pathlib import Path

import click

from s3gym.cli.console import say, say_error
from s3gym.cli.main import USAGE
from s3gym.cluster.files import is_sweep_folder
from s3gym.cluster.shards import SweepFolder
from s3gym.cluster.standing import outcomes_of
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.store.spec import read_spec
from s3gym.store.verdicts import VerdictLog, store_root


@click.command("status")
@click.argument("store", type=click.Path(path_type=Path))
def status_command(store: Path) -> None:
    """Show how far each study is, and its learning curve so far."""
    if is_sweep_folder(store):
        _folder_status(SweepFolder.open(store))
        return
    db = file.open_reader(store)
    try:
        studies = db.execute("SELECT id, spec, status, note FROM studies ORDER BY id").fetchall()
        log = VerdictLog(db)
        for study, spec, status, note in studies:
            schedule = Schedule(**read_spec(study, spec)["schedule"])
            (explored,) = db.execute(
                "SELECT count(*) FROM episodes WHERE study = ? AND phase = 'exploration' "
                "AND status = 'done'",
                (study,),
            ).fetchone()
            curve = " ".join(f"{checkpoint}:{score:.3g}" for checkpoint, score in log.curve(study))
            say(f"{study}  {status}  {explored}/{schedule.exploration_episodes} episodes  {curve}")
            if note:
                say(f"    {note}")
            if updates := _updates(outcomes_of(db, study)):
                say(f"    {updates}")
            for checkpoint, reason in db.execute(
                "SELECT checkpoint, reason FROM invalid_points WHERE study = ?", (study,)
            ):
                say(f"    checkpoint {checkpoint} is invalid: {reason}")
        unfinished = sum(row[2] != "done" for row in studies)
        if not studies:
            say("The store holds no study.")
        elif unfinished:
            say(f"{unfinished} of {len(studies)} studies unfinished: s3gym resume {store}")
        else:
            say(f"all {len(studies)} studies done; root {store_root(db)}")
    finally:
        db.close()


def _updates(outcomes: Sequence[str]) -> str:
    """Say how often the weights of a study were updated; empty for other studies."""
    if not outcomes:
        return ""
    unchanged = outcomes.count("unchanged")
    text = f"{len(outcomes)} updates of weights"
    return f"{text}, {unchanged} of them without examples" if unchanged else text


def _folder_status(folder: SweepFolder) -> None:
    states = folder.status()
    for state in states:
        curve = " ".join(f"{checkpoint}:{score:.3g}" for checkpoint, score in state.curve)
        worker = f"  by {state.worker}" if state.worker else ""
        far = f"  {state.explored}/{state.to_explore} episodes" if state.to_explore else ""
        say(f"{state.study}  {state.status}{worker}{far}  {curve}".rstrip())
        if state.note:
            (say_error if state.status == "unreadable" else say)(f"    {state.note}")
        if updates := _updates(state.updates):
            say(f"    {updates}")
        for checkpoint, reason in state.invalid:
            say(f"    checkpoint {checkpoint} is invalid: {reason}")
    unfinished = sum(not state.done for state in states)
    if unfinished:
        n_workers = len({state.worker for state in states} - {""})
        say(
            f"{unfinished} of {len(states)} studies unfinished, {n_workers} workers write: "
            f"s3gym resume {folder.path}"
        )
    else:
        say(f"all {len(states)} studies done; root {folder.root_of(states)}")
    for stranger in folder.strangers():
        say_error(f"{stranger}: belongs to no study of the sweep")
    if any(state.status == "unreadable" for state in states):
        raise SystemExit(USAGE)
