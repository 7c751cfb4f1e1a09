"""Policies that ask the model: a better action for a low-scored step, or the best of n answers."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from s3gym import calls
from s3gym.contracts.chat import ChatModel, Reply
from s3gym.errors import ConfigError
from s3gym.prompts import number
from s3gym.records import Decision, Message, Step, Turn
from s3gym.seeds import derive
from s3gym.sft.answers import AnswerFormat, LastLine, answer_text
from s3gym.sft.build import (
    LOW,
    Draft,
    Prompt,
    candidates,
    finished,
    shortfall,
    thresholds,
)
from s3gym.sft.dataset import Dataset, Explored
from s3gym.sft.policy import SFTPolicy

REVIEW = (
    "Look back at that answer. You gave its action a self-score of {score}, which is low. This is "
    "what the environment answered:\n{heard}\n\n"
    "Answer once more for the state from before that action, in the same form: the action that "
    "you take to be better, and your self-score for it."
)
WORSE = {
    "unread": "no usable correction",
    "same": "corrected to the same action",
    "low": "the correction scores no better",
    "twice": "an earlier step with the same prompt was corrected",
}


async def build_sft_asking(
    explored: Sequence[Explored],
    policy: SFTPolicy,
    *,
    chat: ChatModel,
    prompt: Prompt | None = None,
    form: AnswerFormat | None = None,
    max_tokens: int,
    seed: int,
) -> Dataset:
    """Return the examples that a policy makes of episodes with a model's help.

    One call at a time, in order, so that a study's broker can record and replay them.

    Args:
        explored: Exploration episodes, oldest first.
        policy: Any; ``keep`` and ``drop`` make no call.
        chat: The model that explored.
        prompt: The agent's own way to make the messages of a turn; the paper's layout without.
        form: The response contract that these messages teach; the paper's last line without.
        max_tokens: Most new tokens of a reply.
        seed: Every call's seed is derived from it.

    Raises:
        ModelError: A call failed.
        BudgetExhaustedError: A budget of the run is used up.
    """
    if policy.policy == "rejection" and any(item.labels is not None for item in explored):
        raise ConfigError(
            "policy: 'rejection' draws answers that nobody played, so no reward can label them; "
            "expected 'keep', 'drop' or 'correct' with an oracle"
        )
    prompt, form = prompt or Turn.messages, form or LastLine()
    drafts, dropped = candidates(explored, policy)
    reached = thresholds(drafts, policy)
    asking = _Asking(chat, prompt, form, max_tokens, seed)
    asked: set[tuple[tuple[Message, ...], str]] = set()
    kept: list[Draft] = []
    for draft in drafts:
        chosen = draft
        if policy.policy == "rejection" and draft.decision.status != "end":
            chosen = await asking.best(draft, policy.best_of)
        reason = shortfall(chosen, policy, reached)
        if reason == LOW and policy.policy == "correct":
            key = (tuple(prompt(draft.explored.turn(draft.step))), draft.decision.action)
            if policy.dedupe and key in asked:
                reason = f"{LOW}; {WORSE['twice']}"
            else:
                asked.add(key)
                chosen, reason = await asking.corrected(draft)
                reason = reason or ("low" if shortfall(chosen, policy, reached) else "")
                reason = f"{LOW}; {WORSE[reason]}" if reason else ""
        if reason:
            dropped.append(draft.choice(reason))
        else:
            kept.append(chosen)
    return finished(kept, dropped, policy, reached, prompt, form)


class _Asking:
    """Asks for other answers to the prompts of explored steps."""

    def __init__(
        self, chat: ChatModel, prompt: Prompt, form: AnswerFormat, max_tokens: int, seed: int
    ) -> None:
        self.chat, self.prompt, self.form = chat, prompt, form
        self.max_tokens, self.seed = max_tokens, seed

    async def best(self, draft: Draft, n: int) -> Draft:
        """Return the best-scored of the recorded answer and n - 1 new ones; ties to the first."""
        best = draft
        messages = self.prompt(draft.explored.turn(draft.step))
        for number_drawn in range(1, n):
            decision = await self._ask(messages, "sample", draft, number_drawn)
            if _points(decision) > _points(best.decision):
                best = replace(draft, decision=decision, origin="drawn")
        return best

    async def corrected(self, draft: Draft) -> tuple[Draft, str]:
        """Return the model's own correction of a low-scored step, and what is wrong with it.

        Its words speak of the first answer, which no later prompt holds: only the action and the
        self-score are taught.
        """
        messages = [*self.prompt(draft.explored.turn(draft.step))]
        messages += self._shown(draft.step)
        decision = await self._ask(messages, "correct", draft, 1)
        proposal = replace(draft, decision=replace(decision, raw=""), origin="corrected")
        if decision.status not in ("ok", "repaired"):
            return proposal, "unread"
        if decision.action == draft.decision.action:
            return proposal, "same"
        return proposal, ""

    def _shown(self, step: Step) -> list[Message]:
        decision, outcome = step.decision, step.outcome
        heard = "\n".join(text for text in (outcome.feedback, outcome.text) if text)
        return [
            Message("assistant", answer_text(decision, self.form) or self.form.write(decision)),
            Message("user", REVIEW.format(score=number(decision.self_score), heard=heard)),
        ]

    async def _ask(
        self, messages: Sequence[Message], purpose: calls.Purpose, draft: Draft, attempt: int
    ) -> Decision:
        reply = await calls.complete(
            self.chat,
            messages,
            purpose=purpose,
            max_tokens=self.max_tokens,
            seed=derive("sft", self.seed, draft.explored.episode.id, draft.step.index, attempt),
        )
        return self._read(reply)

    def _read(self, reply: Reply) -> Decision:
        if reply.finish == "length":
            return Decision(action="", status="truncated", raw=reply.text)
        if reply.finish == "refusal":
            return Decision(action="", status="refused", raw=reply.text)
        return self.form.read(reply.text)


def _points(decision: Decision) -> float:
    usable = decision.status in ("ok", "repaired", "no_score")
    return decision.self_score if usable and decision.self_score is not None else -inf
