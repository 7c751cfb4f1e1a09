"""An agent that attacks the barrier: what it gets in process, and what a seal leaves it."""

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from model_server import ModelServer, by_hash
from open_python import open_python, runs_s3gym
from sealed_agents import ATTACKS
from sealed_runs import notes, sweep

from s3gym import Schedule, Seal
from s3gym.proxy.upstream import PLACEHOLDER

USER = "nobody"
ONE_EACH = Schedule(exploration_episodes=1, evaluate_every=1, evaluation_episodes=1)
pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="a sealed run needs Linux (issue 8)"
)


def open_folder(kind: str) -> Path:
    """Return a new folder that another user can reach; clear those of tests that were killed."""
    for stale in Path("/tmp").glob(f"s3gym-{kind}-*"):
        owner = stale.name.split("-")[2]
        if not (owner.isdecimal() and Path("/proc", owner).exists()):
            shutil.rmtree(stale, ignore_errors=True)
    return Path(tempfile.mkdtemp(prefix=f"s3gym-{kind}-{os.getpid()}-", dir="/tmp"))


@pytest.fixture
def store() -> Iterator[Path]:
    """Return a store in a folder that everybody may enter and read, but not write to."""
    folder = open_folder("cheat")
    folder.chmod(0o755)
    yield folder / "out.db"
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    """Return an interpreter with s3gym that the other user may run."""
    if os.geteuid() != 0:
        pytest.skip("running as another user needs root (issue 8)")
    try:
        account = pwd.getpwnam(USER)
    except KeyError:
        pytest.skip(f"there is no user {USER} (issue 8)")
    folder = open_folder("python")
    made = open_python(folder)
    assert runs_s3gym(made, account.pw_uid, account.pw_gid), "the tests' own copy does not run"
    yield str(made)
    shutil.rmtree(folder)


def worked(store: Path, seal: Seal | None) -> set[str]:
    """Return the attacks that worked at any step of any episode."""
    result = sweep(store, "sealed_agents:cheats", seal=seal, schedule=ONE_EACH).run_sync()
    assert not result.outcome.failed, result.outcome
    said = [json.loads(note) for note in notes(store)]
    assert len(said) == 30
    return {name for names in said for name in names}


@pytest.mark.slow
def test_in_process_every_attack_works_which_is_why_there_is_a_seal(store: Path) -> None:
    assert worked(store, None) == {*ATTACKS}


def test_a_seal_without_a_user_stops_what_python_can_reach(store: Path) -> None:
    left = worked(store, Seal())
    assert not left & {"by_gc", "by_frames", "by_guessed_seeds", "by_own_files"}
    assert "by_path" in left, "the same user reads the store's file: best effort, documented"
    if os.geteuid() != 0:
        assert left == {"by_path"}, "no other process reads this one's memory and files"
    else:
        assert "by_parents_memory" in left, "as root nothing holds, documented"


@pytest.mark.slow
def test_of_an_ordinary_user_a_seal_protects_all_but_the_files(store: Path, python: str) -> None:
    """The parent itself runs as that user here, so nothing but the seal stands in the way."""
    account = pwd.getpwnam(USER)
    os.chown(store.parent, account.pw_uid, account.pw_gid)
    program = (
        f"from pathlib import Path\nfrom s3gym import Seal\nfrom sealed_runs import sweep\n"
        f"seal = Seal(python={python!r})\n"
        f"sweep(Path({str(store)!r}), 'sealed_agents:cheats', seal=seal).run_sync()\n"
    )
    subprocess.run(
        [python, "-c", program], user=USER, group=account.pw_gid, extra_groups=(), check=True,
        cwd=store.parent,
    )  # fmt: skip
    said = notes(store)
    assert len(said) == 80
    assert {name for names in said for name in json.loads(names)} == {"by_path"}


def test_a_sealed_user_stops_every_attack(store: Path, python: str) -> None:
    assert worked(store, Seal(user=USER, python=python)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_sealed_user_plays_behind_the_proxy(store: Path, python: str) -> None:
    with ModelServer().running() as server:
        assert server.script(by_hash) == "scripted-1"
        seal = Seal(user=USER, python=python)
        found = sweep(store, "sealed_agents:shop_bot", seal=seal, schedule=ONE_EACH)
        async with found.proxy(openai=server.openai_url):
            result = await found.run()
    assert not result.outcome.failed, result.outcome
    assert {*notes(store)} == {f"child {PLACEHOLDER}"}


@pytest.mark.slow
def test_without_the_mode_of_the_file_its_path_would_be_enough(
    store: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof can fail: with the store open to all, the sealed user reads it."""
    monkeypatch.setattr("s3gym.sealed.parts.private_files", nullcontext)
    assert worked(store, Seal(user=USER, python=python)) == {"by_path"}
