"""A training store that was moved, or is resumed on another machine: what is still the same.

Weights are the same by their hash, a command by its words, of which files may lie elsewhere, and
settings of TRL but for those of the machine. What is given anew is used; the specification keeps
the words of the record.
"""

import shlex
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio

from s3gym.errors import ConfigError
from s3gym.store import file
from s3gym.trainer_seam import base_weights, label_of
from s3gym.training import Training

HF = "hf:"
OF_MACHINE = frozenset({"accumulate", "batch", "checkpointing", "device", "threads"})
"""Settings of TRL that fit an update to a machine; its name fixes the examples of a step."""


def words_of_record(recorded: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a record names what can change: agent, base, command, and settings of TRL."""
    table = recorded.get("training")
    return {} if table is None else _words(recorded) | table.get("recorded", {})


def note_moved(recorded: dict[str, Any], words: Mapping[str, Any]) -> None:
    """Keep, beside what a resume is given in other words, the words of the record.

    Raises:
        ConfigError: The command is another one.
    """
    if not words:
        return
    now = _words(recorded)
    moved = {key: word for key, word in words.items() if word != now[key]}
    if "command" in moved:
        must_be_the_same_command(moved["command"] or (), now["command"] or ())
    if "trl" in moved and _results(moved["trl"]) != _results(now["trl"]):
        del moved["trl"]  # so the specification differs, which is refused with both
    recorded["training"]["recorded"] = moved


def _words(recorded: Mapping[str, Any]) -> dict[str, Any]:
    table, agents = recorded["training"], recorded["agent"]
    settings = table.get("trl")
    return {
        "agent": agents[0] if len(agents) == 1 else None,
        "base": table.get("base"),
        "command": table.get("command"),
        "trl": dict(settings) if settings and isinstance(settings, Mapping) else None,
    }


def _results(settings: Mapping[str, Any] | None) -> dict[str, Any]:
    return {key: value for key, value in (settings or {}).items() if key not in OF_MACHINE}


def must_be_there(recorded: Mapping[str, Any]) -> None:
    """Say how to name weights that are not where a resume would look for them.

    Raises:
        ConfigError: A folder or file that the training starts from is not there.
    """
    table = recorded.get("training")
    if table is None:
        return
    named = [("--agent", name) for name in recorded["agent"] if name.startswith(HF)]
    if table.get("trainer") == "command" and table.get("base") is not None:
        named.append(("--trainer-base", table["base"]))
    for option, name in named:
        if not Path(name.removeprefix(HF)).expanduser().exists():
            raise ConfigError(
                f"{option} {shlex.quote(name)}: nothing is there, seen from {Path.cwd()}; if it "
                f"was moved, say where it is now by {option}"
            )


def is_moved_agent(recorded: Mapping[str, Any], given: Sequence[str]) -> bool:
    """Return whether an agent may be the record's in another place: the hash of the base tells."""
    table, agents = recorded.get("training"), recorded["agent"]
    if table is None or table.get("base") is not None or not len(agents) == len(given) == 1:
        return False
    names = [Path(name.removeprefix(HF)).name for name in (*agents, *given) if name.startswith(HF)]
    return len(names) == 2 and len(set(names)) == 1


def must_be_the_same_command(recorded: Sequence[str], given: Sequence[str]) -> None:
    """Check that a command is that of the record, of which files may lie elsewhere now.

    Raises:
        ConfigError: It is another one.
    """
    wrong = [new for old, new in zip(recorded, given, strict=False) if not _same(old, new)]
    if wrong or len(recorded) != len(given):
        differs = f": {shlex.quote(wrong[0])} differs" if wrong else ""
        raise ConfigError(
            f"--trainer-command: another command than the store's{differs}; expected "
            f"{shlex.join(recorded) or 'none'}, whose files may lie elsewhere"
        )


def _same(old: str, new: str) -> bool:
    if old == new:
        return True
    key, equals, path = new.rpartition("=")
    if not old.startswith(key + equals):
        return False
    there = Path(path).exists() or shutil.which(path) is not None
    return there and Path(path).name == Path(old.removeprefix(key + equals)).name


def must_be_the_same_base(
    stores: Iterable[Path], training: Training | None, recorded: Mapping[str, Any]
) -> None:
    """Check that a base in another place holds the weights of the record.

    Args:
        stores: What is resumed: a store, or the shards of a sweep's folder.
        training: Made with the base as it was given.
        recorded: The words of the record, where others were given.

    Raises:
        ConfigError: It does not, or nothing tells.
    """
    if training is None or not recorded.keys() & {"agent", "base"}:
        return
    known = {weights for store in stores for weights in _base_hashes(store)}
    found = anyio.run(base_weights, training.trainer)
    label = label_of(training.trainer)
    if not known:
        named = recorded.get("base") or recorded.get("agent")
        raise ConfigError(
            f"no study has begun to train, so nothing tells whether the base at "
            f"{found.location} is the same; name it as when the run began: {named}"
        )
    if known != {found.hash}:
        raise ConfigError(
            f"the base of {label} at {found.location} holds other weights than the "
            f"record's: expected hash {min(known)}, found {found.hash}"
        )


def _base_hashes(store: Path) -> list[str]:
    with closing(file.open_learner(store)) as db:
        rows = db.execute("SELECT weights FROM updates WHERE version = 0").fetchall()
    return [str(row[0]) for row in rows]
