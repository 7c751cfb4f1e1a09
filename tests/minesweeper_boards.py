"""The printed board of games.md 2.J and ways to play it, for the tests of minesweeper."""

from typing import Any

from episodes import play_episode, scripted

from s3gym.agents.reading.minesweeper import read
from s3gym.agents.strategies.minesweeper import PLAYBOOK, single_cell
from s3gym.contracts.game import Clock
from s3gym.games import minesweeper
from s3gym.games._minesweeper_board import count_neighbours
from s3gym.games.minesweeper import SPEC, MinesweeperOptions, State
from s3gym.records import Phase
from s3gym.seeds import Stream

NUMBERS = """
*1000001*
121101121
01*101*10
121212110
*101*1000
121212110
01*101*10
121101121
*1000001*
""".split()
EVALUATION, EXPLORATION = Phase.EVALUATION, Phase.EXPLORATION
CLOCK = Clock(step=1, max_steps=64)
ALL_MINES = ("0,0", "0,8", "2,2", "2,6", "4,0", "4,4", "6,2", "6,6", "8,0", "8,8")


def setup(phase: Phase = EVALUATION, **options: Any) -> Any:
    return SPEC.setup(MinesweeperOptions(**options), phase)


def board(rows: list[str] = NUMBERS, lives: int = 0, spare: int | None = None) -> State:
    marks = "".join(rows)
    mines = frozenset(cell for cell, mark in enumerate(marks) if mark == "*")
    numbers = tuple(-1 if mark == "*" else int(mark) for mark in marks)
    counted = count_neighbours(mines)
    assert all(hand in (-1, ours) for hand, ours in zip(numbers, counted, strict=True))
    return State(mines=mines, numbers=counted, lives=lives, spare=spare)


def play(*actions: str, phase: Phase = EVALUATION, **options: Any) -> Any:
    lives = minesweeper.EXTRA_LIVES[phase]
    start = board(lives=lives, spare=0 if options.get("first_safe") else None)
    return play_episode(
        SPEC, MinesweeperOptions(**options), phase, 0, scripted(actions), start=start
    )


def rows(text: str) -> list[str]:
    return [line.replace(" ", "") for line in text.split("\n")[2:]]


M2 = ["?1000001?", "?2110112?", "???101???", "???212???", *["?????????"] * 5]


def random_moves(phase: Phase, seed: int, **options: Any) -> Any:
    def choose(turn: Any, stream: Stream) -> Any:
        view = read(turn.observation.text)
        legal = PLAYBOOK.strategies["blind-uncover"]
        return (
            single_cell(turn, stream)
            if stream.chance(0.5)
            else (legal(turn, stream) if view.lives else PLAYBOOK.random(turn, stream))
        )

    return play_episode(SPEC, MinesweeperOptions(**options), phase, seed, choose)
