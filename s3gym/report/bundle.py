"""One file to publish: the store, its report and what made it; anybody can audit it.

A bundle is a zip of ``store.db``, ``report.json``, ``report.html`` and ``README.txt``. It holds the
evaluation seeds, because an audit replays every episode; so run anew before you measure again on
seeds that nobody knows. Reading a bundle takes one member out by its fixed name and imports nothing
that is named inside.
"""

import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from lzma import LZMAError
from pathlib import Path
from shutil import copyfileobj

from s3gym.errors import StoreError
from s3gym.store.file import disk_errors, open_reader
from s3gym.store.verdicts import store_root

MAGIC = b"PK\x03\x04"
STORE, README = "store.db", "README.txt"
EPOCH = (1980, 1, 1, 0, 0, 0)
UNREADABLE = (zipfile.BadZipFile, OSError, EOFError, zlib.error, LZMAError, RuntimeError)
"""What a zip raises that is damaged, encrypted or packed in a way that is not known here."""
TEXT = """A bundle of an s3gym run.

store.db     every step, verdict and score{bodies}
report.json  the report; report.html is the same as a page

To check it: s3gym audit {name}{expect}
Root: {root}
"""


def write_bundle(
    store: str | Path, out: str | Path, *, report_json: str, page: str, bodies: bool = True
) -> str | None:
    """Write a bundle; return the store's root.

    Args:
        store: A finished store; it is only read.
        out: The zip to write; replaced if it exists.
        report_json: From ``to_json``.
        page: From ``to_html``.
        bodies: False leaves the prompts out. An audit makes them again from the other rows and
            compares their hashes, so that nothing is lost to it.

    Raises:
        StoreError: The store cannot be read, or the bundle cannot be written.
    """
    store, out = Path(store), Path(out)
    with disk_errors(out), tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / STORE
        with closing(open_reader(store)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
            if not bodies:
                target.execute("DELETE FROM messages")
                target.commit()
            target.execute("PRAGMA journal_mode = DELETE")
            target.execute("VACUUM")
            root = store_root(target)
        text = TEXT.format(
            bodies="" if bodies else "; prompts are left out, their hashes are kept",
            name=out.name,
            expect=f" --expect {root}" if root else "",
            root=root or "not sealed: a study is unfinished",
        )
        out.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
            for name, content in (
                (README, text),
                ("report.json", report_json),
                ("report.html", page),
            ):
                member = zipfile.ZipInfo(name, EPOCH)
                member.compress_type = zipfile.ZIP_DEFLATED
                bundle.writestr(member, content.encode("utf-8", "backslashreplace"))
            member = zipfile.ZipInfo(STORE, EPOCH)
            member.compress_type = zipfile.ZIP_DEFLATED
            with copy.open("rb") as rows, bundle.open(member, "w", force_zip64=True) as packed:
                copyfileobj(rows, packed)
    return root


@contextmanager
def unpacked(path: str | Path) -> Iterator[Path]:
    """Yield the path of a store: the given file, or what a bundle holds, for as long as needed.

    Raises:
        StoreError: The bundle is damaged or holds no store.
    """
    path = Path(path)
    if not path.is_file() or not zipfile.is_zipfile(path):
        with suppress(OSError), path.open("rb") as start:
            if start.read(len(MAGIC)) == MAGIC:
                raise StoreError(f"{path}: the bundle cannot be read: it breaks off")
        yield path
        return
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / STORE
        try:
            with (
                zipfile.ZipFile(path) as bundle,
                bundle.open(STORE) as packed,
                target.open("wb") as rows,
            ):
                copyfileobj(packed, rows)
        except KeyError:
            raise StoreError(f"{path}: a zip file, but not an s3gym bundle (no {STORE})") from None
        except UNREADABLE as error:
            raise StoreError(f"{path}: the bundle cannot be read: {error}") from error
        yield target
