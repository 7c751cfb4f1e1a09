"""Plants-vs-Zombies: spending sun on plants so that no zombie crosses the board.

Observation: the turn about to be played and the sun; one line per row, cells separated by
             bars; then all plants with their hit points (row-major) and all zombies with
             theirs (in spawn order).
Actions:     ``LETTER ROW COLUMN`` items separated by ``;``, zero-based, any number of them, for
             example ``X 1 0; W 2 0``; the empty action plants nothing. A refused item costs
             nothing and is named in the feedback; no action is ever refused as a whole.
Reward:      1 point for each turn that is survived, 0 for the lethal one.
Score:       the sum of the rewards: turns survived.
Ends:        when a zombie walks past column 0; the runner truncates after ``HORIZON`` turns.
Phases:      exploration has 3 rows and 7 columns, evaluation 5 rows and 6 columns.
Source:      S3Gym paper (arXiv 2608.31100), Plants-vs-Zombies; games.md section 6 for all
             numbers and the order of a turn.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field as Described

from s3gym.contracts import game as contract
from s3gym.contracts.game import Anchors, Clock, Setup, Transition
from s3gym.games._pvz_turn import Field, TorchRule, bloom, burn, march, place, shoot
from s3gym.games._pvz_units import (
    CHILI,
    HORIZON,
    HP_PER_STAGE,
    PLANTS,
    STAGE_TURNS,
    START_SUN,
    SUN_PER_TURN,
    TORCH,
    TORCH_BONUS,
    WAVE_EVERY,
    WAVE_TURNS,
    ZOMBIES,
    Plant,
    Wave,
    Zombie,
    draw_waves,
    stage_of,
    wave_size,
)
from s3gym.games._spec import StandardSpec
from s3gym.records import Phase
from s3gym.seeds import EpisodeSeeds

EMPTY = "."
BAR = "|"
Side = Annotated[int, Described(ge=1, le=20)]


class Options(contract.Options):
    """Switches of Plants-vs-Zombies."""

    lethal_turn_counts: bool = Described(
        default=False, description="whether the turn in which a zombie gets through is a point"
    )
    torch: TorchRule = Described(
        default="shooter_row",
        description="which row's torch strengthens a shot: the shooter's or the target's",
    )
    show_hp: bool = Described(
        default=True, description="whether the observation lists the hit points"
    )
    exploration_rows: Side = Described(default=3, description="rows of exploration boards")
    exploration_columns: Side = Described(default=7, description="columns of exploration boards")
    evaluation_rows: Side = Described(default=5, description="rows of evaluation boards")
    evaluation_columns: Side = Described(default=6, description="columns of evaluation boards")

    def size(self, phase: Phase) -> tuple[int, int]:
        """Return rows and columns of a phase's board."""
        if phase is Phase.EVALUATION:
            return self.evaluation_rows, self.evaluation_columns
        return self.exploration_rows, self.exploration_columns


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A board and the waves to come.

    Attributes:
        sun: What can be spent.
        plants: Row-major.
        zombies: In spawn order.
        waves: All waves of the episode, drawn before the first turn.
        turns: Turns survived so far.
        lost: Whether a zombie got through.
    """

    sun: int = START_SUN
    plants: tuple[Plant, ...] = ()
    zombies: tuple[Zombie, ...] = ()
    waves: tuple[Wave, ...] = ()
    turns: int = 0
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantsVsZombies:
    """The rules, for one size of board."""

    rows: int
    columns: int
    torch: TorchRule = "shooter_row"
    show_hp: bool = True

    def start(self, seeds: EpisodeSeeds) -> State:
        return State(waves=draw_waves(seeds.stream("waves"), self.rows, self.columns))

    def observe(self, state: State, clock: Clock) -> str:
        cells = [[""] * self.columns for _ in range(self.rows)]
        for letter, row, column, _ in state.plants:
            cells[row][column] = letter
        for letter, row, column, _ in state.zombies:
            cells[row][column] += letter
        lines = ["Current Game State:", _head(state, clock)]
        lines += [
            f"Row {index}: {BAR.join(cell or EMPTY for cell in row)}"
            for index, row in enumerate(cells)
        ]
        if self.show_hp:
            lines.append(f"Plants: {_listed(state.plants)}")
            lines.append(f"Zombies: {_listed(state.zombies)}")
        return "\n".join(lines)

    def apply(self, state: State, action: str) -> Transition[State]:
        field = Field(
            rows=self.rows,
            columns=self.columns,
            sun=state.sun,
            plants={(plant.row, plant.column): plant for plant in state.plants},
            zombies=list(state.zombies),
        )
        feedback = place(field, action)
        burn(field)
        bloom(field)
        shoot(field, self.torch)
        march(field)
        lost = field.breached is not None
        turn = state.turns + 1
        if lost:
            feedback += f" A zombie got through in row {field.breached}: the game is over."
        else:
            field.sun += SUN_PER_TURN
            for wave in state.waves:
                if wave.turn == turn:
                    field.zombies += wave.zombies
        after = State(
            sun=field.sun,
            plants=tuple(field.plants[cell] for cell in sorted(field.plants)),
            zombies=tuple(field.zombies),
            waves=state.waves,
            turns=state.turns if lost else turn,
            lost=lost,
        )
        return Transition(state=after, feedback=feedback, terminated=lost)


@dataclass(frozen=True, slots=True, kw_only=True)
class PvzVerifier:
    """One point per survived turn; the rules never call it."""

    lethal_turn_counts: bool = False

    def reward(self, before: State, action: str, after: State) -> float:
        if after.lost:
            return float(self.lethal_turn_counts)
        return float(after.turns - before.turns)

    def score(self, rewards: Sequence[float], final: State) -> float:
        return float(sum(rewards))


def rules(options: Options, phase: Phase) -> str:
    """Return the rules text of a phase's board."""
    rows, columns = options.size(phase)
    lines = [
        f"Plants-vs-Zombies on a board of {rows} rows and {columns} columns, both counted from 0. "
        f"Zombies enter in column {columns - 1} and walk left. When one walks past column 0, the "
        f"game is over. Survive up to {HORIZON} turns.",
        "Action: items LETTER ROW COLUMN separated by ';', for example 'X 1 0; W 2 0'. Plant as "
        "many as you can pay for; an empty action plants nothing. An item is refused, alone, "
        "if its cell is off the board or holds a plant, or if the sun does not suffice. You may "
        "plant where zombies stand.",
        f"You start with {START_SUN} sun. Plants (letter, name, cost in sun, hit points, effect):",
        *_plant_lines(options),
        "The first zombie of a row is the one furthest to the left, on either side of the shooter.",
        "Zombies (letter, name, hit points, damage per turn, from turn):",
        *(
            f"{letter}: {kind.name}, {kind.hp}, {kind.attack}, "
            f"{next(turn for turn in WAVE_TURNS if stage_of(turn) >= kind.stage)}"
            for letter, kind in ZOMBIES.items()
        ),
        f"New zombies enter at the end of turns {WAVE_TURNS[0]}, {WAVE_TURNS[1]}, "
        f"{WAVE_TURNS[2]} and so on, every {WAVE_EVERY} turns, each in a random row and of a "
        f"random kind: {wave_size(1)} at a time up to turn {STAGE_TURNS}, and one more for every "
        f"{STAGE_TURNS} turns after it. Hit points are those of the table plus {HP_PER_STAGE} for "
        f"every {STAGE_TURNS} turns.",
        f"Order of a turn: your plants are placed; {PLANTS[CHILI].name}s burn; sunflowers give "
        "sun; shooters fire, row by row and from the left; each zombie, in the order of entering, "
        "bites the plant in its cell or, if there is none, walks one column left; new zombies "
        f"enter; you get {SUN_PER_TURN} sun.",
        "Each turn that you survive is 1 point; the turn in which a zombie gets through is "
        f"{int(options.lethal_turn_counts)}.",
    ]
    return "\n".join(lines)


def _plant_lines(options: Options) -> Iterable[str]:
    row = "its own row" if options.torch == "shooter_row" else "the row that is shot at"
    shooters = "every shooter to its left" if options.torch == "shooter_row" else "every shot"
    torch = f"adds {TORCH_BONUS} damage to {shooters} ({row}); several add no more"
    for letter, kind in PLANTS.items():
        effect = torch if letter == TORCH else kind.effect
        yield f"{letter}: {kind.name}, {kind.cost}, {kind.hp or '-'}, {effect}"


def setup(options: Options, phase: Phase) -> Setup[State]:
    """Return a phase's version of the game."""
    rows, columns = options.size(phase)
    return Setup(
        game=PlantsVsZombies(
            rows=rows, columns=columns, torch=options.torch, show_hp=options.show_hp
        ),
        verifier=PvzVerifier(lethal_turn_counts=options.lethal_turn_counts),
        max_steps=HORIZON,
        reward_range=(0.0, 1.0),
        score_range=(0.0, float(HORIZON)),
    )


def _head(state: State, clock: Clock) -> str:
    if state.lost:
        return f"Lost in turn {state.turns + 1} of {clock.max_steps}, sun {state.sun}"
    if state.turns >= clock.max_steps:
        return f"All {clock.max_steps} turns survived, sun {state.sun}"
    return f"Turn {state.turns + 1} of {clock.max_steps}, sun {state.sun}"


def _listed(units: Sequence[Plant | Zombie]) -> str:
    return (
        "; ".join(f"{letter} ({row},{column}) HP {hp}" for letter, row, column, hp in units)
        or "none"
    )


SPEC = StandardSpec(
    name="pvz",
    version=1,
    options=Options,
    anchors=Anchors(random=7.6, reference=64.0, ceiling=64.0),
    rules_text=rules,
    make_setup=setup,
)
