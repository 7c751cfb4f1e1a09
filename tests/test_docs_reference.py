"""The reference is complete: every option, exit code, public name, error and table is there."""

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from pages import ROOT, blocks, name_of, pages

import s3gym
from s3gym import errors
from s3gym.audit import CHECKS
from s3gym.catalog import find_game
from s3gym.cli.main import INTERRUPTED, PLUGIN, SERVICE, USAGE, group
from s3gym.config import RunConfig, read_config
from s3gym.games import GAMES
from s3gym.store.schema import SCHEMA, VERIFIER_NAMES

REFERENCE = ROOT / "docs" / "reference"
EXIT_CODES = (0, 1, USAGE, SERVICE, PLUGIN, INTERRUPTED)


def section(page: str, title: str) -> str:
    """Return what stands under a heading of a page, up to the next one of its rank or above."""
    lines = (REFERENCE / page).read_text().split("\n")
    rank = {line.lstrip("#").strip(): line for line in lines if line.startswith("#")}
    assert title in rank, f"{page} has no heading {title!r}"
    start = lines.index(rank[title])
    depth = len(rank[title]) - len(rank[title].lstrip("#"))
    inside = []
    for line in lines[start + 1 :]:
        if re.match(rf"#{{1,{depth}}} ", line):
            break
        inside.append(line)
    return "\n".join(inside)


def commands(
    command: click.Command = group, path: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    """Yield every command that is no group, with its full name."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        assert inner is not None
        yield from commands(inner, (*path, name))


@pytest.mark.parametrize(("name", "command"), list(commands()), ids=lambda value: str(value))
def test_every_option_stands_under_its_command(name: str, command: click.Command) -> None:
    told = section("command-line.md", name)
    if "[the options of parts and models](#options-of-parts-and-models)" in told:
        told += section("command-line.md", "Options of parts and models")
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            for spelling in parameter.opts:
                assert f"`{spelling}" in told, f"{name}: {spelling} is not documented"
        else:
            assert (parameter.name or "").upper().rstrip("S") in told.upper()


@pytest.mark.parametrize("name", [name for name, _ in commands()])
def test_no_option_is_documented_that_is_not_there(name: str) -> None:
    command = dict(commands())[name]
    there = {spelling for parameter in command.params for spelling in parameter.opts}
    rows = re.findall(r"^\| `(--[a-z-]+)", section("command-line.md", name), re.MULTILINE)
    assert set(rows) <= there


def test_every_key_of_a_study_file_is_documented() -> None:
    told = section("command-line.md", "Study files")
    for name, field in RunConfig.model_fields.items():
        assert f"`{name}`" in told
        inner = getattr(field.annotation, "model_fields", {})
        assert not [key for key in inner if f"`{key}`" not in told], name


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", section("command-line.md", "Exit codes"), re.MULTILINE)
    assert tuple(map(int, rows)) == EXIT_CODES


def test_every_public_name_is_documented_once() -> None:
    told = section("python.md", "Public names")
    rows = re.findall(r"^\| `(\w+)", told, re.MULTILINE)
    assert sorted(rows) == s3gym.__all__


def test_every_error_is_documented_under_its_base() -> None:
    told = section("python.md", "Errors")
    found = {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.S3GymError)
    }
    rows = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", told, re.MULTILINE))
    assert rows == {name: value.__bases__[0].__name__ for name, value in found.items()}


def test_every_table_of_a_store_is_documented_with_its_columns() -> None:
    told = (REFERENCE / "store.md").read_text()
    tables = re.findall(r"CREATE TABLE (\w+) \((.*?)\) STRICT", SCHEMA, re.DOTALL)
    for name, body in tables:
        row = re.search(rf"^\| `{name}` \|.*$", told, re.MULTILINE)
        assert row, f"no row for the table {name}"
        columns = re.findall(r"(?:^|, |,\n  |\n  )(\w+) (?:TEXT|INTEGER|REAL)", body)
        assert columns
        listed = row[0].split("|")[3]
        assert re.findall(r"`(\w+)`", listed) == columns, name
    assert re.search(r"^\| `curves` \|", told, re.MULTILINE)


def test_the_tables_that_a_learner_is_refused_are_named() -> None:
    told = section("store.md", "The verifier's side")
    assert set(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)) == VERIFIER_NAMES


def test_every_check_of_the_audit_is_documented_in_order() -> None:
    told = section("store.md", "What the audit checks")
    assert tuple(re.findall(r"^\| `(\w+)` \|", told, re.MULTILINE)) == CHECKS


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_games", ROOT / "docs" / "make_games.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_the_games_is_what_the_games_say() -> None:
    pytest.importorskip("chess")
    assert (REFERENCE / "games.md").read_text() == maker().page(), "run: python docs/make_games.py"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_study_files_of_a_page_can_be_read(page: Path, tmp_path: Path) -> None:
    for block in blocks(page.read_text()):
        if block.language == "toml":
            file = tmp_path / "study.toml"
            file.write_text(block.text)
            read_config(file, {})


@pytest.mark.parametrize("game", sorted(GAMES))
def test_the_differences_from_the_paper_name_every_switch_of_a_game(game: str) -> None:
    told = section("../explanation/differences-from-the-paper.md", game)
    assert not [key for key in find_game(game).options.model_fields if f"`{key}`" not in told]
