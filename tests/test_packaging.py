"""What is shipped: every file, under one name, with the extras that the code speaks of."""

import ast
import importlib.util
import re
import subprocess
import tomllib
from fnmatch import fnmatch
from importlib import import_module
from importlib.metadata import distribution, version
from pathlib import Path, PurePosixPath
from types import ModuleType

import pytest

from s3gym.agents import AGENTS
from s3gym.agents.reference import REFERENCE_PLAYERS
from s3gym.agents.strategies import PLAYBOOKS
from s3gym.games import GAMES
from s3gym.memory import MEMORIES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
SETUPTOOLS = PROJECT["tool"]["setuptools"]
FOLDERS = ("s3gym", "memory", "agents", "games")
MAX_LINES, MAX_TEST_LINES = 400, 700

# Spelled in parts, so that this file does not hold what it looks for.
HOSTS = ("pypi" + ".org", "python" + "hosted", "npm" + "js.", "debian" + ".org", "index" + "-url")
MACHINE_PATH = re.compile(r"(?<![\w.$}>)-])/(?:work|root|home/\w+)/")


def sources(*folders: str) -> list[PurePosixPath]:
    """Return the files that git tracks, and new ones that it does not ignore."""
    listed = subprocess.run([ROOT / ".ci" / "sources", *folders], capture_output=True, check=True)
    return sorted(PurePosixPath(path) for path in listed.stdout.decode().split("\0") if path)


def package_of(path: PurePosixPath) -> str:
    """Return the package that a file of the four folders belongs to."""
    parts = path.parent.parts
    return ".".join(parts if parts[0] == "s3gym" else ("s3gym", *parts))


def check_wheel() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_wheel", ROOT / ".ci" / "check_wheel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_packages_list_names_every_folder_with_python_files() -> None:
    held = {package_of(path) for path in sources(*FOLDERS) if path.suffix == ".py"}
    assert SETUPTOOLS["packages"] == sorted(held)


def test_every_package_has_an_init_file() -> None:
    files = set(sources(*FOLDERS))
    assert all(path.parent / "__init__.py" in files for path in files if path.suffix == ".py")


def test_package_data_covers_every_file_that_is_not_python() -> None:
    data = SETUPTOOLS["package-data"]
    files = [path for path in sources(*FOLDERS) if path.suffix != ".py"]
    uncovered = [
        str(path)
        for path in files
        if not any(fnmatch(path.name, pattern) for pattern in data.get(package_of(path), []))
    ]
    assert files
    assert not uncovered


def test_the_installed_version_is_the_one_in_pyproject() -> None:
    assert version("s3gym") == PROJECT["project"]["version"]


def test_the_distribution_owns_one_top_level_name() -> None:
    assert (distribution("s3gym").read_text("top_level.txt") or "").split() == ["s3gym"]
    assert all(name.split(".")[0] == "s3gym" for name in SETUPTOOLS["packages"])


def test_a_wheel_with_missing_foreign_and_stale_files_is_refused() -> None:
    paths = ["s3gym/__init__.py", "games/__init__.py", "games/trust.py"]
    info = ["s3gym-0.1.0.dist-info/METADATA", "s3gym-0.1.0.dist-info/licenses/LICENSE"]
    good = ["s3gym/__init__.py", "s3gym/games/__init__.py", "s3gym/games/trust.py"]
    findings = check_wheel().findings
    assert findings([*good, *info], paths) == []
    assert findings([*good[:2], *info], paths) == ["missing from the wheel: s3gym/games/trust.py"]
    assert findings([*good, "games/trust.py", *info], paths) == [
        "unexpected top-level name: games",
        "in the wheel, not in the folders: games/trust.py",
    ]
    assert findings([*good, "s3gym/old.py", *info], paths) == [
        "in the wheel, not in the folders: s3gym/old.py"
    ]
    assert findings([*good, info[0]], paths) == ["the wheel holds no LICENSE"]


def named_extras() -> dict[str, str]:
    """Return every extra that a ``MissingExtraError`` of the code names, and where."""
    found = {}
    for path in sources(*FOLDERS):
        if path.suffix != ".py":
            continue
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "MissingExtraError"
            ):
                extra = ast.literal_eval(node.args[1])
                found[str(extra)] = f"{path}:{node.lineno}"
    return found


def test_every_extra_that_an_error_names_exists() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    named = named_extras()
    assert "tokens" in named
    assert {extra: where for extra, where in named.items() if extra not in extras} == {}


def test_every_extra_that_a_text_tells_to_install_exists() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    unknown = []
    for path in sources():
        if path.suffix in (".py", ".md", ".toml"):
            for named in re.findall(r"s3gym\[([a-z0-9,_-]+)\]", (ROOT / path).read_text()):
                unknown += [f"{path}: {extra}" for extra in named.split(",") if extra not in extras]
    assert not unknown


def test_no_python_file_is_longer_than_a_reader_takes() -> None:
    too_long = {}
    for path in sources():
        if path.suffix == ".py":
            limit = MAX_TEST_LINES if path.parts[0] == "tests" else MAX_LINES
            n_lines = (ROOT / path).read_text().count("\n")
            if n_lines > limit:
                too_long[str(path)] = n_lines
    assert too_long == {}


def test_no_file_names_a_registry_or_a_path_of_one_machine() -> None:
    found = []
    for path in sources():
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), start=1):
            if any(host in line for host in HOSTS) or MACHINE_PATH.search(line):
                found.append(f"{path}:{number}: {line.strip()[:80]}")
    assert not found


def table_entries() -> list[tuple[str, str]]:
    tables = {
        "GAMES": GAMES,
        "MEMORIES": MEMORIES,
        "AGENTS": AGENTS,
        "PLAYBOOKS": PLAYBOOKS,
        "REFERENCE_PLAYERS": REFERENCE_PLAYERS,
    }
    return [
        (f"{title}[{name}]", where)
        for title, table in tables.items()
        for name, where in table.items()
    ]


@pytest.mark.parametrize(("entry", "where"), table_entries(), ids=lambda value: str(value))
def test_every_entry_of_a_table_can_be_loaded(entry: str, where: str) -> None:
    module, _, attribute = where.partition(":")
    loaded = import_module(module)
    assert hasattr(loaded, attribute or "choose")


def test_the_tables_are_in_alphabetical_order() -> None:
    for table in (GAMES, MEMORIES, AGENTS, PLAYBOOKS, REFERENCE_PLAYERS):
        assert list(table) == sorted(table)


def test_the_makefile_has_the_commands_that_the_readme_promises() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    wanted = {"demo", "test", "test-all", "lint", "local-model"}
    assert wanted <= set(targets)
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"(?:^|`)make ([a-z-]+)", readme, flags=re.MULTILINE)) <= set(targets)
