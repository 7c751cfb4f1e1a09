"""Tables, pages and files made from a store.

``load_stores`` -> ``build_report`` -> ``print_table``, ``to_json``, ``to_html``, ``write_csv``,
``write_svg``; ``load_side`` -> ``compare`` -> ``print_comparison``.
"""

from s3gym.report.build import build_report
from s3gym.report.compare import Comparison, PairRow, compare, load_side, print_comparison
from s3gym.report.episodes import load_episode, open_episodes
from s3gym.report.files import dumps, tables, to_json, write_csv, write_svg, write_text
from s3gym.report.load import (
    game_facts,
    load_store,
    load_stores,
    select,
)
from s3gym.report.page import study_page, to_html
from s3gym.report.paper import (
    CAVEATS,
    PaperLine,
    PaperRow,
    PaperTable,
    paper_beside,
    paper_rows,
    paper_tables,
)
from s3gym.report.power import PowerRow, power_rows, print_power
from s3gym.report.records import GameFacts, ModelUsage, ShownEpisode, StoreRecord, StudyRecord
from s3gym.report.safe import visible
from s3gym.report.schema import Report
from s3gym.report.site import write_site
from s3gym.report.table import print_paper, print_table

__all__ = [
    "CAVEATS",
    "Comparison",
    "GameFacts",
    "ModelUsage",
    "PairRow",
    "PaperLine",
    "PaperRow",
    "PaperTable",
    "PowerRow",
    "Report",
    "ShownEpisode",
    "StoreRecord",
    "StudyRecord",
    "build_report",
    "compare",
    "dumps",
    "game_facts",
    "load_episode",
    "load_side",
    "load_store",
    "load_stores",
    "open_episodes",
    "paper_beside",
    "paper_rows",
    "paper_tables",
    "power_rows",
    "print_comparison",
    "print_paper",
    "print_power",
    "print_table",
    "select",
    "study_page",
    "tables",
    "to_html",
    "to_json",
    "visible",
    "write_csv",
    "write_site",
    "write_svg",
    "write_text",
]
