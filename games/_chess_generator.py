"""Draws boards of the latent-rule chess game on which every piece can be predicted.

Knows nothing of actions and rewards. A piece is redrawn until it meets no earlier piece, is
seen to move, and all explanations of its seven known cells agree on the five that follow.

Source: games.md, sections 1.B, 1.C and 1.F.
"""

from collections.abc import Mapping, Sequence
from string import ascii_uppercase

from s3gym.errors import ProtocolBreachError
from s3gym.games._chess_motion import (
    DEPENDENT,
    FAMILIES,
    HISTORY,
    SIZE,
    Cell,
    Track,
    follow,
    programs,
    reflected,
    roam,
    wrapped,
)
from s3gym.games._chess_solver import dependent_futures, independent_futures, solve
from s3gym.seeds import EpisodeSeeds, Stream

MAX_REDRAWS = 20_000
MAX_ATTEMPTS = 100
PRINTED_TABLE: Mapping[str, str] = {
    letter: family
    for family, letters in {
        "glide": "GMW",
        "zigzag": "LOZ",
        "turn": "DKY",
        "stop": "HTX",
        "accel": "EJS",
        "pend": "AFU",
        "triple": "BNV",
        "echo": "PR",
        "mirror": "CQ",
        "chase": "I",
    }.items()
    for letter in letters
}
"""Letter -> family in the default world; every other world permutes the letters."""


def letter_table(seeds: EpisodeSeeds) -> Mapping[str, str]:
    """Return the family of each letter in the world of the seeds."""
    if seeds.world is None:
        return PRINTED_TABLE
    permuted = seeds.world_stream("letters").shuffled(ascii_uppercase)
    return dict(zip(permuted, (PRINTED_TABLE[letter] for letter in ascii_uppercase), strict=True))


def draw_tracks(
    seeds: EpisodeSeeds, n_pieces: int, table: Mapping[str, str] | None
) -> dict[str, Track]:
    """Return label -> track for a whole board, in the order in which the pieces were placed.

    Args:
        seeds: Of the episode.
        n_pieces: 2 to 26.
        table: Letter -> family; ``None`` draws a family for each piece.

    Raises:
        ProtocolBreachError: No board was found within the limits; has never been seen.
    """
    for attempt in range(MAX_ATTEMPTS):
        stream = seeds.stream("board", attempt)
        families = _draw_labels(stream, n_pieces, table)
        if all(family in DEPENDENT for family in families.values()):
            continue
        tracks = _place(stream, families)
        futures = solve({label: track[:HISTORY] for label, track in tracks.items()})
        if futures == {label: track[HISTORY:] for label, track in tracks.items()}:
            return tracks
    raise ProtocolBreachError(f"no solvable chess board in {MAX_ATTEMPTS} attempts")


def _draw_labels(stream: Stream, n_pieces: int, table: Mapping[str, str] | None) -> dict[str, str]:
    """Return label -> family: different letters, each in upper or lower case."""
    families = {}
    for letter in stream.sample(ascii_uppercase, n_pieces):
        label = letter if stream.chance(0.5) else letter.lower()
        families[label] = stream.pick(FAMILIES) if table is None else table[letter]
    return families


def _place(stream: Stream, families: Mapping[str, str]) -> dict[str, Track]:
    """Draw a track for each piece, the independent ones first."""
    order = sorted(families, key=lambda label: families[label] in DEPENDENT)
    tracks: dict[str, Track] = {}
    taken: set[tuple[int, Cell]] = set()
    leaders: list[Track] = []
    for label in order:
        family = families[label]
        tracks[label] = _draw_track(stream, family, label.isupper(), leaders, taken)
        taken.update(enumerate(tracks[label]))
        if family not in DEPENDENT:
            leaders.append(tracks[label])
    return tracks


def _draw_track(
    stream: Stream,
    family: str,
    upper: bool,
    leaders: Sequence[Track],
    taken: set[tuple[int, Cell]],
) -> Track:
    """Draw tracks of one piece until one is acceptable."""
    for _ in range(MAX_REDRAWS):
        start = (stream.below(SIZE), stream.below(SIZE))
        if family in DEPENDENT:
            track = follow(family, upper, start, stream.pick(leaders))
        else:
            program = stream.pick(programs()[family])
            track = roam(start, program, wrapped if upper else reflected)
        if len(set(track[:HISTORY])) < 2 or not taken.isdisjoint(enumerate(track)):
            continue
        if _identifiable(track, family, leaders):
            return track
    raise ProtocolBreachError(f"no place for a chess piece in {MAX_REDRAWS} draws")


def _identifiable(track: Track, family: str, leaders: Sequence[Track]) -> bool:
    """Return whether the known cells leave one future only, the true one."""
    history, future = track[:HISTORY], track[HISTORY:]
    futures = independent_futures(history)
    if not futures and family in DEPENDENT:
        futures = dependent_futures(history, leaders)
    return futures == {future}
