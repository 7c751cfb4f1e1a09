"""The child process of a sealed run: holds agent and memory, and nothing of the game.

Started as ``python -m s3gym.sealed.child PARENT FD``. It loads what the parent names, takes turns
from the pipe, and sends decisions. Model calls go to the parent, which records them.
"""

import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from s3gym.answered import check_recollection, decide
from s3gym.calls import brokered
from s3gym.contracts.agent import Agent, Forkable
from s3gym.contracts.memory import Memory, MemoryReader
from s3gym.errors import PluginError, S3GymError
from s3gym.parts import AgentPart
from s3gym.records import Cue, Episode
from s3gym.sealed.asking import AskingBroker
from s3gym.sealed.errors import error_out
from s3gym.sealed.lines import EndedError, Lines
from s3gym.sealed.loading import extend_path, load_agent, load_memory, looks, owner_of
from s3gym.sealed.seal import end_with_parent
from s3gym.sealed.turns import Shelf, TurnReader
from s3gym.seams import plugin_boundary
from s3gym.wire import WireError, decode, encode

Message = dict[str, Any]


class Child:
    """Answers what the parent asks, any number of requests at the same time."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._brokers: dict[int, AskingBroker] = {}
        self._agents: dict[int, Agent] = {}
        self._turns: dict[int, TurnReader] = {}
        self._shelf = Shelf()
        self._views: dict[int, MemoryReader] = {}
        self._faults: dict[int, S3GymError] = {}
        self._broken: S3GymError | None = None
        self._part: AgentPart
        self._owner: Forkable | None = None
        self._memory: Memory
        self._agent_label = self._memory_label = ""

    async def run(self) -> None:
        """Serve until the parent closes the pipe."""
        inline: dict[str, Callable[[Message], None]] = {
            "load": self._load,
            "freeze": self._freeze,
        }
        async with anyio.create_task_group() as group:
            while True:
                for message in await self._lines.read():
                    if "call" in message:
                        broker = self._brokers.get(message["id"])
                        if broker is not None:
                            broker.take(message)
                    elif message["do"] in inline:
                        inline[message["do"]](message)
                    else:
                        group.start_soon(self._answer, message)

    def _load(self, message: Message) -> None:
        """Load what is named; a fault is told to everybody who asks for something."""
        self._agent_label = f"agent {message['agent']['name']!r}"
        self._memory_label = f"memory {message['memory']['name']!r}"
        extend_path(message["path"])
        try:
            self._part = load_agent(message["agent"])
            self._owner = owner_of(self._part)
            with plugin_boundary(self._memory_label, "its construction"):
                self._memory = load_memory(message["memory"]).make()
        except S3GymError as error:
            self._broken = error

    def _freeze(self, message: Message) -> None:
        if self._broken is not None:
            return
        try:
            with plugin_boundary(self._memory_label, "freeze"):
                self._views[message["view"]] = self._memory.freeze()
        except S3GymError as error:
            self._faults[message["view"]] = error

    async def _answer(self, message: Message) -> None:
        number = message["id"]
        work: dict[str, Callable[[Message], Awaitable[Any]]] = {
            "looks": self._looks, "act": self._act, "fork": self._fork, "learn": self._learn,
            "recall": self._recall, "record": self._record, "consolidate": self._consolidate,
            "close": self._close, "end": self._end,
        }  # fmt: skip
        broker = self._brokers[number] = AskingBroker(self._lines, number)
        try:
            if self._broken is not None:
                raise self._broken
            with brokered(broker):
                answer = {"ok": await work[message["do"]](message)}
        except S3GymError as error:
            answer = {"error": error_out(error)}
        finally:
            del self._brokers[number]
        self._lines.put({"id": number, **answer})
        await self._lines.flush()

    async def _looks(self, message: Message) -> Any:
        extend_path(message["path"])
        return looks(message)

    async def _act(self, message: Message) -> Any:
        number = message["agent"]
        turn = self._turns.setdefault(number, TurnReader(self._shelf)).decode(message["turn"])
        label = self._agent_label
        if number not in self._agents:
            with plugin_boundary(label, "its construction"):
                self._agents[number] = self._part.make()
        with plugin_boundary(label, f"act (step {turn.index})"):
            answer = await self._agents[number].act(turn)
        return encode(decide(label, answer))

    async def _close(self, message: Message) -> Any:
        """Close an episode's agent, unless it serves others too."""
        self._turns.pop(message["agent"], None)
        agent = self._agents.pop(message["agent"], None)
        close = None if self._part.shared else getattr(agent, "aclose", None)
        if close is not None:
            with plugin_boundary(self._agent_label, "aclose"):
                await close()

    async def _fork(self, message: Message) -> Any:
        if self._owner is None:
            raise PluginError(f"{self._agent_label} cannot fork")
        with plugin_boundary(self._agent_label, "fork"):
            self._agents[message["agent"]] = await self._owner.fork()

    async def _learn(self, message: Message) -> Any:
        learn = self._part.learn if self._owner is None else self._owner.learn
        if learn is None:
            raise PluginError(f"{self._agent_label} cannot learn")
        with plugin_boundary(self._agent_label, "learn"):
            await learn(decode(Episode, message["episode"]))

    async def _recall(self, message: Message) -> Any:
        view = message["view"]
        if view in self._faults:
            raise self._faults[view]
        reader: MemoryReader = self._views[view] if view else self._memory
        with plugin_boundary(self._memory_label, "recall"):
            answer = await reader.recall(decode(Cue, message["cue"]))
        return self._shelf.encode(check_recollection(self._memory_label, answer))

    async def _record(self, message: Message) -> Any:
        episode = decode(Episode, message["episode"])
        self._shelf.add(episode)
        with plugin_boundary(self._memory_label, "record"):
            await self._memory.record(episode)

    async def _consolidate(self, message: Message) -> Any:
        """Consolidate, and describe what came of it, because the parent asks for both."""
        with plugin_boundary(self._memory_label, "consolidate"):
            await self._memory.consolidate(message["rules"], message["max_tokens"])
        describe = getattr(self._memory, "describe", None)
        if describe is None:
            return None
        with plugin_boundary(self._memory_label, "describe"):
            return encode(describe())

    async def _end(self, message: Message) -> Any:
        close = getattr(self._memory, "aclose", None)
        if close is not None:
            with plugin_boundary(self._memory_label, "aclose"):
                await close()


def main() -> None:
    """Run the child process until its parent is gone or has closed the pipe."""
    end_with_parent(int(sys.argv[1]))
    logging.basicConfig(level=logging.ERROR, format="%(name)s: %(message)s", stream=sys.stderr)
    lines = Lines(socket.socket(fileno=int(sys.argv[2])))
    try:
        anyio.run(Child(lines).run)
    except* (EndedError, WireError):
        os._exit(0)  # also where a thread of the agent still runs


if __name__ == "__main__":
    main()
