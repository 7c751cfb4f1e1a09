"""Seeds hash what they are for; streams are equal everywhere and for ever."""

from hypothesis import given, settings
from hypothesis import strategies as st

from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds, SeedPlan, Stream, derive


def test_golden_numbers_do_not_change() -> None:
    # Recorded once: whoever changes one of them changes every published root.
    assert derive("episode", 7, "trust", 0) == 1159523686985767540
    stream = Stream(1)
    assert [stream.below(10) for _ in range(6)] == [1, 8, 7, 2, 4, 4]
    assert Stream(1).shuffled("abcdef") == ["b", "c", "f", "d", "e", "a"]
    seeds = SeedPlan(root=7, salt="s")
    assert seeds.episode("trust", 0, Phase.EVALUATION, 0) == 8940448186896817219


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 2**63 - 1), st.integers(0, 50), st.integers(0, 50), st.text(max_size=5))
def test_the_phases_share_no_seed(root: int, repeat: int, index: int, salt: str) -> None:
    plan = SeedPlan(root=root, salt=salt)
    explored = plan.episode("g", repeat, Phase.EXPLORATION, index)
    evaluated = plan.episode("g", repeat, Phase.EVALUATION, index)
    assert explored % 2 == 0
    assert evaluated % 2 == 1
    assert 0 <= explored < 2**63
    assert 0 <= evaluated < 2**63


def test_the_salt_changes_evaluation_alone() -> None:
    one, other = SeedPlan(root=7, salt="a"), SeedPlan(root=7, salt="b")
    for index in range(20):
        assert one.episode("g", 0, Phase.EXPLORATION, index) == other.episode(
            "g", 0, Phase.EXPLORATION, index
        )
        assert one.episode("g", 0, Phase.EVALUATION, index) != other.episode(
            "g", 0, Phase.EVALUATION, index
        )


def test_checkpoints_share_evaluation_seeds_unless_told_otherwise() -> None:
    shared = SeedPlan(root=7)
    fresh = SeedPlan(root=7, fresh_evaluation_seeds=True)
    seeds = [plan.episode("g", 0, Phase.EVALUATION, 1, checkpoint=point)
             for plan in (shared, fresh) for point in (0, 3)]  # fmt: skip
    assert seeds[0] == seeds[1]
    assert seeds[2] != seeds[3]


def test_repeats_and_games_share_no_seed() -> None:
    plan = SeedPlan(root=7)
    seeds = {
        plan.episode(game, repeat, phase, index)
        for game in ("a", "b") for repeat in range(10) for phase in Phase for index in range(30)
    }  # fmt: skip
    assert len(seeds) == 2 * 10 * 2 * 30
    assert plan.world("a", 0) != plan.world("a", 1) != plan.world("b", 1)


def test_streams_with_other_names_or_counters_are_unrelated() -> None:
    seeds = EpisodeSeeds(episode=5, world=3, game="g")
    draws = {
        tuple(stream.below(1_000) for _ in range(5))
        for stream in (seeds.stream("a"), seeds.stream("b"), seeds.stream("a", 1),
                       seeds.world_stream("a"))
    }  # fmt: skip
    assert len(draws) == 4
    assert seeds.stream("a").uniform() == seeds.stream("a").uniform()


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**63 - 1), st.lists(st.integers(), min_size=1, max_size=20))
def test_draws_stay_in_their_range(seed: int, items: list[int]) -> None:
    stream = Stream(seed)
    assert stream.pick(items) in items
    assert sorted(stream.shuffled(items)) == sorted(items)
    n = stream.between(0, len(items))
    assert 0 <= n <= len(items)
    sample = stream.sample(range(len(items)), n)
    assert len(set(sample)) == n
    weights = [abs(item) % 3 for item in items]
    if any(weights):
        assert weights[stream.weighted(weights)] > 0
