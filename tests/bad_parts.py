"""Plug-ins that misbehave, for several tests."""

from dataclasses import replace
from typing import Any

from s3gym.games.trust import SPEC as TRUST
from s3gym.records import Cue, Phase, Recollection


class OddText(str):
    """Text whose own methods tell lies, also to SQLite."""

    def __conform__(self, protocol: object) -> object:
        return object()

    def __len__(self) -> int:
        return 0

    def isascii(self) -> bool:
        return True


class BadMemory:
    recall_each = "episode"

    def __init__(self, **faults: Any) -> None:
        self._faults = faults

    def _do(self, what: str) -> Any:
        if what in self._faults:
            raise self._faults[what]

    async def record(self, episode: Any) -> None:
        self._do("record")

    async def consolidate(self, rules: str, max_tokens: int) -> None:
        self._do("consolidate")

    async def recall(self, cue: Cue) -> Any:
        self._do("recall")
        return self._faults.get("answer", Recollection())

    def freeze(self) -> Any:
        self._do("freeze")
        return self


class BadGame:
    """Trust with one method broken."""

    def __init__(self, what: str, answer: Any) -> None:
        self.what, self.answer = what, answer
        self.name, self.version = "trust", 1
        self.options, self.anchors = TRUST.options, TRUST.anchors

    def instruction(self, options: Any, phase: Phase) -> Any:
        return self._do("instruction", TRUST.instruction(options, phase))

    def rules(self, options: Any, phase: Phase) -> Any:
        return self._do("rules", TRUST.rules(options, phase))

    def setup(self, options: Any, phase: Phase) -> Any:
        setup = TRUST.setup(options, phase)
        inner, judge, outer = setup.game, setup.verifier, self

        class Rules:
            def start(self, seeds: Any) -> Any:
                return outer._do("start", inner.start(seeds))

            def observe(self, state: Any, clock: Any) -> Any:
                return outer._do("observe", inner.observe(state, clock))

            def apply(self, state: Any, action: str) -> Any:
                return outer._do("apply", inner.apply(state, "cheat"))

        class Judge:
            def reward(self, before: Any, action: str, after: Any) -> Any:
                return outer._do("reward", judge.reward(before, "cheat", after))

            def score(self, rewards: Any, final: Any) -> Any:
                return outer._do("score", judge.score(rewards, final))

        changed: Any = replace(setup, game=Rules(), verifier=Judge())
        return self._do("setup", changed)

    def _do(self, what: str, usual: Any) -> Any:
        if what != self.what:
            return usual
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")

    def __repr__(self) -> str:
        raise RuntimeError("no words")


class Drastic(BaseException):
    pass
