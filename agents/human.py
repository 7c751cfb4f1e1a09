"""A person at a terminal: sees what any agent sees, types an action and a self-score."""

import sys
from collections.abc import Callable

import anyio.to_thread

from s3gym.contracts.agent import Answer
from s3gym.records import Decision, Turn
from s3gym.replies import NUMBER, is_end

ASK_ACTION = "Action (END stops): "
ASK_SCORE = "Self-score, the reward you expect of it (empty: none): "
Read = Callable[[str], str]
Write = Callable[[str], None]


def write_to_terminal(text: str) -> None:
    """Write a text and a line end to standard output."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class HumanAgent:
    """Asks a person for every action and its self-score.

    The person is asked in a worker thread, so the event loop goes on. End of input (Ctrl-D)
    counts as END.

    Args:
        read: Called with a prompt, returns the line that was typed; raises ``EOFError`` at the
            end of input.
        write: Called with each text to show.
    """

    serial = True
    stateless = True

    def __init__(self, read: Read = input, write: Write = write_to_terminal) -> None:
        self._read = read
        self._write = write

    async def act(self, turn: Turn) -> Answer:
        """Show the turn and return what the person typed."""
        self._write(page(turn))
        action = await self._ask(ASK_ACTION)
        if action is None or is_end(action):
            return Decision(action="END", self_score=0.0, status="end")
        while True:
            typed = (await self._ask(ASK_SCORE) or "").strip()
            if not typed:
                return Decision(action=action.strip(), self_score=None, status="no_score")
            if NUMBER.fullmatch(typed) and abs(float(typed)) != float("inf"):
                return Decision(action=action.strip(), self_score=float(typed))
            self._write("Please type a number such as 1, 0.5 or -2, or nothing.")

    async def _ask(self, prompt: str) -> str | None:
        """Return the typed line; ``None`` at the end of input."""
        try:
            return await anyio.to_thread.run_sync(self._read, prompt, abandon_on_cancel=True)
        except EOFError:
            return None


def page(turn: Turn) -> str:
    """Return what the person is shown: rules and memories at the start, then each state."""
    parts: list[str] = []
    if not turn.index:
        parts.append(turn.rules)
        if turn.recollection.text:
            parts.append(f"What you remember from earlier episodes:\n{turn.recollection.text}")
    if turn.observation.feedback:
        parts.append(turn.observation.feedback)
    parts.append(turn.observation.text)
    return "\n\n".join(parts) + "\n"
