"""A proxy without a study: every call of an app into a store, or out of one."""

from collections import deque

from s3gym.broker import CHARACTERS_PER_TOKEN, Limits
from s3gym.calls import APART, CallSite
from s3gym.contracts.chat import Reply
from s3gym.errors import ModelError
from s3gym.proxy.upstream import Request, Upstream
from s3gym.store.hashes import request_hash
from s3gym.store.store import Store, now


class Recording:
    """Answers an app's requests and keeps them; or answers them from what was kept.

    Args:
        store: Open for writing; may hold earlier calls.
        limits: Limits of the endpoints and the budget.
        replay: Answer from the store alone. Equal requests get their answers in the order in
            which they were recorded, then the last one again.
    """

    def __init__(self, store: Store, limits: Limits, *, replay: bool = False) -> None:
        self._store, self._limits, self._replay = store, limits, replay
        self._known: dict[str, deque[Reply]] = {}
        self._next = 0
        steps = store.connection.execute(
            "SELECT step FROM calls WHERE study = ? ORDER BY step", (APART,)
        ).fetchall()
        for (step,) in steps:
            found = store.ledger.call(CallSite(study=APART, place=APART, step=step), "act", 0)
            if found is not None and isinstance(found[1], Reply):
                self._known.setdefault(found[0], deque()).append(found[1])
            self._next = step + 1

    async def answer(self, request: Request, upstream: Upstream) -> str:
        """Return the body of an answer.

        Raises:
            ModelError: The server refused, or a replay has no such request.
            BudgetExhaustedError: A cap is reached.
        """
        messages, max_tokens = request.messages(), request.max_tokens()
        asked = request_hash(upstream.name, messages, max_tokens, None)
        if self._replay:
            return self._recorded(asked, upstream)
        started = now()
        reply = await self._limits.call(
            upstream,
            lambda: upstream.complete(messages, max_tokens=max_tokens),
            tokens=len(request.body) // CHARACTERS_PER_TOKEN,
        )
        site = CallSite(study=APART, place=APART, step=self._next)
        self._next += 1
        with self._store.transaction():
            self._store.ledger.add_call(
                site,
                "act",
                0,
                chat=upstream.name,
                layout=APART,
                request_hash=asked,
                messages=messages,
                seed=None,
                max_tokens=max_tokens,
                reply=reply,
            )
            seconds = (now() - started).total_seconds()
            self._store.note_time("call", f"{APART}#{site.step}", started, seconds)
        return reply.text

    def _recorded(self, asked: str, upstream: Upstream) -> str:
        known = self._known.get(asked)
        if not known:
            raise ModelError(
                f"nothing recorded answers this request to {upstream.name!r} (hash {asked[:12]})",
                retryable=False,
                status=404,
            )
        return (known.popleft() if len(known) > 1 else known[0]).text
