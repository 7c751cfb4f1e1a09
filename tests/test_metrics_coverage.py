"""The promises of the statistics page, simulated again (slow)."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARK = Path(__file__).parents[1] / "benchmarks" / "inference_coverage.py"
N = 2000
ERROR = 2.6 * (0.05 * 0.95 / N) ** 0.5


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    spec = spec_from_file_location("inference_coverage", BENCHMARK)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("repeats", [3, 6, 10])
@pytest.mark.parametrize("design", ["poisson", "rare", "coin", "persistent", "stuck"])
def test_intervals_cover_and_verdicts_are_rarely_false_without_learning(
    benchmark: ModuleType, design: str, repeats: int
) -> None:
    found = benchmark.simulate(np.random.default_rng(5), design, repeats, N)
    assert found["coverage"] >= 0.93
    assert found["wrong"] <= 0.05 + ERROR
    assert found["auc_plus"] > 0.5


@pytest.mark.slow
def test_a_true_gain_is_found_more_often_with_more_repeats(benchmark: ModuleType) -> None:
    rng = np.random.default_rng(6)
    powers = [benchmark.simulate(rng, "poisson +1", r, 500)["named"] for r in (3, 6, 10)]
    assert powers == sorted(powers)
    assert powers[-1] > 0.95
