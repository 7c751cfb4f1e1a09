"""Reading single episodes for the episode browser."""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from s3gym.errors import StoreError
from s3gym.report.records import ShownEpisode, ShownStep, StoreRecord
from s3gym.store.file import disk_errors, open_reader

EPISODE = """
SELECT episodes.phase, coalesce(episodes.checkpoint, episodes.ordinal), episodes.opening, score
FROM episodes LEFT JOIN scores ON scores.episode = episodes.id WHERE episodes.id = ?
"""
EPISODE_STEPS = """
SELECT steps.idx, action, self_score, note, steps.status, raw, feedback, outcome, reward
FROM steps LEFT JOIN verdicts ON verdicts.episode = steps.episode AND verdicts.idx = steps.idx
WHERE steps.episode = ? ORDER BY steps.idx
"""


def load_episode(path: str | Path, episode: str) -> ShownEpisode:
    """Read one episode for the episode browser.

    Raises:
        StoreError: The store cannot be read, or has no such episode.
    """
    path = Path(path)
    with disk_errors(path), closing(open_reader(path)) as db:
        return read_episode(db, episode)


@contextmanager
def open_episodes(
    stores: Sequence[StoreRecord],
) -> Iterator[Callable[[str, str], ShownEpisode]]:
    """Hold the stores open and yield what reads their episodes, for ``to_html``.

    The function takes the label of the store (a study's ``store``) and the episode's id.

    Raises:
        StoreError: A store cannot be read, or has no such episode.
    """
    with ExitStack() as stack:
        opened = {}
        shards: dict[str, Mapping[str, str]] = {}
        for store in stores:
            if store.shards:
                shards[store.studies[0].store] = store.shards
                continue
            path = Path(store.path)
            stack.enter_context(disk_errors(path))
            db = stack.enter_context(closing(open_reader(path)))
            opened[store.studies[0].store if store.studies else ""] = db

        def read(label: str, episode: str) -> ShownEpisode:
            if label in shards:  # too many to hold all of them open
                return load_episode(shards[label][episode.rpartition("/")[0]], episode)
            return read_episode(opened[label], episode)

        yield read


def read_episode(db: sqlite3.Connection, episode: str) -> ShownEpisode:
    """Read one episode from an open store; raises ``StoreError`` when it has none."""
    row = db.execute(EPISODE, (episode,)).fetchone()
    if row is None:
        raise StoreError(f"no episode is called {episode!r}")
    phase, place, observation, score = row
    steps = []
    for index, action, self_score, note, status, raw, feedback, outcome, reward in db.execute(
        EPISODE_STEPS, (episode,)
    ):
        steps.append(
            ShownStep(index, observation, action, self_score, note, status, raw, feedback, reward)
        )
        observation = outcome
    return ShownEpisode(
        id=episode, phase=phase, place=place, score=score, steps=tuple(steps), closing=observation
    )
