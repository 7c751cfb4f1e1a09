"""``s3gym status``: how the studies of a store stand."""

import sqlite3
from pathlib import Path

import click

from s3gym.cli.console import say
from s3gym.schedule import Schedule
from s3gym.store import file
from s3gym.store.spec import read_spec
from s3gym.store.updates import UpdateLog
from s3gym.store.verdicts import VerdictLog, store_root


@click.command("status")
@click.argument("store", type=click.Path(path_type=Path))
def status_command(store: Path) -> None:
    """Show how far each study is, and its learning curve so far."""
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
            if updates := _updates(db, study):
                say(f"    {updates}")
            for checkpoint, reason in db.execute(
                "SELECT checkpoint, reason FROM invalid_points WHERE study = ?", (study,)
            ):
                say(f"    checkpoint {checkpoint} is invalid: {reason}")
        unfinished = sum(row[2] != "done" for row in studies)
        if unfinished:
            say(f"{unfinished} of {len(studies)} studies unfinished: s3gym resume {store}")
        else:
            say(f"all {len(studies)} studies done; root {store_root(db)}")
    finally:
        db.close()


def _updates(db: sqlite3.Connection, study: str) -> str:
    """Say how often the weights of a study were updated; empty for other studies."""
    outcomes = [row.outcome for version, row in UpdateLog(db).of(study).items() if version]
    if not outcomes:
        return ""
    unchanged = outcomes.count("unchanged")
    text = f"{len(outcomes)} updates of weights"
    return f"{text}, {unchanged} of them without examples" if unchanged else text
