"""What a report works on: the rows of a store, brought together per study.

Both sides of the store meet here, after the run and for people: nothing of this goes back to an
agent or a memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from s3gym.records import Usage
from s3gym.schedule import Schedule
from s3gym.store.spec import Kept

Point = tuple[int, float | None]


class StepRow(NamedTuple):
    """One exploration step as judging sees it.

    Attributes:
        ordinal: One-based exploration episode.
        self_score: In game points, or ``None``.
        reward: The verifier's, in game points.
        status: How the reply kept the response contract.
        legal: False when the rules refused the action.
    """

    ordinal: int
    self_score: float | None
    reward: float
    status: str
    legal: bool


class EpisodeRow(NamedTuple):
    """A finished episode's score.

    Attributes:
        id: For example ``trust/strategist/history/r0/e009.1``.
        place: Ordinal of an exploration episode, checkpoint of an evaluation episode.
        seed: Of the episode; pairs the repeats of two runs and is never printed.
        score: In game points.
        n_steps: Steps played.
    """

    id: str
    place: int
    seed: int
    score: float
    n_steps: int


class ModelUsage(NamedTuple):
    """What one chat model was used for in one study.

    Attributes:
        model: Id as the provider reported it; ``""`` where no call is on record.
        chat: Name of the chat model in the run.
        purpose: ``act`` or what a memory asked for.
        usage: Sums over the calls.
    """

    model: str
    chat: str
    purpose: str
    usage: Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Recalls:
    """How full the memory's budget was.

    Attributes:
        n_steps: Steps of both phases for which something was recalled or left out.
        n_cut: Those where the budget left something out.
        first_cut: Exploration episode in which that happened first, one-based; or ``None``.
        most_tokens: Largest recollection, in tokens.
    """

    n_steps: int = 0
    n_cut: int = 0
    first_cut: int | None = None
    most_tokens: int = 0


class UpdateRecord(NamedTuple):
    """One version of the weights of a training study.

    Attributes:
        version: Exploration episodes before its update; 0 for the base.
        outcome: ``base``, ``trained`` or ``unchanged``.
        start: Version that the update started from.
        n_examples: Examples that it was given.
        origins: How they came about -> their number.
        dropped: Why a step gave none -> number of steps.
        losses: As the trainer logged them, in nats per token.
        tokens: Trained on; ``None`` where the trainer does not tell.
        steps: Optimiser steps; ``None`` where the trainer does not tell.
    """

    version: int
    outcome: str
    start: int
    n_examples: int
    origins: Mapping[str, int]
    dropped: Mapping[str, int]
    losses: tuple[float, ...]
    tokens: int | None
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """How a study put experience into weights.

    Attributes:
        policy: Which steps became examples, as in the study's specification.
        start: ``previous`` or ``base``.
        experience: ``new`` or ``all``.
        variant: ``plain``, ``keep_best`` or ``roll_back``.
        updates: By version.
        replies: Checkpoint -> (replies that kept the contract exactly, all replies) of its
            evaluation.
    """

    trainer: str
    policy: Mapping[str, Any]
    start: str
    experience: str
    variant: str
    updates: tuple[UpdateRecord, ...] = ()
    replies: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRecord:
    """One study: a game, an agent and a memory under one repeat.

    Attributes:
        id: For example ``trust/strategist/history/r0``.
        store: Label of its store where several are reported on together, else ``""``; an
            oracle's name is part of it.
        oracle: ``judge``, ``explorer`` or ``reward`` for studies outside the protocol, else ``""``.
        status: ``pending``, ``running``, ``paused``, ``failed`` or ``done``.
        note: Why it paused or failed.
        options: The game's switches.
        points: (checkpoint, mean score or ``None``) of every scheduled checkpoint.
        invalid: (checkpoint, reason) of the checkpoints that could not be evaluated.
        evaluation: Finished evaluation episodes by checkpoint.
        exploration: Finished exploration episodes by ordinal.
        steps: All steps of the finished exploration episodes, in order.
        n_observations: Distinct observations met in exploration.
        n_actions: Distinct actions tried in exploration.
        statuses: Status -> number of steps, both phases.
        n_refused: Steps of both phases whose action the rules refused.
        memory_failures: How often the memory kept what it had because writing failed.
        usage: Per model and purpose.
        root: Sealed root, or ``None`` while unfinished.
        kept: How agent and memory were kept apart from the verifier.
        not_provable: Parts (``agent``, ``memory``) whose isolation cannot be proven.
        training: How it trains; ``None`` for the context pathways.
    """

    id: str
    store: str = ""
    game: str
    game_version: int = 1
    agent: str
    memory: str
    repeat: int
    status: str = "done"
    note: str = ""
    schedule: Schedule
    options: Mapping[str, Any] = field(default_factory=dict)
    points: tuple[Point, ...]
    invalid: tuple[tuple[int, str], ...] = ()
    evaluation: tuple[EpisodeRow, ...] = ()
    exploration: tuple[EpisodeRow, ...] = ()
    steps: tuple[StepRow, ...] = ()
    n_observations: int = 0
    n_actions: int = 0
    statuses: Mapping[str, int] = field(default_factory=dict)
    n_refused: int = 0
    recalls: Recalls = field(default_factory=Recalls)
    memory_failures: int = 0
    usage: tuple[ModelUsage, ...] = ()
    root: str | None = None
    kept: Kept = "in process"
    not_provable: tuple[str, ...] = ()
    oracle: str = ""
    training: TrainingRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRecord:
    """One store.

    Attributes:
        path: Where it lies; goes into the report's ``provenance`` alone.
        studies: By id.
        root: Root over all studies, or ``None`` while any is unfinished.
        provenance: Versions, command, machine.
        timings: (kind, id, seconds), in the order noted.
        shards: Study -> its own store, for a sweep in a folder.
    """

    path: str = ""
    studies: tuple[StudyRecord, ...]
    root: str | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)
    timings: tuple[tuple[str, str, float], ...] = ()
    shards: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GameFacts:
    """What a report needs to know of a game.

    Attributes:
        random: Mean evaluation score of random play, in game points.
        reference: Of the reference player.
        ceiling: The greatest possible score.
        reward_range: Least and greatest reward of one exploration action, in game points.
        default_options: Options for which the three levels hold.
    """

    random: float
    reference: float
    ceiling: float
    reward_range: tuple[float, float]
    default_options: Mapping[str, Any] = field(default_factory=dict)


class ShownStep(NamedTuple):
    """A step as the episode browser shows it.

    Attributes:
        observation: Text before the action.
        feedback: What the action did.
        raw: The model's whole reply, or ``""``.
        reward: The verifier's; shown on a toggle.
    """

    step: int
    observation: str
    action: str
    self_score: float | None
    note: str
    status: str
    raw: str
    feedback: str
    reward: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownEpisode:
    """An episode as the browser shows it; ``closing`` is its last observation."""

    id: str
    phase: str
    place: int
    score: float | None
    steps: tuple[ShownStep, ...]
    closing: str
