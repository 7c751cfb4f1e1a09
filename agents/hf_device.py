"""Where a model computes: on a GPU in bf16 where there is one, else on the CPU in float32."""

import os
from dataclasses import dataclass
from typing import Any

from s3gym.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True, slots=True)
class Placement:
    """A device and a number format, by the names that torch gives them."""

    device: str
    dtype: str


def place(device: str, torch: Any) -> Placement:
    """Choose where to compute.

    Args:
        device: ``auto``, ``cpu``, ``cuda`` (or ``cuda:1``), ``mps``.
        torch: The library, asked for what is there.

    Returns:
        On a CUDA GPU bf16 where it can compute in it, else float32; elsewhere float32.

    Raises:
        ConfigError: The device is unknown, or is not there.
    """
    kind = checked_device(device).partition(":")[0]
    cuda, mps = torch.cuda.is_available(), torch.backends.mps.is_available()
    if kind == "auto":
        kind = device = "cuda" if cuda else "mps" if mps else "cpu"
    if kind == "cuda" and not cuda:
        raise ConfigError(f"device {device!r}: torch finds no CUDA GPU here; 'auto' takes what is")
    if kind == "mps" and not mps:
        raise ConfigError("device 'mps': torch finds no Apple GPU here; 'auto' takes what is")
    if kind == "cuda":
        count = torch.cuda.device_count()
        if ":" in device and int(device.partition(":")[2]) >= count:
            raise ConfigError(f"device {device!r}: torch finds {count} CUDA GPUs here")
        return Placement(device, "bfloat16" if torch.cuda.is_bf16_supported() else "float32")
    return Placement(device, "float32")


def checked_device(device: str) -> str:
    """Return a device's name, without a look at whether it is there.

    Raises:
        ConfigError: It names none.
    """
    kind, colon, number = str(device).partition(":")  # a study file may hold anything
    if kind not in DEVICES or (colon and not (kind == "cuda" and number.isdecimal())):
        raise ConfigError(
            f"expected device {', '.join(map(repr, DEVICES))} or 'cuda:NUMBER', got {device!r}"
        )
    return device


def one_gpu(device: str, visible: str | None) -> tuple[str, str]:
    """Return how a process of its own sees one GPU alone: (its device there, what is visible).

    A trainer that sees several GPUs spreads over all of them.

    Args:
        device: As the user names it.
        visible: ``CUDA_VISIBLE_DEVICES`` here, if it is set.

    Raises:
        ConfigError: There are not as many.
    """
    kind, _, number = device.partition(":")
    if visible is None:
        return kind, number or "0"
    shown = [name.strip() for name in visible.split(",") if name.strip()]
    if number and int(number) >= len(shown):
        raise ConfigError(f"device {device!r}: CUDA_VISIBLE_DEVICES shows {len(shown)} GPUs")
    return kind, shown[int(number or 0)] if shown else ""


def computing_threads(threads: int | None) -> int:
    """Return how many threads compute: all cores but one unless the user says otherwise.

    Threads that wait for one another become many times slower when they must share a core.

    Raises:
        ConfigError: It is no whole number from 1 on.
    """
    if threads is not None and not (isinstance(threads, int) and threads >= 1):
        raise ConfigError(f"expected threads of at least 1, got {threads!r}")
    return threads or max(1, (os.cpu_count() or 1) - 1)
