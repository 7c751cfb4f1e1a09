"""``s3gym proxy``: any app's model calls into a store; and the proxy of ``run`` and ``resume``."""

import os
import subprocess
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from socket import socket

import anyio
import click

from s3gym.api import Result, Sweep
from s3gym.budget import Budget
from s3gym.cli.console import log_errors, say, say_error
from s3gym.cli.main import INTERRUPTED
from s3gym.contracts.chat import Reply
from s3gym.errors import ConfigError
from s3gym.limits import Limits, LimitSettings
from s3gym.meter import Meter
from s3gym.proxy.recording import Recording
from s3gym.proxy.server import Serving, address, environment, listening, upstreams
from s3gym.sealed.parts import reached
from s3gym.store import file
from s3gym.store.ledger import recorded_replies
from s3gym.store.store import Store

Start = Callable[[], Awaitable[Result]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Front:
    """A proxy that is about to stand before the agents of a run."""

    listener: socket
    openai: str
    anthropic: str
    replies: Mapping[str, Reply] | None

    def before(self, sweep: Sweep) -> None:
        """Let sealed agents find this proxy from the moment on at which they are loaded."""
        if sweep.seal is not None:
            sweep.seal = reached(sweep.seal, address(self.listener))

    def around(self, sweep: Sweep, start: Start) -> Start:
        """Return a start of the run behind this proxy."""

        async def run() -> Result:
            async with sweep.proxy(
                openai=self.openai,
                anthropic=self.anthropic,
                listener=self.listener,
                replies=self.replies,
            ):
                return await start()

        return run


def front(port: int | None, replay: Path | None = None) -> Front | None:
    """Return the proxy of a port, and point the apps that are loaded from now on at it.

    Args:
        port: On loopback; 0 takes a free one; ``None`` is no proxy.
        replay: A store that answers all calls.
    """
    if port is None:
        return None
    real, listener = upstreams(None, None), listening(port)
    os.environ.update(environment(address(listener)))
    replies = None
    if replay is not None:
        with closing(file.open_learner(replay)) as db:
            replies = recorded_replies(db)
    return Front(
        listener=listener, openai=real["openai"], anthropic=real["anthropic"], replies=replies
    )


@click.command("proxy", context_settings={"ignore_unknown_options": True})
@click.option("--store", required=True, type=click.Path(path_type=Path), help="File of the calls.")
@click.option("--replay", is_flag=True, help="Answer from the store alone; no network.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="On loopback; 0: a free one."
)
@click.option("--openai", help="Server behind the OpenAI paths; default $OPENAI_BASE_URL.")
@click.option("--anthropic", help="Server behind the Anthropic paths; default $ANTHROPIC_BASE_URL.")
@click.option("--rpm", type=float, help="Most requests per minute.")
@click.option("--tpm", type=float, help="Most tokens per minute.")
@click.option("--max-usd", type=float, help="Refuse calls from this cost on.")
@click.option("--max-tokens", type=int, help="Refuse calls from this many tokens on.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def proxy_command(
    store: Path,
    port: int,
    openai: str | None,
    anthropic: str | None,
    rpm: float | None,
    tpm: float | None,
    max_usd: float | None,
    max_tokens: int | None,
    command: tuple[str, ...],
    *,
    replay: bool,
) -> None:
    """Record the model calls of any app, within limits; or answer them from the record.

    With a COMMAND after --, runs it with the addresses of the proxy in its environment, and exits
    with its exit code. Without one, serves until it is interrupted.
    """
    log_errors()
    if replay and not store.exists():
        raise ConfigError(f"--replay: {store}: no such file")
    meter = Meter(
        Limits(LimitSettings(rpm=rpm, tpm=tpm)), Budget(max_usd=max_usd, max_tokens=max_tokens)
    )
    with Store.open(store) if store.exists() else Store.create(store) as opened:
        recording = Recording(opened, meter, replay=replay)
        serving = Serving(
            recording.answer,
            openai=openai,
            anthropic=anthropic,
            listener=listening(port),
            offline=replay,
        )
        try:
            code = anyio.run(_serve, serving, command)
        except KeyboardInterrupt:
            code = 0 if not command else INTERRUPTED
        spent = meter.budget.spent
        say_error(f"{spent.calls} calls, {spent.tokens} tokens; store {store}")
    raise SystemExit(code)


async def _serve(serving: Serving, command: tuple[str, ...]) -> int:
    async with serving as proxy:
        addresses = environment(proxy.url)
        if not command:
            for name, value in addresses.items():
                say(f"export {name}={value}")
            await anyio.sleep_forever()
        run = partial(subprocess.call, list(command), env=os.environ | addresses)
        try:
            return await anyio.to_thread.run_sync(run)
        except OSError as error:
            raise ConfigError(f"{command[0]}: cannot be run: {error}") from error
