"""A sweep's folder where a store is read: its shards, one after another.

A report and an audit go through the shards where they lie, for each study stands by itself. What
needs one file reads a merged store, which is made for it and gone afterwards.
"""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

from s3gym.audit import Audit, audit_store
from s3gym.audit.findings import GameFinder
from s3gym.cluster.files import is_sweep_folder
from s3gym.cluster.merge import merge
from s3gym.cluster.shards import SweepFolder
from s3gym.contracts.memory import CallRenderer
from s3gym.parts import Teachings
from s3gym.report.load import load_store
from s3gym.report.records import StoreRecord, StudyRecord


def load_folder(path: str | Path, label: str = "") -> StoreRecord:
    """Read everything that a report needs from a sweep's folder.

    Args:
        path: The folder; studies that have not begun are left out, and it has no root then.
        label: As for ``load_store``.

    Raises:
        StoreError: The manifest or a shard cannot be read, or a shard is of another sweep.
    """
    folder = SweepFolder.open(path)
    begun = _begun(folder)
    records = []
    for study in begun:
        with folder.reading(study):
            pass  # says what is wrong with it
        records.append(load_store(folder.shard(study), label))
    studies = sorted(chain.from_iterable(record.studies for record in records), key=_order)
    return StoreRecord(
        path=str(path),
        studies=tuple(studies),
        root=folder.root() if len(begun) == len(folder.studies) else None,
        provenance=records[0].provenance if records else {},
        timings=tuple(chain.from_iterable(record.timings for record in records)),
        shards={study: str(folder.shard(study)) for study in begun},
    )


def audit_folder(
    path: str | Path,
    find_game: GameFinder,
    expect: str | None = None,
    prompts: Mapping[str, CallRenderer] | None = None,
    teachings: Teachings | None = None,
) -> Audit:
    """Audit the shards of a sweep's folder. Takes and returns what ``audit_store`` does.

    Raises:
        StoreError: The manifest or a shard cannot be read, or a shard is of another sweep.
    """
    folder, whole = SweepFolder.open(path), Audit()
    told: set[str] = set()
    for study in sorted(folder.studies):
        if not folder.shard(study).exists():
            whole.warn("completeness", f"studies {study}", "has not begun")
            continue
        with folder.reading(study):
            pass  # says what is wrong with it
        audit = audit_store(folder.shard(study), find_game, prompts=prompts, teachings=teachings)
        whole.kept |= audit.kept
        for check, n in audit.looked_at.items():
            whole.count(check, n)
        for finding in audit.findings:
            if finding.check == "schedule" and finding.message in told:
                continue  # as in a store: once for all studies of which it is true
            told.add(finding.message)
            whole.findings.append(finding)
    for stranger in folder.strangers():
        whole.fail("completeness", str(stranger), "belongs to no study of the sweep")
    whole.root = folder.root()
    if expect is not None and whole.root != expect:
        whole.fail("chain", "root", f"expected {expect}, the folder has {whole.root}")
    return whole


@contextmanager
def as_store(path: str | Path, study: str = "") -> Iterator[Path]:
    """Yield the path of a store: the given one, or for a sweep's folder one with its studies.

    Args:
        path: A store or a folder.
        study: The one study that is looked for, or the id of something in it; its shard is enough.

    Raises:
        StoreError: As ``merge``.
    """
    path = Path(path)
    if not is_sweep_folder(path):
        yield path
        return
    folder = SweepFolder.open(path)
    for name in folder.studies:
        if f"{study}/".startswith(f"{name}/") and folder.shard(name).exists():
            with folder.reading(name):
                pass  # says what is wrong with it
            yield folder.shard(name)
            return
    with tempfile.TemporaryDirectory(prefix="s3gym-") as place:  # its owner's alone
        out = Path(place) / (path.resolve().name or "sweep")
        merge(folder, out, partial=True, weights=False)
        yield out


def _begun(folder: SweepFolder) -> list[str]:
    return [study for study in folder.studies if folder.shard(study).exists()]


def _order(study: StudyRecord) -> tuple[str, str, str, int, str]:
    return study.game, study.agent, study.memory, study.repeat, study.id
