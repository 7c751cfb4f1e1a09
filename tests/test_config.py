"""A wrong configuration is one clear line: file, key, what was expected, what came."""

from pathlib import Path

import pytest

from s3gym.config import read_config
from s3gym.errors import ConfigError


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text)
    return path


def test_an_empty_file_gives_the_papers_schedule(tmp_path: Path) -> None:
    config = read_config(written(tmp_path, ""), {})
    assert config.schedule.checkpoints[-1] == 30
    assert config.repeats == 3


def test_command_line_wins_over_file_and_set_wins_over_both(tmp_path: Path) -> None:
    file = written(tmp_path, 'game = "snake"\nrepeats = 2\nseed = 1\n')
    config = read_config(file, {"repeats": 4, "seed": 2}, ["seed=3"])
    assert (config.game, config.repeats, config.seed) == (("snake",), 4, 3)


@pytest.mark.parametrize("form", ['schedule = "quick"', '[schedule]\npreset = "quick"'])
def test_a_preset_can_be_named_and_changed(tmp_path: Path, form: str) -> None:
    config = read_config(written(tmp_path, form), {}, ["schedule.exploration_episodes=9"])
    assert config.schedule.checkpoints == (0, 3, 6, 9)
    assert config.schedule.evaluation_episodes == 2


def test_a_preset_of_the_command_line_keeps_the_files_other_numbers(tmp_path: Path) -> None:
    file = written(tmp_path, "[schedule]\nmemory_tokens = 5\n")
    config = read_config(file, {"schedule": "quick"})
    assert (config.schedule.exploration_episodes, config.schedule.memory_tokens) == (6, 5)


def test_switches_of_games_are_read_as_toml(tmp_path: Path) -> None:
    config = read_config(None, {}, ["games.snake.apples=1", "games.snake.reversal=ignored"])
    assert config.games == {"snake": {"apples": 1, "reversal": "ignored"}}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("game = [", "study.toml: not valid TOML: "),
        ("a = 1\nb = = 2", "line 2"),
        ("repeatz = 2", "study.toml: repeatz: no such key; did you mean 'repeats'?"),
        ("repeats = 'two'", "study.toml: repeats: input should be a valid integer"),
        ("repeats = 0", "got 0"),
        ("seed = -1", "study.toml: seed: "),
        ("[schedule]\nmemory_tokens = -5", "study.toml: schedule.memory_tokens: "),
        ("[schedule]\nmemory_token = 5", "did you mean 'memory_tokens'?"),
        ("[schedule]\nevaluate_every = 7", "must be a multiple of evaluate_every, got 30 and 7"),
        ("schedule = 'slow'", "schedule: expected one of paper, paper_training, quick, got 'slow'"),
        ("[budget]\nusd = -1", "study.toml: budget.usd: "),
        ("[model]\nreask = 9", "study.toml: model.reask: "),
        ("game = []", "study.toml: game: "),
    ],
)
def test_a_wrong_file_is_one_clear_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_config(written(tmp_path, text), {})
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: no such file"):
        read_config(tmp_path / "none.toml", {})


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"study\.toml: cannot be read"):
        read_config(path, {})


@pytest.mark.parametrize("text", ["games.snake.apples", "=1"])
def test_a_set_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected KEY=VALUE"):
        read_config(None, {}, [text])


def test_setting_below_a_value_is_refused() -> None:
    with pytest.raises(ConfigError, match="'repeats' holds 3, not a table"):
        read_config(None, {"repeats": 3}, ["repeats.more=1"])
