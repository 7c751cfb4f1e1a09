"""Sweeps on Ray's own multi-node cluster, all of it on this machine."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ray_sweeps import cluster, config, folder_of, on_ray, single

from s3gym.cluster.ray_connect import QUIET
from s3gym.events import Event

os.environ.update(QUIET)
ray = pytest.importorskip("ray", reason="issue 9: needs the extra ray, which other jobs leave out")
pytestmark = [pytest.mark.slow]


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with cluster({"num_cpus": 2}, {"num_cpus": 2}) as made:
        yield made


def test_every_root_equals_that_of_one_process(two_nodes: Any, tmp_path: Path) -> None:
    settings = config(game=["trust", "snake"], memory=["none", "history", "vector"], repeats=4)
    events: list[Event] = []
    folder = folder_of(settings, tmp_path / "sweep")
    result = on_ray(settings, folder, two_nodes.address, events)
    assert len(result.studies) == 24
    assert result.root == single(settings, tmp_path / "one.db")
    counts = Counter(event.kind for event in events)
    assert (counts["episode"], counts["checkpoint"], counts["done"]) == (48, 48, 24)
