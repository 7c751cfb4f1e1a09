"""How the pieces of the latent-rule chess game move: ten families, two kinds of border.

A *program* is the list of an independent piece's displacements, a *track* the list of the cells
that it shows, one per frame. Knows nothing of letters, boards as text, actions or rewards.

Source: games.md, sections 1.D and 1.E (our own catalogue; the paper publishes none).
"""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import product

Cell = tuple[int, int]
Vector = tuple[int, int]
Program = tuple[Vector, ...]
Track = tuple[Cell, ...]

SIZE = 15
HISTORY = 7
PREDICTIONS = 5
FRAMES = HISTORY + PREDICTIONS
MOVES = FRAMES - 1

INDEPENDENT = ("glide", "zigzag", "turn", "stop", "accel", "pend", "triple")
DEPENDENT = ("echo", "mirror", "chase")
FAMILIES = INDEPENDENT + DEPENDENT

STILL: Vector = (0, 0)
SHORT: tuple[Vector, ...] = tuple(v for v in product(range(-2, 3), range(-2, 3)) if v != STILL)
KNIGHT: tuple[Vector, ...] = tuple(v for v in SHORT if abs(v[0] * v[1]) == 2)
TURNING: tuple[Vector, ...] = tuple(v for v in product(range(-3, 4), range(-3, 4)) if v != STILL)
PATTERNS = ("10", "110", "100")
HALF_PERIODS = (2, 3)
AXES = ("column", "row")
SENSES = ("cw", "ccw")


def glide(v: Vector) -> Program:
    """Move by ``v`` every time."""
    return (v,) * MOVES


def zigzag(v: Vector, axis: str) -> Program:
    """Move by ``v`` at even moves; at odd ones with the sign of one axis flipped."""
    flipped = (v[0], -v[1]) if axis == "column" else (-v[0], v[1])
    return tuple(flipped if k % 2 else v for k in range(MOVES))


def turn(v: Vector, sense: str) -> Program:
    """Move by ``v`` turned by 90 degrees more each time; clockwise with row 0 on top."""
    program = [v]
    while len(program) < MOVES:
        row, column = program[-1]
        program.append((column, -row) if sense == "cw" else (-column, row))
    return tuple(program)


def stop(v: Vector, pattern: str, phase: int) -> Program:
    """Move by ``v`` where the repeating pattern, read from ``phase``, holds a 1."""
    return tuple(v if pattern[(k + phase) % len(pattern)] == "1" else STILL for k in range(MOVES))


def accel(v: Vector, a: Vector) -> Program:
    """Move by ``v`` plus ``a`` more each time."""
    return tuple((v[0] + k * a[0], v[1] + k * a[1]) for k in range(MOVES))


def pend(v: Vector, half: int, phase: int) -> Program:
    """Move ``half`` times by ``v``, then as often back, starting at ``phase`` of that period."""
    back = (-v[0], -v[1])
    return tuple(v if (k + phase) % (2 * half) < half else back for k in range(MOVES))


def triple(first: Vector, second: Vector, third: Vector) -> Program:
    """Move by three vectors in turn."""
    vectors = (first, second, third)
    return tuple(vectors[k % 3] for k in range(MOVES))


@cache
def programs() -> Mapping[str, tuple[Program, ...]]:
    """Return every program of every independent family, in a fixed order.

    A piece draws one of its family's programs, all equally likely.
    """
    round_trips = [(half, phase) for half in HALF_PERIODS for phase in range(2 * half)]
    patterns = [(pattern, phase) for pattern in PATTERNS for phase in range(len(pattern))]
    pushes = [a for a in product(range(-1, 2), range(-1, 2)) if a != STILL]
    return {
        "glide": tuple(glide(v) for v in SHORT),
        "zigzag": tuple(zigzag(v, axis) for v in KNIGHT for axis in AXES),
        "turn": tuple(turn(v, sense) for v in TURNING for sense in SENSES),
        "stop": tuple(stop(v, pattern, phase) for v in SHORT for pattern, phase in patterns),
        "accel": tuple(accel(v, a) for v in (*SHORT, STILL) for a in pushes),
        "pend": tuple(pend(v, half, phase) for v in SHORT for half, phase in round_trips),
        "triple": tuple(
            (vectors * 4)[:MOVES] for vectors in product(SHORT, repeat=3) if len(set(vectors)) > 1
        ),
    }


def wrapped(x: int) -> int:
    """Return the cell index that an unbounded coordinate shows on a board without borders."""
    return x % SIZE


def reflected(x: int) -> int:
    """Return the cell index that an unbounded coordinate shows between two mirrors.

    The mirrors stand at the border cells; a border cell is visited once.
    """
    rest = x % (2 * SIZE - 2)
    return rest if rest < SIZE else 2 * SIZE - 2 - rest


Border = Callable[[int], int]
BORDERS: Mapping[Border, int] = {wrapped: SIZE, reflected: 2 * SIZE - 2}
"""Border -> the period of what it shows."""


def roam(start: Cell, program: Program, border: Border) -> Track:
    """Return the track of an independent piece: its start and one cell per displacement."""
    row, column = start
    track = [start]
    for down, right in program:
        row += down
        column += right
        track.append((border(row), border(column)))
    return tuple(track)


def _echo(track: list[Cell], leader: Track, sign: int) -> Cell:
    row, column = track[-1]
    k = len(track) - 1
    if k == 0:
        return row, column
    (old_row, old_column), (new_row, new_column) = leader[k - 1], leader[k]
    return (
        (row + sign * (new_row - old_row)) % SIZE,
        (column + sign * (new_column - old_column)) % SIZE,
    )


def _mirror(track: list[Cell], leader: Track, sign: int) -> Cell:
    row, column = track[-1]
    k = len(track) - 1
    (old_row, old_column), (new_row, new_column) = leader[k], leader[k + 1]
    return (
        (row + sign * (new_row - old_row)) % SIZE,
        (column - sign * (new_column - old_column)) % SIZE,
    )


def _chase(track: list[Cell], leader: Track, sign: int) -> Cell:
    row, column = track[-1]
    goal_row, goal_column = leader[len(track) - 1]
    down = (goal_row > row) - (goal_row < row)
    right = (goal_column > column) - (goal_column < column)
    return (
        min(max(row + sign * down, 0), SIZE - 1),
        min(max(column + sign * right, 0), SIZE - 1),
    )


FOLLOWERS: Mapping[str, Callable[[list[Cell], Track, int], Cell]] = {
    "echo": _echo,
    "mirror": _mirror,
    "chase": _chase,
}
"""Dependent family -> next cell, from the own track so far, the leader's track and the sign."""


def follow(family: str, upper: bool, start: Cell, leader: Track) -> Track:
    """Return the track of a dependent piece, as long as its leader's.

    Args:
        family: One of ``DEPENDENT``.
        upper: True for an upper-case label: follow; False: oppose.
        start: The cell of frame 0.
        leader: The leader's shown cells.
    """
    advance, sign = FOLLOWERS[family], 1 if upper else -1
    track = [start]
    while len(track) < len(leader):
        track.append(advance(track, leader, sign))
    return tuple(track)
