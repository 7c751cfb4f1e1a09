"""The page and the terminal table: self-contained, safe, readable."""

import io
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from html_checker import Checker
from hypothesis import given, settings
from hypothesis import strategies as st
from made_store import NASTY, make_store
from rich.console import Console

from s3gym.report import (
    GameFacts,
    Report,
    build_report,
    load_episode,
    load_store,
    open_episodes,
    paper_rows,
    print_table,
    to_html,
    visible,
    write_site,
)
from s3gym.report.charts import DARK, LIGHT, ticks

FACTS = {"trust": GameFacts(random=2, reference=12, ceiling=20, reward_range=(0, 3))}
ALERT = "<script>alert('x')</script>"


def draw(text: str) -> str | None:
    if len(text.splitlines()) < 6:
        return None
    return f'<svg xmlns="http://www.w3.org/2000/svg"><text>{text[:3]}#"&lt;</text></svg>'


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_store(
        tmp_path_factory.mktemp("page") / "run.db", nasty=True, games=("trust", "pvz"), n_steps=12
    )


@pytest.fixture(scope="module")
def report(store: Path) -> Report:
    return build_report([load_store(store)], FACTS)


@pytest.fixture(scope="module")
def page(store: Path, report: Report) -> str:
    return to_html(
        report,
        episode=lambda label, name: load_episode(store, name),
        pictures={"trust": draw},
        paper=paper_rows(report),
    )


def test_the_page_is_well_formed_and_reaches_nowhere(page: str) -> None:
    checker = Checker()
    checker.feed(page)
    assert checker.wrong == []
    assert checker.open == []
    assert all(link.startswith(("#", "data:image/svg+xml;base64,")) for link in checker.links)
    assert {link[1:] for link in checker.links if link.startswith("#")} <= set(checker.ids)
    assert len(checker.ids) == len(set(checker.ids))
    assert checker.scripts == 1
    assert "url(" not in page
    assert "@import" not in page


def test_what_a_model_wrote_is_text(page: str) -> None:
    assert ALERT in NASTY
    assert ALERT not in page
    assert "&lt;script&gt;alert" in page
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202e]", page)
    assert "\\u{1b}[31mred" in page
    assert "{{ 7*7 }}" in page


def test_names_that_hold_markup_are_text_in_every_part(report: Report) -> None:
    evil = '"><img src=x onerror=alert(1)>'
    text = to_html(
        replace(
            report,
            arms=[replace(row, agent=evil, memory=evil) for row in report.arms],
            studies=[replace(row, id=evil, note=evil) for row in report.studies],
            comparisons=[replace(row, agent=evil, memory=evil) for row in report.comparisons],
            judging=[replace(row, agent=evil) for row in report.judging],
            warnings=[evil],
            summary=[evil],
        )
    )
    assert "<img src=x" not in text
    checker = Checker()
    checker.feed(text)
    assert checker.wrong == []


def test_rewards_are_behind_a_toggle_that_is_off(page: str) -> None:
    assert re.search(r'<input type="checkbox" id="rewards">', page)
    assert "body:not(:has(#rewards:checked)) .reward { display: none; }" in page


def test_pictures_are_images_and_fall_back_to_text(page: str) -> None:
    assert page.count("<img ") > 10
    assert 'aria-label="observation"' in page


def test_the_security_policy_admits_the_pages_own_script(page: str) -> None:
    from base64 import b64encode
    from hashlib import sha256

    script = re.search(r"<script>(.*?)</script>", page, re.S)
    assert script is not None
    digest = b64encode(sha256(script.group(1).encode()).digest()).decode()
    assert f"&#39;sha256-{digest}&#39;" in page


def test_a_page_without_episodes_needs_no_script(report: Report) -> None:
    text = to_html(report)
    assert "<script>" not in text
    assert 'id="episodes"' not in text


def test_a_folder_gets_a_page_per_study_with_every_episode(store: Path, tmp_path: Path) -> None:
    record = load_store(store)
    few = replace(record, studies=record.studies[:2])
    report = build_report([few], FACTS)
    with open_episodes([few]) as episode:
        written = write_site(report, [few], tmp_path / "site", episode=episode)
    assert len(written) == 3
    index = written[0].read_text()
    for path, study in zip(written[1:], few.studies, strict=True):
        assert f'href="{path.name}"' in index
        text = path.read_text()
        assert text.count('<details class="episode">') == 6 + 6
        assert f"<title>{study.id}</title>" in text
        assert ALERT not in text
        checker = Checker()
        checker.feed(text)
        assert checker.wrong == []
        assert checker.links == ["index.html"]


def test_the_command_that_made_the_store_can_be_typed_again(report: Report) -> None:
    made = {"": {"command": ["s3gym", "run", "--set", "a b"], "path": "x.db"}}
    assert "s3gym run --set &#39;a b&#39;" in to_html(replace(report, provenance=made))


def test_an_empty_report_is_a_page_too() -> None:
    from s3gym.report import StoreRecord

    assert "holds no study" in to_html(build_report([StoreRecord(studies=())]))


def test_a_small_allowance_drops_pictures_then_middle_steps(store: Path, report: Report) -> None:
    def size(limit: int) -> str:
        return to_html(
            report,
            episode=lambda label, name: load_episode(store, name),
            pictures={"trust": draw, "pvz": draw},
            episode_bytes=limit,
        )

    small = size(1)
    assert "steps left out of this page" in small
    assert "<img " not in small
    assert len(small) < len(size(10**7))


def test_the_table_fits_80_columns_without_colour_codes(report: Report) -> None:
    out = io.StringIO()
    print_table(report, Console(file=out, width=80))
    text = out.getvalue()
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith("pvz, strategist: history is better than none")
    assert re.search(r"root [0-9a-f]{64}", text)


def test_the_table_shows_foreign_names_as_text(report: Report) -> None:
    out = io.StringIO()
    evil = "[bold]x[/bold]\x1b[31m\n"
    arms = [replace(row, agent=evil) for row in report.arms]
    console = Console(file=out, width=200, force_terminal=True, color_system=None)
    print_table(replace(report, arms=arms, warnings=[evil]), console)
    assert "[bold]x[/bold]\\u{1b}[31m" in out.getvalue()
    assert "\x1b[31m" not in out.getvalue()


@given(st.text(max_size=50))
@settings(deadline=None, max_examples=200)
def test_visible_text_can_steer_nothing_and_can_be_written(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", shown
    )
    assert visible(shown) == shown


@given(st.floats(-1e6, 1e6), st.floats(0.1, 1e6))
@settings(deadline=None, max_examples=200)
def test_ticks_are_few_and_inside(low: float, span: float) -> None:
    found = ticks(low, low + span)
    assert len(found) <= 11
    assert all(low - span * 1e-6 <= tick <= low + span * (1 + 1e-6) for tick in found)


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_text_colour_has_the_contrast_of_wcag_aa(page: str) -> None:
    schemes = re.findall(r":root \{([^}]*)\}", page)[:2]
    assert len(schemes) == 2
    for block, lines in zip(schemes, (LIGHT, DARK), strict=True):
        colours = dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for ground in ("paper", "card"):
            for ink in ("ink", "soft", "link", "good", "bad", "open"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
            assert all(contrast(line, colours[ground]) >= 3 for line in lines)


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
]
CLICKS = """
<script>
for (const item of document.querySelectorAll('details')) item.open = true;
const bar = document.querySelector('.stepper');
bar.querySelectorAll('button')[1].click();
const reward = document.querySelector('dd.reward');
const hidden = getComputedStyle(reward).display;
document.getElementById('rewards').click();
const wide = document.documentElement.scrollWidth <= window.innerWidth;
document.title = [bar.querySelector('output').textContent, hidden,
  getComputedStyle(reward).display !== 'none', wide].join('|');
</script></body>
"""


def browse(path: Path, folder: Path, width: int) -> tuple[str, list[str]]:
    """Return the page's title after its scripts ran, and what the console said."""
    done = subprocess.run(
        [
            str(CHROMIUM),
            *FLAGS,
            f"--user-data-dir={folder}",
            f"--window-size={width},900",
            "--dump-dom",
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
    said = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return title.group(1) if title else "", said


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
@pytest.mark.parametrize("width", [1280, 500])
def test_a_browser_opens_the_page_without_complaint_and_steps(
    page: str, tmp_path: Path, width: int
) -> None:
    plain = tmp_path / "page.html"
    plain.write_text(page)
    title, said = browse(plain, tmp_path / "one", width)
    assert said == []
    assert title.startswith("S3Gym report")
    clicked = tmp_path / "clicked.html"
    bare = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    clicked.write_text(bare.replace("</body>", CLICKS))
    title, said = browse(clicked, tmp_path / "two", width)
    assert said == []
    assert title == "2 of 12|none|true|true"
