"""Self-judging of agents in games, and how it goes with what they gain."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from s3gym import metrics
from s3gym.metrics import Block, Judged
from s3gym.metrics.judging import Pair
from s3gym.report.arms import Arm, Arms
from s3gym.report.records import GameFacts, StudyRecord
from s3gym.report.schema import CouplingRow, JudgingRow, RunLevelRow, StudyRow

MOST_CELLS = 200


def judged(studies: Iterable[StudyRecord]) -> list[Judged]:
    """Return the exploration steps of some studies as judging sees them."""
    return [Judged(s.self_score, s.reward, s.status) for study in studies for s in study.steps]


def judging_row(arm: Arm, studies: Sequence[StudyRecord], facts: GameFacts | None) -> JudgingRow:
    """Return the judging measures of a pool of studies."""
    steps = judged(studies)
    pairs = metrics.judged_pairs(steps)
    cells = Counter(pairs)
    frequent = sorted(cells, key=lambda pair: (-cells[pair], pair))[:MOST_CELLS]
    return JudgingRow(
        game=arm.game,
        agent=arm.agent,
        memory=arm.memory,
        store=arm.store,
        judging=metrics.judge(steps, facts.reward_range if facts else None),
        informedness=metrics.informedness(pairs),
        reliability=metrics.reliability(pairs),
        cells=[(s, r, cells[s, r]) for s, r in sorted(frequent)],
    )


def judging_rows(arms: Arms, facts: Mapping[str, GameFacts]) -> list[JudgingRow]:
    """Return a row per game and agent, followed by one for each of its arms."""
    pools: dict[Arm, list[StudyRecord]] = defaultdict(list)
    for arm, studies in arms.items():
        pools[arm._replace(memory="")] += studies
    every = {**pools, **{arm: list(studies) for arm, studies in arms.items()}}
    order = sorted(every, key=lambda arm: (arm.game, arm.agent, arm.store, arm.memory))
    return [judging_row(arm, every[arm], facts.get(arm.game)) for arm in order]


def _blocks(studies: Sequence[StudyRecord]) -> list[Block]:
    """Return the blocks of all studies of one game and agent."""
    pairs = metrics.judged_pairs(judged(studies))
    scale, width = metrics.scale_of(pairs), metrics.score_range(s.points for s in studies)
    if scale is None or width is None:
        return []
    found: list[Block] = []
    for study in studies:
        every = study.schedule.evaluate_every
        steps: dict[float, list[Pair]] = defaultdict(list)
        for step in study.steps:
            if step.self_score is not None and step.status != "end":
                checkpoint = -(-step.ordinal // every) * every
                steps[checkpoint].append((step.self_score, step.reward))
        found += metrics.blocks(study.points, steps, scale=scale, width=width)
    return found


def coupling_rows(studies: Sequence[StudyRecord]) -> list[CouplingRow]:
    """Return a row over all games (``game = ""``), then one per game."""
    pools: dict[tuple[str, str], list[StudyRecord]] = defaultdict(list)
    for study in studies:
        pools[study.game, study.agent].append(study)
    by_game: dict[str, list[Block]] = defaultdict(list)
    for game, agent in sorted(pools):
        by_game[game] += _blocks(pools[game, agent])
    rows = {"": [block for game in sorted(by_game) for block in by_game[game]], **by_game}
    return [CouplingRow(game=game, coupling=metrics.couple(rows[game])) for game in sorted(rows)]


def run_level(rows: Iterable[StudyRow]) -> RunLevelRow:
    """Return how a study's agreement goes with its NABA, over the studies that have both."""
    pairs = [
        (row.judging.agreement, row.metrics["naba"])
        for row in rows
        if row.judging.agreement is not None and row.metrics["naba"] is not None
    ]
    left = [agreement for agreement, _ in pairs if agreement is not None]
    right = [value for _, value in pairs if value is not None]
    return RunLevelRow(
        n_studies=len(pairs),
        pearson=metrics.pearson(left, right),
        spearman=metrics.spearman(left, right),
    )
