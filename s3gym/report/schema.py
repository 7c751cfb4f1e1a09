"""The report: one JSON-safe structure that the table, the page and the files are made from.

Documented for readers in ``docs/reference/report-json.md``. Rows are sorted by game, agent,
memory, repeat; a ``None`` says that a number is not defined, never that it is 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from s3gym.metrics import Bin, Coupling, Judging, NullBand, PathwayWins

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A number over repeats: mean, t interval at 95 % (from three repeats) and count."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRow:
    """One study. Scores and areas in game points (times episodes); shares in [0, 1].

    Attributes:
        kept: ``in process``, ``sealed``, ``sealed as another user`` or ``over MCP``.
        not_provable: Parts (``agent``, ``memory``) whose isolation cannot be proven.
        metrics: ``avg``, ``max``, ``auc_plus``, ``auc_plus_pooled``, ``signed_area``, ``naba``,
            ``slope``, ``start``, ``later``, ``later_best``, ``gain``, ``final_change``; ``None``
            where undefined.
        exploration_scores: Score of every exploration episode, in order.
        statuses: Status -> share of steps, both phases.
        unparsed: Share of steps whose reply gave no action or was cut or refused.
        refused: Share of steps whose action the rules refused.
        memory_failures: How often the memory kept what it had because writing failed.
        recalls_cut: Share of recalling steps where the memory's budget left something out.
    """

    id: str
    store: str
    game: str
    agent: str
    memory: str
    repeat: int
    status: str
    note: str
    root: str | None
    kept: str
    not_provable: list[str]
    points: list[tuple[int, float | None]]
    invalid: list[tuple[int, str]]
    metrics: Mapping[str, float | None]
    exploration_scores: list[float]
    n_exploration_steps: int
    n_observations: int
    n_actions: int
    judging: Judging
    statuses: Mapping[str, float]
    unparsed: float | None
    refused: float | None
    recalls_cut: float | None
    first_cut: int | None
    most_tokens: int
    memory_tokens: int
    memory_failures: int
    n_calls: int
    tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmRow:
    """One arm (game, agent, memory) over its repeats.

    Attributes:
        metrics: The metrics of ``StudyRow``, over repeats.
        skill: ``later`` with random play at 0 and the reference player at 1; ``None`` without
            anchors or with other options than the default ones.
        curve: (checkpoint, spread of the score) in order.
        status: Status -> number of studies.
        n_invalid: Invalid points over all repeats.
    """

    game: str
    agent: str
    memory: str
    store: str
    repeats: list[int]
    status: Mapping[str, int]
    n_invalid: int
    metrics: Mapping[str, Spread]
    skill: Spread | None
    curve: list[tuple[int, Spread]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonRow:
    """The primary estimand of an arm: its mean score after checkpoint 0 minus the control's.

    Attributes:
        repeats: Repeats that both arms have, in the order of ``differences``.
        differences: One per repeat, in game points.
        q: ``p`` adjusted over the report's comparisons (Benjamini-Hochberg).
        least_p: The smallest p that so many repeats can give.
        detectable: Least true difference found in 4 of 5 such runs.
        slope: Slope of the arm's own curve, per exploration episode, over repeats.
        verdict: What follows, in words.
    """

    game: str
    agent: str
    memory: str
    store: str
    control: str
    repeats: list[int]
    differences: list[float]
    mean: float | None
    low: float | None
    high: float | None
    p: float | None
    q: float | None
    least_p: float | None
    detectable: float | None
    direction: str
    slope: Spread
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NullRow:
    """What the control arm's repeats give for the descriptive metrics of one game and agent."""

    game: str
    agent: str
    store: str
    bands: Mapping[str, NullBand]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingRow:
    """Self-judging of one agent in one game, over all arms (``memory = ""``) or one.

    Attributes:
        informedness: P(s > 0 | r > 0) - P(s > 0 | r <= 0), in [-1, 1]; 0 is guessing.
        reliability: Mean reward along rising self-scores.
        cells: (self-score, reward, number of steps) of the most frequent pairs.
    """

    game: str
    agent: str
    memory: str
    store: str
    judging: Judging
    informedness: float | None
    reliability: list[Bin]
    cells: list[tuple[float, float, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CouplingRow:
    """Blockwise coupling of judging and gains in one game, or over all (``game = ""``)."""

    game: str
    coupling: Coupling


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLevelRow:
    """Correlation over studies of a study's agreement and its NABA."""

    n_studies: int
    pearson: float | None
    spearman: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PathwayRow:
    """Summary against history: one pair per repeat that both arms have."""

    game: str
    agent: str
    store: str
    wins: PathwayWins


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRow:
    """Where does it break: testing, judging or improving?

    Attributes:
        testing: Best exploration episode as a skill, clipped to [0, 1], mean over repeats.
        judging: Informedness, clipped to [0, 1].
        improving: Primary difference as a share of the room up to the reference player.
        reward_share: Share of exploration steps with a reward above 0.
        distinct_observations: Distinct observations as a share of those met, within a study.
        distinct_actions: Distinct actions of a study, mean over repeats.
        weakest: ``testing``, ``judging``, ``improving`` or ``""`` when the data cannot tell.
        sentence: The same in words, with its evidence.
    """

    game: str
    agent: str
    memory: str
    store: str
    testing: float | None
    judging: float | None
    improving: float | None
    reward_share: float | None
    distinct_observations: float | None
    distinct_actions: float | None
    weakest: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateCell:
    """One version of the weights of a training study.

    Attributes:
        version: Exploration episodes before its update; 0 for the base weights.
        outcome: ``base``, ``trained``, or ``unchanged`` where no example was left.
        start: Version that the update started from.
        score: Mean score of its evaluation, in game points.
        contract: Share of its evaluation's replies that kept the response contract exactly.
        n_examples: Examples that it was given.
        origins: How they came about -> their number.
        dropped: Why a step gave none -> number of steps.
        losses: In nats per token, as the trainer logged them.
        tokens: Trained on.
        steps: Optimiser steps.
    """

    version: int
    outcome: str
    start: int
    score: float | None
    contract: float | None
    n_examples: int
    origins: Mapping[str, int]
    dropped: Mapping[str, int]
    losses: list[float]
    tokens: int | None
    steps: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRow:
    """How one study put experience into weights.

    Attributes:
        trainer: Name of method and settings.
        policy: Which steps became examples.
        start: Each update starts from the ``previous`` weights, or always from the ``base``.
        experience: An update is given the ``new`` episodes, or ``all`` so far.
        variant: ``plain``, ``keep_best`` or ``roll_back``.
        n_examples: Over all updates.
        tokens: Trained on, over all updates; ``None`` where one does not tell.
        updates: By version, the base first.
    """

    study: str
    store: str
    game: str
    agent: str
    memory: str
    repeat: int
    trainer: str
    policy: Mapping[str, Any]
    start: str
    experience: str
    variant: str
    n_examples: int
    tokens: int | None
    updates: list[UpdateCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferRow:
    """What training did to the scores of one arm, over its repeats.

    Attributes:
        against: What the scores after training are held against: the control arm ``none`` on the
            same seeds, or without one the ``base`` weights of the same study.
        base: Score of the base weights, in game points.
        later: Mean score after training.
        later_best: Highest score after training.
        final_change: Last score minus that of the base.
        n_worse: Checkpoints after 0 whose score is below that of the base, over the repeats.
        n_points: Checkpoints after 0 and their base that have a score.
        transfer: ``positive``, ``negative`` or ``unclear``.
        sentence: The same in words, with its evidence.
    """

    game: str
    agent: str
    memory: str
    store: str
    repeats: list[int]
    against: str
    base: Spread
    later: Spread
    later_best: Spread
    final_change: Spread
    n_worse: int
    n_points: int
    transfer: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostRow:
    """What an arm cost.

    Attributes:
        usd: US dollars; ``None`` when a price is not known or none was asked for.
        tokens_per_point: Tokens of the arm over points of the primary difference; ``None``
            unless the difference is above 0.
        usd_per_point: The same of the US dollars.
    """

    game: str
    agent: str
    memory: str
    store: str
    n_steps: int
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int
    by_purpose: Mapping[str, int]
    usd: float | None
    tokens_per_point: float | None
    usd_per_point: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartureRow:
    """A setting of the schedule that differs from the paper's main runs."""

    setting: str
    paper: Any
    here: Any
    studies: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PickRow:
    """Episodes worth looking at: best, median and worst of a study."""

    study: str
    store: str
    episodes: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything that a report says.

    Between equal runs ``timings`` and ``provenance`` alone differ. ``oracles`` maps the label of
    a store outside the protocol to its oracle. ``training`` and ``transfer`` are empty without
    the training pathway.
    """

    summary: list[str]
    studies: list[StudyRow]
    arms: list[ArmRow]
    comparisons: list[ComparisonRow]
    null_bands: list[NullRow]
    judging: list[JudgingRow]
    coupling: list[CouplingRow]
    run_level: RunLevelRow
    pathways: list[PathwayRow]
    stages: list[StageRow]
    training: list[TrainingRow]
    transfer: list[TransferRow]
    costs: list[CostRow]
    departures: list[DepartureRow]
    picks: list[PickRow]
    anchors: Mapping[str, Mapping[str, float]]
    roots: Mapping[str, str | None]
    oracles: Mapping[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    timings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    format: int = FORMAT
