"""Games, one file each. To add one: write the file, add its line to ``GAMES``."""

GAMES: dict[str, str] = {
    "chess": "s3gym.games.chess:SPEC",
    "chess_duel": "s3gym.games.chess_duel:SPEC",
    "snake": "s3gym.games.snake:SPEC",
    "trust": "s3gym.games.trust:SPEC",
}
"""Name of every built-in game, and where its ``SPEC`` is; loaded when it is used."""
