"""Reaching a Ray cluster, or starting one on this machine; clear errors in seconds.

Ray waits for minutes for an address that does not answer, and then ends the process. So whether
something answers there is looked at first.
"""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from s3gym.errors import ConfigError, MissingExtraError

ANSWER_SECONDS = 5.0
HTTP2_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""How every gRPC client opens: the preface of HTTP/2 and an empty frame of settings."""
FRAME_BYTES = 9
SETTINGS_FRAME = 4
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # no notice about it on every import
}
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""Ray's switch for listening on 127.0.0.1 alone; it is named after where it is the default."""


def must_be_installed() -> None:
    """Check that Ray is there; raises ``MissingExtraError``."""
    if find_spec("ray") is None:
        raise MissingExtraError("the engine 'ray'", "ray")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Connect to a cluster for the body, or start one on this machine; gives the module ``ray``.

    A connection that is there already is used, and left.

    Args:
        address: ``HOST:PORT``, ``auto`` for a cluster that this machine belongs to, or ``None``.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: Nothing answers, or it is a cluster of another version.
    """
    os.environ.update(QUIET)
    if address is None:
        os.environ.update(LOOPBACK)
    must_be_installed()
    ray = import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    _begin(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


def _begin(ray: Any, address: str | None) -> None:
    target = "local" if address is None else checked_address(address)
    if ":" in target:
        must_answer(target)
    try:
        ray.init(
            address=target,
            logging_level=logging.ERROR,
            log_to_driver=False,
            **({"include_dashboard": False} if address is None else {}),
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        text = " ".join(str(error).split())
        raise ConfigError(f"Ray at {address or 'this machine'}: {text}") from error
    except SystemExit as error:  # Ray's way of giving up
        raise ConfigError(f"Ray at {address or 'this machine'}: it does not answer") from error


def checked_address(address: str) -> str:
    """Return what Ray is given as an address.

    Raises:
        ConfigError: It is none.
    """
    if address == "auto":
        return os.environ.get("RAY_ADDRESS") or "auto"
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not host or not port.isdecimal():
        raise ConfigError(
            f"address: expected HOST:PORT of a cluster's head, or auto, got {address!r}; run s3gym "
            f"on a machine of the cluster"
        )
    return address


def must_answer(address: str) -> None:
    """Check that a gRPC server answers at an address.

    Raises:
        ConfigError: Nothing answers within seconds, or something else does.
    """
    host, _, port = address.rpartition(":")
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return  # only Ray itself can say hello then
    try:
        with socket.create_connection((host.strip("[]"), int(port)), ANSWER_SECONDS) as line:
            line.sendall(HTTP2_HELLO)
            frame = line.recv(FRAME_BYTES)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        raise ConfigError(
            f"address {address}: no Ray cluster answers there ({reason}); start one with "
            f"'ray start --head', or leave the address out"
        ) from error
    if len(frame) < FRAME_BYTES or frame[3] != SETTINGS_FRAME:
        raise ConfigError(f"address {address}: something answers there, but it is no Ray cluster")
