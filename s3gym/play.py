"""Playing one episode: the loop, the clock, the invalid-action policy and the log.

One loop for all games, agents and memories. Every step is written with its verdict before the
next one starts, and committed before a request is sent. A half-played episode is taken up where it
stopped.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

import anyio

from s3gym.answered import check_recollection, decide
from s3gym.broker import CallMismatchError, Limits, StudyBroker
from s3gym.calls import brokered
from s3gym.contracts.agent import Agent
from s3gym.contracts.chat import TokenCounter
from s3gym.contracts.game import Clock, Setup
from s3gym.contracts.memory import MemoryReader
from s3gym.errors import InvalidActionError, ServiceError, StoreError
from s3gym.halt import check_halt
from s3gym.precedence import give_way
from s3gym.records import Cue, Decision, Episode, Observation, Recollection, Step, Turn
from s3gym.rulings import check_game_text, check_number, check_transition
from s3gym.seams import guarded, ruled
from s3gym.seeds import EpisodeSeeds
from s3gym.store.ledger import EpisodeRow, RecordedStep
from s3gym.store.store import Store, now
from s3gym.verdict import Verdict

ENDED = "You ended the episode."
NOTICES = {
    "no_action": "No action was found in your reply. ",
    "truncated": "Your reply was cut at the length limit before its answer. ",
    "refused": "Your reply held a refusal in place of an answer. ",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodePlan:
    """Everything that fixes an episode, except who plays it.

    Attributes:
        agent_seed: From a zero-based step to the agent's seed for it.
    """

    row: EpisodeRow
    setup: Setup[Any]
    seeds: EpisodeSeeds
    agent_seed: Callable[[int], int]
    memory_tokens: int
    reply_tokens: int
    act_seconds: float
    memory_seconds: float
    episode_seconds: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Player:
    """Who plays an episode.

    Attributes:
        stateless: Whether a resumed episode may go on without showing the recorded steps again.
    """

    label: str
    agent: Agent
    stateless: bool
    memory_label: str
    reader: MemoryReader
    counter: TokenCounter


class _UnlikeRecordError(Exception):
    """A resumed agent decided unlike its record."""


def referee(
    name: str, setup: Setup[Any], state: Any, decision: Decision, clock: Clock
) -> tuple[Any, Observation, Verdict]:
    """Apply a decision to a state.

    Returns:
        The next state, what the agent sees of it, and the verdict that it does not see.
    """
    legal, terminated, reward, feedback = True, False, 0.0, ENDED
    after = state
    if decision.status == "end":
        terminated = True
    else:
        notice = NOTICES.get(decision.status, "")
        try:
            answer = ruled(name, "apply", lambda: setup.game.apply(state, decision.action))
        except InvalidActionError as error:
            legal, terminated = False, setup.on_invalid == "end"
            why = check_game_text(name, "refusal", ruled(name, "refusal", error.__str__))
            feedback = f"{notice}Invalid action: {why}"
        else:
            transition = check_transition(name, answer)
            after, terminated = transition.state, transition.terminated
            told = check_game_text(name, "feedback", transition.feedback)
            feedback = f"{notice}{told}".rstrip()
            given = ruled(
                name, "reward", lambda: setup.verifier.reward(state, decision.action, after)
            )
            reward = check_number(name, "reward", given)
    truncated = not terminated and clock.step >= clock.max_steps
    done = terminated or truncated
    next_clock = clock if done else Clock(step=clock.step + 1, max_steps=clock.max_steps)
    text = observed(name, setup, after, next_clock)
    outcome = Observation(text=text, feedback=feedback, done=done)
    verdict = Verdict(reward=reward, legal=legal, terminated=terminated, truncated=truncated)
    return after, outcome, verdict


def observed(name: str, setup: Setup[Any], state: Any, clock: Clock) -> str:
    """Return what is seen of a state."""
    text = ruled(name, "observe", lambda: setup.game.observe(state, clock))
    return check_game_text(name, "observation", text)


async def play_episode(
    plan: EpisodePlan, make_player: Callable[[], Awaitable[Player]], store: Store, limits: Limits
) -> Episode:
    """Play an episode to its end, or take it up where it stopped; return it.

    A finished episode is loaded. A half-played one is shown its recorded observations again
    (model calls answered from the store); when a decision differs from the recorded one, the
    attempt is kept as abandoned and the episode is played afresh.

    Raises:
        PluginError: Agent, memory or game misbehaved.
        ServiceError: A service stayed down; what was played is kept.
    """
    known = store.ledger.episode_state(plan.row.id)
    if known is not None and known[0] == "done":
        return store.ledger.load_episode(plan.row.id)
    while True:
        attempt = store.verdicts.attempts(plan.row.id)
        place = plan.row.id if not attempt else f"{plan.row.id}~{attempt + 1}"
        broker = StudyBroker(store, limits, plan.row.study, place, plan.row.phase)
        try:
            with brokered(broker):
                return await _Play(plan, await make_player(), store, broker).run()
        except (_UnlikeRecordError, CallMismatchError) as reason:
            with store.transaction():
                steps = store.ledger.remove_attempt(plan.row.id)
                store.verdicts.remove_attempt(plan.row.id, attempt + 1, str(reason), steps)


class _Play:
    """One pass over an episode."""

    def __init__(
        self, plan: EpisodePlan, player: Player, store: Store, broker: StudyBroker
    ) -> None:
        self.plan, self.player, self.store, self.broker = plan, player, store, broker
        self.rewards: list[float] = []
        self.trail: tuple[Step, ...] = ()
        self._recalled: tuple[Recollection, str] | None = None
        self._until: float | None = None

    async def run(self) -> Episode:
        plan, row = self.plan, self.plan.row
        started = now()
        state = ruled(row.game, "start", lambda: plan.setup.game.start(plan.seeds))
        opening = observed(row.game, plan.setup, state, Clock(step=1, max_steps=row.max_steps))
        recorded, step_hash = self._open(opening)
        verdict_hash = ""
        observation = Observation(text=opening)
        index = 0
        while not observation.done:
            old = recorded[index] if index < len(recorded) else None
            decision, recalled = await self._decide(observation, index, old)
            clock = Clock(step=index + 1, max_steps=row.max_steps)
            state, outcome, verdict = referee(row.game, plan.setup, state, decision, clock)
            step = Step(index=index, observation=observation, decision=decision, outcome=outcome)
            if old is None:
                with self.store.soon():
                    step_hash = self.store.ledger.add_step(row.id, step, recalled, step_hash)
                    verdict_hash = self.store.verdicts.add(
                        row.id, index, verdict, verdict_hash, step_hash
                    )
            else:
                self._must_match(old, step)
                step_hash = old.hash
                verdict_hash = self._verdict_hashes[index]
            self.rewards.append(verdict.reward)
            self.trail = (*self.trail, step)
            observation, index = outcome, index + 1
        self._close(state, verdict_hash)
        seconds = (now() - started).total_seconds()
        self.store.note_time("episode", row.id, started, seconds)
        return Episode(
            id=row.id, game=row.game, ordinal=row.ordinal, rules=row.rules, steps=self.trail
        )

    def _open(self, opening: str) -> tuple[list[RecordedStep], str]:
        row = replace(self.plan.row, opening=opening)
        ledger = self.store.ledger
        known = ledger.episode_state(row.id)
        if known is None:
            with self.store.soon():
                return [], ledger.start_episode(row)
        if known[1] != row.start_hash():
            raise StoreError(
                f"{row.id}: starts unlike the recorded episode; the game's version, rules or "
                f"options changed since the store was written"
            )
        self._verdict_hashes = [text for _, text in self.store.verdicts.verdicts(row.id)]
        return ledger.steps(row.id), known[1]

    async def _decide(
        self, observation: Observation, index: int, old: RecordedStep | None
    ) -> tuple[Decision, str]:
        plan, player = self.plan, self.player
        if not self.broker.gave_way:
            await give_way(plan.row.phase)
        self.broker.gave_way = False
        self.broker.step = index
        if old is None:
            check_halt()
            self._check_time()
        if old is not None and player.stateless and player.reader.recall_each == "step":
            return old.step.decision, old.recollection
        recollection, content_hash = await self._recall(observation)
        if old is not None and old.recollection != content_hash:
            raise _UnlikeRecordError(f"step {index}: memory recalled unlike the record")
        if old is not None and player.stateless:
            return old.step.decision, content_hash
        turn = Turn(
            episode=plan.row.id,
            game=plan.row.game,
            phase=plan.row.phase,
            rules=plan.row.rules,
            instruction=plan.row.instruction,
            observation=observation,
            trail=self.trail,
            recollection=recollection,
            index=index,
            max_steps=plan.row.max_steps,
            seed=plan.agent_seed(index),
            max_tokens=plan.reply_tokens,
        )
        answer = await guarded(
            player.label, f"act (step {index})", lambda: player.agent.act(turn), plan.act_seconds
        )
        decision = decide(player.label, answer)
        if old is not None and decision != old.step.decision:
            raise _UnlikeRecordError(f"step {index}: the agent decided unlike the record")
        return decision, content_hash

    def _check_time(self) -> None:
        """Give the episode up between two new steps when its time is over.

        The clock starts with the first new step, so every resume gets on by one at least; no
        reply that was paid for is lost.
        """
        seconds = self.plan.episode_seconds
        if seconds is None:
            return
        if self._until is None:
            self._until = anyio.current_time() + seconds
        elif anyio.current_time() >= self._until:
            raise ServiceError(
                f"{self.plan.row.id} took longer than episode_seconds = {seconds:g} s"
            )

    async def _recall(self, observation: Observation) -> tuple[Recollection, str]:
        plan, player = self.plan, self.player
        if self._recalled is not None and player.reader.recall_each == "episode":
            return self._recalled
        cue = Cue(
            game=plan.row.game,
            rules=plan.row.rules,
            observation=observation,
            trail=self.trail,
            max_tokens=plan.memory_tokens,
        )
        answer = await guarded(
            player.memory_label, "recall", lambda: player.reader.recall(cue), plan.memory_seconds
        )
        recollection, cut = fitted(
            check_recollection(player.memory_label, answer), player.counter, plan.memory_tokens
        )
        content_hash = ""
        if recollection.text or recollection.dropped:
            with self.store.soon():
                content_hash = self.store.ledger.add_recollection(recollection, cut=cut)
        self._recalled = (recollection, content_hash)
        return self._recalled

    def _must_match(self, old: RecordedStep, step: Step) -> None:
        if old.step != step:
            raise StoreError(
                f"{self.plan.row.id} step {step.index}: replaying the recorded action gives "
                f"another outcome; the game changed since the store was written"
            )

    def _close(self, state: Any, verdict_hash: str) -> None:
        plan, row = self.plan, self.plan.row
        rewards = tuple(self.rewards)
        given = ruled(row.game, "score", lambda: plan.setup.verifier.score(rewards, state))
        score = check_number(row.game, "score", given)
        with self.store.transaction():  # others read finished episodes
            self.store.ledger.finish_episode(row.id, len(self.trail))
            self.store.verdicts.add_score(
                row.id,
                row.study,
                row.phase,
                row.checkpoint,
                plan.seeds.episode,
                score,
                verdict_hash,
            )


def fitted(
    recollection: Recollection, counter: TokenCounter, max_tokens: int
) -> tuple[Recollection, bool]:
    """Return the recollection recounted, cut at a line end when it is over its budget.

    A cut one is marked: its text may end in the middle of an episode, so its ``steps`` (which
    an agent could read beyond the text) are dropped.
    """
    if not recollection.text:
        return replace(recollection, text="", tokens=0, steps=()), False
    tokens = counter.count(recollection.text)
    if tokens <= max_tokens:
        return replace(recollection, tokens=tokens), False
    lines = recollection.text.split("\n")
    low, high = 0, len(lines) - 1
    while low < high:
        middle = (low + high + 1) // 2
        if counter.count("\n".join(lines[:middle])) <= max_tokens:
            low = middle
        else:
            high = middle - 1
    text = "\n".join(lines[:low])
    return (
        replace(
            recollection,
            text=text,
            tokens=counter.count(text),
            steps=(),
            dropped=recollection.dropped + len(lines) - low,
        ),
        True,
    )
