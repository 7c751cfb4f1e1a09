"""Minesweeper: reading and drawing its text, its players and their levels."""

from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest
from episodes import mean_and_error, play_episode
from game_traces import GOLDEN, REFERENCE, transcript
from hypothesis import given, settings
from hypothesis import strategies as st
from minesweeper_boards import CLOCK, EVALUATION, EXPLORATION, board, play, random_moves, setup

from s3gym.agents.pictures.minesweeper import render_svg
from s3gym.agents.reading.minesweeper import MinesweeperView, read
from s3gym.agents.reference._mine_risks import mine_risks
from s3gym.agents.reference.minesweeper import choose as reference
from s3gym.agents.strategies.minesweeper import PLAYBOOK, deduce, outcome
from s3gym.games.minesweeper import SPEC, MinesweeperOptions
from s3gym.records import Phase
from s3gym.seeds import Stream

# Reading and drawing


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_a_view_of_any_size_survives_the_way_through_text(data: st.DataObject) -> None:
    columns, n_rows = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 12))
    n_cells = columns * n_rows
    small = st.integers(0, 9999)
    view = MinesweeperView(
        mines=data.draw(small),
        flags=data.draw(small),
        lives=data.draw(small),
        step=data.draw(small),
        max_steps=data.draw(small),
        marks=data.draw(st.text("?FX012345678", min_size=n_cells, max_size=n_cells)),
        columns=columns,
    )
    assert read(view.render()) == view


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=80), st.integers(0, 300), st.integers(0, 3))
def test_other_text_is_refused_by_the_reader(noise: str, place: int, cut: int) -> None:
    text = setup().game.observe(board(), CLOCK)
    damaged = text[:place] + noise + text[place + cut :]
    try:
        assert read(damaged).render() == damaged
    except ValueError:
        return
    ElementTree.fromstring(render_svg(damaged))


def test_the_picture_is_the_golden_one() -> None:
    played = play("uncover 0,4", "flag 0,0", "flag 0,8", "uncover 2,2", phase=EXPLORATION)
    picture = render_svg(played.observations[-1])
    ElementTree.fromstring(picture)
    assert picture == (GOLDEN / "minesweeper.svg").read_text(encoding="utf-8")


# Players


def small_view(marks: str, columns: int, n_mines: int) -> MinesweeperView:
    return MinesweeperView(
        mines=n_mines, flags=0, lives=0, step=1, max_steps=64, marks=marks, columns=columns
    )


@settings(deadline=None, max_examples=60)
@given(st.integers(2, 4), st.integers(2, 4), st.integers(0, 2**32), st.integers(1, 5))
def test_risks_equal_the_count_of_all_placements(r: int, c: int, seed: int, n_mines: int) -> None:
    stream = Stream(seed)
    n_mines = min(n_mines, r * c - 1)
    mines = set(stream.sample(range(r * c), n_mines))
    empty = small_view("?" * (r * c), c, n_mines)
    count = {cell: sum(near in mines for near in empty.neighbours(cell)) for cell in range(r * c)}
    shown = [
        "X" if cell in mines and stream.chance(0.2)
        else str(count[cell]) if cell not in mines and stream.chance(0.4)
        else "?"
        for cell in range(r * c)
    ]  # fmt: skip
    view = small_view("".join(shown), c, n_mines)
    closed = view.cells("?")
    fitting = []
    for placed in combinations(closed, view.remaining):
        everything = set(placed) | set(view.cells("X"))
        if all(
            int(shown[cell]) == sum(near in everything for near in view.neighbours(cell))
            for cell in view.cells(*"012345678")
        ):
            fitting.append(placed)
    risks = mine_risks(view)
    assert set(risks) == set(closed)
    for cell in closed:
        share = sum(cell in placed for placed in fitting) / len(fitting)
        assert risks[cell] == pytest.approx(share)


def test_single_numbers_prove_what_they_can_on_the_printed_board() -> None:
    safe, mined = deduce(read(play("uncover 0,4").observations[1]))
    assert mined == {2 * 9 + 2, 2 * 9 + 6}  # each is all that is closed around (1,3) and (1,5)
    assert safe == {2 * 9 + 1, 2 * 9 + 7, 3 * 9 + 2, 3 * 9 + 6}


def test_comparing_numbers_proves_what_single_ones_do_not() -> None:
    view = small_view("121???", 3, 2)
    assert deduce(view) == (set(), set())
    assert deduce(view, compare=True) == ({4}, {3, 5})


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 2**63 - 1), st.sampled_from(Phase))
def test_what_is_proven_is_true(seed: int, phase: Phase) -> None:
    played = random_moves(phase, seed)
    for state, text in zip(played.states[:-1:4], played.observations[:-1:4], strict=True):
        for compare in (False, True):
            safe, mined = deduce(read(text), compare)
            assert mined <= state.mines
            assert not safe & state.mines


@pytest.mark.parametrize("phase", Phase)
def test_the_reference_player_judges_its_flags_exactly(phase: Phase) -> None:
    for seed in range(6):
        played = play_episode(SPEC, None, phase, seed, reference)
        for step, reward in zip(played.steps, played.rewards, strict=True):
            if step.decision.action.startswith("flag"):
                assert step.decision.self_score == pytest.approx(reward, abs=1e-6)


def test_outcome_agrees_with_the_score_wherever_the_end_shows_it() -> None:
    shown = 0
    for phase in Phase:
        for name in sorted(PLAYBOOK.strategies):
            for seed in range(10):
                played = play_episode(SPEC, None, phase, seed, PLAYBOOK.strategies[name])
                if played.terminated:
                    assert outcome(played.observations[-1]) == pytest.approx(played.score)
                    shown += 1
    assert shown > 50


PLAYERS = {"random": PLAYBOOK.random, "reference": reference, **PLAYBOOK.strategies}
LEVELS = [
    ("random", EVALUATION, 0.063),
    ("random", EXPLORATION, 0.140),
    ("blind-flags", EVALUATION, 0.184),
    ("blind-flags", EXPLORATION, 0.184),
    ("reference", EVALUATION, 0.63),
    ("reference", EXPLORATION, 0.933),
]


def check_level(player: str, phase: Phase, level: float, n_seeds: int, **options: Any) -> None:
    chosen = MinesweeperOptions(**options)
    mean, error = mean_and_error(
        lambda seed: play_episode(SPEC, chosen, phase, seed, PLAYERS[player]).score, range(n_seeds)
    )
    assert abs(mean - level) <= 3 * error, (mean, error)


@pytest.mark.parametrize(("player", "phase", "level"), LEVELS)
def test_players_reach_their_levels(player: str, phase: Phase, level: float) -> None:
    check_level(player, phase, level, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("player", "phase", "level"), LEVELS)
def test_players_reach_their_levels_over_many_seeds(
    player: str, phase: Phase, level: float
) -> None:
    check_level(player, phase, level, 100)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("player", "level"), [("reference", 0.776), ("blind-flags", 0.187), ("random", 0.072)]
)
def test_players_reach_their_levels_with_a_protected_first_cell(player: str, level: float) -> None:
    check_level(player, EVALUATION, level, 100, first_safe=True)


def test_the_anchors_are_the_published_levels() -> None:
    anchors = SPEC.anchors
    assert (anchors.random, anchors.reference, anchors.ceiling) == (0.063, 0.63, 1.0)


def test_the_reference_page_shows_what_the_game_does() -> None:
    page = (REFERENCE / "games-minesweeper.md").read_text(encoding="utf-8")
    shown = transcript(SPEC, EXPLORATION, 9, reference, 3)
    assert f"```text\n{shown}\n```" in page
    for switch in type(SPEC.options()).model_fields:
        assert f"| `{switch}` |" in page
