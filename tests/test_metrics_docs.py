"""The reference pages name everything that is public, and their example runs."""

import re
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from inspect import ismodule
from io import StringIO
from pathlib import Path

import pytest

import s3gym.metrics
from s3gym.metrics import Coupling, Judging, NullBand
from s3gym.report import Comparison, PairRow, schema

DOCS = Path(__file__).parents[1] / "docs"
ROWS = [kind for kind in vars(schema).values() if is_dataclass(kind)]


def test_every_public_metric_is_on_its_reference_page() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text()
    missing = [name for name in s3gym.metrics.__all__ if not re.search(rf"\b{name}\b", page)]
    assert missing == []


def test_the_public_metrics_are_all_listed_once() -> None:
    listed = s3gym.metrics.__all__
    assert len(listed) == len(set(listed))
    public = {
        name
        for name, value in vars(s3gym.metrics).items()
        if not name.startswith("_") and not ismodule(value)
    }
    assert public == set(listed)


@pytest.mark.parametrize("kind", [*ROWS, Judging, Coupling, NullBand, Comparison, PairRow])
def test_every_key_of_the_json_report_is_documented(kind: type) -> None:
    page = (DOCS / "reference" / "report-json.md").read_text()
    names = [field.name for field in fields(kind)]
    missing = [name for name in names if not re.search(rf"\b{name}\b", page)]
    assert missing == []


def test_the_example_of_the_metrics_page_prints_what_it_says() -> None:
    page = (DOCS / "reference" / "metrics.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    expected = re.findall(r"  # (.+)$", code, re.M)
    out = StringIO()
    with redirect_stdout(out):
        exec(compile(code, "metrics.md", "exec"), {})
    assert out.getvalue().splitlines() == expected
