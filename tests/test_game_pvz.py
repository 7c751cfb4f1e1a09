"""Plants-vs-Zombies: hand-worked rows of games.md 6.H, invariants, texts, leaks, anchors, input."""

import re
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from episodes import Played, mean_and_error, play_episode, scripted
from golden_traces import GOLDEN, replay, trace
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.pvz import render_svg
from s3gym.agents.reading.pvz import read
from s3gym.agents.reference.pvz import choose
from s3gym.agents.strategies import _pvz_garden as garden
from s3gym.agents.strategies.playbook import Chooser
from s3gym.agents.strategies.pvz import PLAYBOOK
from s3gym.contracts.game import Clock, Transition
from s3gym.games import _pvz_units as units
from s3gym.games import pvz
from s3gym.games._pvz_turn import MAX_ITEMS
from s3gym.games._pvz_units import Plant, Wave, Zombie
from s3gym.games.pvz import SPEC, Options, State
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds
from s3gym.testing import check_game

FEW, MANY = range(20), range(100)
SETUPS = {phase: SPEC.setup(Options(), phase) for phase in Phase}
GAME = SETUPS[Phase.EVALUATION].game
CLOCK = Clock(step=1, max_steps=64)
PHASES = st.sampled_from(Phase)
SEEDS = st.integers(0, 2**63 - 1)


def plants(text: str) -> tuple[Plant, ...]:
    """Return plants from ``W(2,0) J(1,1,3)``: letter, row, column and, if not full, hit points."""
    found = []
    for letter, inside in re.findall(r"([A-Z])\(([0-9,]+)\)", text):
        row, column, *hp = map(int, inside.split(","))
        found.append(Plant(letter, row, column, hp[0] if hp else units.PLANTS[letter].hp))
    return tuple(sorted(found, key=lambda plant: (plant.row, plant.column)))


def zombies(text: str) -> tuple[Zombie, ...]:
    """Return zombies from ``N(2,5,4)``: letter, row, column and hit points."""
    return tuple(
        Zombie(letter, *map(int, inside.split(",")))
        for letter, inside in re.findall(r"([A-Z])\(([0-9,]+)\)", text)
    )


def play(
    action: str, *, standing: str = "", coming: str = "", game: Any = GAME, **state: Any
) -> Transition[State]:
    before = State(plants=plants(standing), zombies=zombies(coming), **state)
    done: Transition[State] = game.apply(before, action)
    return done


def test_p1_the_first_wave_enters_at_the_end_of_turn_1() -> None:
    done = play("", waves=(Wave(1, zombies("N(2,5,4)")),))
    assert done.state.zombies == zombies("N(2,5,4)")
    assert done.state.sun == 75
    assert done.state.turns == 1
    assert pvz.PvzVerifier().reward(State(), "", done.state) == 1.0


def test_p2_a_sunflower_pays_in_the_turn_it_is_planted() -> None:
    done = play("X 0 0")
    assert done.state.plants == plants("X(0,0,2)")
    assert done.state.sun == 35


def test_p3_items_are_refused_one_by_one() -> None:
    done = play("X 0 0; X 0 0; X 0 1; X 0 2", sun=100)
    assert done.state.plants == plants("X(0,0) X(0,1)")
    assert done.state.sun == 45
    assert done.feedback == (
        "Planted X 0 0; X 0 1. Refused 'X 0 0': the cell holds a plant. "
        "Refused 'X 0 2': it costs 50 sun and 0 are left."
    )


@pytest.mark.parametrize(
    ("sun", "standing", "coming", "action", "plants_after", "zombies_after", "sun_after"),
    [
        pytest.param(
            50, "W(2,0)", "N(2,5,4) R(2,3,8)", "", "W(2,0)", "N(2,4,4) R(2,2,7)", 75, id="P4"
        ),
        pytest.param(
            50, "S(0,0)", "N(0,5,4) N(1,5,4)", "", "S(0,0)", "N(0,4,3) N(1,4,3)", 75, id="P6"
        ),
        pytest.param(50, "H(2,3) W(2,4)", "N(2,5,4)", "", "H(2,3) W(2,4)", "N(2,4,3)", 75, id="P8"),
        pytest.param(300, "", "N(2,3,4) B(2,4,12) N(1,3,4)", "F 2 5", "", "N(1,2,4)", 25, id="P10"),
        pytest.param(50, "J(2,2,10)", "N(2,3,4)", "", "J(2,2,10)", "N(2,2,4)", 75, id="P13"),
        pytest.param(50, "J(2,2,3)", "I(2,2,6)", "", "", "I(2,2,6)", 75, id="P14"),
        pytest.param(50, "", "N(2,3,4)", "J 2 3", "J(2,3,9)", "N(2,3,4)", 25, id="P15"),
        pytest.param(50, "W(2,4)", "N(2,1,4)", "", "W(2,4)", "N(2,0,3)", 75, id="P17"),
        pytest.param(
            50, "W(2,0) H(2,4)", "N(2,5,4)", "", "W(2,0) H(2,4)", "N(2,4,2)", 75, id="torch"
        ),
        pytest.param(
            50,
            "W(2,0) H(2,2) H(2,4)",
            "N(2,5,4)",
            "",
            "W(2,0) H(2,2) H(2,4)",
            "N(2,4,2)",
            75,
            id="several torches add no more",
        ),
        pytest.param(
            50, "W(2,0) W(2,1)", "N(2,5,1) N(2,5,4)", "", "W(2,0) W(2,1)", "N(2,4,3)", 75, id="next"
        ),
        pytest.param(
            50, "J(2,2,1)", "N(2,2,4) N(2,2,8)", "", "", "N(2,2,4) N(2,1,8)", 75, id="walks in"
        ),
        pytest.param(
            50, "S(4,0)", "N(3,5,4) N(4,5,4)", "", "S(4,0)", "N(3,4,3) N(4,4,3)", 75, id="last row"
        ),
        # 6.E 2: the shooter's own row has the torch, so all its shots are stronger.
        pytest.param(
            50,
            "S(2,0) H(2,3)",
            "N(1,5,4) N(2,5,4)",
            "",
            "S(2,0) H(2,3)",
            "N(1,4,2) N(2,4,2)",
            75,
            id="torch of the shooter's row",
        ),
        pytest.param(
            50,
            "S(2,0) H(1,3)",
            "N(1,5,4) N(2,5,4)",
            "",
            "S(2,0) H(1,3)",
            "N(1,4,3) N(2,4,3)",
            75,
            id="torch of another row",
        ),
    ],
)
def test_a_turn_goes_as_worked_by_hand(
    sun: int,
    standing: str,
    coming: str,
    action: str,
    plants_after: str,
    zombies_after: str,
    sun_after: int,
) -> None:
    done = play(action, standing=standing, coming=coming, sun=sun)
    assert done.state.plants == plants(plants_after)
    assert done.state.zombies == zombies(zombies_after)
    assert done.state.sun == sun_after
    assert (done.state.turns, done.terminated) == (1, False)


def test_p16_the_sixty_fourth_turn_is_the_last() -> None:
    start = State(turns=63)
    played = play_episode(
        SPEC, None, Phase.EVALUATION, 1, scripted(["", ""]), start=start, first_step=64
    )
    assert played.rewards == [1.0]
    assert played.steps[-1].outcome.done
    assert played.states[-1].turns == 64
    assert "All 64 turns survived" in played.observations[-1]
    assert PLAYBOOK.outcome(played.observations[-1]) == 64


def test_a_shorter_cap_shows_in_the_text() -> None:
    for turns, head in ((9, "Turn 10 of 10, sun 50"), (10, "All 10 turns survived, sun 50")):
        text = GAME.observe(State(turns=turns), Clock(step=10, max_steps=10))
        assert text.split("\n")[1] == head
        assert PLAYBOOK.outcome(text) == turns


def test_p19_without_a_plant_the_seventh_turn_is_lethal() -> None:
    start = State(waves=(Wave(1, zombies("N(2,5,4)")),))
    played = play_episode(SPEC, None, Phase.EVALUATION, 1, scripted([""] * 9), start=start)
    assert played.rewards == [1, 1, 1, 1, 1, 1, 0]
    assert played.score == 6
    assert played.terminated
    assert played.feedback[-1].endswith("A zombie got through in row 2: the game is over.")
    assert "Lost in turn 7 of 64" in played.observations[-1]


def test_p20_unreadable_items_are_refused_and_the_turn_goes_on() -> None:
    for item in ("X 5 0", "Q 0 0", "X 0", "X 0 0, W 1 1"):
        done = play(item)
        assert done.state == replay_empty()
        assert f"Refused '{item}': " in done.feedback


def replay_empty() -> State:
    return play("").state


def test_the_lethal_turn_stops_everything() -> None:
    waves = (Wave(1, zombies("N(0,5,4)")),)
    done = play("", coming="N(1,1,4) N(2,0,4) N(3,3,4)", standing="X(4,4)", waves=waves)
    assert done.terminated
    assert done.state.lost
    assert done.state.zombies == zombies("N(1,0,4) N(2,0,4) N(3,3,4)")
    assert done.state.sun == 60
    assert done.state.turns == 0


# Waves


@pytest.mark.parametrize(
    ("turn", "size", "hp"),
    [
        (1, 1, "N4"),
        (6, 1, "N4"),
        (11, 2, "N8 R12"),
        (16, 2, "N8 R12"),
        (21, 3, "N12 R16 B20 I14"),
        (31, 4, "N16 R20 B24 I18"),
        (46, 5, "N20 R24 B28 I22"),
        (56, 6, "N24 R28 B32 I26"),
        (61, 7, "N28 R32 B36 I30"),
    ],
)
def test_waves_are_those_of_the_table(turn: int, size: int, hp: str) -> None:
    assert units.wave_size(turn) == size
    allowed = {(word[0], int(word[1:])) for word in hp.split()}
    seen = set()
    for seed in range(150):
        state = GAME.start(EpisodeSeeds(episode=seed, game="pvz"))
        (wave,) = [wave for wave in state.waves if wave.turn == turn]
        assert len(wave.zombies) == size
        assert {zombie.column for zombie in wave.zombies} == {5}
        seen |= {(zombie.letter, zombie.hp) for zombie in wave.zombies}
    assert seen == allowed


def test_an_episode_brings_49_zombies_in_rows_drawn_evenly() -> None:
    rows = [0] * 5
    for seed in range(100):
        waves = GAME.start(EpisodeSeeds(episode=seed, game="pvz")).waves
        assert [wave.turn for wave in waves] == list(range(1, 62, 5))
        assert sum(len(wave.zombies) for wave in waves) == 49
        for wave in waves:
            for zombie in wave.zombies:
                rows[zombie.row] += 1
    assert all(abs(count - 980) < 4 * (4900 * 0.16) ** 0.5 for count in rows)


# Options


def test_the_switch_lethal_turn_counts_gives_seven() -> None:
    for phase, points in ((Phase.EVALUATION, 7), (Phase.EXPLORATION, 8)):
        options = Options(lethal_turn_counts=True)
        assert play_episode(SPEC, options, phase, 1, PLAYBOOK.strategies["wait"]).score == points
        assert "gets through is 1." in SPEC.rules(options, phase)
        assert "gets through is 0." in SPEC.rules(Options(), phase)


def test_the_switch_torch_takes_the_torch_of_the_row_that_is_shot_at() -> None:
    game = SPEC.setup(Options(torch="target_row"), Phase.EVALUATION).game
    done = play("", standing="S(2,0) H(1,3)", coming="N(1,5,4) N(2,5,4)", game=game)
    assert done.state.zombies == zombies("N(1,4,2) N(2,4,3)")
    assert "the row that is shot at" in SPEC.rules(Options(torch="target_row"), Phase.EVALUATION)


def test_the_switch_show_hp_hides_the_hit_points_and_players_still_play() -> None:
    options = Options(show_hp=False)
    played = play_episode(SPEC, options, Phase.EVALUATION, 3, choose)
    assert not any("HP" in text for text in played.observations)
    assert played.score > 40
    for text in played.observations:
        assert read(text).render() == text


def test_sizes_are_switches() -> None:
    setup = SPEC.setup(Options(evaluation_rows=1, evaluation_columns=9), Phase.EVALUATION)
    view = read(setup.game.observe(setup.game.start(EpisodeSeeds(episode=1)), CLOCK))
    assert (view.rows, view.columns) == (1, 9)
    played = play_episode(
        SPEC,
        Options(evaluation_rows=1, evaluation_columns=9),
        Phase.EVALUATION,
        1,
        PLAYBOOK.strategies["wait"],
    )
    assert played.score == 9
    for wrong in ({"evaluation_rows": 0}, {"rows": 5}, {"torch": "both"}):
        with pytest.raises(ValidationError):
            Options.model_validate(wrong)


# Texts


@pytest.mark.parametrize("phase", Phase)
def test_the_rules_text_is_built_from_the_constants(phase: Phase) -> None:
    text = SPEC.rules(Options(), phase)
    rows, columns = Options().size(phase)
    assert f"{rows} rows and {columns} columns" in text
    for letter, kind in units.PLANTS.items():
        assert f"{letter}: {kind.name}, {kind.cost}, {kind.hp or '-'}, " in text
    turns = {"N": 1, "R": 11, "B": 21, "I": 21}
    for letter, zombie in units.ZOMBIES.items():
        line = f"{letter}: {zombie.name}, {zombie.hp}, {zombie.attack}, {turns[letter]}"
        assert line in text.split("\n")
    for number in (units.START_SUN, units.SUN_PER_TURN, units.SUNFLOWER_SUN, units.HORIZON):
        assert str(number) in text
    assert "turns 1, 6, 11 and so on" in text


def test_the_strategies_know_the_printed_numbers() -> None:
    assert {letter: kind.cost for letter, kind in units.PLANTS.items()} == garden.COSTS
    assert {letter: kind.hp for letter, kind in units.PLANTS.items()} == garden.PLANT_HP
    assert {letter: kind.attack for letter, kind in units.ZOMBIES.items()} == garden.ATTACKS


def test_no_text_names_the_phase() -> None:
    for phase in Phase:
        for text in (SPEC.rules(Options(), phase), SPEC.instruction(Options(), phase)):
            assert not re.search("explor|evaluat|strict|train|test", text, re.IGNORECASE)


def test_the_documented_grammar_is_what_is_shown() -> None:
    state = State(
        sun=75,
        plants=plants("X(0,0) W(2,1,1)"),
        zombies=zombies("N(2,1,4) R(2,1,12) I(4,5,14)"),
        turns=20,
    )
    assert GAME.observe(state, Clock(step=21, max_steps=64)).split("\n") == [
        "Current Game State:",
        "Turn 21 of 64, sun 75",
        "Row 0: X|.|.|.|.|.",
        "Row 1: .|.|.|.|.|.",
        "Row 2: .|WNR|.|.|.|.",
        "Row 3: .|.|.|.|.|.",
        "Row 4: .|.|.|.|.|I",
        "Plants: X (0,0) HP 2; W (2,1) HP 1",
        "Zombies: N (2,1) HP 4; R (2,1) HP 12; I (4,5) HP 14",
    ]


@st.composite
def states(draw: st.DrawFn) -> tuple[pvz.PlantsVsZombies, State]:
    """Any board, reachable or not."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 8))
    cells = [(row, column) for row in range(rows) for column in range(columns)]
    planted = draw(st.lists(st.sampled_from(cells), unique=True, max_size=12))
    standing = [
        Plant(draw(st.sampled_from("XWSJH")), *cell, draw(st.integers(1, 10)))
        for cell in sorted(planted)
    ]
    walking = [
        Zombie(draw(st.sampled_from("NRBI")), *cell, draw(st.integers(1, 36)))
        for cell in draw(st.lists(st.sampled_from(cells), max_size=10))
    ]
    state = State(
        sun=draw(st.integers(0, 5000)),
        plants=tuple(standing),
        zombies=tuple(walking),
        turns=draw(st.integers(0, 64)),
        lost=draw(st.booleans()),
    )
    game = pvz.PlantsVsZombies(rows=rows, columns=columns, show_hp=draw(st.booleans()))
    return game, replace(state, turns=min(state.turns, 63)) if state.lost else state


@settings(deadline=None, max_examples=100)
@given(states())
def test_a_text_that_is_read_and_rendered_is_the_same_text(pair: tuple[Any, State]) -> None:
    game, state = pair
    text = game.observe(state, CLOCK)
    view = read(text)
    assert view.render() == text
    assert (view.sun, view.survived, view.lost) == (state.sun, state.turns, state.lost)
    if game.show_hp:
        assert [tuple(plant) for plant in view.plants] == [tuple(plant) for plant in state.plants]
        assert [tuple(zombie) for zombie in view.zombies] == [tuple(z) for z in state.zombies]
    assert all(line == line.rstrip() for line in text.split("\n"))


HEAD = "Current Game State:\nTurn 1 of 64, sun 50\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Current Game State:",
        HEAD,
        f"{HEAD}Row 0: .|.\nPlants: none",
        f"{HEAD}Row 0: .|.\nPlants: none\nZombies: N (0,9) HP 4",
        f"{HEAD}Row 0: .|.\nPlants: none\nZombies: N (0,1) HP 4",
        f"{HEAD}Row 0: .|N\nPlants: none\nZombies: N (0,1)",
        f"{HEAD}Row 1: .|.\nPlants: none\nZombies: none",
        f"{HEAD}Row 0: .|\nPlants: none\nZombies: none",
    ],
)
def test_a_text_outside_the_grammar_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="observation text of pvz"):
        read(text)


# Invariants

ITEMS = st.tuples(st.sampled_from("XWSJHFQ"), st.integers(-1, 6), st.integers(-1, 7)).map(
    lambda item: " ".join(map(str, item))
)
ACTIONS = st.lists(ITEMS | st.text(max_size=5), max_size=4).map(";".join)


@settings(deadline=None, max_examples=40)
@given(PHASES, SEEDS, st.lists(ACTIONS, max_size=30))
def test_an_episode_keeps_its_invariants(phase: Phase, seed: int, actions: Sequence[str]) -> None:
    actions = [action for action in actions if action.strip().upper() != "END"]
    played = play_episode(SPEC, None, phase, seed, scripted(actions))
    again = play_episode(SPEC, None, phase, seed, scripted(actions))
    assert again == played
    rows, columns = Options().size(phase)
    for before, after in zip(played.states, played.states[1:], strict=False):
        cells = [(plant.row, plant.column) for plant in after.plants]
        assert cells == sorted(set(cells))
        assert all(plant.hp > 0 for plant in after.plants)
        assert all(plant.letter != units.CHILI for plant in after.plants)
        assert all(zombie.hp > 0 for zombie in after.zombies)
        inside = [0 <= z.row < rows and 0 <= z.column < columns for z in after.zombies]
        assert all(inside)
        assert after.sun >= 0
        assert after.waves == before.waves
    assert played.score == sum(played.rewards) == played.states[-1].turns
    assert PLAYBOOK.outcome(played.observations[-1]) == played.score


@settings(deadline=None, max_examples=100)
@given(states(), ACTIONS)
def test_every_action_is_played_and_the_self_score_foresees_the_turn(
    pair: tuple[pvz.PlantsVsZombies, State], action: str
) -> None:
    game, state = pair
    state = replace(state, lost=False, turns=min(state.turns, 63))
    done = game.apply(state, action)
    assert done.terminated is done.state.lost
    reread = garden.Garden(read(replace(game, show_hp=True).observe(state, CLOCK)))
    for plant in done.feedback.partition(". ")[0].removeprefix("Planted ").rstrip(".").split("; "):
        letter, *cell = plant.split()
        if letter in units.PLANTS and len(cell) == 2:
            assert reread.plant(letter, (int(cell[0]), int(cell[1])))
    assert reread.survives() is not done.terminated


# Golden traces, pictures


def first_state(start: dict[str, Any]) -> State:
    return State(
        sun=start["sun"],
        plants=tuple(Plant(*plant) for plant in start["plants"]),
        zombies=tuple(Zombie(*zombie) for zombie in start["zombies"]),
        waves=tuple(Wave(turn, tuple(Zombie(*z) for z in wave)) for turn, wave in start["waves"]),
        turns=start["turns"],
    )


@pytest.mark.parametrize("name", ["pvz.exploration", "pvz.evaluation"])
def test_replaying_a_golden_trace_gives_every_recorded_line(name: str) -> None:
    header, steps = trace(name)
    assert header["source"]
    actions = [step["action"] for step in steps]
    assert list(replay(SPEC, header, actions, first_state)) == steps


def test_the_transcript_of_the_documentation_is_the_hand_worked_trace() -> None:
    _, steps = trace("pvz.exploration")
    page = (GOLDEN.parents[1] / "docs/reference/games-pvz.md").read_text()
    shown = re.findall(r"> Answer: (.*), Score: (.*)\n(.*)\n([^>`]+)", page)
    assert len(shown) == 4
    for (action, points, feedback, text), step in zip(shown, steps, strict=False):
        assert (action, feedback, text.strip()) == (step["action"], step["feedback"], step["text"])
        assert float(points) == step["reward"]


def test_the_picture_of_a_golden_observation_is_the_kept_one() -> None:
    _, steps = trace("pvz.evaluation")
    assert render_svg(steps[-8]["text"]) == (GOLDEN / "pvz.svg").read_text()


@settings(deadline=None, max_examples=30)
@given(states())
def test_a_picture_is_drawn_of_every_observation(pair: tuple[Any, State]) -> None:
    game, state = pair
    picture = render_svg(game.observe(state, CLOCK))
    assert picture.startswith("<svg ")
    assert picture.count("<circle") == len(state.plants)


# Leaks


def test_no_text_holds_a_seed_or_a_word_of_the_verifier() -> None:
    seed = 2**63 - 25
    played = play_episode(SPEC, None, Phase.EVALUATION, seed, PLAYBOOK.strategies["sunflowers"])
    shown = "\n".join((*played.observations, *played.feedback))
    assert str(seed) not in shown
    assert not re.search(r"score|reward|point", shown, re.IGNORECASE)


def test_the_contract_and_non_interference_hold() -> None:
    check_game(SPEC, episodes=2)


def test_waves_to_come_are_not_shown() -> None:
    one, other = (State(waves=(Wave(6, zombies(z)),)) for z in ("N(0,5,4)", "N(3,5,4)"))
    assert GAME.observe(one, CLOCK) == GAME.observe(other, CLOCK)


# Strategies and anchors

PLAYERS: dict[str, Chooser] = {
    **PLAYBOOK.strategies,
    "random": PLAYBOOK.random,
    "reference": choose,
}
ANCHORS = {
    # player, phase -> mean of games.md 6.G, and its standard error there (200 seeds)
    ("random", Phase.EVALUATION): (7.6, 0.22),
    ("random", Phase.EXPLORATION): (11.0, 0.33),
    ("sunflowers", Phase.EVALUATION): (48.3, 0.12),
    ("sunflowers", Phase.EXPLORATION): (43.0, 0.1),
}
EXACT = {
    ("reference", Phase.EVALUATION): 64,
    ("reference", Phase.EXPLORATION): 64,
    ("wait", Phase.EVALUATION): 6,
    ("wait", Phase.EXPLORATION): 7,
}


@lru_cache(maxsize=512)
def played_by(name: str, phase: Phase, seed: int) -> Played:
    return play_episode(SPEC, None, phase, seed, PLAYERS[name])


def check_anchor(name: str, phase: Phase, seeds: range) -> None:
    goal, error = ANCHORS[name, phase]
    mean, own = mean_and_error(lambda seed: played_by(name, phase, seed).score, seeds)
    assert abs(mean - goal) <= 3 * (own**2 + error**2) ** 0.5, (mean, own)


@pytest.mark.parametrize(("name", "phase"), ANCHORS)
def test_a_plain_player_reaches_its_anchor(name: str, phase: Phase) -> None:
    check_anchor(name, phase, FEW)


@pytest.mark.parametrize(("name", "phase"), EXACT)
def test_a_player_reaches_its_exact_level_on_every_board(name: str, phase: Phase) -> None:
    assert {played_by(name, phase, seed).score for seed in FEW} == {EXACT[name, phase]}


@pytest.mark.slow
def test_all_anchors_on_many_boards() -> None:
    for name, phase in ANCHORS:
        check_anchor(name, phase, MANY)
    for (name, phase), goal in EXACT.items():
        assert {played_by(name, phase, seed).score for seed in MANY} == {goal}


@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize("phase", Phase)
def test_self_scores_are_the_rewards(name: str, phase: Phase) -> None:
    for seed in range(5):
        played = played_by(name, phase, seed)
        assert played.self_scores == played.rewards
        assert not any("Refused" in feedback for feedback in played.feedback)


def test_strategies_differ_in_quality() -> None:
    means = {
        name: mean_and_error(lambda seed: played_by(name, Phase.EVALUATION, seed).score, FEW)[0]  # noqa: B023
        for name in PLAYERS
    }
    assert means["wait"] < means["random"] < means["peashooters"] < means["sunflowers"]
    assert means["sunflowers"] < means["reference"]


# Bad input


def check_any_action(action: str) -> None:
    done = GAME.apply(State(sun=100), action)
    assert len(done.feedback) < 1_500
    assert done.feedback.isprintable()
    assert done.state.turns == 1
    spent = sum(units.PLANTS[plant.letter].cost for plant in done.state.plants)
    earned = 25 + 10 * sum(plant.letter == "X" for plant in done.state.plants)
    assert done.state.sun == 100 - spent + earned


PIECES = [*"XWSJHFQx;, +-_.0123456789", "; ", " 0", "\t", "\n", "\u0663", "\uff11", "1e999", "\x00"]
NASTY = st.text(max_size=30) | st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@settings(deadline=None, max_examples=200)
@given(NASTY)
def test_no_action_raises(action: str) -> None:
    check_any_action(action)


@pytest.mark.slow
@settings(deadline=None, max_examples=10_000)
@given(NASTY)
def test_no_action_raises_at_length(action: str) -> None:
    check_any_action(action)


@pytest.mark.parametrize(
    "item",
    [
        "X \u0660 0",
        "X \uff10 0",
        "X 1_0 0",
        "X 1e0 0",
        "X 1e999 0",
        "X\u00a00\u00a00",
        "X 0\x000 0",
        "X \u2212" + "0 0",
        "\u202eX 0 0",
        "((X 0 0))",
        "x 0 0",
        "X(0,0)",
        "X " + "9" * 5_000 + " 0",
    ],
)
def test_letters_digits_and_blanks_outside_the_syntax_are_refused(item: str) -> None:
    done = play(item)
    assert done.feedback.startswith("Planted nothing. Refused ")
    assert done.state == replay_empty()


@pytest.mark.parametrize("item", ["X 0 0", " X\t0  0 ", "X +0 -0", "X 00 000", "X 0 0;", ";;X 0 0"])
def test_blanks_signs_zeros_and_empty_items_are_tolerated(item: str) -> None:
    assert play(item).feedback == "Planted X 0 0."


def test_a_million_items_are_named_in_few_words_and_in_short_time() -> None:
    started = time.perf_counter()
    many = play(";".join(["X 0 0"] * 1_000_000))
    assert many.feedback.startswith("Planted X 0 0. Refused 'X 0 0': the cell holds a plant.")
    assert many.feedback.endswith(
        f"Refused {MAX_ITEMS - 6} more. Only the first {MAX_ITEMS} items were read."
    )
    for action in ("a" * 10_000_000, ";" * 10_000_000, " " * 10_000_000, "X 0 0 " * 1_600_000):
        assert len(play(action).feedback) < 300
    assert time.perf_counter() - started < 2.0


def test_an_action_of_as_many_items_as_are_read_is_read_whole() -> None:
    done = play(";".join([*["Q"] * (MAX_ITEMS - 1), "X 0 0"]))
    assert done.feedback.startswith("Planted X 0 0. ")
    assert "Only the first" not in done.feedback
    assert "Only the first" in play(";".join([*["Q"] * MAX_ITEMS, "X 0 0"])).feedback
