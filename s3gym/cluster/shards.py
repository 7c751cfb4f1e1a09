"""The folder of a sweep: a manifest, and one store per study, its shard.

A shard is an ordinary store that holds one study under the sweep's seeds, so the study's root is
that of the same study in one store with all others. A worker writes to it under a lease.
"""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from s3gym.api import Sweep
from s3gym.cluster.files import lock_of, must_be_new_folder, put_file, shard_name
from s3gym.cluster.lease import TABLE, TTL, Lease
from s3gym.cluster.manifest import Entry, Manifest, installed, read_manifest, write_manifest
from s3gym.cluster.standing import StudyStatus, standing
from s3gym.cluster.token import NAME as TOKEN
from s3gym.errors import ConfigError, StoreError
from s3gym.plans import StudyPlan
from s3gym.provenance import provenance
from s3gym.store import file
from s3gym.store.chain import digest
from s3gym.store.store import Store
from s3gym.store.verdicts import VerdictLog
from s3gym.sweep import add_studies

SHARDS = "shards"


class SweepFolder:
    """A sweep as a folder; make it with ``SweepFolder.create`` or ``SweepFolder.open``."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.studies = tuple(entry.id for entry in manifest.studies)
        self._specs = {entry.id: entry.spec for entry in manifest.studies}
        self.manifest_path = path / file.SWEEP
        self._plans: dict[str, StudyPlan] = {}

    @classmethod
    def create(
        cls,
        path: str | Path,
        sweep: Sweep,
        *,
        config: Mapping[str, Any] | None = None,
        shared: bool = False,
    ) -> "SweepFolder":
        """Make the folder of a new sweep; its seeds are drawn now if it has none.

        Args:
            path: The folder; it must not exist, or be empty.
            sweep: What to run.
            config: The configuration that it is made from, without keys, so that a resume or a
                worker can make it again.
            shared: Workers of several machines will write to it.

        Raises:
            ConfigError: Something about the sweep is wrong; nothing was written.
            StoreError: Something is there, or the folder cannot be written to.
        """
        path = Path(path)
        must_be_new_folder(path)
        plans = sweep.plans()
        if sweep.seal is not None:
            sweep.seal.guard(path / file.SWEEP)
        sweep.seed, sweep.salt = plans[0].seeds.root, plans[0].seeds.salt
        with file.disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            (path / SHARDS).mkdir(mode=0o755, exist_ok=True)
        manifest = Manifest(
            s3gym=installed(),
            config=None if config is None else dict(config),
            shared=shared,
            root_seed=str(plans[0].seeds.root),
            salt=plans[0].seeds.salt,
            studies=tuple(Entry(id=plan.id, spec=digest(plan.spec())) for plan in plans),
        )
        write_manifest(path, manifest)
        return cls(path, manifest)

    @classmethod
    def open(cls, path: str | Path) -> "SweepFolder":
        """Open the folder of a sweep.

        Raises:
            StoreError: There is none, or its manifest is broken or of another version.
        """
        return cls(Path(path), read_manifest(Path(path)))

    def keep(self, *, config: Mapping[str, Any], shared: bool = False) -> None:
        """Keep a configuration that is new, and that workers of several machines write from now on.

        Args:
            config: Gives the same studies, perhaps under other limits.
            shared: Workers of several machines will write to it; that stays so.

        Raises:
            StoreError: The disk refused.
        """
        update = {"config": dict(config), "shared": shared or self.manifest.shared}
        changed = self.manifest.model_copy(update=update)
        if changed != self.manifest:
            write_manifest(self.path, changed)
            self.manifest = changed

    def guard(self, sweep: Sweep) -> None:
        """Check that a sealed sweep's agents cannot reach what the folder holds.

        Raises:
            ConfigError: The sealed user could read or replace it.
        """
        if sweep.seal is not None:
            sweep.seal.guard(self.manifest_path)
            for study in self.studies:
                sweep.seal.guard(self.shard(study))

    def plans(self, sweep: Sweep) -> list[StudyPlan]:
        """Return the plans of the folder's sweep, under its seeds.

        Args:
            sweep: Made from the same parts and settings as the folder's.

        Raises:
            ConfigError: A part is wrong, or the studies are not those of the folder.
        """
        sweep.seed, sweep.salt = int(self.manifest.root_seed), self.manifest.salt
        plans = sweep.plans()
        given = {plan.id for plan in plans}
        for name in [name for name in self.studies if name not in given][:1]:
            raise ConfigError(f"{self.path}: this run lacks the folder's study {name}")
        for plan in plans:
            self._must_fit(plan)
        self._plans = {plan.id: plan for plan in plans}
        return [self._plans[name] for name in self.studies]

    def _must_fit(self, plan: StudyPlan) -> None:
        recorded = self._specs.get(plan.id)
        if recorded is None:
            raise ConfigError(
                f"{self.path}: the folder's sweep has no study {plan.id}; merge it and extend "
                f"the store, or start another folder"
            )
        if recorded != digest(plan.spec()):
            raise ConfigError(
                f"{self.path}: {plan.id} has another specification than when the folder was made: "
                f"its game, agent, memory, schedule or settings changed"
            )

    def shard(self, study: str) -> Path:
        """Return the path of a study's shard, which need not exist yet."""
        self._must_know(study)
        return self.path / SHARDS / shard_name(study)

    def _must_know(self, study: str) -> None:
        if study not in self._specs:
            raise ConfigError(f"{self.path}: the folder's sweep has no study {study!r}")

    def pending(self) -> list[str]:
        """Return the studies that a run or resume has to take up, in order."""
        return [status.study for status in self.status() if not status.done]

    def status(self) -> list[StudyStatus]:
        """Return how every study stands, in order; works beside running workers."""
        return [self.status_of(study) for study in self.studies]

    def status_of(self, study: str) -> StudyStatus:
        """Return how one study stands."""
        path = self.shard(study)
        if not path.exists():
            return StudyStatus(study=study, status="pending")
        try:
            with self.reading(study) as db:
                return standing(study, db)
        except StoreError as error:
            return StudyStatus(study=study, status="unreadable", note=str(error))

    @contextmanager
    def reading(self, study: str) -> Iterator[sqlite3.Connection]:
        """Open a study's shard for reading, once it is certain that it belongs here.

        Raises:
            StoreError: It is missing, damaged or of another sweep.
        """
        path = self.shard(study)
        with (
            file.damaged_rows(path),
            file.disk_errors(path),
            closing(file.open_reader(path)) as db,
        ):
            self.must_own(study, db, path)
            yield db

    def must_own(self, study: str, db: sqlite3.Connection, path: Path) -> None:
        """Refuse a store that is not a study's shard.

        Raises:
            StoreError: It holds something else, or was played under other seeds.
        """
        rows = db.execute("SELECT id, spec FROM studies ORDER BY id LIMIT 2").fetchall()
        if len(rows) != 1 or rows[0][0] != study:
            found = ", ".join(repr(row[0]) for row in rows) or "no study"
            raise StoreError(f"{path}: expected the shard of {study!r}, it holds {found}")
        log = VerdictLog(db)
        if (log.secret("root_seed"), log.secret("salt")) != (
            self.manifest.root_seed,
            self.manifest.salt,
        ):
            raise StoreError(f"{path}: a shard from another sweep: it has other seeds")
        if digest(rows[0][1]) != self._specs[study]:
            raise StoreError(
                f"{path}: a shard from another sweep: {study} has another specification there"
            )

    @contextmanager
    def writer(self, study: str, *, owner: str, ttl: float = TTL) -> Iterator[Store]:
        """Open a study's shard for writing, under a lease; a new one is made when there is none.

        Args:
            study: Its id; ``plans`` must have been asked before.
            owner: Name of the worker, for messages.
            ttl: Seconds after which another worker may take the shard from one that went silent.

        Raises:
            HeldError: Another worker writes to it.
            LostError: From a transaction inside: another worker took it over.
            StoreError: It cannot be made, opened or written, or belongs to another sweep.
        """
        path = self.shard(study)
        if not path.exists():
            self._make(study, path)
        with self.reading(study):
            pass  # says what is wrong before anything is written
        journal: file.Journal = "PERSIST" if self.manifest.shared else "WAL"
        lock = lock_of(path)
        try:
            connection = file.open_writer(path, journal)
        except StoreError:
            if lock is not None:
                lock.release()
            raise
        with Store(path, connection, lock) as store:
            lease = Lease.take(path, connection, owner, ttl)
            store.fence = lease.check
            store.remedy = f"resume with 's3gym resume {self.path}'"
            with lease.kept(journal):
                yield store

    def _make(self, study: str, path: Path) -> None:
        """Make a shard and put it in its place whole, unless another worker did."""
        plan = self._plans.get(study)
        if plan is None:
            raise ConfigError(f"{path}: no such shard, and no plan from which to make it")
        with closing(file.create_in_memory()) as db:
            db.executescript(TABLE)
            store = Store(path, db, lock=None)
            with store.transaction():
                store.verdicts.set_secret("root_seed", self.manifest.root_seed)
                store.verdicts.set_secret("salt", self.manifest.salt)
            store.note_provenance(**provenance())
            add_studies(store, [plan])
            put_file(db.serialize(), path)

    def take_in(self, study: str, source: str | Path) -> None:
        """Put a shard into the folder that a worker wrote where nobody else can see it.

        Args:
            study: Whose shard it is.
            source: The closed store; it is moved.

        Raises:
            StoreError: It is not that study's shard, or the folder has another one.
        """
        source, path = Path(source), self.shard(study)
        with file.disk_errors(source), closing(file.open_reader(source)) as db:
            self.must_own(study, db, source)
        with file.disk_errors(source):
            content = source.read_bytes()
        if not put_file(content, path):
            raise StoreError(f"{path}: the folder has this study's shard already")
        with file.disk_errors(source):
            source.unlink()

    def discard(self) -> None:
        """Remove a folder in which no study was begun; one that holds a shard is left alone."""
        with suppress(OSError):
            (self.path / SHARDS).rmdir()  # only an empty one can be removed
            for name in (file.SWEEP, TOKEN):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def strangers(self) -> list[Path]:
        """Return the stores among the shards that belong to no study of the sweep."""
        known = {shard_name(study) for study in self.studies}
        with file.disk_errors(self.path):
            return sorted(p for p in (self.path / SHARDS).glob("[!.]*.db") if p.name not in known)

    def root(self) -> str | None:
        """Return the root over all studies, that of a store with all of them, once all are done."""
        return self.root_of(self.status())

    def root_of(self, states: Sequence[StudyStatus]) -> str | None:
        """Return the same from what ``status`` gave."""
        roots = [[state.study, state.root] for state in states]
        return None if any(root is None for _, root in roots) else digest(*sorted(roots))
