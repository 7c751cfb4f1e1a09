"""The programs of the pages on environments, with the real libraries.

Slow, and they install packages: set ``S3GYM_FRAMEWORK_TESTS=1`` to run them.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_server import ModelServer, by_hash
from pages import ROOT, blocks
from test_frameworks import RUN_SECONDS, environment

CHECK_GYMNASIUM = """
from gymnasium.utils.env_checker import check_env

from s3gym.environments.gym import S3GymEnv
from s3gym.games import GAMES

for game in GAMES:
    check_env(S3GymEnv(game), skip_render_check=True)
"""
PROGRAMS = {
    "play_gymnasium.py": ("use-a-game-elsewhere.md", "gymnasium", "score"),
    "play_inspect.py": ("use-a-game-elsewhere.md", "inspect-ai", "success"),
    "play_textarena.py": ("bring-an-environment.md", "textarena", "[(0, "),
}
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.environ.get("S3GYM_FRAMEWORK_TESTS") != "1",
        reason="installs environment libraries: set S3GYM_FRAMEWORK_TESTS=1",
    ),
]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer(by_hash).running() as running:
        yield running


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_a_program_of_the_pages_runs(name: str, server: ModelServer, tmp_path: Path) -> None:
    page, packages, said = PROGRAMS[name]
    text = (ROOT / "docs" / "how-to" / page).read_text()
    (program,) = [block.text for block in blocks(text) if block.title == name]
    (tmp_path / name).write_text(program)
    (tmp_path / "check.py").write_text(CHECK_GYMNASIUM)
    python = environment(tmp_path / "venv", packages)
    for script in [name, "check.py"] if packages == "gymnasium" else [name]:
        done = subprocess.run(
            [python, script],
            cwd=tmp_path,
            env=os.environ
            | {
                "OPENAI_BASE_URL": server.openai_url,
                "OPENAI_API_KEY": "none",
                "PYTHONSAFEPATH": "1",
            },
            capture_output=True,
            text=True,
            timeout=RUN_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        assert said in done.stdout or script == "check.py"
