"""The parent's end: starts the child process, asks it, and makes sure that it ends.

No task of its own reads the pipe: of those who wait for an answer one reads for all, so whoever
asks also carries the model calls that its request needs, inside its own broker.
"""

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from typing import IO, Any

import anyio

from s3gym.contracts.chat import ChatModel
from s3gym.errors import BudgetExhaustedError, ConfigError, PluginError, S3GymError
from s3gym.sealed.calls import carry_call
from s3gym.sealed.errors import error_in
from s3gym.sealed.lines import EndedError, Lines
from s3gym.sealed.seal import Seal, hide
from s3gym.sealed.turns import Shelf
from s3gym.text import shorten
from s3gym.wire import WireError, from_line, to_line

log = logging.getLogger("s3gym.sealed")
PROBE_SECONDS = 120.0
END_SECONDS = 2.0
GRACE_SECONDS = 0.5
LAST_WORDS, LONGEST_WORDS = 20, 1 << 16
MOST_UNREAD = 1_000
"""Messages about one request that may wait until they are read; an honest child sends few."""


def python_path() -> list[str]:
    """Return where the child shall look for modules: the parent's path, whole."""
    return [os.path.abspath(entry or ".") for entry in ("", *sys.path)]


class ChildProcess:
    """A started child process and the pipe to it."""

    def __init__(self, seal: Seal) -> None:
        hide()
        account = seal.account()
        ours, theirs = socket.socketpair()
        python = seal.python or sys.executable
        command = [python, "-P", "-m", "s3gym.sealed.child", str(os.getpid()), str(theirs.fileno())]
        try:
            # Not through a worker thread: the kernel ends the child with the thread that made it.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                env=seal.environment(),
                start_new_session=True,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else (),
            )
        except OSError as error:
            ours.close()
            who = "" if seal.user is None else f" as user {seal.user!r}"
            raise ConfigError(
                f"the sealed process does not start{who}: {error}; name an interpreter that it "
                f"may run, with s3gym installed, as sealed_python"
            ) from error
        finally:
            theirs.close()
        self.end = ours
        self._words: deque[str] = deque(maxlen=LAST_WORDS)
        self._listener = threading.Thread(target=self._listen, name="s3gym-sealed", daemon=True)
        self._listener.start()
        threading.Thread(target=self._wait, name="s3gym-sealed-end", daemon=True).start()

    @property
    def pid(self) -> int:
        """Id of the child process."""
        return self._process.pid

    def _listen(self) -> None:
        """Take in what the child prints; runs in its own thread until nobody can print more."""
        output: IO[bytes] | None = self._process.stdout
        while output is not None and (line := output.readline(LONGEST_WORDS)):
            words = line.decode("utf-8", "replace").rstrip()[:1_000]
            self._words.append(words)
            log.info("sealed process %d: %s", self.pid, shorten(words, 1_000))

    def _wait(self) -> None:
        """Close the pipe once the child is gone, even where a process that it left holds it."""
        self._process.wait()
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)

    def kill(self, grace: float = 0.0) -> str:
        """End the child and whatever it started beside it; return how it had ended.

        Args:
            grace: Seconds that a child which closed its pipe may take to end by itself.
        """
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        ended = self._process.poll()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()
        self._listener.join(timeout=1.0)
        with suppress(OSError):
            self.end.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for it
        if ended is None:
            return "closed its pipe"
        how = f"signal {-ended}" if ended < 0 else f"exit code {ended}"
        last = f"; it printed last: {shorten(self._words[-1], 300)}" if self._words else ""
        return f"ended with {how}{last}"

    def close(self) -> None:
        """Let go of the pipes of a child that was ended."""
        self.end.close()
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()


def probe(seal: Seal, question: Mapping[str, Any]) -> Any:
    """Ask a child process of its own one thing, and wait for the answer.

    Raises:
        ConfigError: The child could not start, load what it was told to, or answer in time.
    """
    process = ChildProcess(seal)
    line = b""
    try:
        process.end.settimeout(PROBE_SECONDS)
        process.end.sendall(to_line({"id": 0, "path": python_path(), **question}))
        with process.end.makefile("rb") as answers:
            line = answers.readline()
        answer = from_line(line) if line else {}
    except TimeoutError:
        answer = {"error": f"the sealed process loads for more than {PROBE_SECONDS:g} s"}
    except (OSError, WireError):
        answer = {}
    finally:
        how = process.kill(0.0 if line else GRACE_SECONDS)
        process.close()
    if "ok" in answer:
        return answer["ok"]
    who = "" if seal.user is None else f" (as user {seal.user!r})"
    if "error" in answer:
        raise ConfigError(f"{error_in(answer['error'])}{who}")
    raise ConfigError(f"the sealed process {how}{who}")


class _Conversation:
    """One request and what came back about it."""

    def __init__(self) -> None:
        self.came: deque[dict[str, Any]] = deque()
        self.news = anyio.Event()
        self.refused: S3GymError | None = None  # what the last model call met


def _believed(error: S3GymError, talk: _Conversation) -> S3GymError:
    """Return what a child's error counts as: it cannot say that the run's budget is used up."""
    if not isinstance(error, BudgetExhaustedError):
        return error
    if isinstance(talk.refused, BudgetExhaustedError):
        return talk.refused
    return PluginError(str(error))


class SealedProcess:
    """The child process of one study.

    Args:
        seal: How it is sealed.
        load: What the child loads.
        chats: Chat models that this process holds for it, by name.
    """

    def __init__(self, seal: Seal, load: Mapping[str, Any], chats: Mapping[str, ChatModel]) -> None:
        self._seal, self._load, self.chats = seal, load, chats
        self._numbers = count(1)
        self._process: ChildProcess | None = None
        self._lines: Lines
        self._talks: dict[int, _Conversation] = {}
        self._reading = False
        self._ended = ""
        self.shelf = Shelf()

    @property
    def pid(self) -> int | None:
        """Id of the child process, ``None`` before the start."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child, or start it again for another pass over the study."""
        self._process = ChildProcess(self._seal)
        self._lines = Lines(self._process.end)
        self._talks, self._reading, self._ended = {}, False, ""
        self.shelf = Shelf()
        self.tell({"do": "load", "path": python_path(), **self._load})

    def number(self) -> int:
        """Return a number that was not given yet."""
        return next(self._numbers)

    def tell(self, message: Mapping[str, Any]) -> None:
        """Line up something that has no answer; the next request takes it along."""
        if self._process is not None:
            self._lines.put(message)

    async def ask(self, label: str, message: Mapping[str, Any]) -> Any:
        """Ask the child and carry the model calls that come in between.

        Args:
            label: Names the plug-in, for errors.
            message: The request; ``do`` says what.

        Raises:
            PluginError: The child is gone, answered nonsense, or its plug-in failed.
            ServiceError: The outside world failed the plug-in.
        """
        number = self.number()
        talk = self._talks[number] = _Conversation()
        try:
            self.tell({"id": number, **message})
            while True:
                answer = await self.receive(talk)
                if "ok" in answer:
                    return answer["ok"]
                if "error" in answer:
                    raise _believed(error_in(answer["error"]), talk)
                if "complete" in answer:
                    await carry_call(self, talk, number, answer)
        except EndedError:
            raise PluginError(f"{label}: its sealed process {self._how()}") from None
        except WireError as error:
            raise PluginError(f"{label}: its sealed process sent {error}") from error
        finally:
            del self._talks[number]

    async def receive(self, talk: _Conversation) -> dict[str, Any]:
        """Send what is lined up, and wait for the next message of a conversation.

        Raises:
            EndedError: The child is gone.
            WireError: It sent nonsense.
        """
        if self._process is None or self._ended:
            raise EndedError
        await self._lines.flush()
        try:
            while not talk.came:
                if self._reading:
                    talk.news = anyio.Event()
                    await talk.news.wait()
                    continue
                self._reading = True
                try:
                    self._deliver(await self._lines.read())
                finally:
                    self._reading = False
        finally:  # whoever stops reading, done or cancelled, wakes those who may read on
            if not self._reading:
                for other in self._talks.values():
                    other.news.set()
        return talk.came.popleft()

    def _deliver(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            number = message.get("id")
            talk = self._talks.get(number) if isinstance(number, int) else None
            if talk is not None:
                if len(talk.came) >= MOST_UNREAD:
                    raise WireError(f"more than {MOST_UNREAD} messages that nobody asked for")
                talk.came.append(message)
                talk.news.set()

    def _how(self, grace: float = GRACE_SECONDS) -> str:
        if not self._ended and self._process is not None:
            self._ended = self._process.kill(grace)
        return self._ended or "is closed"

    async def aclose(self, label: str) -> None:
        """Let the child close what it holds, within a deadline, and end it."""
        if self._process is None:
            return
        try:
            with anyio.move_on_after(END_SECONDS, shield=True):
                if not self._ended:
                    await self.ask(label, {"do": "end"})
        finally:
            self._how(grace=0.0)
            self._process.close()
            self._process = None
