"""From explored episodes to training examples, by self-scores alone.

Knows nothing of rewards, scores, games and stores: the learner's side.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from hashlib import sha256

from s3gym.contracts.trainer import Example
from s3gym.errors import ConfigError
from s3gym.records import Decision, Message, Step, Turn
from s3gym.sft.answers import AnswerFormat, LastLine, answer_text
from s3gym.sft.dataset import Choice, Dataset, Explored
from s3gym.sft.policy import SFTPolicy

Prompt = Callable[[Turn], Sequence[Message]]
LOW = "self-score below the threshold"
LEAST_WEIGHT = 0.1
"""Weight of a game's lowest example when the highest one weighs 1, before they are scaled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A step that may become an example.

    Attributes:
        position: Rank of the episode among those given.
        decision: What the example would teach.
        origin: How that came about.
    """

    explored: Explored
    position: int
    step: Step
    decision: Decision
    origin: str = "kept"

    @property
    def game(self) -> str:
        """Name of the game."""
        return self.explored.episode.game

    @property
    def key(self) -> str:
        """A rank without a pattern, for ties."""
        return sha256(f"{self.explored.episode.id}#{self.step.index}".encode()).hexdigest()

    def choice(self, reason: str = "") -> Choice:
        """Return where the draft comes from, or why it was given up."""
        episode, decision = self.explored.episode, self.step.decision
        return Choice(
            game=episode.game,
            episode=episode.id,
            ordinal=episode.ordinal,
            step=self.step.index,
            status=decision.status,
            self_score=self.decision.self_score,
            action=decision.action,
            origin="" if reason else self.origin,
            reason=reason,
        )


def build_sft(
    explored: Sequence[Explored],
    policy: SFTPolicy,
    *,
    prompt: Prompt | None = None,
    form: AnswerFormat | None = None,
) -> Dataset:
    """Return the examples that a policy makes of episodes; the same for the same arguments.

    Args:
        explored: Exploration episodes, oldest first.
        policy: ``keep`` or ``drop``; the others ask a model (``build_sft_asking``).
        prompt: The agent's own way to make the messages of a turn; the paper's layout without.
        form: The response contract that these messages teach; the paper's last line without.

    Raises:
        ConfigError: The policy asks a model.
    """
    if policy.asks:
        raise ConfigError(
            f"policy: {policy.policy!r} asks a model for answers; expected 'keep' or 'drop' here"
        )
    drafts, dropped = candidates(explored, policy)
    reached = thresholds(drafts, policy)
    kept = []
    for draft in drafts:
        reason = shortfall(draft, policy, reached)
        if reason:
            dropped.append(draft.choice(reason))
        else:
            kept.append(draft)
    return finished(kept, dropped, policy, reached, prompt or Turn.messages, form or LastLine())


def candidates(explored: Sequence[Explored], policy: SFTPolicy) -> tuple[list[Draft], list[Choice]]:
    """Return the steps that hold an answer, and those that can give no example, with reasons."""
    drafts, dropped = [], []
    for position, item in enumerate(explored):
        for step in item.episode.steps:
            decision = replace(step.decision, self_score=item.score(step))
            draft = Draft(explored=item, position=position, step=step, decision=decision)
            if decision.status not in policy.statuses:
                dropped.append(draft.choice(f"status {decision.status}"))
            elif decision.self_score is None and decision.status != "end":
                dropped.append(draft.choice("no self-score"))
            else:
                drafts.append(draft)
    return drafts, dropped


def thresholds(drafts: Iterable[Draft], policy: SFTPolicy) -> dict[str, float]:
    """Return per game the self-score that is asked for; an END judges no action."""
    scores: dict[str, list[float]] = {}
    for draft in drafts:
        found = scores.setdefault(draft.game, [])
        if draft.decision.status != "end" and draft.decision.self_score is not None:
            found.append(draft.decision.self_score)
    return {game: _threshold(sorted(found), policy) for game, found in sorted(scores.items())}


def _threshold(scores: Sequence[float], policy: SFTPolicy) -> float:
    if policy.min_score is not None:
        return policy.min_score
    if policy.quantile is None or not scores:
        return 0.0
    # Exact: 0.29 * 100 is below 29 in binary.
    return scores[int(Fraction(repr(policy.quantile)) * len(scores))]


def shortfall(draft: Draft, policy: SFTPolicy, reached: dict[str, float]) -> str:
    """Return why a draft is no example; empty when it is one."""
    if draft.decision.status == "end":
        return "" if policy.policy == "drop" else "an END judges no action"
    score, least = draft.decision.self_score, reached[draft.game]
    if score is None:
        return "no self-score"
    enough = score > least if policy.positive else score >= least
    return "" if enough else LOW


def finished(
    drafts: Sequence[Draft],
    dropped: Sequence[Choice],
    policy: SFTPolicy,
    reached: dict[str, float],
    prompt: Prompt,
    form: AnswerFormat,
) -> Dataset:
    """Write the drafts out, thin them as the policy says, and weigh what is left."""
    left_out = list(dropped)
    rows: list[tuple[Draft, Example]] = []
    for draft in drafts:
        answer = answer_text(draft.decision, form)
        if answer is None:
            left_out.append(draft.choice("the response contract cannot hold its action"))
            continue
        rows.append((draft, _example(draft, answer, prompt)))
    for thin in (_deduped, _balanced, _capped):
        rows, gone = thin(rows, policy)
        left_out.extend(gone)
    weights = _weights([draft for draft, _ in rows], policy)
    return Dataset(
        examples=tuple(
            replace(example, weight=weight)
            for (_, example), weight in zip(rows, weights, strict=True)
        ),
        sources=tuple(draft.choice() for draft, _ in rows),
        dropped=tuple(left_out),
        thresholds=reached,
    )


Rows = list[tuple[Draft, Example]]


def _example(draft: Draft, answer: str, prompt: Prompt) -> Example:
    return Example(
        messages=tuple(prompt(draft.explored.turn(draft.step))),
        answer=answer,
        episode=draft.explored.episode.id,
        step=draft.step.index,
        origin=draft.origin,
    )


def _deduped(rows: Rows, policy: SFTPolicy) -> tuple[Rows, list[Choice]]:
    """Keep the first of examples with the same prompt and the same answer."""
    if not policy.dedupe:
        return rows, []
    seen: set[tuple[tuple[Message, ...], str]] = set()
    kept, gone = [], []
    for draft, example in rows:
        key = (example.messages, example.answer)
        if key in seen:
            gone.append(draft.choice("the same as an earlier example"))
        else:
            seen.add(key)
            kept.append((draft, example))
    return kept, gone


def _balanced(rows: Rows, policy: SFTPolicy) -> tuple[Rows, list[Choice]]:
    """Keep at most as many examples of an episode as the (lower) median episode gives."""
    counts: dict[int, int] = {}
    for draft, _ in rows:
        counts[draft.position] = counts.get(draft.position, 0) + 1
    if not policy.balance or not counts:
        return rows, []
    most = sorted(counts.values())[(len(counts) - 1) // 2]
    taken: dict[int, int] = {}
    chosen = set()
    for draft in sorted((draft for draft, _ in rows), key=_best_first):
        taken[draft.position] = taken.get(draft.position, 0) + 1
        if taken[draft.position] <= most:
            chosen.add((draft.position, draft.step.index))
    return _split(rows, chosen, "more than its episode's share")


def _capped(rows: Rows, policy: SFTPolicy) -> tuple[Rows, list[Choice]]:
    """Keep the best-scored examples, the games taking turns."""
    if policy.cap is None or len(rows) <= policy.cap:
        return rows, []
    games: dict[str, list[Draft]] = {}
    for draft in sorted((draft for draft, _ in rows), key=_best_first):
        games.setdefault(draft.game, []).append(draft)
    turns = sorted(
        (rank, game, draft.position, draft.step.index)
        for game, drafts in games.items()
        for rank, draft in enumerate(drafts)
    )
    chosen = {(position, index) for _, _, position, index in turns[: policy.cap]}
    return _split(rows, chosen, "beyond the cap")


def _best_first(draft: Draft) -> tuple[float, str]:
    return -_points(draft), draft.key


def _points(draft: Draft) -> float:
    return draft.decision.self_score or 0.0


def _split(rows: Rows, chosen: set[tuple[int, int]], reason: str) -> tuple[Rows, list[Choice]]:
    kept = [row for row in rows if (row[0].position, row[0].step.index) in chosen]
    gone = [
        draft.choice(reason)
        for draft, _ in rows
        if (draft.position, draft.step.index) not in chosen
    ]
    return kept, gone


def _weights(drafts: Sequence[Draft], policy: SFTPolicy) -> list[float]:
    """Return weights that rise with the self-scores of a game and have a mean of 1 there."""
    if policy.weights == "uniform":
        return [1.0] * len(drafts)
    raw = [0.0] * len(drafts)
    for game in {draft.game: None for draft in drafts}:
        mine = [index for index, draft in enumerate(drafts) if draft.game == game]
        points = [_points(drafts[index]) for index in mine]
        low, high = min(points), max(points)
        spread = high - low
        shares = [
            LEAST_WEIGHT + (1 - LEAST_WEIGHT) * (value - low) / spread if spread else 1.0
            for value in points
        ]
        mean = sum(shares) / len(shares)
        for index, share in zip(mine, shares, strict=True):
            raw[index] = float(f"{share / mean:.9g}")
    return raw
