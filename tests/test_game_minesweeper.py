"""Minesweeper: hand-worked rows of games.md 2.J, switches, invariants, leaks, traces."""

from dataclasses import replace
from typing import Any

import pytest
from episodes import play_episode, scripted
from game_traces import GOLDEN, read_trace, replay_trace
from hypothesis import given, settings
from hypothesis import strategies as st
from minesweeper_boards import (
    ALL_MINES,
    CLOCK,
    EXPLORATION,
    M2,
    NUMBERS,
    board,
    play,
    random_moves,
    rows,
    setup,
)
from pydantic import ValidationError

from s3gym.agents.reading.minesweeper import read
from s3gym.agents.strategies.minesweeper import outcome
from s3gym.errors import InvalidActionError
from s3gym.games import minesweeper
from s3gym.games._minesweeper_board import CELLS, NEIGHBOURS, count_neighbours
from s3gym.games.minesweeper import SPEC, MinesweeperOptions, State, is_won
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, Stream
from s3gym.testing import check_game

# games.md 2.J


def test_m1_a_number_opens_alone() -> None:
    played = play("uncover (0,1)")
    assert rows(played.observations[1]) == ["?1???????", *["?????????"] * 8]
    assert (played.rewards[0], played.score) == (0.0, 0.0)


def test_m2_a_zero_opens_its_region() -> None:
    played = play("uncover (0,4)")
    assert rows(played.observations[1]) == M2
    assert len(played.states[1].opened) == 20
    assert played.rewards[0] == 0.0
    assert played.feedback[0] == "Uncovered (0,4): 20 cells opened."


def test_m3_flags_pay_when_right_and_cost_when_taken_off() -> None:
    played = play("flag (0,0)", "flag (0,1)", "unflag (0,1)", "unflag (0,0)")
    assert played.rewards[:4] == [0.1, 0.0, 0.0, -0.1]
    assert played.score == 0.0


def test_m4_a_mine_ends_a_strict_episode_and_all_mines_are_shown() -> None:
    played = play("uncover (0,0)")
    assert (played.terminated, played.rewards, played.score) == (True, [0.0], 0.0)
    assert "".join(rows(played.observations[-1])).count("X") == 10


@pytest.mark.parametrize("mines", [ALL_MINES, ALL_MINES[::-1]])
def test_m6_flagging_all_mines_wins(mines: tuple[str, ...]) -> None:
    played = play(*(f"flag ({cell})" for cell in mines))
    assert played.rewards == [0.1] * 10
    assert (played.terminated, played.score, len(played.steps)) == (True, 1.0, 10)


def test_m9_flags_are_limited_by_the_number_of_mines() -> None:
    wrong = [f"flag ({row},1)" for row in range(9)] + ["flag (0,2)"]
    played = play(*wrong, "flag (1,2)", "flag (0,0)")
    assert played.rewards[:12] == [0.0] * 12
    assert len(played.states[10].flags) == 10
    assert played.states[10] == played.states[12]
    assert played.feedback[10] == played.feedback[11] == "expected a free flag, all 10 are in use"
    assert played.score == 0.0


def test_m11_an_open_cell_cannot_be_uncovered_again() -> None:
    played = play("uncover (0,1)", "uncover (0,1)")
    assert played.states[1] == played.states[2]
    assert "step 3 of 64" in played.observations[2]
    assert "(0,1) is open" in played.feedback[1]


@pytest.mark.parametrize(
    "action", ["UNCOVER (0 , 4)", "uncover 0,4", "uncover(0,4)", "\tUncover( 0 4 )\n"]
)
def test_m13_spellings_of_one_action(action: str) -> None:
    assert rows(play(action).observations[1]) == M2


@pytest.mark.parametrize("action", ["flag (9,0)", "dig (0,0)", "flag (0)", "flag (-1,0)"])
def test_m14_what_the_rules_do_not_know_uses_up_the_step(action: str) -> None:
    played = play(action, "flag (0,0)")
    assert played.states[0] == played.states[1]
    assert "step 2 of 64" in played.observations[1]
    assert played.rewards[:2] == [0.0, 0.1]


# Lives, wins and switches


def test_extra_lives_are_used_up_one_by_one() -> None:
    played = play("uncover 0,0", "uncover 0,8", "uncover 2,2", phase=EXPLORATION)
    assert [read(text).lives for text in played.observations] == [2, 1, 0, 0]
    assert [step.outcome.done for step in played.steps] == [False, False, True]
    assert rows(played.observations[1])[0] == "X????????"
    assert played.score == 0.0


def test_an_exploded_mine_can_neither_be_uncovered_nor_flagged() -> None:
    played = play("uncover 0,0", "uncover 0,0", "flag 0,0", phase=EXPLORATION)
    assert played.states[1] == played.states[2] == played.states[3]


@pytest.mark.parametrize(("win", "score"), [("reduced", 0.9), ("full", 1.0)])
def test_a_win_after_an_explosion_counts_what_the_switch_says(win: str, score: float) -> None:
    flags = [f"flag {cell}" for cell in ALL_MINES[1:]]
    played = play("uncover 0,0", *flags, phase=EXPLORATION, win_with_lost_lives=win)
    assert (played.terminated, played.score) == (True, score)
    assert sum(played.rewards) == pytest.approx(score)


def test_clearing_all_safe_cells_wins_without_flags() -> None:
    safe = [cell for cell in range(CELLS) if "".join(NUMBERS)[cell] != "*"]
    state, rewards = board(), []
    game, verifier = setup().game, setup().verifier
    for cell in safe:
        if cell not in state.opened:
            done = game.apply(state, f"uncover {cell // 9},{cell % 9}")
            rewards.append(verifier.reward(state, "", done.state))
            state = done.state
    assert done.terminated
    assert done.feedback.endswith("The board is solved.")
    assert (sum(rewards), rewards[-1], verifier.score(rewards, state)) == (1.0, 1.0, 1.0)


def test_a_flag_stops_the_flood() -> None:
    played = play("flag (0,3)", "uncover (0,1)", "uncover (0,2)")
    assert rows(played.observations[3])[0] == "?10F?????"


def test_a_loss_keeps_wrong_flags_and_counts_the_right_ones() -> None:
    played = play("flag 0,0", "flag 0,1", "uncover 2,2")
    assert rows(played.observations[-1])[0] == "XF??????X"
    assert read(played.observations[-1]).flags == 2
    assert (played.score, outcome(played.observations[-1])) == (0.1, 0.1)


def test_the_mine_of_a_protected_first_cell_moves() -> None:
    played = play("flag 8,8", "uncover 0,0", "uncover 0,8", first_safe=True)
    after = played.states[2]
    assert after.mines == board().mines - {0} | {1}
    assert after.opened == {0}
    assert after.numbers[0] == 1
    assert after.numbers == count_neighbours(after.mines)
    assert played.states[3].lost


@pytest.mark.parametrize("phase", Phase)
def test_no_first_step_explodes_when_it_is_protected(phase: Phase) -> None:
    game = setup(phase, first_safe=True).game
    for seed in range(30):
        state = game.start(EpisodeSeeds(episode=seed))
        mine = min(state.mines)
        after = game.apply(state, f"uncover {mine // 9} {mine % 9}").state
        assert not after.exploded
        assert len(after.mines) == len(state.mines)
        assert mine not in after.mines


def test_a_refused_action_ends_a_strict_episode_only_when_asked_to() -> None:
    assert play("dig", invalid_action="ends_evaluation").terminated
    lenient = play("dig", "flag 0,0", phase=EXPLORATION, invalid_action="ends_evaluation")
    assert lenient.rewards[1] == 0.1


@pytest.mark.parametrize(
    "wrong",
    [{"first_safe": "maybe"}, {"win_with_lost_lives": "half"}, {"mines": 3}, {"first_safe": None}],
)
def test_wrong_switches_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        MinesweeperOptions(**wrong)


# Invariants


@settings(deadline=None, max_examples=20)
@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from(Phase),
    st.booleans(),
    st.sampled_from(["reduced", "full"]),
)
def test_every_episode_keeps_the_rules(seed: int, phase: Phase, safe: bool, win: Any) -> None:
    played = random_moves(phase, seed, first_safe=safe, win_with_lost_lives=win)
    n_mines = len(played.states[0].mines)
    assert 10 <= n_mines <= 20
    assert sum(played.rewards) == pytest.approx(played.score)
    assert 0 <= played.score <= 1
    for state, text in zip(played.states, played.observations, strict=True):
        assert len(state.mines) == n_mines
        assert len(state.flags) <= n_mines
        assert not state.opened & (state.mines | state.flags)
        assert state.exploded <= state.mines
        assert state.numbers == count_neighbours(state.mines)
        assert read(text).render() == text
        assert all(line == line.rstrip() for line in text.split("\n"))
    final = played.states[-1]
    assert played.terminated == (final.lost or is_won(final) or played.actions[-1] == "END")
    again = play_episode(
        SPEC,
        MinesweeperOptions(first_safe=safe, win_with_lost_lives=win),
        phase,
        seed,
        scripted(played.actions),
    )
    assert again.observations == played.observations


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**63 - 1), st.integers(0, CELLS - 1))
def test_an_opened_zero_has_no_unknown_neighbour(seed: int, cell: int) -> None:
    game = setup(EXPLORATION).game
    state = game.apply(
        game.start(EpisodeSeeds(episode=seed)), f"uncover {cell // 9},{cell % 9}"
    ).state
    for opened in state.opened:
        if state.numbers[opened] == 0:
            assert set(NEIGHBOURS[opened]) <= state.opened
        else:
            touched = [near for near in NEIGHBOURS[opened] if state.numbers[near] == 0]
            assert opened == cell or set(touched) & state.opened


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**63 - 1))
def test_the_phases_share_no_board_rule_but_the_lives(seed: int) -> None:
    strict, lenient = (setup(phase).game.start(EpisodeSeeds(episode=seed)) for phase in Phase)
    assert replace(strict, lives=0) == replace(lenient, lives=0)


# Leaks: games.md 8.C


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_nothing_visible_depends_on_whether_a_flag_is_right(data: st.DataObject) -> None:
    """Two boards with other mines answer any flagging alike, until one of them is solved."""
    game = setup().game
    n_mines = data.draw(st.integers(10, 20))
    worlds = []
    for seed in data.draw(st.tuples(st.integers(0, 999), st.integers(1000, 1999))):
        mines = frozenset(Stream(seed).sample(range(CELLS), n_mines))
        worlds.append(State(mines=mines, numbers=count_neighbours(mines), lives=0))
    cells = data.draw(st.lists(st.integers(0, CELLS - 1), max_size=40))
    for number, cell in enumerate(cells):
        verb = "unflag" if cell in worlds[0].flags and number % 2 else "flag"
        answers = []
        for index, state in enumerate(worlds):
            try:
                done = game.apply(state, f"{verb} {cell // 9},{cell % 9}")
            except InvalidActionError as error:
                answers.append((str(error), False))
            else:
                worlds[index] = done.state
                answers.append((done.feedback, done.terminated))
        if any(terminated for _, terminated in answers):
            return
        assert answers[0] == answers[1]
        assert game.observe(worlds[0], CLOCK) == game.observe(worlds[1], CLOCK)


def test_neither_feedback_nor_text_names_a_score_or_reward() -> None:
    for seed in range(10):
        played = random_moves(EXPLORATION, seed)
        for text in (*played.observations, *played.feedback):
            assert not any(word in text.lower() for word in ("score", "reward", "standing"))


def test_a_canary_verifier_changes_nothing_that_is_seen() -> None:
    class Canary:
        def reward(self, before: object, action: str, after: object) -> float:
            return 90210.5

        def score(self, rewards: object, final: object) -> float:
            return 90210.5

    class CanarySpec:
        def __getattr__(self, name: str) -> Any:
            return getattr(SPEC, name)

        def setup(self, options: Any, phase: Phase) -> Any:
            return replace(SPEC.setup(options, phase), verifier=Canary())

    plain = random_moves(EXPLORATION, 5)
    canary = play_episode(
        CanarySpec(), MinesweeperOptions(), EXPLORATION, 5, scripted(plain.actions)
    )
    assert canary.score == 90210.5
    assert (canary.observations, canary.feedback) == (plain.observations, plain.feedback)


@pytest.mark.parametrize("phase", Phase)
def test_rules_and_instruction_say_what_the_game_uses_and_not_the_phase(phase: Phase) -> None:
    options = MinesweeperOptions()
    rules = SPEC.rules(options, phase)
    for fact in ("9 rows", "9 columns", "10 to 20 mines", "64 steps", "uncover (row,column)"):
        assert fact in rules
    assert ("2 extra lives" in rules) == (phase is EXPLORATION)
    text = (rules + SPEC.instruction(options, phase)).lower()
    assert not any(word in text for word in ("exploration", "evaluation", "phase", "strict"))


# Golden traces and the contract


@pytest.mark.parametrize(
    "name", ["minesweeper.exploration", "minesweeper.evaluation", "minesweeper.draws"]
)
def test_replaying_a_golden_trace_gives_every_recorded_line(name: str) -> None:
    header, lines = read_trace(GOLDEN / f"{name}.jsonl")
    assert header["source"]
    actions = [line["action"] for line in lines if "action" in line]
    lives = minesweeper.EXTRA_LIVES[Phase(header["phase"])]
    assert replay_trace(SPEC, header, actions, lambda rows: board(rows, lives)) == lines


def test_minesweeper_keeps_the_contract_of_games() -> None:
    check_game(SPEC)
