"""Programs of the how-to pages with the real libraries, each in an environment of its own.

What the selected tests need is installed and played side by side, while the first ones are looked
at already. An environment starts empty, sees behind it all that this one has (s3gym among it), and
gets the library and what else is missing from the package registry.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from model_server import ModelServer, Served, by_hash
from pages import ROOT, blocks

INSTALL_SECONDS, RUN_SECONDS = 600, 300
TRIES = 2
OFFLINE = "S3GYM_OFFLINE"
"""Variable that leaves these tests out, for a machine that reaches no package registry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a page.

    Attributes:
        page: In ``docs/how-to``.
        packages: What it needs beside s3gym.
        changes: Texts of the program, and what is run in their place.
        imports: Other programs of the page that lie beside it.
        check: A program that runs after it.
    """

    page: str
    packages: str
    changes: Mapping[str, str] = field(default_factory=dict)
    imports: Sequence[str] = ()
    check: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a program left: the folder that it ran in, and what it printed."""

    folder: Path
    stdout: str


def app(packages: str) -> Program:
    """Return the program of a framework; one repeat in place of three says as much here."""
    once = {"schedule=quick,": "schedule=quick, repeats=1,"}
    return Program(page="test-an-agent-app.md", packages=packages, changes=once)


CHECK_GYMNASIUM = """
from gymnasium.utils.env_checker import check_env

from s3gym.environments.gym import S3GymEnv
from s3gym.games import GAMES

for game in GAMES:
    check_env(S3GymEnv(game), skip_render_check=True)
"""
CHECK_INSPECT = """
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log

from s3gym.environments.table import Table
from s3gym.records import Phase
from s3gym.replies import parse_reply

(found,) = list_eval_logs("logs")
log = read_eval_log(found)
assert len(log.samples) == 3, len(log.samples)
for sample in log.samples:  # each score is what the game gives for what the model said
    table = Table("trust", phase=Phase.EVALUATION)
    table.start(sample.metadata["seed"])
    said = [message.text for message in sample.messages if message.role == "assistant"]
    verdicts = [table.step(parse_reply(text))[1] for text in said]
    (score,) = sample.scores.values()
    assert score.value == table.score, (score, table.score)
    assert score.metadata["rewards"] == [verdict.reward for verdict in verdicts]
"""


class Workshop:
    """Installs and plays; every ``start`` is a job of its own.

    Args:
        folder: An empty one.
        variables: Added to the environment variables of the programs.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder = folder
        self._variables = {**os.environ, "PYTHONSAFEPATH": "1", **variables}
        self._pool = ThreadPoolExecutor(max(2, min(4, os.cpu_count() or 1)))
        self._jobs: dict[str, Future[Played]] = {}
        self._running: set[subprocess.Popen[str]] = set()
        self._closed = False

    def start(self, name: str, program: Program) -> None:
        """Install and play a program, as soon as a core is free."""
        self._jobs[name] = self._pool.submit(self._play, name, program)

    def played(self, name: str) -> Played:
        """Wait for a program; raises ``AssertionError`` when it or its installation failed."""
        return self._jobs[name].result()

    def tested(self, packages: str, *arguments: str) -> str:
        """Run pytest where some packages are installed; return what it printed."""
        folder = self._folder / "tested"
        folder.mkdir()
        self._environment(folder / "venv", packages)
        return self._run(["python", "-m", "pytest", *arguments], folder, RUN_SECONDS)

    def close(self) -> None:
        """End what is still running."""
        self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for running in list(self._running):
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
        self._pool.shutdown()

    def _play(self, name: str, program: Program) -> Played:
        folder = self._folder / name.partition(".")[0]
        folder.mkdir()
        self._environment(folder / "venv", program.packages)
        page = (ROOT / "docs" / "how-to" / program.page).read_text()
        texts = {block.title: block.text for block in blocks(page)}
        for old, new in program.changes.items():
            assert old in texts[name], f"{program.page}: {name} has no {old!r}"
            texts[name] = texts[name].replace(old, new)
        texts["check.py"] = program.check
        for file in (name, *program.imports, "check.py"):
            (folder / file).write_text(texts[file])
        said = self._run(["sh" if name.endswith(".sh") else "python", name], folder, RUN_SECONDS)
        if program.check:
            said += self._run(["python", "check.py"], folder, RUN_SECONDS)
        return Played(folder=folder, stdout=said)

    def _environment(self, folder: Path, packages: str) -> None:
        make = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
        self._run(make, folder.parent, INSTALL_SECONDS)
        seen = [path for path in map(Path, sys.path) if path.name == "site-packages"]
        lines = [f"import site; site.addsitedir({str(path)!r})" for path in seen]
        (inside,) = folder.glob("lib/python*/site-packages")
        (inside / "behind.pth").write_text("\n".join(lines) + "\n")
        # Compiled when imported: most of what comes along never is.
        pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
        pip += ["--quiet", "--disable-pip-version-check", "--no-compile", *packages.split()]
        for rest in reversed(range(TRIES)):
            try:
                self._run(pip, folder.parent, INSTALL_SECONDS)
            except AssertionError:
                if not rest or self._closed:
                    raise
            else:
                return

    def _run(self, command: Sequence[str], folder: Path, seconds: float) -> str:
        path = f"{folder / 'venv' / 'bin'}:{os.environ['PATH']}"
        process = subprocess.Popen(
            command, cwd=folder, env=self._variables | {"PATH": path}, text=True,
            start_new_session=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._running.add(process)
        try:
            stdout, stderr = process.communicate(timeout=0.1 if self._closed else seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            stdout, stderr = process.communicate()
            stderr += f"\nended after {seconds:g} s"
        finally:
            self._running.discard(process)
        told = f"{shlex.join(command)} ended with {process.returncode}:\n"
        assert process.returncode == 0, told + stdout[-2_000:] + stderr[-4_000:]
        return stdout


PROGRAMS = {
    "play_verifiers.sh": Program(
        page="use-a-game-elsewhere.md",
        packages="verifiers",
        imports=["s3gym_games.py"],
        changes={"-n 20": "-n 2 --env.taskset.max-steps 3"},  # a process for each step
    ),
    "play_inspect.py": Program(
        page="use-a-game-elsewhere.md", packages="inspect-ai", check=CHECK_INSPECT
    ),
    "app_langgraph.py": app("langgraph langchain-openai"),
    "app_openai_agents.py": app("openai-agents"),
    "app_smolagents.py": app("smolagents[openai]"),
    "app_pydantic_ai.py": app("pydantic-ai-slim[openai]"),
    "play_textarena.py": Program(page="bring-an-environment.md", packages="textarena"),
    "play_gymnasium.py": Program(
        page="use-a-game-elsewhere.md", packages="gymnasium", check=CHECK_GYMNASIUM
    ),
}
"""What takes longest comes first, for the sake of the others."""
APPS = sorted(name for name in PROGRAMS if name.startswith("app_"))


def answer(body: dict[str, Any]) -> Served:
    """Answer trust; where a final answer has to be a tool's call, write that call."""
    text = by_hash(body).text
    if any(tool["function"]["name"] == "final_answer" for tool in body.get("tools") or ()):
        text = json.dumps({"name": "final_answer", "arguments": {"answer": text}})
    return Served(text=text)


@contextmanager
def open_workshop(folder: Path, names: Iterable[str]) -> Iterator[Workshop]:
    """Play programs in a folder, with a scripted model."""
    if os.environ.get(OFFLINE) == "1":
        pytest.skip(f"{OFFLINE}=1: nothing can be installed (issue 8)")
    with ModelServer(answer).running() as server:
        addresses = {"OPENAI_BASE_URL": server.openai_url, "OPENAI_API_KEY": "none"}
        workshop = Workshop(folder, addresses)
        try:
            for name in names:
                workshop.start(name, PROGRAMS[name])
            yield workshop
        finally:
            workshop.close()
