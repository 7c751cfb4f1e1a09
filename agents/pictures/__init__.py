"""Drawing observation text as SVG: a viewer can never show what the agent did not see."""

PICTURES: dict[str, str] = {
    "chess": "s3gym.agents.pictures.chess:render_svg",
    "chess_duel": "s3gym.agents.pictures.chess_duel:render_svg",
    "minesweeper": "s3gym.agents.pictures.minesweeper:render_svg",
    "nullify": "s3gym.agents.pictures.nullify:render_svg",
    "pvz": "s3gym.agents.pictures.pvz:render_svg",
    "snake": "s3gym.agents.pictures.snake:render_svg",
    "tetris": "s3gym.agents.pictures.tetris:render_svg",
    "trust": "s3gym.agents.pictures.trust:render_svg",
}
"""Game -> where its ``render_svg(observation_text)`` is; loaded when it is used."""
