"""A trainer that runs a command of the user: examples and weights in, new weights out.

The command is started without a shell, in a process group of its own, which is killed when the
run is interrupted. What it writes is read by nobody but the user's own chat model.
"""

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.to_thread

from s3gym.agents._outside import file_hash, stopped
from s3gym.contracts.chat import ChatModel
from s3gym.contracts.trainer import Example, ModelRef
from s3gym.errors import ConfigError, ServiceError
from s3gym.sft.jsonl import as_messages

PLACES = ("{examples}", "{base}", "{out}", "{seed}", "{log}")
NEEDED = ("{examples}", "{out}")
PLACE = re.compile(r"(?<![${])\{[A-Za-z_]\w*\}(?!\})")
"""What looks like a place; not ``${HOME}`` for a shell that the command starts, and no JSON."""
SHOWN = 1_000
"""Characters of a failed command's output that its error shows."""


class CommandTrainer:
    """Runs a command for each update.

    Its words may hold ``{examples}`` (a JSONL file, one chat per line), ``{base}`` (the weights to
    start from), ``{out}`` (where the new weights go: a file or a folder that is not there yet),
    ``{seed}`` and ``{log}`` (a JSON file that it may write, for example with ``losses``).

    Args:
        command: Program and arguments.
        base: Folder or file of the weights that a study starts from.
        chat: From the path of weights to a chat model that answers with them.
        name: Name for records; by default made of the command's file names.

    Raises:
        ConfigError: The command does not say where examples and weights go, or names a place that
            there is not.
    """

    def __init__(
        self,
        command: Sequence[str],
        base: str | Path,
        *,
        chat: Callable[[str], ChatModel],
        name: str | None = None,
    ) -> None:
        words = [str(word) for word in command]
        missing = [place for place in NEEDED if not any(place in word for word in words)]
        if isinstance(command, str) or not words or missing:
            raise ConfigError(
                f"trainer command: expected a list of words with {' and '.join(NEEDED)}, "
                f"got {command!r}"
            )
        unknown = [place for word in words for place in PLACE.findall(word) if place not in PLACES]
        if unknown:
            raise ConfigError(
                f"trainer command: there is no place {unknown[0]}; there are {', '.join(PLACES)}"
            )
        if not callable(chat):
            raise ConfigError(
                f"trainer command: expected a function from a path to a chat model, got {chat!r}"
            )
        self.name = name or "command:" + " ".join(_shown(word) for word in words)
        self._words, self._base, self._chat = words, Path(base), chat

    async def base(self) -> ModelRef:
        if shutil.which(self._words[0]) is None:
            raise ConfigError(f"trainer command: there is no program {self._words[0]!r}")
        return await self._ref(self._base.absolute())

    def fingerprint(self, location: str) -> str:
        return weights_hash(Path(location))

    def chat(self, ref: ModelRef) -> ChatModel:
        return self._chat(ref.location)

    async def update(
        self, examples: Sequence[Example], base: ModelRef, *, folder: Path, seed: int
    ) -> ModelRef:
        # A command that outlived a killed run may still write to the place it was given.
        work = Path(await anyio.to_thread.run_sync(_fresh, folder))
        given = {
            "{examples}": str(work / "examples.jsonl"),
            "{base}": base.location,
            "{out}": str(work / "weights"),
            "{seed}": str(seed),
            "{log}": str(work / "log.json"),
        }
        await anyio.to_thread.run_sync(_write, work / "examples.jsonl", examples)
        await self._run([_filled(word, given) for word in self._words], work / "output.txt")
        made = work / "weights"
        if not await anyio.to_thread.run_sync(_holds_something, made):
            raise ServiceError(
                f"{self.name} ended well but wrote nothing to {{out}}, which was {made}"
            )
        link = await anyio.to_thread.run_sync(_link_in, made)
        if link is not None:
            raise ConfigError(f"{{out}}: expected files, but {link} is a link to others")
        log = await anyio.to_thread.run_sync(_log, work / "log.json")
        place = folder / "weights"
        await anyio.to_thread.run_sync(_move, work, place)
        return await self._ref(place, log)

    async def _ref(self, path: Path, log: Mapping[str, Any] | None = None) -> ModelRef:
        found = await anyio.to_thread.run_sync(weights_hash, path)
        return ModelRef(location=str(path), hash=found, log=log or {})

    async def _run(self, words: Sequence[str], output: Path) -> None:
        with await anyio.to_thread.run_sync(output.open, "wb") as file:
            try:
                process = await anyio.open_process(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=file,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            except OSError as error:
                raise ServiceError(f"{self.name} could not be started: {error}") from error
            try:
                code = await process.wait()
            finally:
                await stopped(process)
        if code:
            how = f"ended with exit code {code}"
            if code < 0:
                how = f"was killed by signal {-code}"
            said = await anyio.to_thread.run_sync(_tail, output)
            raise ServiceError(f"{self.name} {how}{f': {said}' if said else ''}")


def weights_hash(path: Path) -> str:
    """Return the SHA-256 over names and contents of all files at a path.

    Raises:
        ConfigError: Nothing is there, or it cannot be read.
    """
    if not path.exists():
        raise ConfigError(f"expected weights, and there are none at {str(path)!r}")
    files = [path] if path.is_file() else sorted(one for one in path.rglob("*") if one.is_file())
    total = sha256()
    for file in files:
        name = "" if file == path else file.relative_to(path).as_posix()
        total.update(f"{file_hash(file)} {name}\n".encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _fresh(folder: Path) -> str:
    """Clear what earlier tries left, and return a new folder for this one."""
    for rest in folder.iterdir():
        if rest.is_dir() and not rest.is_symlink():
            shutil.rmtree(rest, ignore_errors=True)
        else:
            rest.unlink()
    return tempfile.mkdtemp(prefix="try-", dir=folder)


def _move(work: Path, place: Path) -> None:
    """Put finished weights where they stay, and drop the rest of the try."""
    (work / "weights").rename(place)
    shutil.rmtree(work, ignore_errors=True)


def _write(file: Path, examples: Sequence[Example]) -> None:
    with file.open("w", encoding="utf-8") as stream:
        for example in examples:
            # Escaped: some readers take U+2028 in a text for the end of a line.
            stream.write(json.dumps(chat_line(example)) + "\n")


def chat_line(example: Example) -> dict[str, Any]:
    """Return an example as the object that a line of the file holds."""
    return {
        **as_messages(example),
        "weight": example.weight,
        "episode": example.episode,
        "step": example.step,
        "origin": example.origin,
    }


def _filled(word: str, given: Mapping[str, str]) -> str:
    for place, value in given.items():
        word = word.replace(place, value)
    return word


def _holds_something(path: Path) -> bool:
    if path.is_dir():
        return any(one.is_file() for one in path.rglob("*"))
    return path.is_file() and path.stat().st_size > 0


def _link_in(made: Path) -> Path | None:
    """Return a link among what was made: its hash would not guard what lies behind it."""
    return next((path for path in (made, *made.rglob("*")) if path.is_symlink()), None)


def _log(file: Path) -> dict[str, Any]:
    if not file.is_file():
        return {}
    try:
        # A loss that diverged is no number that a store can hold, and no reason to lose weights.
        found = json.loads(file.read_text(encoding="utf-8"), parse_constant=lambda text: None)
    except ValueError as error:
        raise ConfigError(f"{{log}}: expected a JSON object: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{{log}}: expected a JSON object, got {type(found).__name__}")
    return found


def _tail(output: Path) -> str:
    size = output.stat().st_size
    with output.open("rb") as file:
        file.seek(max(0, size - SHOWN))
        return " ".join(file.read().decode("utf-8", "replace").split())


def _shown(word: str) -> str:
    """Return a word without the folders that it names, so that a name fits any machine."""
    return word if any(place in word for place in PLACES) else Path(word).name or word
