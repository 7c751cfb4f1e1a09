"""``check_game``: does a game keep the contract of ``s3gym.contracts.game``?

Each episode is played three times with the same seeds and actions: to look at its texts, to see
that they come again, and with the verifier asked at every step. The check knows no game.
"""

import math
import random
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from s3gym.contracts.game import GameSpec, Options, Setup, Transition
from s3gym.errors import InvalidActionError
from s3gym.records import Phase
from s3gym.replies import ANSWER
from s3gym.seeds import EpisodeSeeds, Stream, derive
from s3gym.testing.findings import Findings
from s3gym.testing.walk import NONSENSE, ChooseAction, Seen, accepted, guesser, walk

NAME = re.compile(r"[a-z][a-z0-9_-]*")
VERIFIER_WORDS = re.compile(r"\b(reward|score)", re.IGNORECASE)
MAX_REFUSAL = 1_000
STEPS_WITH_NONSENSE = 3
GUESSES = 200
RISK = 0.1
"""Share of guessed actions that are played whether the rules accept them or not."""
TOLERANCE = 1e-9

RAISES_NOTHING = "game and spec raise nothing but InvalidActionError"
PURE = "same seeds and actions give the same texts"
UNCHANGED = "a state never changes"
NO_REWARD = "texts hold no reward and no score"


def check_game(
    spec: GameSpec,
    *,
    actions: ChooseAction | None = None,
    episodes: int = 4,
    seed: int = 0,
) -> None:
    """Check a game, its verifier and its ``SPEC``.

    Args:
        spec: The game.
        actions: Chooses actions from an observation and a random stream; by default they are
            guessed from the words of the rules. Give one when the check says that no action
            was accepted.
        episodes: Episodes per phase.
        seed: Fixes the episodes that are played.

    Raises:
        ConformanceError: The game breaks its contract; it lists every broken promise.
    """
    check = _Check(spec, actions, seed)
    generator = random.getstate()
    check.run(episodes)
    check.findings.where = ""
    check.findings.expect(
        random.getstate() == generator,
        "randomness comes from the seeds alone",
        "it used Python's process-wide generator",
    )
    check.findings.raise_if_any()


class _Check:
    def __init__(self, spec: GameSpec, choose: ChooseAction | None, seed: int) -> None:
        self.spec, self.choose, self.seed = spec, choose, seed
        self.findings = Findings(f"game {getattr(spec, 'name', spec)!r}")
        self._place = ""

    def run(self, episodes: int) -> None:
        with self.findings.catching(RAISES_NOTHING):
            self._spec()
        for phase in Phase:
            self.findings.where = phase.value
            with self.findings.catching(RAISES_NOTHING):
                self._phase(phase, episodes)

    def _spec(self) -> None:
        spec, expect = self.spec, self.findings.expect
        expect(bool(NAME.fullmatch(spec.name)), "a name is short and lower-case", repr(spec.name))
        expect(spec.version >= 1, "a version is at least 1", repr(spec.version))
        expect(issubclass(spec.options, Options), "options subclass Options", repr(spec.options))
        anchors = spec.anchors
        levels = (anchors.random, anchors.reference, anchors.ceiling)
        kept = all(map(math.isfinite, levels)) and max(levels) <= anchors.ceiling + TOLERANCE
        expect(kept, "anchors are finite and at most the ceiling", repr(anchors))

    def _phase(self, phase: Phase, episodes: int) -> None:
        spec = self.spec
        options = spec.options()
        for what, make in (("instruction", spec.instruction), ("rules", spec.rules)):
            text = make(options, phase)
            self._text(what, text)
            self.findings.expect(text == make(options, phase), PURE, f"two {what} texts differ")
            self.findings.expect(
                not ANSWER.search(text),
                "the response contract is left to the prompt",
                f"the {what} text says 'Answer:'",
            )
        self._setup(spec.setup(options, phase))
        n_accepted = 0
        for number in range(episodes):
            self._place = f"{phase.value}, episode {number}"
            n_accepted += self._episode(phase, options, number)
        self.findings.where = phase.value
        self.findings.expect(
            n_accepted > 0,
            "an action is accepted now and then",
            "the check saw none accepted; pass actions= that knows some",
        )

    def _setup(self, setup: Setup[Any]) -> None:
        expect = self.findings.expect
        expect(setup.max_steps >= 1, "max_steps is at least 1", repr(setup.max_steps))
        known = setup.on_invalid in ("noop", "end")
        expect(known, "on_invalid is 'noop' or 'end'", repr(setup.on_invalid))
        for what in ("reward_range", "score_range"):
            low, high = getattr(setup, what)
            kept = math.isfinite(low) and math.isfinite(high) and low <= high
            expect(kept, f"{what} is (least, greatest)", repr((low, high)))

    def _episode(self, phase: Phase, options: Options, number: int) -> int:
        """Play one episode three times; return how many actions were accepted."""
        seeds = EpisodeSeeds(
            episode=derive("check game", self.seed, phase.value, number),
            world=None if number % 2 else derive("check world", self.seed, number),
            game=self.spec.name,
        )
        first: list[Seen] = []
        finished = False
        setup = self.spec.setup(options, phase)
        choose = self._chooser(setup, self.spec.rules(options, phase), seeds.episode)
        with self.findings.catching(RAISES_NOTHING):
            for seen in self._placed(walk(setup, seeds, choose)):
                first.append(seen)
                self._step(setup, seen)
                if seen.clock.step <= STEPS_WITH_NONSENSE:
                    self._throw_nonsense(setup, seen)
            finished = True
        if not finished:
            return len(first)
        actions = [seen.action for seen in first]
        with self.findings.catching(RAISES_NOTHING):
            setup, script = self.spec.setup(options, phase), iter(actions)
            self._same(first, walk(setup, seeds, lambda text, state: next(script, "")), PURE)
        with self.findings.catching("a verifier raises nothing"):
            setup, script = self.spec.setup(options, phase), iter(actions)
            judged = self._judged(setup, walk(setup, seeds, lambda text, state: next(script, "")))
            self._same(first, judged, "the verifier changes nothing that can be seen")
        return sum(not seen.refused for seen in first)

    def _chooser(self, setup: Setup[Any], rules: str, seed: int) -> Callable[[str, Any], str]:
        """Return the given chooser, or one that guesses and mostly avoids refusals."""
        stream = Stream(derive("check actions", seed))
        given, guess = self.choose, guesser(rules)
        if given is not None:
            return lambda text, state: given(text, stream)

        def choose(text: str, state: Any) -> str:
            tries = 1 if stream.chance(RISK) else GUESSES
            return accepted(setup, state, (guess(text, stream) for _ in range(tries)))

        return choose

    def _placed(self, steps: Iterable[Seen]) -> Iterable[Seen]:
        """Pass the steps on, and say in every finding at which step it was made."""
        self.findings.where = f"{self._place}, step 0"
        for seen in steps:
            yield seen
            self.findings.where = f"{self._place}, step {seen.clock.step}"
        self.findings.where = self._place

    def _same(self, first: Sequence[Seen], again: Iterable[Seen], promise: str) -> None:
        n_steps = 0
        for other, one in zip(self._placed(again), first, strict=False):
            n_steps += 1
            for before, after in zip(one.texts, other.texts, strict=True):
                detail = f"first {before[:200]!r}, then {after[:200]!r}"
                self.findings.expect(before == after, promise, detail)
        detail = f"first {len(first)} steps, then {n_steps}"
        self.findings.expect(n_steps == len(first), promise, detail)

    def _step(self, setup: Setup[Any], seen: Seen) -> None:
        self._text("observation", seen.text)
        self._text("observation", seen.outcome)
        self._unchanged(setup, seen, seen.action)
        if seen.refused:
            self._refusal(seen.feedback)
        self.findings.expect(
            isinstance(seen.feedback, str) and seen.feedback == seen.feedback.rstrip(),
            "feedback is text without blanks at its end",
            repr(seen.feedback)[:200],
        )
        said = str(seen.feedback).replace(seen.action, "")  # a refusal may repeat the action
        told = VERIFIER_WORDS.search(said)
        self.findings.expect(told is None, NO_REWARD, f"feedback says {seen.feedback[:200]!r}")

    def _text(self, what: str, text: object) -> None:
        if not isinstance(text, str) or not text.strip():
            self.findings.add(f"{what} is a text", repr(text)[:200])
            return
        blank = [line for line in text.split("\n") if line != line.rstrip()]
        kept = not blank and text == text.rstrip()
        detail = f"a line ends in blanks: {blank[0][-80:]!r}" if blank else "it ends in blank lines"
        self.findings.expect(kept, f"{what} has no blanks at the end of a line", detail)

    def _unchanged(self, setup: Setup[Any], seen: Seen, action: str) -> None:
        now = setup.game.observe(seen.before, seen.clock)
        self.findings.expect(now == seen.text, UNCHANGED, f"applying {action[:80]!a} changed it")

    def _refusal(self, message: str) -> None:
        kept = bool(message) and len(message) <= MAX_REFUSAL and message.isprintable()
        self.findings.expect(
            kept, "a refusal is one short printable line", f"got {message[:200]!a}"
        )

    def _throw_nonsense(self, setup: Setup[Any], seen: Seen) -> None:
        for action in NONSENSE:
            with self.findings.catching(RAISES_NOTHING):
                try:
                    transition = setup.game.apply(seen.before, action)
                except InvalidActionError as error:
                    self._refusal(str(error))
                else:
                    kept = isinstance(transition, Transition)
                    self.findings.expect(kept, "apply returns a Transition", repr(transition)[:200])
                    self._text("observation", setup.game.observe(transition.state, seen.clock))
            self._unchanged(setup, seen, action)

    def _judged(self, setup: Setup[Any], steps: Iterable[Seen]) -> Iterable[Seen]:
        """Pass the steps on, with the verifier asked after each, and for the score at the end."""
        rewards: list[float] = []
        final: Any = None
        for seen in steps:
            reward = 0.0
            if not seen.refused:
                given = (seen.before, seen.action, seen.after)
                reward = setup.verifier.reward(*given)
                self._value("reward", reward, setup.reward_range)
                same = setup.verifier.reward(*given) == reward
                self.findings.expect(same, "a verifier is pure", "two rewards of one step differ")
                self._not_shown(reward, seen.texts)
            rewards.append(reward)
            final = seen.after
            yield seen
        score = setup.verifier.score(tuple(rewards), final)
        self._value("score", score, setup.score_range)
        same = setup.verifier.score(tuple(rewards), final) == score
        self.findings.expect(same, "a verifier is pure", "two scores of one episode differ")

    def _value(self, what: str, value: object, bounds: tuple[float, float]) -> None:
        kept = isinstance(value, (int, float)) and math.isfinite(value)
        if self.findings.expect(kept, f"a {what} is a finite number", repr(value)[:200]):
            low, high = bounds[0] - TOLERANCE, bounds[1] + TOLERANCE
            inside = low <= float(str(value)) <= high
            self.findings.expect(inside, f"a {what} is in {what}_range", f"{value} not in {bounds}")

    def _not_shown(self, reward: float, texts: Iterable[str]) -> None:
        """Look for rewards that no text has by chance: those of four characters and more."""
        spelled = {text for text in (f"{reward:.9g}", str(reward)) if len(text.strip("-")) >= 4}
        for number in spelled:
            shown = re.compile(rf"(?<![\d.]){re.escape(number)}(?!\d)")
            for text in texts:
                self.findings.expect(not shown.search(text), NO_REWARD, f"{text[:200]!r}")
