"""Games, one file each. To add one: write the file, add its line to ``GAMES``."""

GAMES: dict[str, str] = {
    "chess": "s3gym.games.chess:SPEC",
    "chess_duel": "s3gym.games.chess_duel:SPEC",
    "minesweeper": "s3gym.games.minesweeper:SPEC",
    "nullify": "s3gym.games.nullify:SPEC",
    "pvz": "s3gym.games.pvz:SPEC",
    "snake": "s3gym.games.snake:SPEC",
    "tetris": "s3gym.games.tetris:SPEC",
    "trust": "s3gym.games.trust:SPEC",
}
"""Name of every built-in game, and where its ``SPEC`` is; loaded when it is used."""
