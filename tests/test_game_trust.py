"""Trust: hand-worked rows of games.md 7.H, exact values of 7.G, texts, leaks, bad input."""

import re
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from typing import Any

import pytest
from episodes import Played, mean_and_error, play_episode, play_text, scripted
from golden_traces import GOLDEN, replay, trace
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from s3gym.agents.pictures.trust import render_svg
from s3gym.agents.reading.trust import Round, TrustView, read
from s3gym.agents.reference import trust as reference
from s3gym.agents.strategies import trust as strategies
from s3gym.agents.strategies.playbook import Chooser
from s3gym.agents.strategies.trust import PLAYBOOK
from s3gym.contracts.game import Clock, NoVerifier, Setup
from s3gym.errors import InvalidActionError
from s3gym.games import trust
from s3gym.games.trust import OPPONENTS, PAYOFF, ROUNDS, SPEC, State, TrustOptions
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

WORDS = {"C": trust.COLLABORATE, "D": trust.CHEAT}
LETTERS = {word: letter for letter, word in WORDS.items()}
SETUPS = {phase: SPEC.setup(TrustOptions(), phase) for phase in Phase}
CLOCK = Clock(step=1, max_steps=ROUNDS)
COINS = (True, False) * (ROUNDS // 2)
PHASES = st.sampled_from(Phase)
SEEDS = st.integers(0, 2**63 - 1)
MOVES = st.text("CD", max_size=ROUNDS)
FEW, MANY = range(20), range(100)


def against(opponent: str, moves: str, phase: Phase = Phase.EVALUATION) -> Played:
    start = State(opponent=opponent, coins=COINS)
    return play_episode(SPEC, None, phase, 0, scripted(WORDS[m] for m in moves), start=start)


def replies(played: Played) -> str:
    return "".join(LETTERS[other] for _, other in played.states[-1].rounds)


HAND_WORKED = [
    ("R1", "copycat", "CCDCDDCCCC", "CCCDCDDCCC", [2, 2, 3, -1, 3, 0, -1, 2, 2, 2], 14),
    ("R2", "grudger", "CCDCDDCCCC", "CCCDDDDDDD", [2, 2, 3, -1, 0, 0, -1, -1, -1, -1], 2),
    ("R4", "detective", "CCCCCCCCCD", "CDCCDDDDDD", [2, -1, 2, 2, -1, -1, -1, -1, -1, 0], 0),
    ("R7", "copykitten", "DDDDDDDDDD", "CCDDDDDDDD", [3, 3, 0, 0, 0, 0, 0, 0, 0, 0], 6),
    ("R8", "copykitten", "DCDCDCDCDD", "CCCCCCCCCC", [3, 2, 3, 2, 3, 2, 3, 2, 3, 3], 26),
    ("R10", "stubborn", "DDDDDDDDDD", "CDCDCDCDCD", [3, 0, 3, 0, 3, 0, 3, 0, 3, 0], 15),
    ("R11", "little pink", "DDDDDDDDDD", "CCCCCCCCCC", [3] * 10, 30),
    ("R12", "cheater", "CCCCCCCCCC", "DDDDDDDDDD", [-1] * 10, -10),
]


@pytest.mark.parametrize(
    ("opponent", "moves", "answers", "rewards", "score"),
    [pytest.param(*row[1:], id=row[0]) for row in HAND_WORKED],
)
@pytest.mark.parametrize("phase", Phase)
def test_a_hand_worked_row_comes_out(
    phase: Phase, opponent: str, moves: str, answers: str, rewards: list[int], score: int
) -> None:
    played = against(opponent, moves, phase)
    assert (replies(played), played.rewards, played.score) == (answers, rewards, score)
    assert played.steps[-1].outcome.done
    assert not played.terminated


@pytest.mark.parametrize("opponent", OPPONENTS)
@pytest.mark.parametrize("phase", Phase)
def test_r14_ten_unreadable_answers_lose_ten_rounds(phase: Phase, opponent: str) -> None:
    start = State(opponent=opponent, coins=COINS)
    played = play_episode(SPEC, None, phase, 0, scripted(["cooperate"] * ROUNDS), start=start)
    assert (played.rewards, played.score) == ([0.0] * ROUNDS, 0.0)
    assert played.states[-1] == start
    assert played.steps[-1].outcome.done


def test_a_detective_copies_from_the_round_after_the_first_cheating() -> None:
    assert replies(against("detective", "CCCCDCDDCC")) == "CDCCDDCDDC"


def test_a_detective_of_the_variant_watches_its_opening_alone() -> None:
    options = TrustOptions(detective="first_rounds")
    start = State(opponent="detective", coins=COINS)
    actions = [WORDS[letter] for letter in "CCCCDCDDCC"]
    played = play_episode(SPEC, options, Phase.EVALUATION, 0, scripted(actions), start=start)
    assert replies(played) == "CDCCDDDDDD"
    actions = [WORDS[letter] for letter in "CDCCDCDDCC"]
    played = play_episode(SPEC, options, Phase.EVALUATION, 0, scripted(actions), start=start)
    assert replies(played) == "CDCCCDCDDC"


def test_copykitten_and_stubborn_are_not_copycat_in_disguise() -> None:
    assert replies(against("copykitten", "CDCC")) == "CCCC"
    assert replies(against("stubborn", "DCCD")) == "CDDD"
    assert replies(against("copycat", "CDCC")) == "CCDC"


def test_the_coins_decide_what_the_random_opponent_does_whatever_is_played() -> None:
    assert replies(against("random", "CCCCCCCCCC")) == "CDCDCDCDCD"
    assert replies(against("random", "DDDDDDDDDD")) == "CDCDCDCDCD"


def payoff(own: str, other: str) -> int:
    return PAYOFF[WORDS[own], WORDS[other]]


def reply(opponent: str, moves: tuple[tuple[str, str], ...]) -> str:
    rounds = tuple((WORDS[own], WORDS[other]) for own, other in moves)
    return LETTERS[OPPONENTS[opponent](State(opponent=opponent, coins=COINS, rounds=rounds))]


def total(opponent: str, policy: str | None, moves: tuple[tuple[str, str], ...] = ()) -> Fraction:
    """Return the expected total: of a policy's letters, of uniform play, or of the best play."""
    if len(moves) == ROUNDS:
        return Fraction(0)
    others = "CD" if opponent == "random" else reply(opponent, moves)
    worth = {
        own: sum(
            payoff(own, other) + total(opponent, policy, (*moves, (own, other))) for other in others
        )
        / Fraction(len(others))
        for own in _choices(policy, moves)
    }
    return max(worth.values()) if policy == "best" else sum(worth.values()) / Fraction(len(worth))


def _choices(policy: str | None, moves: tuple[tuple[str, str], ...]) -> str:
    if policy in ("best", None):
        return "CD"
    if policy == "copycat":
        if len(moves) == ROUNDS - 1:
            return "D"
        return moves[-1][1] if moves else "C"
    return policy


TABLE = {
    "little pink": (30, 25, 30, 20, 21),
    "cheater": (0, -5, 0, -10, -1),
    "copycat": (21, 11.5, 3, 20, 21),
    "grudger": (21, 0.994, 3, 20, 21),
    "detective": (21, 12.631, 9, -1, 19),
    "copykitten": (26, 19, 6, 20, 21),
    "stubborn": (21, 11.5, 15, 20, 21),
    "random": (15, 10, 15, 5, 10),
}


@pytest.mark.parametrize("opponent", [name for name in OPPONENTS if name != "random"])
def test_the_exact_values_of_an_opponent_are_those_of_table_7g(opponent: str) -> None:
    best, uniform, cheat, collaborate, copycat = TABLE[opponent]
    assert total(opponent, "best") == best
    assert round(float(total(opponent, None)), 3) == uniform
    assert total(opponent, "D") == cheat
    assert total(opponent, "C") == collaborate
    assert total(opponent, "copycat") == copycat


def test_the_exact_values_of_the_random_opponent_are_those_of_table_7g() -> None:
    """Every round is alike: a move is worth the mean over the coin."""
    friendly, cheating = ((payoff(own, "C") + payoff(own, "D")) / 2 for own in "CD")
    assert ROUNDS * max(friendly, cheating) == 15
    assert ROUNDS * (friendly + cheating) / 2 == 10
    assert (ROUNDS * cheating, ROUNDS * friendly) == (15, 5)
    assert friendly + (ROUNDS - 2) * (friendly + cheating) / 2 + cheating == 10


@pytest.mark.parametrize(
    ("weights", "means"),
    [
        ((1,) * 8, (19.375, 10.703, 10.125, 11.75, 16.625)),
        (TrustOptions().explore_weights, (20.30, 12.081, 11.10, 13.70, 17.05)),
    ],
    ids=["evaluation", "exploration"],
)
def test_the_means_of_table_7g_follow_from_the_weights(
    weights: tuple[float, ...], means: tuple[float, ...]
) -> None:
    for column, mean in enumerate(means):
        values = [TABLE[name][column] for name in OPPONENTS]
        found = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
        assert found == pytest.approx(mean, abs=6e-4)


@pytest.mark.parametrize(
    ("phase", "expected"), [(Phase.EVALUATION, 16.970), (Phase.EXPLORATION, 17.188)]
)
def test_the_bayes_optimal_value_is_that_of_table_7g(phase: Phase, expected: float) -> None:
    assert round(reference.value(reference.PRIORS[phase], ROUNDS), 3) == expected


@pytest.mark.parametrize("opponent", OPPONENTS)
def test_knowing_the_opponent_the_reference_gets_the_best_total(opponent: str) -> None:
    assert reference.value(((opponent, 1.0),), ROUNDS) == TABLE[opponent][0]


@pytest.mark.slow
def test_the_reference_plays_what_it_computes() -> None:
    """Its mean over all opponents and coins, weighted exactly, is the dynamic-programming value."""
    mean = Fraction(0)
    for opponent in OPPONENTS:
        mean += _played_value(opponent, reference.choose) / len(OPPONENTS)
    assert float(mean) == pytest.approx(
        reference.value(reference.PRIORS[Phase.EVALUATION], ROUNDS), abs=1e-9
    )


def _played_value(opponent: str, choose: Chooser) -> Fraction:
    coins = product((True, False), repeat=ROUNDS) if opponent == "random" else [COINS]
    scores = [
        play_episode(
            SPEC, None, Phase.EVALUATION, 0, choose, start=State(opponent=opponent, coins=flips)
        ).score
        for flips in coins
    ]
    return Fraction(int(sum(scores)), len(scores))


def test_the_reference_opens_by_collaborating_and_knows_the_printed_tables() -> None:
    played = play_episode(SPEC, None, Phase.EVALUATION, 3, reference.choose)
    assert played.actions[0] == trust.COLLABORATE
    assert dict(reference.PRIORS[Phase.EXPLORATION]) == dict(
        zip(OPPONENTS, TrustOptions().explore_weights, strict=True)
    )
    assert {(WORDS[a], WORDS[b]): n for (a, b), n in reference.PAYOFF.items()} == PAYOFF
    assert strategies.PAYOFF == PAYOFF


@given(moves=MOVES, opponent=st.sampled_from([*reference.KINDS]))
def test_the_reference_knows_every_opponent(moves: str, opponent: str) -> None:
    played = against(opponent, moves)
    answers = replies(played)
    for n in range(len(answers)):
        assert reference.KINDS[opponent](moves[:n], answers[:n]) == answers[n]


LEVELS: list[tuple[str, Chooser, float]] = [
    ("random", PLAYBOOK.random, 10.703),
    ("always-cheat", PLAYBOOK.strategies["always-cheat"], 10.125),
    ("always-collaborate", PLAYBOOK.strategies["always-collaborate"], 11.75),
    ("copycat-last-cheat", PLAYBOOK.strategies["copycat-last-cheat"], 16.625),
    ("reference", reference.choose, 16.970),
]


@pytest.mark.parametrize(("name", "choose", "level"), LEVELS, ids=[row[0] for row in LEVELS])
def test_a_player_reaches_its_level(name: str, choose: Chooser, level: float) -> None:
    _check_level(choose, level, FEW)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "choose", "level"), LEVELS, ids=[row[0] for row in LEVELS])
def test_a_player_reaches_its_level_on_many_seeds(name: str, choose: Chooser, level: float) -> None:
    _check_level(choose, level, MANY)


def _check_level(choose: Chooser, level: float, seeds: range) -> None:
    mean, error = mean_and_error(
        lambda seed: play_text(SPEC, None, Phase.EVALUATION, seed, choose)[2], seeds
    )
    assert abs(mean - level) <= 3 * error


@pytest.mark.parametrize(
    ("name", "column"), [("always-cheat", 2), ("always-collaborate", 3), ("copycat-last-cheat", 4)]
)
def test_a_strategy_gets_exactly_what_table_7g_says(name: str, column: int) -> None:
    for opponent in set(OPPONENTS) - {"random"}:
        assert _played_value(opponent, PLAYBOOK.strategies[name]) == TABLE[opponent][column]


def test_the_contrarian_strategy_is_mediocre() -> None:
    """Worked by hand: 30, 11, -9, -5, 14, 11 and 18 points against those that draw nothing."""
    choose = PLAYBOOK.strategies["contrarian"]
    values = [_played_value(name, choose) for name in OPPONENTS if name != "random"]
    assert values == [30, 11, -9, -5, 14, 11, 18]


@given(seed=SEEDS, phase=PHASES, name=st.sampled_from(sorted(PLAYBOOK.strategies)))
@settings(deadline=None, max_examples=40)
def test_a_visible_outcome_is_the_sum_of_payoffs(seed: int, phase: Phase, name: str) -> None:
    played = play_episode(SPEC, None, phase, seed, PLAYBOOK.strategies[name])
    assert PLAYBOOK.outcome(played.observations[-1]) == played.score
    assert all(s is not None and -1 <= s <= 3 for s in played.self_scores)


def test_a_self_score_follows_what_the_opponent_has_done_so_far() -> None:
    met = Round(own="cheat", other="cheat", payoff=0)
    view = TrustView(step=4, max_steps=ROUNDS, rounds=(met, met, met))
    assert strategies.expected_payoff(view, "cheat") == 0.6
    assert strategies.expected_payoff(view, "collaborate") == -0.4


@given(seed=SEEDS, phase=PHASES, actions=st.lists(st.sampled_from(trust.ACTIONS), max_size=ROUNDS))
@settings(deadline=None, max_examples=60)
def test_equal_seeds_and_actions_give_equal_episodes(
    seed: int, phase: Phase, actions: list[str]
) -> None:
    first = play_episode(SPEC, None, phase, seed, scripted(actions))
    again = play_episode(SPEC, None, phase, seed, scripted(actions))
    assert first.observations == again.observations
    assert first.score == sum(first.rewards)
    assert -ROUNDS <= first.score <= 3 * ROUNDS


def test_opponents_are_drawn_by_the_weights_of_their_phase() -> None:
    for phase, weights in (
        (Phase.EXPLORATION, TrustOptions().explore_weights),
        (Phase.EVALUATION, (1.0,) * 8),
    ):
        drawn = Counter(
            SETUPS[phase].game.start(EpisodeSeeds(episode=seed, game="trust")).opponent
            for seed in range(2000)
        )
        for name, weight in zip(OPPONENTS, weights, strict=True):
            share = weight / sum(weights)
            error = (share * (1 - share) / 2000) ** 0.5
            assert abs(drawn[name] / 2000 - share) < 4 * error


def test_weights_of_zero_are_never_drawn() -> None:
    options = TrustOptions(explore_weights=(0, 0, 1, 0, 0, 0, 0, 0))
    game = SPEC.setup(options, Phase.EXPLORATION).game
    drawn = {game.start(EpisodeSeeds(episode=seed)).opponent for seed in range(200)}
    assert drawn == {"cheater"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"explore_weights": (1, 2)}, "expected 8 weights"),
        ({"explore_weights": (0,) * 8}, "one of them above"),
        ({"explore_weights": (1e308,) * 8}, "a finite sum"),
        ({"explore_weights": (1, 1, 1, 1, 1, 1, 1, -1)}, "at least 0"),
        ({"explore_weights": (1, 1, 1, 1, 1, 1, 1, float("inf"))}, "finite"),
        ({"detective": "never"}, "any_round"),
        ({"invalid_action": "explode"}, "noop"),
        ({"rounds": 12}, "Extra inputs"),
    ],
)
def test_wrong_options_are_refused_and_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        SPEC.options(**values)


def test_a_refused_action_may_end_a_strict_episode() -> None:
    options = TrustOptions(invalid_action="ends_evaluation")
    strict = play_episode(SPEC, options, Phase.EVALUATION, 1, scripted(["what?", "cheat"]))
    assert (len(strict.steps), strict.score) == (1, 0.0)
    lenient = play_episode(SPEC, options, Phase.EXPLORATION, 1, scripted(["what?", "cheat"]))
    assert len(lenient.steps) == 3
    assert "ends the game" in SPEC.rules(options, Phase.EVALUATION)
    assert "loses the round" in SPEC.rules(options, Phase.EXPLORATION)


def test_the_rules_print_every_payoff_and_no_opponent() -> None:
    for phase in Phase:
        rules = SPEC.rules(TrustOptions(), phase)
        for (own, other), worth in PAYOFF.items():
            assert f"you {own}, opponent {other}: you get {worth}" in rules
        shown = f"{rules} {SPEC.instruction(TrustOptions(), phase)}".lower()
        hidden = {*OPPONENTS} - {"random"}
        assert not [name for name in (*hidden, "exploration", "evaluation") if name in shown]
    assert SPEC.rules(TrustOptions(), Phase.EXPLORATION) == SPEC.rules(
        TrustOptions(), Phase.EVALUATION
    )


def test_trust_has_a_system_text_of_its_own() -> None:
    assert "trust" in SPEC.instruction(TrustOptions(), Phase.EVALUATION)


@given(seed=SEEDS, phase=PHASES, moves=MOVES)
@settings(deadline=None, max_examples=60)
def test_an_observation_reads_back_and_has_no_trailing_blanks(
    seed: int, phase: Phase, moves: str
) -> None:
    played = play_episode(SPEC, None, phase, seed, scripted(WORDS[m] for m in moves))
    for text in played.observations:
        assert read(text).render() == text
        assert not re.search(r"[ \t]$", text, re.MULTILINE)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Current Game State:",
        "Current Game State:\nRound 1 of 10",
        "Current Game State:\nRound 1 of 10\nYou cheat, opponent cheat, payoff 00",
        "Current Game State:\nRound ١ of 10\nNo round has been played",
    ],
)
def test_a_text_of_another_kind_is_not_read(text: str) -> None:
    with pytest.raises(ValueError, match="trust"):
        read(text)


@given(state=st.tuples(st.integers(1, 99), st.integers(1, 99)), moves=MOVES, answers=MOVES)
def test_any_view_reads_back(state: tuple[int, int], moves: str, answers: str) -> None:
    rounds = tuple(
        Round(own=WORDS[own], other=WORDS[other], payoff=payoff(own, other))
        for own, other in zip(moves, answers, strict=False)
    )
    view = TrustView(step=state[0], max_steps=state[1], rounds=rounds)
    assert read(view.render()) == view


@pytest.mark.parametrize("opponent", OPPONENTS)
def test_nothing_shown_depends_on_the_type_before_its_first_move(opponent: str) -> None:
    game = SETUPS[Phase.EVALUATION].game
    state = State(opponent=opponent, coins=COINS)
    other = State(opponent="cheater", coins=COINS[::-1])
    assert game.observe(state, CLOCK) == game.observe(other, CLOCK)


@given(seed=st.integers(2**62, 2**63 - 1), phase=PHASES)
@settings(deadline=None, max_examples=40)
def test_neither_type_nor_seed_is_ever_shown(seed: int, phase: Phase) -> None:
    played = play_episode(SPEC, None, phase, seed, PLAYBOOK.random)
    shown = "\n".join(played.observations + played.feedback)
    assert str(seed) not in shown
    assert played.states[0].opponent not in shown


@given(seed=SEEDS, phase=PHASES)
@settings(deadline=None, max_examples=30)
def test_what_is_seen_does_not_change_when_the_verifier_is_replaced(
    seed: int, phase: Phase
) -> None:
    def blind_setup(options: TrustOptions, phase: Phase) -> Setup[State]:
        return replace(trust.make_setup(options, phase), verifier=NoVerifier(value=90210.5))

    blind = replace(SPEC, make_setup=blind_setup)
    seen = play_episode(SPEC, None, phase, seed, PLAYBOOK.strategies["copycat-last-cheat"])
    unseen = play_episode(blind, None, phase, seed, PLAYBOOK.strategies["copycat-last-cheat"])
    assert seen.steps == unseen.steps


ODD = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        [
            "",
            "ｃｈｅａｔ",
            "cheat.",
            "collaborate, Score: 2",
            "cooperate",
            "\u200bcheat",
            "\u00a0cheat",
            "cheat\x00",
            "\x1fcheat",
            "answer: cheat",
            "((((" * 1000,
            "cheat\ncheat",
            "1e999",
            "ⅽheat",
        ]
    ),
)


@given(action=ODD, phase=PHASES)
@settings(deadline=None, max_examples=100)
def test_any_text_is_read_or_refused(action: str, phase: Phase) -> None:
    _read_or_refuse(action, phase)


@pytest.mark.slow
@given(action=ODD, phase=PHASES)
@settings(deadline=None, max_examples=10_000)
def test_ten_thousand_texts_are_read_or_refused(action: str, phase: Phase) -> None:
    _read_or_refuse(action, phase)


def _read_or_refuse(action: str, phase: Phase) -> None:
    game, state = SETUPS[phase].game, State(opponent="copycat", coins=COINS)
    if action.isascii() and action.strip(" \t\r\n").lower() in trust.ACTIONS:
        assert len(game.apply(state, action).state.rounds) == 1
        return
    with pytest.raises(InvalidActionError) as caught:
        game.apply(state, action)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("action", [" CHEAT ", "Cheat", "\tcheat\r\n"])
def test_case_and_ascii_blanks_do_not_matter(action: str) -> None:
    done = SETUPS[Phase.EVALUATION].game.apply(State(opponent="copycat", coins=COINS), action)
    assert done.state.rounds == ((trust.CHEAT, trust.COLLABORATE),)


@pytest.mark.parametrize("letter", ["c", " ", "\u0660", "("])
def test_a_text_of_ten_megabytes_is_refused_at_once(letter: str) -> None:
    with pytest.raises(InvalidActionError, match="10000000 characters"):
        SETUPS[Phase.EVALUATION].game.apply(
            State(opponent="copycat", coins=COINS), letter * 10_000_000
        )


def first_state(start: dict[str, str]) -> State:
    return State(opponent=start["opponent"], coins=COINS)


@pytest.mark.parametrize("phase", Phase)
def test_replaying_a_golden_trace_gives_every_recorded_line(phase: Phase) -> None:
    header, lines = trace(f"trust.{phase}")
    assert header["source"].startswith("worked by hand")
    assert [*replay(SPEC, header, [line["action"] for line in lines], first_state)] == lines


def test_the_picture_is_the_golden_one() -> None:
    played = against("copycat", "CCDCDDC")
    picture = render_svg(played.observations[-1])
    assert picture == (GOLDEN / "trust.svg").read_text(encoding="utf-8")
