"""The learner's side of the store: what agents and memories saw and answered.

Knows nothing of verdicts and scores.
"""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from s3gym.calls import CallSite
from s3gym.contracts.chat import Finish, Reply
from s3gym.contracts.memory import MemorySnapshot
from s3gym.errors import ModelError, StoreError
from s3gym.records import (
    Episode,
    Message,
    Observation,
    Phase,
    Recollection,
    Step,
    Usage,
)
from s3gym.store.chain import canonical, digest, link
from s3gym.store.hashes import message_hash
from s3gym.store.steps import step_of, step_row
from s3gym.text import storable

REPLY_COLUMNS = (
    "request_hash, reply, finish, model, request_id, input_tokens, cached_tokens, output_tokens, "
    "reasoning_tokens"
)
FAILED, UNAVAILABLE = "failed", "unavailable"
"""The finish of a call that got no answer; ``unavailable`` where it was worth another try."""
ANSWERED = f"finish NOT IN ('{FAILED}', '{UNAVAILABLE}')"
KEPT_RECOLLECTIONS = 64
NOTHING = ""
"""The recollection column of a step that recalled nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeRow:
    """What is fixed when an episode starts."""

    id: str
    study: str
    game: str
    phase: Phase
    ordinal: int
    checkpoint: int | None
    rules: str
    instruction: str
    opening: str
    max_steps: int

    def start_hash(self) -> str:
        """Return the hash from which the episode's chain starts."""
        return digest(
            self.id,
            self.study,
            self.phase.value,
            self.ordinal,
            self.checkpoint,
            self.rules,
            self.instruction,
            self.opening,
            self.max_steps,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStep:
    """A step as the store has it, with the hash of what was recalled for it and its own."""

    step: Step
    recollection: str
    hash: str


class Ledger:
    """Reads and writes the learner's tables; the caller opens and commits transactions."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection
        self._kept: set[str] = set()
        self._recalled: dict[tuple[object, ...], str] = {}

    def forget(self) -> None:
        """Take nothing for kept any more, because a transaction was undone."""
        self._kept.clear()
        self._recalled.clear()

    # Studies

    def add_study(
        self,
        study: str,
        *,
        game: str,
        game_version: int,
        agent: str,
        memory: str,
        repeat: int,
        spec: str,
    ) -> None:
        """Keep a study's specification; it must not exist."""
        self._db.execute(
            "INSERT INTO studies VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', '')",
            (study, game, game_version, agent, memory, repeat, spec),
        )

    def set_status(self, study: str, status: str, note: str = "") -> None:
        """Note how a study stands: pending, running, paused, failed or done."""
        self._db.execute(
            "UPDATE studies SET status = ?, note = ? WHERE id = ?", (status, storable(note), study)
        )

    def status(self, study: str) -> str:
        """Return a study's status."""
        row = self._db.execute("SELECT status FROM studies WHERE id = ?", (study,)).fetchone()
        return str(row[0])

    def set_invalid(self, study: str, checkpoint: int, reason: str) -> None:
        """Note that a checkpoint could not be evaluated."""
        row = (study, checkpoint, storable(reason))
        self._db.execute("INSERT OR REPLACE INTO invalid_points VALUES (?, ?, ?)", row)

    def clear_invalid(self, study: str, checkpoint: int) -> None:
        """Forget an invalid point, because it is evaluated now."""
        self._db.execute(
            "DELETE FROM invalid_points WHERE study = ? AND checkpoint = ?", (study, checkpoint)
        )

    def invalid(self, study: str) -> list[tuple[int, str]]:
        """Return the invalid checkpoints of a study with their reasons, in order."""
        return self._db.execute(
            "SELECT checkpoint, reason FROM invalid_points WHERE study = ? ORDER BY checkpoint",
            (study,),
        ).fetchall()

    # Episodes and steps

    def start_episode(self, row: EpisodeRow) -> str:
        """Keep what an episode starts from; return the hash its chain starts from."""
        start_hash = row.start_hash()
        self._db.execute(
            "INSERT INTO episodes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 'playing', ?)",
            (
                row.id,
                row.study,
                row.phase.value,
                row.ordinal,
                row.checkpoint,
                row.rules,
                row.instruction,
                row.opening,
                row.max_steps,
                start_hash,
            ),
        )
        return start_hash

    def add_step(self, episode: str, step: Step, recollection: str, previous: str) -> str:
        """Keep a step; return its hash."""
        row = step_row(episode, step, recollection)
        step_hash = link(previous, row)
        self._db.execute(
            "INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*row, step_hash),
        )
        return step_hash

    def finish_episode(self, episode: str, n_steps: int) -> None:
        """Note that an episode is over."""
        self._db.execute(
            "UPDATE episodes SET status = 'done', n_steps = ? WHERE id = ?", (n_steps, episode)
        )

    def episode_state(self, episode: str) -> tuple[str, str] | None:
        """Return (status, start hash) of an episode, or ``None`` when it never started."""
        row = self._db.execute(
            "SELECT status, start_hash FROM episodes WHERE id = ?", (episode,)
        ).fetchone()
        return None if row is None else (str(row[0]), str(row[1]))

    def steps(self, episode: str) -> list[RecordedStep]:
        """Return the recorded steps of an episode, in order; none of one that never started."""
        started = self._db.execute(
            "SELECT opening FROM episodes WHERE id = ?", (episode,)
        ).fetchone()
        if started is None:
            return []
        observation = Observation(text=started[0])
        recorded = []
        for row in self._db.execute(
            "SELECT * FROM steps WHERE episode = ? ORDER BY idx", (episode,)
        ):
            step = step_of(row, observation)
            recorded.append(RecordedStep(step=step, recollection=row[9], hash=row[13]))
            observation = step.outcome
        return recorded

    def load_episode(self, episode: str) -> Episode:
        """Return a finished episode as the agent lived it."""
        row = self._db.execute(
            "SELECT game, episodes.ordinal, rules FROM episodes JOIN studies ON studies.id = study "
            "WHERE episodes.id = ?",
            (episode,),
        ).fetchone()
        if row is None:
            raise StoreError(f"no episode is called {episode!r}")
        return Episode(
            id=episode,
            game=row[0],
            ordinal=row[1],
            rules=row[2],
            steps=tuple(recorded.step for recorded in self.steps(episode)),
        )

    def remove_attempt(self, episode: str) -> str:
        """Take a half-played episode out; return its step rows as JSON."""
        rows = self._db.execute(
            "SELECT * FROM steps WHERE episode = ? ORDER BY idx", (episode,)
        ).fetchall()
        self._db.execute("DELETE FROM steps WHERE episode = ?", (episode,))
        self._db.execute("DELETE FROM episodes WHERE id = ?", (episode,))
        return canonical(rows)

    # Recollections and memory versions

    def add_recollection(self, recollection: Recollection, *, cut: bool = False) -> str:
        """Keep what was recalled, once per content; return its hash."""
        if not recollection.text and not recollection.dropped:
            return NOTHING
        sources = canonical(recollection.sources)
        content = (
            recollection.text,
            recollection.tokens,
            sources,
            recollection.dropped,
            len(recollection.steps),
            int(cut),
        )
        known = self._recalled.get(content)
        if known is not None:
            return known
        content_hash = digest(*content)
        self._db.execute(
            "INSERT OR IGNORE INTO recollections VALUES (?, ?, ?, ?, ?, ?, ?)",
            (content_hash, *content),
        )
        if len(self._recalled) >= KEPT_RECOLLECTIONS:
            self._recalled.clear()
        self._recalled[content] = content_hash
        return content_hash

    def recollection(self, content_hash: str) -> Recollection:
        """Return what was recalled, without its steps."""
        if content_hash == NOTHING:
            return Recollection()
        row = self._db.execute(
            "SELECT text, tokens, sources, dropped FROM recollections WHERE hash = ?",
            (content_hash,),
        ).fetchone()
        if row is None:
            raise StoreError(f"recollection {content_hash} is missing")
        return Recollection(
            text=row[0], tokens=row[1], sources=tuple(json.loads(row[2])), dropped=row[3]
        )

    def add_memory_version(self, study: str, version: int, snapshot: MemorySnapshot) -> None:
        """Keep one version of a memory; a resumed study must rebuild it equal."""
        row = (snapshot.text, canonical(snapshot.sources), canonical(dict(snapshot.state)))
        known = self._db.execute(
            "SELECT text, sources, state FROM memory_versions WHERE study = ? AND version = ?",
            (study, version),
        ).fetchone()
        if known is None:
            self._db.execute(
                "INSERT INTO memory_versions VALUES (?, ?, ?, ?, ?)", (study, version, *row)
            )
        elif tuple(known) != row:
            raise StoreError(
                f"memory version {version} of {study} was rebuilt unlike the recorded one; the "
                f"memory's code or settings changed since the store was written"
            )

    # Model calls

    def add_call(
        self,
        site: CallSite,
        purpose: str,
        attempt: int,
        *,
        chat: str,
        layout: str,
        request_hash: str,
        messages: Sequence[Message],
        seed: int | None,
        max_tokens: int,
        reply: Reply | ModelError,
    ) -> None:
        """Keep a call and what came of it; messages are kept once per content."""
        hashes = [message_hash(message) for message in messages]
        self._db.executemany(
            "INSERT OR IGNORE INTO messages VALUES (?, ?, ?, ?)",
            [
                (name, message.role, message.content, int(message.stable))
                for name, message in zip(hashes, messages, strict=True)
                if name not in self._kept
            ],
        )
        self._kept.update(hashes)
        if isinstance(reply, ModelError):
            reply = _failed_reply(reply)
        usage = reply.usage
        self._db.execute(
            "INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                site.study,
                site.place,
                site.step,
                purpose,
                attempt,
                chat,
                layout,
                request_hash,
                canonical(hashes),
                seed,
                max_tokens,
                reply.text,
                reply.finish,
                reply.model,
                reply.request_id,
                usage.input_tokens,
                usage.cached_tokens,
                usage.output_tokens,
                usage.reasoning_tokens,
            ),
        )

    def has_calls(self, study: str, place: str) -> bool:
        """Return whether any call of a place is recorded."""
        row = self._db.execute(
            "SELECT 1 FROM calls WHERE study = ? AND place = ? LIMIT 1", (study, place)
        ).fetchone()
        return row is not None

    def call(
        self, site: CallSite, purpose: str, attempt: int
    ) -> tuple[str, Reply | ModelError] | None:
        """Return (request hash, reply or failure) of a recorded call, or ``None``."""
        row = self._db.execute(
            f"SELECT {REPLY_COLUMNS} FROM calls "
            "WHERE study = ? AND place = ? AND step = ? AND purpose = ? AND attempt = ?",
            (site.study, site.place, site.step, purpose, attempt),
        ).fetchone()
        if row is None:
            return None
        if row[2] in (FAILED, UNAVAILABLE):
            return str(row[0]), ModelError(row[1], retryable=row[2] == UNAVAILABLE)
        return str(row[0]), _reply(row)


def _failed_reply(error: ModelError) -> Reply:
    """Return a failure in the form of a row of calls: ``finish`` says that it is one."""
    finish = UNAVAILABLE if error.retryable else FAILED
    return Reply(text=storable(str(error)), finish=cast(Finish, finish))


def _reply(row: Sequence[Any]) -> Reply:
    """Return the reply of a row of ``REPLY_COLUMNS``."""
    return Reply(
        text=row[1],
        finish=cast(Finish, row[2]),
        usage=Usage(
            calls=1,
            input_tokens=row[5],
            cached_tokens=row[6],
            output_tokens=row[7],
            reasoning_tokens=row[8],
        ),
        model=row[3],
        request_id=row[4],
    )


def recorded_replies(db: sqlite3.Connection) -> dict[str, Reply]:
    """Return every recorded reply by the hash of its request, for a replay without a network."""
    return {
        row[0]: _reply(row)
        for row in db.execute(
            f"SELECT {REPLY_COLUMNS} FROM calls WHERE {ANSWERED} "
            "ORDER BY study, place, step, purpose, attempt"
        )
    }
