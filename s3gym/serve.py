"""An outside agent plays a study over MCP: it sees turns, answers them, and nothing else.

The study runs on this side and decides what is played, when and with which seeds. The outside
agent has four tools: ``rules``, ``observe``, ``act`` and ``recall``. None of them resets, seeds,
scores or reads the store.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from socket import socket
from typing import TYPE_CHECKING, Annotated

import anyio
from pydantic import BaseModel, Field

from s3gym.answered import decide
from s3gym.contracts.agent import Agent
from s3gym.errors import ActionError, MissingExtraError, PluginError, S3GymError
from s3gym.parts import AgentPart
from s3gym.records import Decision, Observation, Status, Turn
from s3gym.store import file
from s3gym.store.ledger import Ledger

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

LOOPBACK = "127.0.0.1"
OVER = "The study is over. There is nothing more to play."
CLOSE_SECONDS = 2
INSTRUCTIONS = (
    "You play the episodes of a text game one after the other. In each episode: read rules and "
    "recall, then observe, then act until done is true. With every action give your own estimate "
    "of its immediate reward in game points. After done, observe starts the next episode, until "
    "the study is over."
)


class Seen(BaseModel):
    """What the outside agent sees of the game."""

    observation: str = Field(description="where the episode stands")
    feedback: str = Field(description="what the last action did; empty at the start")
    done: bool = Field(description="whether the episode, or the whole study, is over")


class NotNowError(ActionError):
    """The outside agent asked for something that does not fit where the study stands."""


class Desk:
    """Where the study's turns and the outside agent's calls meet; one episode at a time.

    Args:
        last_outcome: From an episode's id to what its last step led to, as far as it is recorded.
    """

    def __init__(self, last_outcome: Callable[[str], Observation | None]) -> None:
        self._last_outcome = last_outcome
        self._changed = anyio.Condition()
        self._one_act = anyio.Lock()
        self._turn: Turn | None = None
        self._decision: Decision | None = None
        self._ending: Observation | None = None
        self._seen = ""
        self.over = False
        self.farewell = anyio.Event()  # set when the outside agent was told that all is over

    # The study's side

    def part(self, name: str) -> AgentPart:
        """Return the outside agent as a study takes it."""
        return AgentPart(
            name=name, make=lambda: _Seat(self), stateless=True, serial=True, outside=True
        )

    async def decide(self, turn: Turn) -> Decision:
        """Lay a turn out and wait for the decision."""
        async with self._changed:
            self._turn, self._decision = turn, None
            self._changed.notify_all()
            while self._decision is None:
                await self._changed.wait()
            self._turn = None
            return self._decision

    async def end_episode(self, episode: str) -> None:
        """Tell what an episode's last action led to."""
        async with self._changed:
            self._turn, self._ending = None, self._last_outcome(episode)
            self._changed.notify_all()

    async def end_study(self) -> None:
        """Tell that nothing more will be played."""
        async with self._changed:
            self._turn, self.over = None, True
            self._changed.notify_all()

    # The outside agent's side

    async def rules(self) -> str:
        """Return what the agent is, the rules of this phase, and the step cap."""
        turn = await self._next_turn()
        if turn is None:
            return OVER
        return (
            f"{turn.instruction}\n\nRules:\n{turn.rules}\n\nThis is an episode of "
            f"{turn.phase.value}; it ends after at most {turn.max_steps} steps."
        )

    async def recall(self) -> str:
        """Return what memory gives back at this step."""
        turn = await self._next_turn()
        return OVER if turn is None else turn.recollection.text

    async def observe(self) -> Seen:
        """Return where the episode stands; after its end, the start of the next one."""
        turn = await self._next_turn()
        if turn is None:
            return self._all_over()
        self._seen = turn.episode
        seen = turn.observation
        return Seen(observation=seen.text, feedback=seen.feedback, done=False)

    async def act(self, action: str, self_score: float | None) -> Seen:
        """Play an action and return what comes of it.

        Raises:
            NotNowError: The episode is over and the next one was not looked at, or the action
                or self-score is none.
        """
        async with self._one_act:
            turn = await self._next_turn()
            if turn is None:
                return self._all_over()
            if self._seen != turn.episode:
                raise NotNowError("a new episode has begun; call observe before you act")
            status: Status = "ok" if self_score is not None else "no_score"
            given = Decision(action=action, self_score=self_score, status=status)
            try:
                decision = decide("you", given)
            except PluginError as error:
                raise NotNowError(str(error)) from error
            return await self._play(turn, decision)

    async def _play(self, turn: Turn, decision: Decision) -> Seen:
        async with self._changed:
            self._ending, self._decision = None, decision
            self._changed.notify_all()
            while (self._turn is None or self._turn is turn) and not (self._ending or self.over):
                await self._changed.wait()
            ending, following = self._ending, self._turn
        if ending is not None:
            self._seen = ""
            return Seen(observation=ending.text, feedback=ending.feedback, done=True)
        if following is not None and following.episode == turn.episode:
            seen = following.observation
            return Seen(observation=seen.text, feedback=seen.feedback, done=False)
        return self._all_over()

    async def _next_turn(self) -> Turn | None:
        """Wait for a turn that is not answered yet; ``None`` when nothing more comes."""
        async with self._changed:
            while (self._turn is None or self._decision is not None) and not self.over:
                await self._changed.wait()
            return self._turn

    def _all_over(self) -> Seen:
        self.farewell.set()
        return Seen(observation="", feedback=OVER, done=True)


class _Seat(Agent):
    """The outside agent, for one episode."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._episode = ""

    async def act(self, turn: Turn) -> Decision:
        """Wait for what the outside agent decides."""
        self._episode = turn.episode
        return await self._desk.decide(turn)

    async def aclose(self) -> None:
        """Tell the outside agent how the episode ended."""
        if self._episode:
            await self._desk.end_episode(self._episode)


def outcome_reader(store: Path) -> Callable[[str], Observation | None]:
    """Return the function that reads an episode's last outcome from the learner's side alone."""

    def read(episode: str) -> Observation | None:
        db = file.open_learner(store)
        try:
            steps = Ledger(db).steps(episode)
        finally:
            db.close()
        return steps[-1].step.outcome if steps and steps[-1].step.outcome.done else None

    return read


def tools(desk: Desk) -> "MCPServer":
    """Return the MCP server with its four tools.

    Raises:
        MissingExtraError: The extra ``mcp`` is not installed.
    """
    try:
        from mcp.server.mcpserver import MCPServer
        from mcp.server.mcpserver.exceptions import ToolError
    except ImportError:
        raise MissingExtraError("serving over MCP", "mcp") from None
    server: MCPServer = MCPServer("s3gym", instructions=INSTRUCTIONS, log_level="ERROR")

    @server.tool()
    async def rules() -> str:
        """Read the rules of the episode that is being played."""
        return await desk.rules()

    @server.tool()
    async def observe() -> Seen:
        """Look at the episode as it stands; after its end, at the start of the next one."""
        return await desk.observe()

    @server.tool()
    async def act(
        action: Annotated[str, Field(description="one action in the syntax of the rules, or END")],
        self_score: Annotated[
            float | None,
            Field(description="your estimate of this action's immediate reward, in game points"),
        ] = None,
    ) -> Seen:
        """Play one action of the episode and see what comes of it."""
        try:
            return await desk.act(action, self_score)
        except NotNowError as error:
            raise ToolError(str(error)) from error

    @server.tool()
    async def recall() -> str:
        """Read what is remembered from earlier episodes; empty when nothing is."""
        return await desk.recall()

    return server


async def play_outside(
    desk: Desk, study: Callable[[], Awaitable[object]], serve: Callable[[], Awaitable[None]]
) -> None:
    """Run a study beside the server that an outside agent plays it through.

    Args:
        desk: Where both meet.
        study: Runs the study.
        serve: Serves until the agent leaves; then an unfinished study stops, resumably.

    Raises:
        S3GymError: What the study raised, once the agent has left.
    """
    raised: list[S3GymError] = []

    async def run() -> None:
        try:
            await study()
        except S3GymError as error:
            raised.append(error)
        await desk.end_study()

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await serve()
        group.cancel_scope.cancel()
    if raised:
        raise raised[0]


async def serve_http(server: "MCPServer", desk: Desk, listener: socket) -> None:
    """Serve on a listening socket until the agent was told that all is over, or Ctrl-C."""
    import uvicorn

    config = uvicorn.Config(
        server.streamable_http_app(host=LOOPBACK),
        log_level="error",
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    http = uvicorn.Server(config)

    async def stop_at_the_end() -> None:
        await desk.farewell.wait()
        http.should_exit = True

    async with anyio.create_task_group() as group:
        group.start_soon(stop_at_the_end)
        await http.serve(sockets=[listener])
        group.cancel_scope.cancel()
