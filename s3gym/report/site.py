"""The report as a folder: the page, and beside it a page with all episodes of each study."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from s3gym.report.browser import Picture, Source
from s3gym.report.files import write_text
from s3gym.report.page import study_page, to_html
from s3gym.report.paper import PaperRow, PaperTable
from s3gym.report.records import StoreRecord
from s3gym.report.schema import Report


def write_site(
    report: Report,
    stores: Sequence[StoreRecord],
    folder: str | Path,
    *,
    episode: Source,
    pictures: Mapping[str, Picture] | None = None,
    paper: Sequence[PaperRow] = (),
    beside: Sequence[PaperTable] = (),
    audit: str = "",
) -> list[Path]:
    """Write ``index.html`` and a page per study into a folder; return their paths.

    Args:
        report: What to say.
        stores: What it was built from.
        folder: Made if missing; pages of the same name are replaced.
        episode: Reads an episode, (label of its store, id).
        pictures: Game -> function that draws an observation text as SVG.
        paper: Published rows to put beside the user's.
        beside: The paper's further tables with the user's lines.
        audit: What an audit of the stores found, in a sentence.

    Raises:
        StoreError: A store cannot be read, or the folder cannot be written to.
    """
    folder = Path(folder)
    studies = [study for store in stores for study in store.studies]
    names: dict[tuple[str, str], str] = {}
    for number, study in enumerate(studies):
        readable = re.sub(r"[^A-Za-z0-9.-]+", "_", study.id)[:80]
        names[study.store, study.id] = f"study-{number:03d}-{readable}.html"
    index = folder / "index.html"
    page = to_html(
        report,
        episode=episode,
        pictures=pictures,
        paper=paper,
        beside=beside,
        audit=audit,
        links=names,
    )
    write_text(index, page)
    written = [index]
    for study in studies:
        path = folder / names[study.store, study.id]
        write_text(path, study_page(study, episode, pictures))
        written.append(path)
    return written
