"""One store from the shards of a sweep's folder, with the same roots.

Shards are copied row by row and never renumbered: ids are those of the studies, and a study's
place among the others is its place in the manifest. Merging again adds nothing; a shard that has
got on since the last merge replaces what stood there, if that is its beginning.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from s3gym.audit.findings import Audit
from s3gym.audit.rows import check_chain
from s3gym.cluster.files import link_weights
from s3gym.cluster.shards import SweepFolder
from s3gym.errors import StoreError
from s3gym.sealed.seal import private_files
from s3gym.store import file
from s3gym.store.store import Store
from s3gym.store.verdicts import store_root, study_root

BY_STUDY = ("episodes", "calls", "memory_versions", "updates", "invalid_points", "scores", "seals")
"""Tables with a column that names the study."""
BY_EPISODE = ("steps", "verdicts")
BY_NAME = {"abandoned": "episode", "timings": "id"}
BY_CONTENT = ("recollections", "messages")
OF_EPISODE = "episode IN (SELECT id FROM main.episodes WHERE study = ?)"
OF_STUDY = "substr({column}, 1, length(?1) + 1) = ?1 || '/'"
"""Ids of a study's episodes and of what its memory does begin with the study's."""
FINISHED = """
SELECT e.id, e.start_hash, e.n_steps, c.hash FROM {side}.episodes e
LEFT JOIN {side}.scores c ON c.episode = e.id WHERE e.study = ? AND e.status = 'done' ORDER BY e.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """What a merge did.

    Attributes:
        added: Studies that were new to the store.
        replaced: Studies that had got on since the last merge.
        kept: Studies that the store had already.
        missing: Studies without a shard.
        unfinished: Studies that are merged as far as they are.
        root: Root of the store; ``None`` unless it holds every study, sealed.
    """

    added: tuple[str, ...]
    replaced: tuple[str, ...]
    kept: tuple[str, ...]
    missing: tuple[str, ...]
    unfinished: tuple[str, ...]
    root: str | None


def merge(
    folder: SweepFolder, out: str | Path, *, partial: bool = False, weights: bool = True
) -> Merged:
    """Make one store of a folder's shards, or go on with one.

    Args:
        folder: The sweep; its shards are only read.
        out: The store; it must not exist, or come from this folder.
        partial: Take in studies that are unfinished, and do without those that have no shard.
        weights: Take in the weights of training studies, too, by links where that can be.

    Raises:
        StoreError: A study is unfinished, a shard is damaged or of another sweep, the store holds
            something else of the same study, or the disk failed. What was merged before stays.
    """
    out = Path(out)
    if out.absolute().is_relative_to(folder.path.absolute()):
        raise StoreError(f"{out}: lies in the sweep's own folder; name a file outside of it")
    strangers = folder.strangers()
    if strangers:
        raise StoreError(f"{strangers[0]}: belongs to no study of the sweep; take it out")
    missing = tuple(name for name in folder.studies if not folder.shard(name).exists())
    if missing and not partial:
        raise StoreError(
            f"{folder.path}: {len(missing)} of {len(folder.studies)} studies have not begun "
            f"({missing[0]}); finish them with 's3gym resume {folder.path}', or merge what there "
            f"is with --partial"
        )
    if not partial:
        _must_be_done(folder)
    with _target(folder, out) as store:
        store.remedy = f"merge again: 's3gym merge {folder.path} {out}'"
        work = _Merge(folder, store)
        for place, study in enumerate(folder.studies, start=1):
            if study not in missing:
                work.take(study, place)
                if weights:
                    link_weights(folder.shard(study), out)
        root = None if missing else store_root(store.connection)
    return Merged(
        added=tuple(work.added),
        replaced=tuple(work.replaced),
        kept=tuple(work.kept),
        missing=missing,
        unfinished=tuple(work.unfinished),
        root=root,
    )


def _must_be_done(folder: SweepFolder) -> None:
    for state in folder.status():
        if state.status == "unreadable":
            raise StoreError(state.note)
        if state.status != "done":
            raise StoreError(
                f"{folder.shard(state.study)}: {state.study} is {state.status}, not done; finish "
                f"it with 's3gym resume {folder.path}', or merge what there is with --partial"
            )


@contextmanager
def _target(folder: SweepFolder, out: Path) -> Iterator[Store]:
    """Open the store that is merged into; its seeds must be the sweep's."""
    secrets = {"root_seed": folder.manifest.root_seed, "salt": folder.manifest.salt}
    if out.exists():
        with Store.open(out) as store:
            found = {key: store.verdicts.secret(key) for key in secrets}
            if found != secrets:
                raise StoreError(
                    f"{out}: a store of another sweep than {folder.path}: it has other seeds; "
                    f"name a new file"
                )
            known = [row[0] for row in store.connection.execute("SELECT id FROM studies")]
            for study in sorted(set(known) - set(folder.studies))[:1]:
                raise StoreError(f"{out}: holds {study}, which is no study of {folder.path}")
            yield store
        return
    with private_files():
        created = Store.create(out)
    with created as store:
        with store.transaction():
            for key, value in secrets.items():
                store.verdicts.set_secret(key, value)
        yield store


class _Merge:
    """Copies shards into a store, one transaction each."""

    def __init__(self, folder: SweepFolder, store: Store) -> None:
        self.added: list[str] = []
        self.replaced: list[str] = []
        self.kept: list[str] = []
        self.unfinished: list[str] = []
        self._folder, self._store, self._db = folder, store, store.connection
        self._known = {row[0] for row in self._db.execute("SELECT id FROM studies")}

    def take(self, study: str, place: int) -> None:
        """Take a study in from its shard."""
        path, db = self._folder.shard(study), self._db
        with self._folder.reading(study):
            pass  # says what is wrong with it
        with file.disk_errors(path):
            # Read-only: a transaction that writes would lock the shard against its worker.
            db.execute("ATTACH ? AS shard", (f"{path.resolve().as_uri()}?mode=ro",))
        try:
            with self._store.transaction():
                self._take(study, place, path)
        except StoreError as error:
            code = getattr(error.__cause__, "sqlite_errorcode", 0)
            if code & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                raise StoreError(f"{path}: damaged: {error.__cause__}") from error
            raise
        finally:
            db.execute("DETACH shard")

    def _take(self, study: str, place: int, path: Path) -> None:
        (status,) = self._db.execute("SELECT status FROM shard.studies").fetchone()
        if status != "done":
            self.unfinished.append(study)
        if study not in self._known:
            self.added.append(study)
        elif self._outline(study, "main") == self._outline(study, "shard"):
            self._must_be_whole(study, path)
            self.kept.append(study)
            return
        else:
            self._must_be_beginning(study, path)
            self._remove(study)
            self.replaced.append(study)
        self._must_be_whole(study, path)
        self._copy(study, place)
        if status == "done" and self._store.verdicts.root(study) != study_root(self._db, study):
            raise StoreError(
                f"{path}: {study} does not fit its sealed root; 's3gym audit {path}' names what "
                f"is damaged"
            )

    def _must_be_whole(self, study: str, path: Path) -> None:
        """Refuse a shard whose rows do not fit their hashes: merged, they would pass for played."""
        audit = Audit()
        with self._folder.reading(study) as shard:
            check_chain(shard, audit)
        for fault in audit.findings:
            if fault.level == "fail":
                raise StoreError(
                    f"{path}: {fault.where}: {fault.message}; 's3gym audit {path}' names all that "
                    f"is damaged"
                )

    def _outline(self, study: str, side: str) -> list[object]:
        """Return what shows whether two copies of a study are equally far: counts and hashes."""
        queries = (
            f"SELECT spec, status, note FROM {side}.studies WHERE id = ?1",
            f"SELECT root FROM {side}.seals WHERE study = ?1",
            f"SELECT count(*) FROM {side}.calls WHERE study = ?1",
            f"SELECT version, weights FROM {side}.updates WHERE study = ?1 ORDER BY version",
            f"SELECT e.id, e.status, e.start_hash, max(s.idx), s.hash FROM {side}.episodes e "
            f"LEFT JOIN {side}.steps s ON s.episode = e.id WHERE e.study = ?1 "
            f"GROUP BY e.id ORDER BY e.id",
            f"SELECT * FROM {side}.invalid_points WHERE study = ?1 ORDER BY checkpoint",
        )
        return [self._db.execute(query, (study,)).fetchall() for query in queries]

    def _must_be_beginning(self, study: str, path: Path) -> None:
        """Refuse to replace what is not the beginning of the shard: it would be lost."""
        mine, theirs = (
            {row[0]: row[1:] for row in self._db.execute(FINISHED.format(side=side), (study,))}
            for side in ("main", "shard")
        )
        fault = None
        if self._store.ledger.status(study) == "done" and not self._store.ledger.invalid(study):
            fault = f"{study} is done in the store, and the shard has another root"
        for episode in sorted(mine):
            if episode not in theirs:
                fault = f"the shard lacks {episode}, which the store has"
            elif theirs[episode] != mine[episode]:
                fault = f"{episode} has other content in the shard than in the store"
            if fault is not None:
                break
        if fault is not None:
            raise StoreError(
                f"{path}: conflicts with {self._store.path}: {fault}; nothing of {study} was merged"
            )

    def _remove(self, study: str) -> None:
        db = self._db
        for table in BY_EPISODE:
            db.execute(f"DELETE FROM main.{table} WHERE {OF_EPISODE}", (study,))
        for table in BY_STUDY:
            db.execute(f"DELETE FROM main.{table} WHERE study = ?", (study,))
        for table, column in BY_NAME.items():
            of_study = OF_STUDY.format(column=column)
            db.execute(f"DELETE FROM main.{table} WHERE {of_study}", (study,))
        db.execute("DELETE FROM main.studies WHERE id = ?", (study,))

    def _copy(self, study: str, place: int) -> None:
        db = self._db
        columns = ", ".join(row[1] for row in db.execute("PRAGMA main.table_info(studies)"))
        db.execute(
            f"INSERT INTO main.studies (rowid, {columns}) "
            f"SELECT ?, {columns} FROM shard.studies WHERE id = ?",
            (place, study),
        )
        for table in BY_CONTENT:
            db.execute(f"INSERT OR IGNORE INTO main.{table} SELECT * FROM shard.{table}")
        for table in BY_STUDY:
            db.execute(
                f"INSERT INTO main.{table} SELECT * FROM shard.{table} WHERE study = ?", (study,)
            )
        for table in BY_EPISODE:
            db.execute(
                f"INSERT INTO main.{table} SELECT * FROM shard.{table} WHERE {OF_EPISODE}", (study,)
            )
        for table, column in BY_NAME.items():
            of_study = OF_STUDY.format(column=column)
            db.execute(
                f"INSERT INTO main.{table} SELECT * FROM shard.{table} WHERE {of_study}", (study,)
            )
        db.execute("INSERT OR IGNORE INTO main.provenance SELECT * FROM shard.provenance")
