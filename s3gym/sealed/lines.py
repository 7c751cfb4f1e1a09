"""JSON messages over a socket, both ways, one per line."""

import socket
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from s3gym.wire import WireError, from_line, to_line

CHUNK = 1 << 18
MAX_LINE = 1 << 28
"""Longest line that is taken in, in bytes."""


class EndedError(Exception):
    """The other side has closed the pipe."""


class Lines:
    """One end of the pipe; one task reads at a time, any number may write."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._end.setblocking(False)
        self._came = bytearray()
        self._going = bytearray()
        self._writing = anyio.Lock()

    def put(self, message: Mapping[str, Any]) -> None:
        """Line a message up; ``flush`` sends it, as does any later flush."""
        self._going += to_line(message)

    async def flush(self) -> None:
        """Send what is lined up; cancelling leaves the rest for the next flush.

        Raises:
            EndedError: The other side is gone.
        """
        async with self._writing:
            while self._going:
                try:
                    sent = self._end.send(bytes(self._going[:CHUNK]))
                except BlockingIOError:
                    await anyio.wait_writable(self._end)
                except OSError as error:
                    raise EndedError from error
                else:
                    del self._going[:sent]

    async def read(self) -> list[dict[str, Any]]:
        """Wait for something and return the messages that are complete, at least one.

        Raises:
            EndedError: The other side is gone.
            WireError: What came is no message.
        """
        while True:
            await checkpoint()  # a side that never stops sending shall not keep the loop
            try:
                data = self._end.recv(CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self._end)
                continue
            except OSError as error:
                raise EndedError from error
            if not data:
                raise EndedError
            if messages := self._taken(data):
                return messages

    def _taken(self, data: bytes) -> list[dict[str, Any]]:
        self._came += data
        if b"\n" not in data:
            if len(self._came) > MAX_LINE:
                raise WireError(f"a line of more than {MAX_LINE} bytes")
            return []
        *whole, self._came = self._came.split(b"\n")
        return [from_line(line) for line in whole]

    def close(self) -> None:
        """Close this end."""
        self._end.close()
