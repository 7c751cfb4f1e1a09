"""What a memory asked of its model, made again from what its study had lived through."""

import json
import sqlite3
from collections.abc import Sequence

from s3gym.contracts.memory import CallRenderer, MemoryCall
from s3gym.records import Message, Phase
from s3gym.store.ledger import Ledger
from s3gym.store.spec import read_spec


def memory_prompt(
    db: sqlite3.Connection, ledger: Ledger, study: str, place: str, render: CallRenderer
) -> Sequence[Message] | None:
    """Return the prompt of the call at ``STUDY/m007``, or ``None`` when nobody can tell."""
    number = int(place.rpartition("/m")[2])
    (text,) = db.execute("SELECT spec FROM studies WHERE id = ?", (study,)).fetchone()
    spec = read_spec(study, text)
    states = {
        version: json.loads(state)
        for version, state in db.execute(
            "SELECT version, state FROM memory_versions WHERE study = ? AND version IN (?, ?)",
            (study, number - 1, number),
        )
    }
    made = states.get(number, {})
    if spec.get("oracle") or "counter" not in made:
        return None
    episodes = tuple(
        ledger.load_episode(row[0])
        for row in db.execute(
            "SELECT id FROM episodes WHERE study = ? AND phase = ? AND ordinal <= ? "
            "ORDER BY ordinal",
            (study, Phase.EXPLORATION.value, number),
        ).fetchall()
    )
    return render(
        MemoryCall(
            rules=episodes[-1].rules,
            episodes=episodes,
            before=states.get(number - 1, {}),
            backend=made["backend"],
            counter=made["counter"],
            max_tokens=spec["schedule"]["memory_tokens"],
        )
    )
