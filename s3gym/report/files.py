"""A report as files: JSON, CSV and SVG."""

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from s3gym.errors import StoreError
from s3gym.report import charts
from s3gym.report.schema import ArmRow, Report, TrainingRow

DIGITS = 9


def plain(value: Any) -> Any:
    """Return a JSON-safe copy: floats to 9 significant digits, tuples as lists.

    A float that is not finite becomes ``None``: JSON has no word for it.
    """
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    return {str(key): plain(item) for key, item in value.items()}


def dumps(value: Any) -> str:
    """Return any structure of this package as JSON: sorted keys, 9 significant digits."""
    return json.dumps(plain(value), indent=1, sort_keys=True, ensure_ascii=True) + "\n"


def to_json(report: Report) -> str:
    """Return the report as JSON: sorted keys, 9 significant digits, a line end at the end.

    Equal runs give equal text outside the blocks ``timings`` and ``provenance``. The schema is
    in ``docs/reference/report-json.md``.
    """
    return dumps(report)


def write_text(path: Path, text: str) -> None:
    """Write a file, making its folder; raises ``StoreError`` when the disk refuses."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace", newline="")
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error


def _file_name(*parts: str) -> str:
    """Return a name that is safe on every file system."""
    joined = "-".join(part for part in parts if part)
    return re.sub(r"[^A-Za-z0-9._-]+", "_", joined)[:150] or "figure"


def write_svg(report: Report, folder: str | Path) -> list[Path]:
    """Write every figure as an SVG file into a folder; return their paths.

    Learning curves, self-judging, and the losses and contract shares of training, one file per
    game and agent.

    Raises:
        StoreError: The folder cannot be written to.
    """
    colours = charts.colours_of(report.arms)
    groups: dict[tuple[str, str, str], list[ArmRow]] = {}
    for arm in report.arms:
        groups.setdefault((arm.game, arm.agent, arm.store), []).append(arm)
    figures: dict[str, str] = {}
    for (game, agent, store), arms in groups.items():
        levels = list(report.anchors.get(game, {}).items())
        chosen = [colours[arm.memory] for arm in arms]
        figures[_file_name("curves", game, agent, store)] = charts.curves(
            arms, chosen, levels, standalone=True
        )
    for row in report.judging:
        if not row.memory and row.cells:
            name = _file_name("judging", row.game, row.agent, row.store)
            figures[name] = charts.self_judging(row, standalone=True)
    trained: dict[tuple[str, str, str, str], list[TrainingRow]] = {}
    for study in report.training:
        key = (study.game, study.agent, study.memory, study.store)
        trained.setdefault(key, []).append(study)
    for (game, agent, _, store), rows in trained.items():
        drawn = {"losses": charts.losses, "contract": charts.in_contract}
        for kind, draw in drawn.items():
            figures[_file_name(kind, game, agent, store)] = draw(rows, standalone=True)
    written = []
    for name, figure in figures.items():
        path = Path(folder) / f"{name}.svg"
        write_text(path, figure + "\n")
        written.append(path)
    return written


def _flat(row: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested mappings as ``outer.inner`` columns; lists as JSON text."""
    found: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{key}.")
        elif isinstance(value, list):
            found[prefix + key] = json.dumps(value)
        else:
            found[prefix + key] = value
    return found


def _points(report: Report) -> Iterable[dict[str, Any]]:
    for row in report.studies:
        for checkpoint, score in row.points:
            yield {
                "study": row.id,
                "store": row.store,
                "game": row.game,
                "agent": row.agent,
                "memory": row.memory,
                "repeat": row.repeat,
                "checkpoint": checkpoint,
                "score": score,
            }


def _updates(report: Report) -> Iterable[dict[str, Any]]:
    for row in report.training:
        names = {
            "study": row.study,
            "store": row.store,
            "game": row.game,
            "agent": row.agent,
            "memory": row.memory,
            "repeat": row.repeat,
            "trainer": row.trainer,
        }
        for cell in row.updates:
            yield names | plain(cell)


def tables(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return the tables that ``write_csv`` writes: name -> rows of plain values."""
    kinds: dict[str, Sequence[Any]] = {
        "studies": report.studies,
        "arms": report.arms,
        "comparisons": report.comparisons,
        "judging": report.judging,
        "coupling": report.coupling,
        "pathways": report.pathways,
        "stages": report.stages,
        "transfer": report.transfer,
        "updates": list(_updates(report)),
        "costs": report.costs,
        "points": list(_points(report)),
    }
    return {name: [_flat(plain(row)) for row in rows] for name, rows in kinds.items()}


def _cell(value: Any) -> Any:
    """Return a cell that a spreadsheet will not run as a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def write_csv(report: Report, folder: str | Path) -> list[Path]:
    """Write one CSV file per table into a folder; return their paths.

    Raises:
        StoreError: The folder cannot be written to.
    """
    folder, written = Path(folder), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in tables(report).items():
            columns = list(dict.fromkeys(column for row in rows for column in row))
            path = folder / f"{name}.csv"
            with path.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                writer = csv.DictWriter(file, columns)
                writer.writeheader()
                writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
            written.append(path)
    except OSError as error:
        raise StoreError(f"{folder}: {error.strerror or error}") from error
    return written
