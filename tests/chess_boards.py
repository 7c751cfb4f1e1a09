"""Boards and positions of the two chess games, for their tests."""

from functools import lru_cache

from s3gym.games import chess, chess_duel
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds


@lru_cache
def board(seed: int, phase: Phase = Phase.EVALUATION, world: int | None = None) -> chess.State:
    """Return a drawn board of latent-rule chess."""
    state = chess.SPEC.setup(chess.ChessOptions(), phase).game.start(
        EpisodeSeeds(episode=seed, world=world, game="chess")
    )
    assert isinstance(state, chess.State)
    return state


def at(fen: str, *seen: str) -> chess_duel.State:
    """Return the state of a position, after earlier positions."""
    key = " ".join(fen.split(" ")[:4])
    return chess_duel.State(fen=fen, seen=(*seen, key))


@lru_cache
def drawn(seed: int, phase: Phase = Phase.EVALUATION) -> chess_duel.State:
    """Return a drawn position of chess_duel."""
    setup = chess_duel.SPEC.setup(chess_duel.ChessDuelOptions(), phase)
    state = setup.game.start(EpisodeSeeds(episode=seed, game="chess_duel"))
    assert isinstance(state, chess_duel.State)
    return state
