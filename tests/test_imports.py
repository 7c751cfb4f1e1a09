"""The import contracts of pyproject.toml hold, and each of them can fail."""

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from s3gym.games import GAMES

ROOT = Path(__file__).parents[1]
FOLDERS = ("memory", "agents", "games")
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]

# What breaks each contract: a module, and a line that is added to it.
BREACHES = {
    "layers": ("contracts/chat.py", "import s3gym.seams"),
    "the learner's side never imports the verifier's side": (
        "agents/strategies/trust.py",
        "import s3gym.verdict",
    ),
    "the learner's half of the store never reads the verifier's": (
        "store/ledger.py",
        "import s3gym.store.verdicts",
    ),
    "games never import the learner's side": ("games/snake.py", "import s3gym.memory.none"),
    "games, memories and agents never import the machinery that runs them": (
        "memory/history.py",
        "from s3gym import Study",
    ),
    "only reference players use reference players": (
        "agents/strategies/playbook.py",
        "import s3gym.agents.reference",
    ),
    "games are independent of one another": ("games/trust.py", "import s3gym.games.snake"),
}


def lay_out(folder: Path) -> Path:
    """Copy the four folders to where the wheel puts them."""
    package = folder / "site" / "s3gym"
    leave = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "s3gym", package, ignore=leave)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, package / name, ignore=leave)
    return package


def lint(folder: Path) -> tuple[int, str]:
    """Run the contracts on what ``lay_out`` made, from an empty folder."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    start = (
        "import sys; from importlinter.cli import lint_imports_command as run; run(sys.argv[1:])"
    )
    options = ["--no-logo", "--no-cache", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [sys.executable, "-c", start, *options],
        cwd=empty,
        env=os.environ | {"PYTHONPATH": str(folder / "site"), "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_every_import_contract_is_kept_by_every_file(tmp_path: Path) -> None:
    package = lay_out(tmp_path)
    code, said = lint(tmp_path)
    assert code == 0, said
    assert f"Contracts: {len(SETTINGS['contracts'])} kept, 0 broken." in said
    assert f"Analyzed {len(list(package.rglob('*.py')))} files" in said


def test_a_forbidden_import_breaks_its_contract(tmp_path: Path) -> None:
    package = lay_out(tmp_path)
    for path, line in BREACHES.values():
        with (package / path).open("a") as file:
            file.write(f"\n{line}\n")
    code, said = lint(tmp_path)
    assert code == 1
    kept = [name for name in BREACHES if f"{name} BROKEN" not in said]
    assert not kept, said


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("errors.py", "import s3gym.verdict"),  # an indirect import
        ("sft/build.py", "import s3gym.store.verdicts"),
    ],
)
def test_one_import_of_the_verdicts_is_enough(tmp_path: Path, path: str, line: str) -> None:
    package = lay_out(tmp_path)
    with (package / path).open("a") as file:
        file.write(f"\n{line}\n")
    code, said = lint(tmp_path)
    assert code == 1
    assert "the learner's side never imports the verifier's side BROKEN" in said


def test_a_new_module_must_take_its_place_in_the_layers(tmp_path: Path) -> None:
    package = lay_out(tmp_path)
    (package / "surprise.py").write_text('"""New."""\n')
    code, said = lint(tmp_path)
    assert code == 1
    assert "s3gym.surprise" in said


def test_every_contract_has_a_breach_that_proves_it() -> None:
    assert sorted(contract["name"] for contract in SETTINGS["contracts"]) == sorted(BREACHES)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_every_game_is_under_the_independence_contract(name: str) -> None:
    (modules,) = (c["modules"] for c in SETTINGS["contracts"] if c["type"] == "independence")
    assert GAMES[name].partition(":")[0] in modules
