"""Chess with latent rules: predict where each lettered piece stands in the next frame.

Observation: a header with board size, number of pieces and number of the prediction, then the
             seven most recent frames, oldest first, ``SIZE`` lines of ``SIZE`` characters each.
Actions:     ``A:(row,col), b:(row,col), ...`` in any order, any subset of the pieces, any case.
Reward:      share of the pieces whose next cell was named, in game points [0, 1].
Score:       the sum of its rewards divided by 5, in game points [0, 1].
Ends:        after 5 predictions, whether readable or not.
Phases:      exploration has 12 pieces, evaluation 22; the same rules of movement.
Source:      S3Gym paper (arXiv 2608.31100), Chess: board, pieces, history and predictions; all
             about the movement is ours (games.md section 1; ``_chess_motion.py``).

Which letter moves by which family is secret, constant over a study and permuted by its world
seed. What is not a readable prediction is an empty one: the frame after it is shown all the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from s3gym.contracts.game import Anchors, Clock, Options, Setup, Transition
from s3gym.errors import ProtocolBreachError
from s3gym.games._chess_generator import draw_tracks, letter_table
from s3gym.games._chess_motion import HISTORY, PREDICTIONS, SIZE, Cell, Track
from s3gym.games._spec import StandardSpec
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

PIECES: Mapping[Phase, int] = {Phase.EXPLORATION: 12, Phase.EVALUATION: 22}
PAPER_DENOMINATOR = 15
EMPTY = "."
MAX_ACTION = 10_000
ITEM = re.compile(
    r"(?<!\w)([A-Za-z])[ \t\r\n]*+:[ \t\r\n]*+\([ \t\r\n]*+([+-]?[0-9]++)[ \t\r\n]*+,"
    r"[ \t\r\n]*+([+-]?[0-9]++)[ \t\r\n]*+\)"
)
OFF_BOARD = -1
MAX_DIGITS = 9


class ChessOptions(Options):
    """Switches of chess."""

    letter_table: Literal["fixed", "random"] = Field(
        default="fixed",
        description="each letter belongs to one family throughout a study, or every piece draws "
        "its family anew",
    )
    denominator: Annotated[
        Literal["pieces", 15], BeforeValidator(lambda value: 15 if value == "15" else value)
    ] = Field(
        default="pieces",
        description="what the right cells of a step are divided by: the number of pieces, or 15, "
        "the scale of the paper's table 4 (a step with 22 pieces then pays up to 22/15)",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A board with its future.

    Attributes:
        tracks: Label -> cells of frames 0 to 11; those not yet shown are hidden. As a tuple of
            pairs, sorted by letter.
        step: Predictions made so far, 0 to 5.
    """

    tracks: tuple[tuple[str, Track], ...]
    step: int = 0


def read_prediction(action: str) -> dict[str, Cell]:
    """Return the cells that an action names, by upper-case letter; never raises.

    An item is ``label:(row,column)`` with blanks anywhere between its parts; whatever stands
    between items is skipped. The last item of a letter counts. Only ASCII letters and digits are
    read, and an action of more than ``MAX_ACTION`` characters holds no item at all.
    """
    if len(action) > MAX_ACTION:
        return {}
    return {
        found[1].upper(): (_index(found[2]), _index(found[3])) for found in ITEM.finditer(action)
    }


def _index(digits: str) -> int:
    return int(digits) if len(digits) <= MAX_DIGITS else OFF_BOARD


@dataclass(frozen=True, slots=True, kw_only=True)
class Chess:
    """The rules, for one number of pieces.

    Attributes:
        n_pieces: Pieces on the board.
        fixed_letters: Whether each letter belongs to one family throughout a study.
    """

    n_pieces: int
    fixed_letters: bool = True

    def start(self, seeds: EpisodeSeeds) -> State:
        table = letter_table(seeds) if self.fixed_letters else None
        tracks = draw_tracks(seeds, self.n_pieces, table)
        return State(tracks=tuple(sorted(tracks.items(), key=lambda item: item[0].upper())))

    def observe(self, state: State, clock: Clock) -> str:
        number = (
            f"prediction {state.step + 1} of {PREDICTIONS}"
            if state.step < PREDICTIONS
            else f"all {PREDICTIONS} predictions made"
        )
        lines = [f"Board {SIZE}x{SIZE}, {len(state.tracks)} pieces, {number}"]
        lines.append("Current Game State:")
        for frame in range(state.step, state.step + HISTORY):
            lines.append(f"Frame {frame}")
            lines.extend(draw_frame({label: track[frame] for label, track in state.tracks}))
        return "\n".join(lines)

    def apply(self, state: State, action: str) -> Transition[State]:
        step = state.step + 1
        readable = len(action) <= MAX_ACTION and ITEM.search(action)
        return Transition(
            state=replace(state, step=step),
            feedback="Prediction recorded."
            if readable
            else "No prediction could be read: expected items like A:(1,2), b:(3,4).",
            terminated=step == PREDICTIONS,
        )


def draw_frame(cells: Mapping[str, Cell]) -> list[str]:
    """Return one frame as lines, row 0 on top.

    Raises:
        ProtocolBreachError: Two pieces stand on one cell; no generated board has that.
    """
    rows = [[EMPTY] * SIZE for _ in range(SIZE)]
    for label, (row, column) in cells.items():
        if rows[row][column] != EMPTY:
            raise ProtocolBreachError(
                f"chess pieces {rows[row][column]!r} and {label!r} share cell ({row},{column})"
            )
        rows[row][column] = label
    return ["".join(row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChessVerifier:
    """What a prediction is worth; the rules never call it.

    Attributes:
        denominator: Right cells are divided by it; ``None`` means by the number of pieces.
    """

    denominator: int | None = None

    def reward(self, before: State, action: str, after: State) -> float:
        named = read_prediction(action)
        frame = HISTORY + before.step
        right = sum(named.get(label.upper()) == track[frame] for label, track in before.tracks)
        return right / (self.denominator or len(before.tracks))

    def score(self, rewards: Sequence[float], final: State) -> float:
        return sum(rewards) / PREDICTIONS


def rules_text(options: ChessOptions, phase: Phase) -> str:
    """Return the rules; how pieces move is the secret of the game, so no family is named."""
    n_pieces = PIECES[phase]
    divisor = n_pieces if options.denominator == "pieces" else options.denominator
    letters = (
        "A letter moves by the same kind of rule in every episode, with other details (direction, "
        "start) each time; whether it is written in upper or lower case may matter, too."
        if options.letter_table == "fixed"
        else "The kind of rule is drawn anew for every piece and every episode: the letter tells "
        "nothing about it."
    )
    return (
        f"Latent-rule chess. {n_pieces} pieces, each marked by a letter of its own, move at the "
        f"same time on a board of {SIZE} rows and {SIZE} columns, one move per frame. Each piece "
        "follows a hidden rule of movement; some watch another piece. You are not told the rules: "
        f"find them from the frames. {letters} No two pieces ever share a cell, and each piece's "
        f"next cells can be worked out from its cells in the first {HISTORY} frames and those of "
        "the other pieces.\n"
        f"The state shows the {HISTORY} most recent frames, oldest first; row 0 is the top line, "
        f"column 0 the leftmost character, {EMPTY!r} an empty cell.\n"
        "Action: the cell of as many pieces as you can in the frame that comes next, as items "
        "label:(row,col) separated by commas, for example A:(1,2), b:(3,4), c:(5,6). Any order, "
        "any subset, either case of the letter; of two items for one letter the last one counts. "
        "After your action that frame is shown. An action without a readable item predicts "
        "nothing, and the game goes on.\n"
        f"The reward of an action is the number of pieces whose cell is right divided by "
        f"{divisor}; wrong cells, unknown letters and pieces left out cost nothing. There are "
        f"{PREDICTIONS} predictions; your score is the sum of the rewards divided by "
        f"{PREDICTIONS}, also when you end earlier."
    )


def make_setup(options: ChessOptions, phase: Phase) -> Setup[State]:
    """Return the phase's version: only the number of pieces differs."""
    n_pieces = PIECES[phase]
    denominator = None if options.denominator == "pieces" else options.denominator
    best = n_pieces / (denominator or n_pieces)
    return Setup(
        game=Chess(n_pieces=n_pieces, fixed_letters=options.letter_table == "fixed"),
        verifier=ChessVerifier(denominator=denominator),
        max_steps=PREDICTIONS,
        reward_range=(0.0, best),
        score_range=(0.0, best),
    )


SPEC = StandardSpec(
    name="chess",
    version=1,
    options=ChessOptions,
    anchors=Anchors(random=1 / SIZE**2, reference=1.0, ceiling=1.0),
    rules_text=rules_text,
    make_setup=make_setup,
)
