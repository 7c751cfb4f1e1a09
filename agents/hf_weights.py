"""Folders of weights on disk: what they must hold, their hash, and the libraries that read them.

No file that can run code when it is read is ever loaded: weights come as safetensors, and code
that a checkpoint brings along is not trusted.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from s3gym.agents._outside import file_hash
from s3gym.errors import ConfigError, MissingExtraError

ADAPTER = "adapter_config.json"
TEMPLATES = ("chat_template.jinja", "chat_template.json")
SILENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}


@dataclass(frozen=True, slots=True)
class Weights:
    """A checkpoint: the folder of a whole model, and an adapter over it if there is one.

    Attributes:
        model: Folder with ``config.json``, safetensors and tokenizer.
        adapter: Folder of a PEFT adapter for that model, or ``None``.
    """

    model: Path
    adapter: Path | None = None

    @property
    def location(self) -> Path:
        """The folder that names the checkpoint."""
        return self.adapter or self.model


def import_library(name: str, *, hub: bool = False) -> Any:
    """Import one of the libraries of the extra ``train``, with the network off.

    Even a run on local files alone would otherwise look the hub up.

    Args:
        name: Import name.
        hub: Leave the hub reachable; the user asked for it.

    Raises:
        MissingExtraError: It is not installed.
    """
    for variable, value in (SILENT if hub else SILENT | OFFLINE).items():
        os.environ.setdefault(variable, value)
    try:
        return import_module(name)
    except ImportError:
        raise MissingExtraError("a model of transformers", "train") from None


def must_be_installed(*names: str) -> None:
    """Check that libraries of the extra ``train`` are there, without the time to import them.

    Raises:
        MissingExtraError: One is not.
    """
    for name in names:
        if find_spec(name) is None:
            raise MissingExtraError("a model of transformers", "train")


def find_weights(path: str | Path, *, model: Path | None = None, hub: bool = False) -> Weights:
    """Return the checkpoint that lies in a folder, after a look at its files.

    Args:
        path: Folder of a model or of an adapter; with ``hub`` also an id on the hub.
        model: Where the adapter's model lies, when it is not where the adapter says.
        hub: Whether what is no folder may be fetched from the hub.

    Raises:
        ConfigError: The folder or one of its files is not there.
    """
    folder = Path(path).expanduser()
    if not folder.is_dir():
        folder = _fetched(path, hub=hub)
    folder = folder.resolve()
    if (folder / ADAPTER).is_file():
        _needs_safetensors(folder, "adapter_model.safetensors")
        return Weights(model=checked_model(model or _model_of(folder)), adapter=folder)
    return Weights(model=checked_model(folder))


def checked_model(folder: Path) -> Path:
    """Return the folder of a whole model.

    Raises:
        ConfigError: A file that is needed to chat with it is missing.
    """
    if not folder.is_dir():
        raise ConfigError(f"expected a folder of a model, and there is none at {str(folder)!r}")
    if not (folder / "config.json").is_file():
        raise ConfigError(f"{folder}: expected a transformers model, and it has no config.json")
    _needs_safetensors(folder)
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"{folder}: expected a tokenizer, and there is no tokenizer.json")
    if not _has_template(folder):
        raise ConfigError(
            f"{folder}: its tokenizer has no chat template, so it cannot be talked to; take an "
            f"instruction-tuned model, or add a chat_template.jinja"
        )
    return folder


def weights_hash(weights: Weights) -> str:
    """Return the SHA-256 over all weight files, the model's and then the adapter's, by name.

    Raises:
        ConfigError: A file cannot be read.
    """
    total = sha256()
    folders = [weights.model, *([weights.adapter] if weights.adapter else [])]
    for folder in folders:
        for file in sorted(folder.glob("*.safetensors")):
            digest = file_hash(file)
            total.update(f"{file.name} {digest}\n".encode())
    return total.hexdigest()


def _fetched(path: str | Path, *, hub: bool) -> Path:
    if not hub:
        raise ConfigError(
            f"expected a folder of a model, and there is none at {str(path)!r} (to fetch a model "
            f"from the hub by its id, say so with hub=true)"
        )
    library = import_library("huggingface_hub", hub=True)
    try:
        return Path(library.snapshot_download(str(path)))
    except (OSError, ValueError, library.errors.HfHubHTTPError) as error:
        raise ConfigError(f"{path}: could not be fetched from the hub: {error}") from error


def _needs_safetensors(folder: Path, pattern: str = "*.safetensors") -> None:
    if any(folder.glob(pattern)):
        return
    pickled = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    hint = f"; {pickled[0].name} is a pickle, which can run code and is not read" if pickled else ""
    raise ConfigError(f"{folder}: expected weights as {pattern}, and there are none{hint}")


def _has_template(folder: Path) -> bool:
    if any((folder / name).is_file() for name in TEMPLATES):
        return True
    return bool(read_json(folder / "tokenizer_config.json").get("chat_template"))


def _model_of(adapter: Path) -> Path:
    named = read_json(adapter / ADAPTER).get("base_model_name_or_path")
    if not isinstance(named, str) or not named:
        raise ConfigError(f"{adapter / ADAPTER}: expected base_model_name_or_path, and it is empty")
    return Path(named)


def read_json(file: Path) -> Mapping[str, Any]:
    """Return the object in a JSON file; empty when there is no file.

    Raises:
        ConfigError: It cannot be read, or holds something else.
    """
    if not file.is_file():
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: expected JSON: {error}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{file}: expected a JSON object, got {type(found).__name__}")
    return found
