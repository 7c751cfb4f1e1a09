"""``s3gym replay``: an episode, step by step, with what was withheld from the agent."""

from contextlib import closing
from difflib import get_close_matches
from pathlib import Path

import click

from s3gym.cli.console import say
from s3gym.cluster.reading import as_store
from s3gym.errors import ConfigError
from s3gym.prompts import number
from s3gym.store import file
from s3gym.store.ledger import Ledger
from s3gym.store.verdicts import VerdictLog


@click.command("replay")
@click.argument("store", type=click.Path(path_type=Path))
@click.argument("episode", required=False)
@click.option("--recollection", is_flag=True, help="Show what memory gave back, too.")
@click.option("--raw", is_flag=True, help="Show the model's whole replies.")
def replay_command(store: Path, episode: str | None, *, recollection: bool, raw: bool) -> None:
    """Show an episode: what the agent saw, what it answered, and the withheld reward."""
    with (
        as_store(store, episode or "") as rows,
        file.damaged_rows(store),
        closing(file.open_reader(rows)) as db,
    ):
        names = [row[0] for row in db.execute("SELECT id FROM episodes ORDER BY id")]
        if episode is None:
            for name in names:
                say(name)
            return
        if episode not in names:
            near = get_close_matches(episode, names, n=3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"see s3gym replay {store}"
            raise ConfigError(f"{store}: no episode is called {episode!r}; {hint}")
        ledger, log = Ledger(db), VerdictLog(db)
        steps = ledger.steps(episode)
        verdicts = [verdict for verdict, _ in log.verdicts(episode)]
        (rules,) = db.execute("SELECT rules FROM episodes WHERE id = ?", (episode,)).fetchone()
        say(rules)
        for recorded, verdict in zip(steps, verdicts, strict=False):
            step, decision = recorded.step, recorded.step.decision
            if recollection and recorded.recollection:
                say(f"\nremembered:\n{ledger.recollection(recorded.recollection).text}")
            say(f"\n{step.observation.text}")
            if raw and decision.raw:
                say(f"reply:\n{decision.raw}")
            note = f"  ({decision.note})" if decision.note else ""
            say(
                f"> {decision.action!r}  self-score {number(decision.self_score)}  "
                f"reward {verdict.reward:.9g}  {decision.status}{note}"
            )
            if step.outcome.feedback:
                say(step.outcome.feedback)
        if steps:
            say(f"\n{steps[-1].step.outcome.text}")
        row = db.execute("SELECT score FROM scores WHERE episode = ?", (episode,)).fetchone()
        say(f"score {row[0]:.9g}" if row else "unfinished")
