"""The pages are true: what they show runs and prints that, their links lead somewhere."""

import ast
import inspect
import linecache
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import anyio
import click
import pytest
from pages import ROOT, Block, anchors, blocks, links, name_of, pages

from s3gym.cli.main import group, main

SHELLS = ("bash", "sh", "console", "shell")
COLUMNS = "200"
ROOMS = ("tutorials", "how-to", "reference", "explanation")


@pytest.fixture
def page_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """Return an empty module for a page's blocks, in an empty current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    yield module
    for name in set(sys.modules) - known:
        origin = getattr(sys.modules[name], "__file__", None)
        if origin and Path(origin).is_relative_to(tmp_path):
            del sys.modules[name]


def execute(block: Block, module: ModuleType, label: str) -> None:
    """Run a block in the page's module; ``await`` may stand at its top level."""
    text = "\n" * (block.line - 1) + block.text  # so that errors name the line of the page
    linecache.cache[label] = (len(text), None, text.splitlines(keepends=True), label)
    if block.title:
        Path(block.title).write_text(block.text)
    code = compile(text, label, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    ran = eval(code, vars(module))
    if inspect.iscoroutine(ran):

        async def wait() -> None:
            await ran

        anyio.run(wait)


def dialogue(text: str) -> list[tuple[str, str]]:
    """Return the commands of a console block, each with what it shall print."""
    parts = re.split(r"^\$ (.*)\n", text.replace("\\\n", " "), flags=re.MULTILINE)
    assert not parts[0].strip(), "a console block starts with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def fits(shown: str, printed: str) -> bool:
    """Return whether a text was printed; ``...`` stands for anything, also for whole lines."""
    pattern = re.escape(_plain(shown)).replace(r"\.\.\.", ".*")
    return re.fullmatch(pattern, _plain(printed), re.DOTALL) is not None


def _plain(text: str) -> str:
    """Return a text without blanks at line ends, and with plain blanks alone."""
    lines = text.replace("\N{NO-BREAK SPACE}", " ").rstrip().split("\n")
    return "\n".join(line.rstrip() for line in lines)


def converse(block: Block, label: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Run the commands of a console block in this process and compare what they print.

    A command must succeed, unless ``echo $?`` comes next and shows another code.
    """
    said = dialogue(block.text)
    code = 0
    for number, (command, shown) in enumerate(said):
        if command == "echo $?":
            printed = str(code)
        else:
            program, *words = shlex.split(command)
            assert program == "s3gym", f"{label}: only s3gym is run, got {command!r}"
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(words)
            printed, complaint = capsys.readouterr()
            code = int(ended.value.code or 0)
            if number + 1 == len(said) or said[number + 1][0] != "echo $?":
                assert code == 0, f"{label}: {command}: exit code {code}\n{printed}{complaint}"
        assert fits(shown, printed), f"{label}: {command} printed\n{printed}"


def running_pages() -> list[Path]:
    return [
        page
        for page in pages()
        if any(block.language in ("python", "console") for block in blocks(page.read_text()))
    ]


@pytest.mark.parametrize("page", running_pages(), ids=name_of)
def test_the_blocks_of_a_page_run(
    page: Path,
    page_module: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", COLUMNS)
    for block in blocks(page.read_text()):
        if block.language == "python" and not block.skipped:
            execute(block, page_module, str(page))
        elif block.language == "console" and not block.skipped:
            converse(block, f"{name_of(page)}:{block.line}", capsys)


def shell_lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the s3gym commands of a page's shell blocks, with their lines."""
    for block in blocks(text):
        if block.language not in SHELLS or block.skipped:
            continue
        joined = block.text.replace("\\\n", " ")
        for offset, line in enumerate(joined.split("\n")):
            if block.language == "console" and not line.startswith("$ "):
                continue  # what a command printed
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and words[0] == "s3gym":
                yield block.line + offset, words[1:]


def check_command(command: click.Command, words: list[str]) -> None:
    """Raise click's error for an unknown command or option, or a missing value."""
    context = click.Context(command)
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"no command {words[0]!r}")
        command, words = found, words[1:]
        context = click.Context(command)
    command.make_parser(context).parse_args(args=list(words))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_commands_of_a_page_exist(page: Path) -> None:
    wrong = []
    for line, words in shell_lines(page.read_text()):
        try:
            check_command(group, words)
        except click.UsageError as error:
            wrong.append(f"{name_of(page)}:{line}: {error.format_message()}")
    assert not wrong


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    broken = []
    for target in links(page.read_text()):
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page
        if not found.exists():
            broken.append(target)
        elif anchor and found.suffix == ".md" and anchor not in anchors(found.read_text()):
            broken.append(target)
    assert not broken


def test_every_page_stands_in_one_of_the_four_rooms_and_in_the_index() -> None:
    index = ROOT / "docs" / "index.md"
    listed = {(index.parent / link).resolve() for link in links(index.read_text())}
    rooms = {page for page in (ROOT / "docs").rglob("*.md") if page != index}
    assert {page.relative_to(ROOT / "docs").parts[0] for page in rooms} <= set(ROOMS)
    assert not sorted(name_of(page) for page in rooms - listed)


def test_a_failing_block_fails_and_names_its_line(page_module: ModuleType) -> None:
    (block,) = blocks("# Title\n\n```python\nx = 1\nraise ValueError(x)\n```\n")
    with pytest.raises(ValueError, match="1") as caught:
        execute(block, page_module, "title.md")
    assert caught.traceback[-1].lineno == 4 - 1 + 1


def test_blocks_share_names_wait_and_import_what_was_saved(page_module: ModuleType) -> None:
    text = (
        '```python title="coin.py"\nHEADS = 1\n```\n'
        "```python\nimport anyio, coin\nawait anyio.sleep(0)\ndouble = 2 * coin.HEADS\n```\n"
        "<!-- not run: needs a key -->\n\n```python\nraise SystemExit\n```\n"
        "```text\nno python\n```\n"
    )
    for block in blocks(text):
        if block.language == "python" and not block.skipped:
            execute(block, page_module, "page.md")
    assert vars(page_module)["double"] == 2
    assert [block.skipped for block in blocks(text)] == [False, False, True, False]


def test_what_a_command_prints_is_compared(
    page_module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    right = "$ s3gym games trust\n--- trust, exploration: at most 10 steps...\n...\n"
    wrong = right.replace("10", "11")
    missing = "$ s3gym status no.db\n$ echo $?\n2\n"
    (good, bad, failing) = (
        next(blocks(f"```console\n{text}```\n")) for text in (right, wrong, missing)
    )
    converse(good, "page", capsys)
    converse(failing, "page", capsys)
    with pytest.raises(AssertionError, match="printed"):
        converse(bad, "page", capsys)
    with pytest.raises(AssertionError, match="exit code 2"):
        converse(next(blocks("```console\n$ s3gym status no.db\n```\n")), "page", capsys)


@pytest.mark.parametrize("line", ["s3gym rnu", "s3gym run --gmae trust", "s3gym run --game"])
def test_a_wrong_command_is_found(line: str) -> None:
    ((_, words),) = shell_lines(f"```bash\n{line}\n```\n")
    with pytest.raises(click.UsageError):
        check_command(group, words)


def test_links_in_code_are_no_links() -> None:
    assert links("[a](b.md) `[c](d.md)`\n```\n[e](f.md)\n```\n[g](h.md#i)") == ["b.md", "h.md#i"]
    assert anchors("# Run it, `twice`\n## A b-c") == {"run-it-twice", "a-b-c"}
