"""Bringing the records of one or more stores together into a report."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import fsum
from statistics import median_low
from typing import Any, NamedTuple

from s3gym import metrics
from s3gym.errors import StoreError
from s3gym.records import Usage
from s3gym.report import arms as by
from s3gym.report import words
from s3gym.report.arms import Arm, Arms
from s3gym.report.judged import coupling_rows, judging_rows, run_level
from s3gym.report.load_training import machine_values
from s3gym.report.records import EpisodeRow, GameFacts, ModelUsage, StoreRecord, StudyRecord
from s3gym.report.schema import (
    ArmRow,
    ComparisonRow,
    CostRow,
    DepartureRow,
    JudgingRow,
    PickRow,
    Report,
    StudyRow,
    TransferRow,
)
from s3gym.report.stages import stage_rows
from s3gym.report.trained import BASE, below_base, training_rows, transfer_rows
from s3gym.schedule import Schedule

Price = Callable[[ModelUsage], float | None]
"""Returns US dollars of some usage, or ``None`` when the price is not known."""

NOT_PROTOCOL = ("act_seconds", "memory_seconds", "episode_seconds")
OUTSIDE = {
    "judge": "memory saw the verifier's rewards",
    "explorer": "a reference player explored",
    "reward": "training examples were chosen by the verifier's rewards",
}
VARIANTS = {
    "keep_best": "explores with the best-scored weights",
    "roll_back": "takes an update back that scores lower",
}


def build_report(
    stores: Sequence[StoreRecord],
    facts: Mapping[str, GameFacts] | None = None,
    *,
    price: Price | None = None,
) -> Report:
    """Return everything that a report says.

    Args:
        stores: What to report on; see ``load_stores``.
        facts: What is known of each game by name; a game without facts has no skill, no clipped
            error and no stages.
        price: Prices usage, for the cost table.

    Raises:
        StoreError: A number is so large that no sum can hold it.
    """
    try:
        return _built(stores, facts or {}, price)
    except (OverflowError, ValueError) as error:  # written by hand: a run refuses such points
        names = ", ".join(store.path for store in stores)
        raise StoreError(f"{names}: holds scores that cannot be added up: {error}") from error


def _built(
    stores: Sequence[StoreRecord], known: Mapping[str, GameFacts], price: Price | None
) -> Report:
    studies = [study for store in stores for study in store.studies]
    oracles = {study.store: study.oracle for study in studies if study.oracle}
    arms = by.by_arm(studies)
    pooled = by.pooled_starts(arms)
    rows = {
        arm: [
            by.study_row(
                study,
                by.study_metrics(study, pooled[arm.game, arm.agent, arm.store, study.repeat]),
                known.get(arm.game),
            )
            for study in members
        ]
        for arm, members in arms.items()
    }
    compared = by.comparisons(arms)
    transfer = transfer_rows(arms, compared)
    judging = judging_rows(arms, known)
    arm_rows = [by.arm_row(arm, arms[arm], rows[arm], known.get(arm.game)) for arm in arms]
    study_rows = [row for arm in arms for row in rows[arm]]
    return Report(
        summary=[str(answer) for answer in answers(arm_rows, compared, judging, transfer)],
        studies=study_rows,
        arms=arm_rows,
        comparisons=compared,
        null_bands=by.null_rows(arms, rows),
        judging=judging,
        coupling=coupling_rows([study for study in studies if not study.oracle] or studies),
        run_level=run_level([row for row in study_rows if row.store not in oracles] or study_rows),
        pathways=by.pathway_rows(arms),
        stages=stage_rows(arms, compared, known),
        training=training_rows(arms),
        transfer=transfer,
        costs=cost_rows(arms, compared, price),
        departures=departures(studies),
        picks=[picks(study) for study in studies],
        anchors={
            game: {"random": f.random, "reference": f.reference, "ceiling": f.ceiling}
            for game, f in sorted(known.items())
            if any(
                study.game == game and dict(study.options) == dict(f.default_options)
                for study in studies
            )
        },
        roots={label: store.root for label, store in _labelled(stores)},
        oracles=oracles,
        warnings=[oracle_warning(f"[{label}]", kind) for label, kind in oracles.items()]
        + variant_warnings(studies)
        + warnings(study_rows, compared)
        + isolation_warnings(studies),
        timings=_timings(stores),
        provenance={
            label: {
                key: value
                for key, value in ({**store.provenance, "path": store.path}).items()
                if not key.startswith("update ")  # these stand in the timings
            }
            for label, store in _labelled(stores)
        },
    )


def _labelled(stores: Sequence[StoreRecord]) -> list[tuple[str, StoreRecord]]:
    """Return each store with its label; one store alone has none."""
    return [(store.studies[0].store if store.studies else "", store) for store in stores]


def _timings(stores: Sequence[StoreRecord]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return store -> kind -> number and sum of seconds; updates by study, too."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for label, store in _labelled(stores):
        kinds = found.setdefault(label, {})
        for kind, _, seconds in store.timings:
            entry = kinds.setdefault(kind, {"n": 0, "seconds": 0.0})
            entry["n"] += 1
            entry["seconds"] += seconds
        if "update" in kinds:
            kinds["update"]["studies"] = machine_values(store.timings, store.provenance)
    return found


def name_of(row: ArmRow | ComparisonRow | JudgingRow | CostRow | TransferRow) -> str:
    """Return how a row's game, agent and store are called in a sentence."""
    return f"{row.game}, {row.agent}" + (f" [{row.store}]" if row.store else "")


class Answer(NamedTuple):
    """What a report says first about one game and agent; ``tone`` is a direction or ``""``."""

    name: str
    tone: str
    sentences: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}: {'; '.join(self.sentences)}."


def answers(
    arms: Iterable[ArmRow],
    compared: Iterable[ComparisonRow],
    judging: Iterable[JudgingRow],
    transfer: Iterable[TransferRow] = (),
) -> list[Answer]:
    """Return per game and agent: does experience help, and is self-judging right?"""
    found: dict[str, list[ComparisonRow]] = {name_of(arm): [] for arm in arms}
    for row in compared:
        found[name_of(row)].append(row)
    shares = {name_of(row): row.judging.agreement for row in judging if not row.memory}
    trained: dict[str, list[str]] = {}
    for trained_arm in transfer:
        trained.setdefault(name_of(trained_arm), []).extend(_transfer_words(trained_arm))
    told = []
    for name, rows in found.items():
        sentences = [row.verdict for row in rows] or [
            "no control arm: add memory none to say whether experience helps"
        ]
        sentences += trained.get(name, [])
        if (share := shares.get(name)) is not None:
            sentences.append(
                f"self-scores agree with the verifier on {words.percent(share)} of the steps"
            )
        tones = {row.direction for row in rows} - {"unclear"}
        told.append(Answer(name, tones.pop() if len(tones) == 1 else "", tuple(sentences)))
    return told


def _transfer_words(row: TransferRow) -> list[str]:
    """Return what the first sentences say of training beyond its comparison with a control."""
    if row.against == BASE:
        return [row.sentence]
    if row.transfer == "negative":
        return [f"negative transfer: {below_base(row.n_worse, row.n_points)}"]
    return []


def cost_rows(arms: Arms, compared: Sequence[ComparisonRow], price: Price | None) -> list[CostRow]:
    """Return what every arm cost."""
    gains = {Arm(r.game, r.agent, r.memory, r.store): r.mean for r in compared}
    rows = []
    for arm, studies in arms.items():
        used = [entry for study in studies for entry in study.usage]
        total = sum((entry.usage for entry in used), Usage())
        tokens = total.input_tokens + total.output_tokens
        purposes: dict[str, int] = {}
        for entry in used:
            spent = entry.usage.input_tokens + entry.usage.output_tokens
            purposes[entry.purpose] = purposes.get(entry.purpose, 0) + spent
        costs = [price(entry) for entry in used] if price else [None]
        usd, gained = _sum(costs), gains.get(arm) or 0.0
        rows.append(
            CostRow(
                game=arm.game,
                agent=arm.agent,
                memory=arm.memory,
                store=arm.store,
                n_steps=sum(sum(study.statuses.values()) for study in studies),
                calls=total.calls,
                input_tokens=total.input_tokens,
                cached_tokens=total.cached_tokens,
                output_tokens=total.output_tokens,
                reasoning_tokens=total.reasoning_tokens,
                by_purpose=dict(sorted(purposes.items())),
                usd=usd,
                tokens_per_point=tokens / gained if gained > 0 and tokens else None,
                usd_per_point=usd / gained if gained > 0 and usd is not None else None,
            )
        )
    return rows


def _sum(costs: Iterable[float | None]) -> float | None:
    kept = list(costs)
    known = [cost for cost in kept if cost is not None]
    return fsum(known) if known and len(known) == len(kept) else None


def departures(studies: Iterable[StudyRecord]) -> list[DepartureRow]:
    """Return the settings that differ from the paper's main runs, with how many studies."""
    found: Counter[tuple[str, Any, Any]] = Counter()
    for study in studies:
        preset = Schedule.paper if study.training is None else Schedule.paper_training
        paper = preset().model_dump()
        for setting, value in study.schedule.model_dump().items():
            if setting not in NOT_PROTOCOL and value != paper[setting]:
                found[setting, paper[setting], value] += 1
        if study.training is not None and study.training.variant != "plain":
            found["training.variant", "plain", study.training.variant] += 1
    return [
        DepartureRow(setting=setting, paper=paper, here=value, studies=count)
        for (setting, paper, value), count in sorted(found.items())
    ]


def picks(study: StudyRecord) -> PickRow:
    """Return the best, median and worst evaluation episode; exploration's when there is none.

    Among equal scores the later one stands for the best, the earlier one for the others.
    """
    episodes: Sequence[EpisodeRow] = study.evaluation or study.exploration
    found: dict[str, str] = {}
    if episodes:
        middle = median_low([episode.score for episode in episodes])
        found = {
            "best": max(episodes, key=lambda e: (e.score, e.place, e.id)).id,
            "median": next(e.id for e in episodes if e.score == middle),
            "worst": min(episodes, key=lambda e: (e.score, e.place, e.id)).id,
        }
    return PickRow(study=study.id, store=study.store, episodes=found)


def warnings(rows: Sequence[StudyRow], compared: Sequence[ComparisonRow]) -> list[str]:
    """Return what a reader must know before the numbers are used."""
    found = []
    unfinished = [row for row in rows if row.status != "done"]
    if unfinished:
        found.append(
            f"{len(unfinished)} of {len(rows)} studies are not finished; their numbers will change"
        )
    invalid = sum(len(row.invalid) for row in rows)
    if invalid:
        found.append(f"invalid evaluation points: {invalid}; left out, their neighbours joined")
    bad = [row for row in rows if row.unparsed is not None and row.unparsed > 0.05]
    if bad:
        worst = max(row.unparsed or 0 for row in bad)
        found.append(
            f"in {len(bad)} studies more than 5 % of the replies could not be read "
            f"(up to {words.percent(worst)})"
        )
    stale = [row for row in rows if row.memory_failures]
    if stale:
        found.append(
            f"in {len(stale)} studies the memory could not be written "
            f"{sum(row.memory_failures for row in stale)} times and kept what it had before; "
            f"s3gym memory show says why"
        )
    bare = [row for row in compared if row.p is None and row.low is not None]
    if len(bare) > 4:
        found.append(
            f"{len(bare)} comparisons rest on intervals alone: about {len(bare) / 20:.1f} of them "
            f"would name a difference by chance; from {metrics.LEAST_REPEATS_FOR_P} repeats on "
            f"p values are adjusted for that"
        )
    return found


def oracle_warning(where: str, kind: str) -> str:
    """Return a sentence that says what helped the studies of a store."""
    return f"OUTSIDE THE PROTOCOL: in {where} {OUTSIDE.get(kind, f'the oracle {kind} helped')}"


def variant_warnings(studies: Iterable[StudyRecord]) -> list[str]:
    """Return one sentence per variant of training that lets evaluation decide."""
    found = Counter(
        study.training.variant
        for study in studies
        if study.training is not None and study.training.variant != "plain"
    )
    return [
        f"OUTSIDE THE PROTOCOL: training {VARIANTS.get(variant, variant)} in {n} studies "
        f"(variant {variant}), so evaluation scores decide what is learned from"
        for variant, n in sorted(found.items())
    ]


def isolation_warnings(studies: Iterable[StudyRecord]) -> list[str]:
    """Return one sentence per agent or memory whose isolation cannot be proven."""
    found: dict[tuple[str, str], int] = {}
    for study in studies:
        for part in study.not_provable:
            name = study.agent if part == "agent" else study.memory
            found[part, name] = found.get((part, name), 0) + 1
    return [
        f"isolation not provable: {part} {name!r} of {count} studies may keep experience where no "
        f"fork and no frozen view holds it still"
        for (part, name), count in sorted(found.items())
    ]
