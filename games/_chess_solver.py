"""Finds every explanation of a piece's seven cells, and what each of them predicts.

The solver knows the catalogue of families, but neither which letter belongs to which nor what
the case of a letter means. The generator uses it to keep only boards on which the explanations
agree; the reference player uses it to play. Exhaustive: all programs are laid out by their
first three displacements, so that a search visits only what fits the cells seen.

Source: games.md, sections 1.F (identifiability) and 1.J.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from s3gym.games._chess_motion import (
    BORDERS,
    DEPENDENT,
    FOLLOWERS,
    SIZE,
    Border,
    Cell,
    Program,
    Track,
    Vector,
    follow,
    programs,
    roam,
)

Future = tuple[Cell, ...]
Catalogue = dict[Vector, dict[Vector, dict[Vector, list[Program]]]]
INDEXED = 3


@cache
def _catalogue() -> Catalogue:
    """Return all different programs by their first, second and third displacement."""
    catalogue: Catalogue = {}
    for program in dict.fromkeys(p for family in programs().values() for p in family):
        first, second, third = program[:INDEXED]
        seconds = catalogue.setdefault(first, {})
        seconds.setdefault(second, {}).setdefault(third, []).append(program)
    return catalogue


@cache
def _axis_steps(border: Border) -> tuple[tuple[tuple[int, ...], ...], ...]:
    """Return the displacements that lead along one axis to a shown index.

    Indexed by the unbounded coordinate modulo the border's period, then by the shown index.
    """
    reach = max(
        abs(part)
        for family in programs().values()
        for program in family
        for vector in program[:INDEXED]
        for part in vector
    )
    return tuple(
        tuple(
            tuple(d for d in range(-reach, reach + 1) if border(x + d) == shown)
            for shown in range(SIZE)
        )
        for x in range(BORDERS[border])
    )


def _fitting(history: Track, border: Border) -> Iterator[Program]:
    """Yield the programs whose first three displacements lead along the first four cells."""
    steps, period = _axis_steps(border), BORDERS[border]

    def fits(row: int, column: int, shown: Cell) -> Iterator[Vector]:
        return product(steps[row % period][shown[0]], steps[column % period][shown[1]])

    row, column = history[0]
    for first in fits(row, column, history[1]):
        if first not in (seconds := _catalogue()):
            continue
        down, right = row + first[0], column + first[1]
        for second in fits(down, right, history[2]):
            if second not in (thirds := seconds[first]):
                continue
            for third in fits(down + second[0], right + second[1], history[3]):
                yield from thirds[second].get(third, ())


def independent_futures(history: Track) -> set[Future]:
    """Return what all independent explanations of the cells seen predict.

    Args:
        history: The shown cells of frames 0 to 6.

    Returns:
        The different predictions of the frames after them; empty when no independent piece
        moves like that.
    """
    futures = set()
    for border in BORDERS:
        for program in _fitting(history, border):
            if (track := _retraced(history, program, border)) is not None:
                futures.add(track[len(history) :])
    return futures


def _retraced(history: Track, program: Program, border: Border) -> Track | None:
    """Return the program's whole track when it shows every cell of the history."""
    row, column = history[0]
    for (down, right), (shown_row, shown_column) in zip(program, history[1:], strict=False):
        row += down
        column += right
        if border(row) != shown_row or border(column) != shown_column:
            return None
    return roam(history[0], program, border)


def dependent_futures(history: Track, leaders: Iterable[Track]) -> set[Future]:
    """Return what all dependent explanations of the cells seen predict.

    Args:
        history: The shown cells of frames 0 to 6.
        leaders: Whole tracks of the pieces that may lead.
    """
    futures = set()
    for leader, family, sign in product(leaders, DEPENDENT, (1, -1)):
        advance = FOLLOWERS[family]
        track = [history[0]]
        for shown in history[1:]:
            cell = advance(track, leader, sign)
            if cell != shown:
                break
            track.append(cell)
        else:
            whole = follow(family, sign > 0, history[0], leader)
            futures.add(whole[len(history) :])
    return futures


def solve(histories: Mapping[str, Track]) -> dict[str, Future]:
    """Predict every piece for which all explanations agree.

    Independent explanations win over dependent ones; pieces with an independent explanation
    may lead the others.

    Args:
        histories: Label -> shown cells of frames 0 to 6.

    Returns:
        Label -> cells of frames 7 to 11; pieces without a single answer are left out.
    """
    alone = {label: independent_futures(history) for label, history in histories.items()}
    solved = {label: next(iter(found)) for label, found in alone.items() if len(found) == 1}
    leaders = leading(histories, solved)
    for label, found in alone.items():
        if not found:
            futures = dependent_futures(histories[label], leaders)
            if len(futures) == 1:
                solved[label] = next(iter(futures))
    return solved


def leading(histories: Mapping[str, Track], solved: Mapping[str, Future]) -> Sequence[Track]:
    """Return the whole tracks of the pieces that are explained by themselves."""
    return [histories[label] + future for label, future in solved.items()]
