"""Tetris: hand-worked rows of games.md 4.H, invariants, texts, leaks, anchors, bad input."""

import re
import time
from functools import lru_cache
from typing import Any

import pytest
from episodes import Played, mean_and_error, play_episode, scripted
from golden_traces import GOLDEN, replay, trace
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.tetris import render_svg
from s3gym.agents.reading.tetris import CELLS_PER_BLOCK, TetrisView, read
from s3gym.agents.reference.tetris import ALL_TURNS, DEAD, choose
from s3gym.agents.strategies import _tetris_board as boards
from s3gym.agents.strategies.playbook import Chooser
from s3gym.agents.strategies.tetris import PLAYBOOK
from s3gym.contracts.game import Clock, NoVerifier, Transition
from s3gym.errors import InvalidActionError
from s3gym.games import _tetris_blocks as blocks
from s3gym.games import tetris
from s3gym.games.tetris import SPEC, Options, State
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds
from s3gym.testing import check_game

FEW, MANY = range(20), range(100)
CLOCK = Clock(step=1, max_steps=64)
SIZES = {Phase.EXPLORATION: (10, 10), Phase.EVALUATION: (8, 8)}
SETUPS = {phase: SPEC.setup(Options(), phase) for phase in Phase}
PHASES = st.sampled_from(Phase)
SEEDS = st.integers(0, 2**63 - 1)
VALID = st.tuples(st.integers(1, 10), st.sampled_from(blocks.ANGLES)).map(
    lambda pair: f"{pair[0]} {pair[1]}"
)


def board(text: str, width: int) -> tuple[int, ...]:
    """Return the rows of a board in the short form of games.md: ``4E`` is four empty rows."""
    rows: list[int] = []
    for part in text.split(" / "):
        empty = re.fullmatch(r"([0-9]+)E", part)
        rows += [0] * int(empty[1]) if empty else [blocks.mask_of(part, "*")]
        assert empty or len(part) == width
    return tuple(rows)


def apply(phase: Phase, text: str, letters: str, action: str) -> tuple[State, Transition[State]]:
    width, height = SIZES[phase]
    state = State(rows=board(text, width), blocks=letters)
    assert len(state.rows) == height
    return state, SETUPS[phase].game.apply(state, action)


def reward(before: State, done: Transition[State]) -> float:
    return tetris.TetrisVerifier().reward(before, "", done.state)


TALL = "1E / " + " / ".join(["*******."] * 7)


@pytest.mark.parametrize(
    ("phase", "start", "letter", "action", "after", "points", "over"),
    [
        pytest.param(
            Phase.EXPLORATION, "10E", "T", "4 0", "8E / ....*..... / ...***....", 0, False, id="T1"
        ),
        pytest.param(
            Phase.EXPLORATION,
            "10E",
            "T",
            "4 90",
            "7E / ...*...... / ...**..... / ...*......",
            0,
            False,
            id="T2",
        ),
        pytest.param(
            Phase.EXPLORATION,
            "6E / " + " / ".join(["*********."] * 4),
            "I",
            "10 90",
            "10E",
            4,
            False,
            id="T4",
        ),
        pytest.param(
            Phase.EXPLORATION, "10E", "I", "7 0", "9E / ......****", 0, False, id="T5-valid"
        ),
        pytest.param(
            Phase.EXPLORATION,
            " / ".join(["**........"] * 10),
            "O",
            "1 0",
            " / ".join(["**........"] * 10),
            0,
            True,
            id="T6",
        ),
        pytest.param(
            Phase.EXPLORATION,
            "8E / *......... / *********.",
            "I",
            "10 90",
            "7E / .........* / .........* / *........*",
            1,
            False,
            id="one row",
        ),
        pytest.param(Phase.EVALUATION, TALL, "O", "7 0", TALL, 0, True, id="T7"),
        pytest.param(
            Phase.EVALUATION,
            TALL,
            "I",
            "1 0",
            "****.... / " + " / ".join(["*******."] * 7),
            0,
            False,
            id="T8",
        ),
        pytest.param(
            Phase.EXPLORATION,
            "5E / ***....... / 4E",
            "I",
            "1 0",
            "4E / ****...... / ***....... / 4E",
            0,
            False,
            id="T11",
        ),
        pytest.param(
            Phase.EVALUATION,
            "8E",
            "L",
            "7 270",
            "5E / ......** / .......* / .......*",
            0,
            False,
            id="T15",
        ),
    ],
)
def test_a_block_lands_as_worked_by_hand(
    phase: Phase, start: str, letter: str, action: str, after: str, points: int, over: bool
) -> None:
    before, done = apply(phase, start, letter * 2, action)
    assert done.state.rows == board(after, SIZES[phase][0])
    assert reward(before, done) == points
    assert done.terminated is over
    assert done.state.placed == (0 if over else 1)


def test_t5_a_column_that_does_not_fit_is_refused_and_the_block_stays() -> None:
    with pytest.raises(InvalidActionError, match=r"a column of 1 to 7 .* got '8'"):
        apply(Phase.EXPLORATION, "10E", "I", "8 0")
    played = play_episode(
        SPEC,
        None,
        Phase.EXPLORATION,
        1,
        scripted(["99 0"]),
        start=State(rows=(0,) * 10, blocks="I"),
    )
    assert played.observations[0] == played.observations[1]
    assert played.rewards[0] == 0.0


def test_t16_three_unreadable_actions_use_up_three_steps_and_nothing_else() -> None:
    start = State(rows=(0,) * 8, blocks="T" * 64)
    script = scripted(["3 45", "0 0", "x"])
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, script, start=start)
    assert played.rewards == [0.0] * 4
    assert played.states == [start] * 5


def test_t17_the_sixty_fourth_step_is_the_last() -> None:
    start = State(rows=(0,) * 8, blocks="T" * 64)
    script = scripted(["1 0", "1 0"])
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, script, start=start, first_step=64)
    assert played.rewards == [0.0]
    assert played.steps[-1].outcome.done
    assert not played.terminated


def test_every_rotation_is_that_of_the_table() -> None:
    table = {
        "I": "#### #/#/#/# #### #/#/#/#",
        "O": "##/## ##/## ##/## ##/##",
        "S": ".##/##. #./##/.# .##/##. #./##/.#",
        "Z": "##./.## .#/##/#. ##./.## .#/##/#.",
        "J": "#../### ##/#./#. ###/..# .#/.#/##",
        "L": "..#/### #./#./## ###/#.. ##/.#/.#",
        "T": ".#./### #./##/#. ###/.#. .#/##/.#",
    }
    for name, shapes in table.items():
        turned = [blocks.rotations(name)[angle].rows for angle in blocks.ANGLES]
        assert turned == [tuple(shape.split("/")) for shape in shapes.split()]
    assert tuple(table) == blocks.NAMES
    assert [turns[0] for turns in ALL_TURNS] == [
        blocks.rotations(name)[0].rows for name in blocks.NAMES
    ]


@pytest.mark.parametrize("action", ["1", "1 2 3", "a b", "1.5 0", "4, 90", "4,90", "", "1 450"])
def test_what_the_ancestor_refused_or_guessed_is_refused(action: str) -> None:
    with pytest.raises(InvalidActionError, match="expected"):
        apply(Phase.EXPLORATION, "10E", "T", action)


@pytest.mark.parametrize("action", ["4 90", " 4\t90 ", "4 90°", "4 90 °", "+4 090", "004 90"])
def test_blanks_signs_zeros_and_the_degree_sign_are_tolerated(action: str) -> None:
    _, done = apply(Phase.EXPLORATION, "10E", "T", action)
    assert done.feedback == "Placed the block at column 4, angle 90."


@pytest.mark.parametrize(
    "action",
    [
        "\u0664 90",
        "\uff14 90",
        "1_0 0",
        "1e0 0",
        "1e999 0",
        "4 \u22120",
        "4\x000",
        "4\n0",
        "4\u00a00",
        "\u00b2 0",
        "\u202e4 90",
        "((4) (90))",
    ],
)
def test_digits_and_blanks_outside_ascii_are_refused(action: str) -> None:
    with pytest.raises(InvalidActionError, match="expected COLUMN ANGLE"):
        apply(Phase.EXPLORATION, "10E", "T", action)


def test_minus_zero_is_zero() -> None:
    assert apply(Phase.EXPLORATION, "10E", "T", "4 -0") == apply(
        Phase.EXPLORATION, "10E", "T", "4 0"
    )


def test_a_huge_action_is_refused_at_once_with_a_short_message() -> None:
    started = time.perf_counter()
    for action in ("1" * 10_000_000, " " * 10_000_000 + "1 0", "4 90" * 2_500_000):
        with pytest.raises(InvalidActionError) as caught:
            apply(Phase.EXPLORATION, "10E", "T", action)
        assert len(str(caught.value)) < 200
    assert time.perf_counter() - started < 1.0


# Options


def test_the_switch_clamp_uses_the_nearest_column_that_fits() -> None:
    game = SPEC.setup(Options(bad_column="clamp"), Phase.EXPLORATION).game
    state = State(rows=(0,) * 10, blocks="TT")
    for action, column in (("99 0", 8), ("0 0", 1), ("-5 0", 1), ("3 0", 3)):
        assert (
            game.apply(state, action).feedback == f"Placed the block at column {column}, angle 0."
        )
    assert "nearest" in SPEC.rules(Options(bad_column="clamp"), Phase.EXPLORATION)


def test_the_switch_ends_evaluation_ends_strict_episodes_only() -> None:
    options = Options(invalid_action="ends_evaluation")
    for phase, steps in ((Phase.EVALUATION, 1), (Phase.EXPLORATION, 4)):
        played = play_episode(SPEC, options, phase, 1, scripted(["x", "x", "x"]))
        assert len(played.steps) == steps
    strict, lenient = (
        SPEC.rules(options, phase) for phase in (Phase.EVALUATION, Phase.EXPLORATION)
    )
    assert "A refused action ends the game." in strict
    assert "A refused action changes nothing" in lenient


def test_sizes_are_switches_and_bound_the_score() -> None:
    options = Options(evaluation_width=6, evaluation_height=12)
    setup = SPEC.setup(options, Phase.EVALUATION)
    state = setup.game.start(EpisodeSeeds(episode=1, game="tetris"))
    view = read(setup.game.observe(state, CLOCK))
    assert (view.width, view.height) == (6, 12)
    assert setup.score_range == (0.0, 42.0)
    assert [SETUPS[phase].score_range[1] for phase in Phase] == [25.0, 32.0]
    with pytest.raises(ValidationError):
        Options(evaluation_width=3)
    with pytest.raises(ValidationError):
        Options.model_validate({"width": 8})


# Texts


@pytest.mark.parametrize("phase", Phase)
def test_the_rules_text_is_built_from_the_constants(phase: Phase) -> None:
    text = SPEC.rules(Options(), phase)
    width, height = SIZES[phase]
    assert f"{width} columns wide and {height} rows high" in text
    assert f"at most {tetris.HORIZON} steps" in text
    assert "0, 90, 180, 270" in text
    assert "7 kinds" in text


def test_no_text_names_the_phase() -> None:
    for phase in Phase:
        for text in (SPEC.rules(Options(), phase), SPEC.instruction(Options(), phase)):
            assert not re.search("explor|evaluat|strict|train|test", text, re.IGNORECASE)


def test_the_documented_grammar_is_what_is_shown() -> None:
    state = State(rows=board("6E / *....... / **..*...", 8), blocks="ST")
    assert SETUPS[Phase.EVALUATION].game.observe(state, CLOCK).split("\n") == [
        "Current Game State:",
        *["........"] * 6,
        "*.......",
        "**..*...",
        "Next Block:",
        *("angle 0:", ".##", "##."),
        *("angle 90:", "#.", "##", ".#"),
        *("angle 180:", ".##", "##."),
        *("angle 270:", "#.", "##", ".#"),
        "Blocks placed: 0",
    ]


@st.composite
def states(draw: st.DrawFn) -> tuple[tetris.Tetris, State]:
    """Any board and block, reachable or not."""
    width, height = draw(st.integers(4, 12)), draw(st.integers(4, 12))
    rows = draw(st.lists(st.integers(0, 2**width - 2), min_size=height, max_size=height))
    letters = draw(st.text(alphabet="".join(blocks.NAMES), max_size=3))
    placed = draw(st.integers(0, len(letters)))
    game = tetris.Tetris(width=width, height=height)
    return game, State(rows=tuple(rows), blocks=letters, placed=placed)


@settings(deadline=None, max_examples=100)
@given(states())
def test_a_text_that_is_read_and_rendered_is_the_same_text(pair: tuple[Any, State]) -> None:
    game, state = pair
    text = game.observe(state, CLOCK)
    view = read(text)
    assert view.render() == text
    assert [blocks.mask_of(row, "*") for row in view.rows] == list(state.rows)
    assert all(line == line.rstrip() for line in text.split("\n"))


@pytest.mark.parametrize(
    "text",
    ["", "Current Game State:", "Current Game State:\n*.\n*\nNext Block:\nnone\nBlocks placed: 0"],
)
def test_a_text_outside_the_grammar_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="observation text of tetris"):
        read(text)


# Invariants


@settings(deadline=None, max_examples=30)
@given(PHASES, SEEDS, st.lists(VALID | st.text(max_size=6), max_size=25))
def test_an_episode_keeps_its_invariants(phase: Phase, seed: int, actions: list[str]) -> None:
    played = play_episode(SPEC, None, phase, seed, scripted(actions))
    again = play_episode(SPEC, None, phase, seed, scripted(actions))
    assert again == played
    width = SIZES[phase][0]
    full = (1 << width) - 1
    for state, text in zip(played.states, played.observations, strict=True):
        filled = sum(row.bit_count() for row in state.rows)
        assert filled == CELLS_PER_BLOCK * state.placed - width * state.cleared
        assert full not in state.rows
        assert read(text).cleared == state.cleared
        assert state.blocks == played.states[0].blocks
    assert played.score == sum(played.rewards) == played.states[-1].cleared
    assert PLAYBOOK.outcome(played.observations[-1]) == played.score


@settings(deadline=None, max_examples=100)
@given(states(), VALID)
def test_a_placed_block_rests_and_passes_only_through_free_cells(
    pair: tuple[tetris.Tetris, State], action: str
) -> None:
    game, state = pair
    try:
        done = game.apply(state, action)
    except InvalidActionError:
        return
    if done.terminated:
        assert done.state == state
        return
    removed = done.state.cleared - state.cleared
    assert 0 <= removed <= 4
    cells = sum(row.bit_count() for row in state.rows) + CELLS_PER_BLOCK
    assert sum(row.bit_count() for row in done.state.rows) == cells - removed * game.width
    assert done.state.rows[:removed] == (0,) * removed


def test_phases_seeds_and_blocks() -> None:
    def drawn(seed: int) -> str:
        game = SETUPS[Phase.EVALUATION].game
        return str(game.start(EpisodeSeeds(episode=seed, game="tetris")).blocks)

    assert len({drawn(seed) for seed in range(50)}) == 50
    counts = {name: sum(drawn(seed).count(name) for seed in range(200)) for name in blocks.NAMES}
    assert all(abs(count - 12_800 / 7) < 4 * (12_800 * 6 / 49) ** 0.5 for count in counts.values())


# Golden traces, pictures


def first_state(start: dict[str, Any]) -> State:
    rows = tuple(blocks.mask_of(row, "*") for row in start["rows"])
    return State(rows=rows, blocks=start["blocks"])


@pytest.mark.parametrize("name", ["tetris.exploration", "tetris.evaluation"])
def test_replaying_a_golden_trace_gives_every_recorded_line(name: str) -> None:
    header, steps = trace(name)
    assert header["source"]
    actions = [step["action"] for step in steps]
    assert list(replay(SPEC, header, actions, first_state)) == steps


def test_the_transcript_of_the_documentation_is_the_hand_worked_trace() -> None:
    _, steps = trace("tetris.exploration")
    page = (GOLDEN.parents[1] / "docs/reference/games-tetris.md").read_text()
    shown = re.findall(r"> Answer: (.*), Score: (.*)\n(.*)\n([^>`]+)", page)
    assert len(shown) == 3
    for (action, points, feedback, text), step in zip(shown, steps, strict=False):
        assert (action, feedback, text.strip()) == (step["action"], step["feedback"], step["text"])
        assert float(points) == step["reward"]


def test_the_picture_of_a_golden_observation_is_the_kept_one() -> None:
    _, steps = trace("tetris.evaluation")
    assert render_svg(steps[-1]["text"]) == (GOLDEN / "tetris.svg").read_text()


@settings(deadline=None, max_examples=30)
@given(states())
def test_a_picture_is_drawn_of_every_observation(pair: tuple[Any, State]) -> None:
    game, state = pair
    picture = render_svg(game.observe(state, CLOCK))
    assert picture.startswith("<svg ")
    assert picture.count("<rect") == 1 + game.width * game.height + (
        4 * CELLS_PER_BLOCK if state.placed < len(state.blocks) else 0
    )


# Leaks


def test_no_text_holds_a_seed_or_a_word_of_the_verifier() -> None:
    seed = 2**63 - 25
    played = play_episode(SPEC, None, Phase.EVALUATION, seed, PLAYBOOK.strategies["lookahead"])
    shown = "\n".join((*played.observations, *played.feedback))
    assert str(seed) not in shown
    assert not re.search(r"score|reward|point|cleared", shown, re.IGNORECASE)
    assert played.score > 0


def test_the_texts_are_the_same_whatever_the_verifier_says() -> None:
    check_game(SPEC, episodes=2)
    setup = SETUPS[Phase.EVALUATION]
    assert NoVerifier(value=90210.5).reward(None, "", None) == 90210.5
    played = play_episode(SPEC, None, Phase.EVALUATION, 3, PLAYBOOK.strategies["lookahead"])
    state = played.states[0]
    for action, text in zip(played.actions, played.observations[1:], strict=True):
        state = setup.game.apply(state, action).state
        assert read(setup.game.observe(state, CLOCK)) == read(text)


def test_blocks_to_come_are_not_shown() -> None:
    game = SETUPS[Phase.EVALUATION].game
    one, other = (State(rows=(0,) * 8, blocks=letters) for letters in ("TIII", "TOSZ"))
    assert game.observe(one, CLOCK) == game.observe(other, CLOCK)


# Strategies and anchors


def score_of(choose_move: Chooser, phase: Phase) -> Any:
    return lambda seed: played_by(choose_move, phase, seed).score


@lru_cache(maxsize=64)
def played_by(choose_move: Chooser, phase: Phase, seed: int) -> Played:
    return play_episode(SPEC, None, phase, seed, choose_move)


PLAYERS = {**PLAYBOOK.strategies, "random": PLAYBOOK.random}
ANCHORS = {
    # player, phase -> mean of games.md 4.G, its standard error there
    ("lookahead", Phase.EVALUATION): (19.8, 0.61),
    ("lookahead", Phase.EXPLORATION): (21.2, 0.28),
    ("random", Phase.EVALUATION): (0.016, 0.01),
    ("random", Phase.EXPLORATION): (0.005, 0.005),
}


@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize("phase", Phase)
def test_self_scores_are_the_rewards(name: str, phase: Phase) -> None:
    for seed in range(3):
        played = played_by(PLAYERS[name], phase, seed)
        assert played.self_scores == played.rewards


def check_anchor(
    choose_move: Chooser, phase: Phase, goal: float, error: float, seeds: range
) -> None:
    mean, own = mean_and_error(score_of(choose_move, phase), seeds)
    # Rows are whole: a mean of few episodes that all score 0 has no error of its own.
    own = max(own, (goal / len(seeds)) ** 0.5 if goal < 1 else 0.0)
    assert abs(mean - goal) <= 3 * (own**2 + error**2) ** 0.5, (mean, own)


@pytest.mark.parametrize(("name", "phase"), ANCHORS)
def test_a_plain_player_reaches_its_anchor(name: str, phase: Phase) -> None:
    check_anchor(PLAYERS[name], phase, *ANCHORS[name, phase], FEW)


@pytest.mark.slow
def test_the_reference_player_reaches_its_anchor_on_few_boards() -> None:
    check_anchor(choose, Phase.EVALUATION, SPEC.anchors.reference, 0.7, FEW)


@pytest.mark.slow
def test_all_anchors_on_many_boards() -> None:
    for (name, phase), (goal, error) in ANCHORS.items():
        check_anchor(PLAYERS[name], phase, goal, error, MANY)
    check_anchor(choose, Phase.EVALUATION, SPEC.anchors.reference, 0.7, MANY)
    check_anchor(choose, Phase.EXPLORATION, 23.0, 0.3, range(50))


def test_strategies_differ_in_quality() -> None:
    means = {
        name: mean_and_error(score_of(player, Phase.EVALUATION), FEW)[0]
        for name, player in PLAYERS.items()
    }
    assert means["one-column"] <= means["random"] < means["lowest"] / 2 < means["lookahead"] / 4


@settings(deadline=None, max_examples=60)
@given(states())
def test_the_boards_of_the_strategies_follow_the_rules(pair: tuple[tetris.Tetris, State]) -> None:
    game, state = pair
    view = read(game.observe(state, CLOCK))
    seen, size = boards.board_of(view)
    placements = list(boards.placements(seen, view.block, size))
    for placed in placements:
        done = game.apply(state, f"{placed.pose.column} {placed.pose.angle}")
        assert not done.terminated
        assert boards.board_of(read(game.observe(done.state, CLOCK)))[0] == placed.board
        assert done.state.cleared - state.cleared == placed.cleared
    best = boards.best_worth(seen, view.block, size, DEAD)
    worths = [boards.worth(placed.board, placed.cleared, size) for placed in placements]
    assert best == pytest.approx(max(worths, default=DEAD))


def test_worth_counts_heights_holes_bumps_and_danger() -> None:
    view = TetrisView(rows=("....", "....", "*...", "....", "**..", "*.*."), block=(), placed=0)
    seen, size = boards.board_of(view)
    # Heights 4 2 1 0, holes 1 + 1, bumps 2 + 1 + 1; one row of the left column lies within 4 of
    # the top on two rows: 2 cells of danger.
    assert boards.worth(seen, 0, size) == pytest.approx(-0.51 * 7 - 0.9 * 2 - 0.18 * 4 - 2)
    assert boards.worth(seen, 2, size) - boards.worth(seen, 0, size) == pytest.approx(2 * 0.76)


# Bad input


def check_any_action(phase: Phase, action: str) -> None:
    game = SETUPS[phase].game
    state = State(rows=(0,) * SIZES[phase][1], blocks="TT")
    syntax = re.fullmatch(r"[ \t]*[+-]?[0-9]+[ \t]+[+-]?[0-9]+[ \t]*°?[ \t]*", action)
    if syntax and len(action) <= tetris.MAX_ACTION and fits(action, SIZES[phase][0]):
        assert game.apply(state, action).state.placed == 1
        return
    with pytest.raises(InvalidActionError) as caught:
        game.apply(state, action)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def fits(action: str, width: int) -> bool:
    column, angle = map(int, action.replace("°", "").split())
    shape = blocks.rotations("T").get(angle)
    return shape is not None and 1 <= column <= width - shape.width + 1


PIECES = [*"0123456789 +-_.,°", " 0", " 90", "\t", "\n", "\u0663", "\uff11", "1e999", "\x00"]
ACTIONS = st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@settings(deadline=None, max_examples=200)
@given(PHASES, ACTIONS)
def test_no_action_raises_anything_but_a_refusal(phase: Phase, action: str) -> None:
    check_any_action(phase, action)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(PHASES, ACTIONS)
def test_no_action_raises_anything_but_a_refusal_at_length(phase: Phase, action: str) -> None:
    check_any_action(phase, action)
