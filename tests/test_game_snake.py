"""Snake: hand-worked rows of games.md 5.H, boards, invariants, texts, leaks, anchors, bad input."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from episodes import Played, mean_and_error, play_episode, play_text, scripted
from golden_traces import GOLDEN, replay, trace
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.snake import render_svg
from s3gym.agents.reading import snake as reading
from s3gym.agents.reading.snake import read
from s3gym.agents.reference import snake as reference
from s3gym.agents.strategies.playbook import Chooser, Move
from s3gym.agents.strategies.snake import PLAYBOOK
from s3gym.contracts.game import Clock, NoVerifier, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.games import snake
from s3gym.games._grid import Cell, connected, neighbours
from s3gym.games.snake import DIRECTIONS, MAX_STEPS, OPPOSITE, SPEC, SnakeOptions, State
from s3gym.records import Decision, Observation, Phase, Step, Turn
from s3gym.seeds import EpisodeSeeds, Stream

SETUPS = {phase: SPEC.setup(SnakeOptions(), phase) for phase in Phase}
CLOCK = Clock(step=1, max_steps=MAX_STEPS)
APPLES = ((1, 1), (1, 2), (6, 6))
PHASES = st.sampled_from(Phase)
SEEDS = st.integers(0, 2**63 - 1)
WORDS = st.sampled_from([*DIRECTIONS])
FEW, MANY = range(20), range(100)


def position(
    body: Iterable[Cell] = ((4, 3),),
    direction: str = "UP",
    apples: Iterable[Cell] = APPLES,
    obstacles: Iterable[Cell] = (),
) -> State:
    return State(
        body=tuple(body),
        direction=direction,
        apples=frozenset(apples),
        obstacles=frozenset(obstacles),
        drawn=3,
        seeds=EpisodeSeeds(episode=1, game="snake"),
    )


def play(phase: Phase, start: State, *actions: str, first_step: int = 1) -> Played:
    return play_episode(SPEC, None, phase, 0, scripted(actions), start=start, first_step=first_step)


def is_over(played: Played, step: int = 0) -> bool:
    return played.steps[step].outcome.done


@pytest.mark.parametrize("phase", Phase)
def test_s1_a_step_onto_an_empty_cell_moves_the_snake(phase: Phase) -> None:
    played = play(phase, position(), "UP", "UP")
    assert played.states[1].body == ((3, 3),)
    assert played.rewards[0] == 0
    assert not is_over(played)


@pytest.mark.parametrize("phase", Phase)
def test_s2_an_apple_lets_the_snake_grow_and_is_replaced(phase: Phase) -> None:
    apples = ((3, 3), (1, 1), (6, 6))
    played = play(phase, position(apples=apples), "UP", "UP")
    after = played.states[1]
    assert after.body == ((4, 3), (3, 3))
    assert played.rewards[0] == 1
    assert len(after.apples) == 3
    assert {(1, 1), (6, 6)} < after.apples
    assert not after.apples & set(after.body)


BLOCKED = [
    pytest.param(position([(1, 3)]), "UP", "the wall", id="S4"),
    pytest.param(position(obstacles=[(3, 3)]), "UP", "an obstacle", id="S5"),
    pytest.param(
        position([(3, 3), (3, 4), (4, 4), (4, 3)], "LEFT"), "UP", "the snake itself", id="5E-3"
    ),
]


@pytest.mark.parametrize(("start", "action", "what"), BLOCKED)
def test_a_blocked_move_does_nothing_in_exploration(start: State, action: str, what: str) -> None:
    played = play(Phase.EXPLORATION, start, action, "END")
    assert played.states[1] == start
    assert played.rewards[0] == 0
    assert not is_over(played)
    assert what in played.feedback[0]


@pytest.mark.parametrize(("start", "action", "what"), BLOCKED)
def test_a_blocked_move_ends_a_strict_episode(start: State, action: str, what: str) -> None:
    played = play(Phase.EVALUATION, start, action, "LEFT")
    assert played.states[1] == start
    assert (len(played.steps), played.score, played.terminated) == (1, 0.0, True)
    assert what in played.feedback[0]


@pytest.mark.parametrize(
    "action",
    [
        pytest.param("JUMP", id="S7"),
        pytest.param("", id="5E-1"),
        pytest.param("DOWN", id="5E-2-reversal"),
        pytest.param("UP UP", id="two-words"),
    ],
)
def test_a_refused_action_changes_nothing_or_ends_a_strict_episode(action: str) -> None:
    lenient = play(Phase.EXPLORATION, position(), action, "END")
    assert lenient.states[1] == position()
    assert lenient.states[1].direction == "UP"
    assert not is_over(lenient)
    strict = play(Phase.EVALUATION, position(), action, "LEFT")
    assert (len(strict.steps), strict.score) == (1, 0.0)
    assert strict.states[1] == position()


@pytest.mark.parametrize("phase", Phase)
def test_s9_the_last_step_still_counts(phase: Phase) -> None:
    played = play(phase, position(), "LEFT", first_step=MAX_STEPS)
    assert played.states[1].body == ((4, 2),)
    assert is_over(played)
    assert not played.terminated


@pytest.mark.parametrize("phase", Phase)
def test_s11_case_and_blanks_do_not_matter(phase: Phase) -> None:
    after = play(phase, position(), " left ").states[1]
    assert (after.body, after.direction) == (((4, 2),), "LEFT")


@pytest.mark.parametrize("phase", Phase)
def test_s12_end_ends_the_episode_with_what_was_eaten(phase: Phase) -> None:
    played = play(phase, position(apples=[(3, 3), (1, 1), (6, 6)]), "UP", "END", "UP")
    assert played.rewards == [1.0, 0.0]
    assert played.score == 1


def serpentine() -> list[Cell]:
    """Return all 36 playable cells along one path that starts at (1, 1)."""
    return [
        (row, column)
        for row in range(1, 7)
        for column in (range(1, 7) if row % 2 else range(6, 0, -1))
    ]


def test_filling_the_last_free_cell_ends_the_episode() -> None:
    cells = serpentine()
    obstacles, body, last = cells[:3], cells[3:-1], cells[-1]
    start = position(body, "LEFT", [last], obstacles)
    for phase in Phase:
        played = play(phase, start, "LEFT", "UP")
        assert (len(played.steps), played.rewards, played.terminated) == (1, [1.0], True)
        assert len(played.states[1].body) == 33
        assert not played.states[1].apples


def test_apples_get_fewer_when_there_is_no_room_for_more() -> None:
    cells = serpentine()
    start = position(cells[3:-2], "LEFT", cells[-2:], cells[:3])
    after = play(Phase.EXPLORATION, start, "LEFT").states[1]
    assert after.apples == {cells[-1]}


def test_with_a_free_tail_cell_the_snake_may_follow_its_tail() -> None:
    options = SnakeOptions(tail_cell_free=True)
    start = position([(3, 3), (3, 4), (4, 4), (4, 3)], "LEFT")
    played = play_episode(SPEC, options, Phase.EVALUATION, 0, scripted(["UP"]), start=start)
    assert played.states[1].body == ((3, 4), (4, 4), (4, 3), (3, 3))
    assert "may be entered" in SPEC.rules(options, Phase.EVALUATION)


def test_an_ignored_reversal_goes_straight_on() -> None:
    options = SnakeOptions(reversal="ignored")
    played = play_episode(SPEC, options, Phase.EVALUATION, 0, scripted(["DOWN"]), start=position())
    assert (played.states[1].body, played.states[1].direction) == (((3, 3),), "UP")
    assert "straight on" in SPEC.rules(options, Phase.EVALUATION)


@given(seed=SEEDS)
@settings(deadline=None, max_examples=60)
def test_a_drawn_board_has_no_dead_ends(seed: int) -> None:
    state = SETUPS[Phase.EVALUATION].game.start(EpisodeSeeds(episode=seed, game="snake"))
    free = {(row, column) for row in range(1, 7) for column in range(1, 7)} - state.obstacles
    assert (state.body, state.direction) == (((4, 3),), "UP")
    assert (len(state.apples), len(state.obstacles), len(free)) == (3, 3, 33)
    assert state.apples < free - {(4, 3)}
    assert all(max(abs(row - 4), abs(column - 3)) > 1 for row, column in state.obstacles)
    assert all(len(list(neighbours(cell, free))) >= 2 for cell in free)
    assert connected(free)


def test_apples_are_spread_evenly_over_the_free_cells() -> None:
    counts = dict.fromkeys(((r, c) for r in range(1, 7) for c in range(1, 7)), 0)
    options = SnakeOptions(obstacles=0)
    game = SPEC.setup(options, Phase.EVALUATION).game
    for seed in range(1200):
        for cell in game.start(EpisodeSeeds(episode=seed, game="snake")).apples:
            counts[cell] += 1
    del counts[(4, 3)]
    expected = 1200 * 3 / 35
    assert all(abs(count - expected) < 4.5 * expected**0.5 for count in counts.values())


def test_phases_differ_in_collisions_alone() -> None:
    explored, strict = SETUPS[Phase.EXPLORATION], SETUPS[Phase.EVALUATION]
    assert isinstance(explored.game, snake.Snake)
    assert replace(explored.game, collision_ends=True) == strict.game
    assert (explored.on_invalid, strict.on_invalid) == ("noop", "end")
    assert strict.score_range == (0, 32)


@given(seed=SEEDS, phase=PHASES, actions=st.lists(WORDS, max_size=MAX_STEPS))
@settings(deadline=None, max_examples=50)
def test_rules_hold_along_any_episode(seed: int, phase: Phase, actions: list[str]) -> None:
    played = play_episode(SPEC, None, phase, seed, scripted(actions))
    again = play_episode(SPEC, None, phase, seed, scripted(actions))
    assert (played.observations, played.states) == (again.observations, again.states)
    assert played.score == sum(played.rewards) == len(played.states[-1].body) - 1
    for before, after in zip(played.states, played.states[1:], strict=False):
        assert len(set(after.body)) == len(after.body)
        assert not after.apples & set(after.body)
        assert len(after.apples) == 3
        assert after.obstacles == before.obstacles
        moved = before.head != after.head
        assert not moved or after.direction != OPPOSITE[before.direction]
        assert moved or after == before


@given(seed=SEEDS)
@settings(deadline=None, max_examples=20)
def test_apply_is_pure_and_later_apples_depend_on_the_state_alone(seed: int) -> None:
    played = play_episode(SPEC, None, Phase.EXPLORATION, seed, reference.choose)
    game = SETUPS[Phase.EXPLORATION].game
    for state, step, after in zip(played.states, played.steps, played.states[1:], strict=False):
        assert game.apply(state, step.decision.action).state == after


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"width": 4}, "greater than or equal to 5"),
        ({"height": 33}, "less than or equal to 32"),
        ({"apples": 0}, "greater than or equal to 1"),
        ({"obstacles": -1}, "greater than or equal to 0"),
        ({"width": 5, "height": 5, "obstacles": 4}, "4 obstacles do not fit on a 5x5 board"),
        ({"obstacles": 20}, "20 obstacles do not fit on a 8x8 board"),
        ({"reversal": "maybe"}, "illegal"),
        ({"size": 8}, "Extra inputs"),
        ({"width": "wide"}, "valid integer"),
    ],
)
def test_wrong_options_are_refused_and_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SPEC.options(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"width": 5, "height": 5, "obstacles": 0, "apples": 99},
        {"width": 12, "height": 12, "obstacles": 6},
        {"width": 9, "height": 6, "apples": 1},
        {"width": 32, "height": 32, "obstacles": 40},
    ],
)
def test_other_boards_can_be_played(values: dict[str, Any]) -> None:
    options = SPEC.options(**values)
    for seed in range(3):
        played = play_episode(
            SPEC, options, Phase.EXPLORATION, seed, PLAYBOOK.strategies["beeline"]
        )
        view = read(played.observations[0])
        assert (len(view.rows), len(view.rows[0])) == (
            values.get("height", 8),
            values.get("width", 8),
        )
        low, high = SPEC.setup(options, Phase.EXPLORATION).score_range
        assert low <= played.score <= high


def test_rules_are_built_from_the_options() -> None:
    options = SnakeOptions(width=10, height=9, apples=2, obstacles=1)
    rules = SPEC.rules(options, Phase.EVALUATION)
    assert "9 rows and 10 columns" in rules
    assert "up to 2 lie" in rules
    assert "all 55 free cells" in rules
    assert "ends the game at once" in rules
    assert "uses up the step" in SPEC.rules(options, Phase.EXPLORATION)
    for phase in Phase:
        shown = f"{SPEC.rules(options, phase)} {SPEC.instruction(options, phase)}".lower()
        assert "exploration" not in shown
        assert "evaluation" not in shown


@given(seed=SEEDS, phase=PHASES, actions=st.lists(WORDS, max_size=30))
@settings(deadline=None, max_examples=50)
def test_an_observation_reads_back_and_shows_the_state(
    seed: int, phase: Phase, actions: list[str]
) -> None:
    played = play_episode(SPEC, None, phase, seed, scripted(actions))
    for text, state in zip(played.observations, played.states, strict=True):
        view = read(text)
        assert view.render() == text
        assert not re.search(r"[ \t]$", text, re.MULTILINE)
        assert (view.head, view.direction) == (state.head, state.direction)
        assert set(view.cells(reading.BODY)) == set(state.body[:-1])
        assert set(view.cells(reading.APPLE)) == state.apples
        assert set(view.cells(reading.OBSTACLE)) == state.obstacles


@given(seed=SEEDS)
@settings(deadline=None, max_examples=15)
def test_the_trail_gives_the_order_of_the_body(seed: int) -> None:
    orders = []

    def choose(turn: Turn, stream: Stream) -> Move:
        orders.append(reading.trace(turn))
        return PLAYBOOK.strategies["beeline"](turn, stream)

    played = play_episode(SPEC, None, Phase.EXPLORATION, seed, choose)
    assert orders == [state.body for state in played.states[:-1]]


def test_without_a_trail_the_body_cells_of_unknown_order_come_first() -> None:
    start = position([(3, 3), (3, 4), (4, 4), (4, 3)], "LEFT")
    turn = turn_at(start)
    assert reading.trace(turn) == ((3, 3), (3, 4), (4, 4), (4, 3))
    assert reference.choose(turn, Stream(0)).action in ("LEFT", "DOWN")


def turn_at(state: State, step: int = 1, *, trail: bool = False) -> Turn:
    """Return a turn at a position; with a trail in which the head came along the body."""
    game, clock = SETUPS[Phase.EVALUATION].game, Clock(step=step, max_steps=MAX_STEPS)
    *before, now = (
        Observation(text=game.observe(replace(state, body=state.body[: n + 1]), clock))
        for n in range(len(state.body))
    )
    steps = tuple(
        Step(index=n, observation=seen, decision=Decision(action=""), outcome=now)
        for n, seen in enumerate(before)
    )
    return Turn(
        episode="test",
        game="snake",
        phase=Phase.EVALUATION,
        rules="",
        instruction="",
        observation=now,
        trail=steps if trail else (),
        max_steps=MAX_STEPS,
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Current Game State:",
        "Current Game State:\n###\n#H#\n###\nCurrent direction: UP",
        "Current Game State:\n###\n#.#\n###\nCurrent direction: UP\nStep 1 of 64",
        "Current Game State:\n###\n#HH#\n###\nCurrent direction: UP\nStep 1 of 64",
        "Current Game State:\n###\n#H#\n###\nCurrent direction: up\nStep 1 of 64",
        "Current Game State:\n###\n#H#\n###\nCurrent direction: UP\nStep ١ of 64",
    ],
)
def test_a_text_of_another_kind_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="snake"):
        read(text)


LEVELS: list[tuple[str, Chooser, Phase, float]] = [
    ("random", PLAYBOOK.random, Phase.EVALUATION, 0.20),
    ("random", PLAYBOOK.random, Phase.EXPLORATION, 2.81),
    ("wander", PLAYBOOK.strategies["wander"], Phase.EVALUATION, 4.98),
    ("shortest-path", PLAYBOOK.strategies["shortest-path"], Phase.EVALUATION, 18.3),
    ("reference", reference.choose, Phase.EVALUATION, 22.1),
]
LEVEL_IDS = [f"{row[0]}-{row[2]}" for row in LEVELS]


@pytest.mark.parametrize(("name", "choose", "phase", "level"), LEVELS, ids=LEVEL_IDS)
def test_a_player_reaches_its_level(name: str, choose: Chooser, phase: Phase, level: float) -> None:
    check_level(choose, phase, level, FEW)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "choose", "phase", "level"), LEVELS, ids=LEVEL_IDS)
def test_a_player_reaches_its_level_on_many_seeds(
    name: str, choose: Chooser, phase: Phase, level: float
) -> None:
    check_level(choose, phase, level, MANY)


def check_level(choose: Chooser, phase: Phase, level: float, seeds: range) -> None:
    mean, error = mean_and_error(lambda seed: play_text(SPEC, None, phase, seed, choose)[2], seeds)
    assert abs(mean - level) <= 3 * error


@pytest.mark.parametrize(
    ("choose", "exact"),
    [
        (PLAYBOOK.strategies["wander"], True),
        (PLAYBOOK.strategies["beeline"], True),
        (PLAYBOOK.strategies["shortest-path"], True),
        (PLAYBOOK.random, True),
        (reference.choose, True),
    ],
    ids=["wander", "beeline", "shortest-path", "random", "reference"],
)
def test_a_player_knows_what_its_move_is_worth(choose: Chooser, exact: bool) -> None:
    for phase in Phase:
        played = play_episode(SPEC, None, phase, 11, choose)
        assert (played.self_scores == played.rewards) is exact
        assert PLAYBOOK.outcome(played.observations[-1]) == played.score


def test_the_shortest_path_leaves_an_apple_that_would_shut_the_snake_in() -> None:
    """The body closes row 1: who goes up to the near apple never reaches the tail again."""
    body = [(4, 6), (3, 6), *((2, column) for column in range(6, 0, -1))]
    turn = turn_at(position(body, "LEFT", [(1, 2), (6, 6), (6, 5)]), trail=True)
    assert PLAYBOOK.strategies["beeline"](turn, Stream(0)).action == "UP"
    assert PLAYBOOK.strategies["shortest-path"](turn, Stream(0)).action == "DOWN"


def test_the_reference_never_turns_back_and_eats_what_is_near() -> None:
    ahead = turn_at(position(apples=[(3, 3), (1, 1), (6, 6)]))
    assert reference.choose(ahead, Stream(0)) == Move(action="UP", self_score=1.0)
    behind = turn_at(position(apples=[(5, 3)]))
    assert reference.choose(behind, Stream(0)).action in ("LEFT", "RIGHT")


def test_the_reference_takes_the_last_apple_that_time_allows() -> None:
    """With one step left a dead end does not matter."""
    body = [(5, 2), (5, 1), (4, 1), (3, 1), (2, 1), (1, 1), (1, 2), (2, 2), (3, 2)]
    start = position(body, "DOWN", [(4, 2)], [])
    assert reference.choose(turn_at(start, MAX_STEPS, trail=True), Stream(0)).action == "DOWN"


@given(seed=st.integers(2**62, 2**63 - 1), phase=PHASES)
@settings(deadline=None, max_examples=20)
def test_the_seed_is_never_shown_and_the_verifier_changes_nothing(seed: int, phase: Phase) -> None:
    def blind_setup(options: SnakeOptions, phase: Phase) -> Setup[State]:
        return replace(snake.make_setup(options, phase), verifier=NoVerifier(value=90210.5))

    blind = replace(SPEC, make_setup=blind_setup)
    seen = play_episode(SPEC, None, phase, seed, PLAYBOOK.strategies["beeline"])
    unseen = play_episode(blind, None, phase, seed, PLAYBOOK.strategies["beeline"])
    assert seen.steps == unseen.steps
    shown = "\n".join(seen.observations + seen.feedback)
    assert str(seed) not in shown
    assert not re.search("score|reward", shown, re.IGNORECASE)


ODD = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            "ＵＰ",
            "UP.",
            "UP, Score: 2",
            "LEFT RIGHT",
            "\u200bUP",
            "\u00a0UP",
            "UP\x00",
            "\x1fUP",
            "r\u0131ght",
            "\u202eUP",
            "((((" * 400,
            "1e999",
            "-0",
            "1_0",
            "\u0661",
        ]
    ),
)


@given(action=ODD, phase=PHASES)
@settings(deadline=None, max_examples=100)
def test_any_text_is_read_or_refused(action: str, phase: Phase) -> None:
    check_any_action(phase, action)


@pytest.mark.slow
@given(action=ODD, phase=PHASES)
@settings(deadline=None, max_examples=10_000)
def test_ten_thousand_texts_are_read_or_refused(action: str, phase: Phase) -> None:
    check_any_action(phase, action)


def check_any_action(phase: Phase, action: str) -> None:
    game = SETUPS[phase].game
    word = action.strip(" \t\r\n").upper() if action.isascii() else ""
    if word in DIRECTIONS and word != "DOWN":
        done: Transition[State] = game.apply(position(), action)
        assert done.state.direction == word
        return
    with pytest.raises(InvalidActionError) as caught:
        game.apply(position(), action)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("letter", ["U", " ", "\u0660", "("])
def test_a_text_of_ten_megabytes_is_refused_at_once(letter: str) -> None:
    with pytest.raises(InvalidActionError, match="10000000 characters"):
        SETUPS[Phase.EVALUATION].game.apply(position(), letter * 10_000_000)


def first_state(start: dict[str, Any]) -> State:
    def cells(name: str) -> list[Cell]:
        return [(row, column) for row, column in start[name]]

    return position(cells("body"), start["direction"], cells("apples"), cells("obstacles"))


@pytest.mark.parametrize("phase", Phase)
def test_replaying_a_golden_trace_gives_every_recorded_line(phase: Phase) -> None:
    header, lines = trace(f"snake.{phase}")
    assert header["source"].startswith("worked by hand")
    assert [*replay(SPEC, header, [line["action"] for line in lines], first_state)] == lines


def test_replaying_a_drawn_episode_gives_every_recorded_line() -> None:
    header, lines = trace("snake.draws")
    assert [*replay(SPEC, header, [line["action"] for line in lines], first_state)] == lines


def test_the_picture_is_the_golden_one() -> None:
    _, lines = trace("snake.draws")
    assert render_svg(lines[-1]["text"]) == (GOLDEN / "snake.svg").read_text(encoding="utf-8")
