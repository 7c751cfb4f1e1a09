"""What a sealed run is sealed with: another process, and another user if one is named.

Checks everything that would make the seal worthless and that can be seen from here. Linux only:
the parent is made non-dumpable, so that no other process of its user reads its memory or its
open files.
"""

import ctypes
import os
import pwd
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from s3gym.errors import ConfigError

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 1, 4, 38
KEPT = ("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "PYTHONPATH", "PYTHONUTF8")
"""Environment variables that the child is given, with all that start with ``LC_``. No key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seal:
    """How agent and memory are kept apart from game, verifier and store.

    Attributes:
        user: User that the child process runs as; ``None``: the same user, which is best effort.
        python: Interpreter of the child process, with s3gym installed; by default this one.
        variables: Environment variables that the child is given beside those of ``KEPT``.
    """

    user: str | None = None
    python: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict, hash=False, repr=False)

    @property
    def settings(self) -> dict[str, str | bool]:
        """What a study's specification keeps."""
        return {"sealed": True} | ({} if self.user is None else {"sealed_user": self.user})

    def account(self) -> pwd.struct_passwd | None:
        """Return the user that the child runs as, ``None`` for the same.

        Raises:
            ConfigError: There is no such user, it is root, or this process may not change users.
        """
        if self.user is None:
            return None
        try:
            found = pwd.getpwnam(self.user)
        except KeyError:
            raise ConfigError(f"sealed_user: there is no user {self.user!r}") from None
        if found.pw_uid == 0:
            raise ConfigError("sealed_user: expected a user without rights, got root")
        if os.geteuid() != 0:
            raise ConfigError(
                f"sealed_user: only root can start a process as {self.user!r}; run as root, or "
                f"seal without a user"
            )
        return found

    def guard(self, store: Path) -> None:
        """Hide this process from others of its user, and check that the store is out of reach.

        Raises:
            ConfigError: The sealed user could read or replace what it must not.
        """
        hide()
        account = self.account()
        if account is None:
            return
        for name in (store, *(store.with_name(store.name + end) for end in ("-wal", "-shm"))):
            if name.exists() and allowed(name.stat(), account, stat.S_IROTH | stat.S_IWOTH):
                raise ConfigError(
                    f"{name}: the sealed user {self.user!r} may read or write it: chmod 600 {name}"
                )
        folder = store.absolute().parent
        while not folder.exists():
            folder = folder.parent
        self._must_not_write(folder.resolve(), account, "the folder of the store")
        for entry in sys.path:
            if os.path.isdir(entry or "."):
                self._must_not_write(Path(entry or ".").resolve(), account, "Python's path")

    def _must_not_write(self, folder: Path, account: pwd.struct_passwd, what: str) -> None:
        for place in (folder, *folder.parents):
            status = place.stat()
            kept_apart = place != folder and status.st_mode & stat.S_ISVTX
            if not kept_apart and allowed(status, account, stat.S_IWOTH):
                raise ConfigError(
                    f"{place}: the sealed user {self.user!r} may write here, and it is part of "
                    f"{what}; use a folder that only its owner may write to"
                )

    def environment(self) -> dict[str, str]:
        """Return the child's environment: what a program needs to start, and no key."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name in KEPT or name.startswith("LC_")
        }
        account = self.account() or pwd.getpwuid(os.getuid())
        home = {"HOME": account.pw_dir, "USER": account.pw_name, "LOGNAME": account.pw_name}
        return {**kept, **home, **self.variables}


def allowed(status: os.stat_result, account: pwd.struct_passwd, bits: int) -> bool:
    """Return whether a user's own rights hold any of the bits, given as those of all others."""
    if status.st_uid == account.pw_uid:
        return bool(status.st_mode & bits << 6)
    if status.st_gid == account.pw_gid:
        return bool(status.st_mode & bits << 3)
    return bool(status.st_mode & bits)


@contextmanager
def private_files() -> Iterator[None]:
    """Make the files created inside readable by their owner alone, from their first byte on."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def hide() -> None:
    """Refuse other processes of this user the memory, open files and environment of this one.

    Stays so until the process ends. Raises ``ConfigError`` where the system cannot do it.
    """
    _prctl(PR_SET_DUMPABLE, 0)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; gain no rights by executing.

    Raises:
        ConfigError: The system cannot do it.
    """
    _prctl(PR_SET_PDEATHSIG, 9)
    _prctl(PR_SET_NO_NEW_PRIVS, 1)
    if os.getppid() != parent:  # it died before the kernel knew
        raise SystemExit


def _prctl(option: int, value: int) -> None:
    if not sys.platform.startswith("linux"):
        raise ConfigError("a sealed run needs Linux")
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(option, value, 0, 0, 0) != 0:
        raise ConfigError(f"a sealed run needs prctl: {os.strerror(ctypes.get_errno())}")
