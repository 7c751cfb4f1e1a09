"""What a file of training examples is made of, in full: counts, reasons, hashes, provenance."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from s3gym.contracts.chat import TokenCounter
from s3gym.sft.dataset import Choice, Dataset, Explored, example_hash
from s3gym.sft.jsonl import Format
from s3gym.sft.policy import SFTPolicy

KIND = "s3gym-sft-1"
"""Names the form of a datasheet; another number when a key changes its meaning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A study that examples are taken from.

    Attributes:
        status: How the study stands: ``done``, or one that is still under way.
        oracle: Name of its oracle arm; ``""`` within the protocol.
        hashes: Per episode, the hash of its last step in the store.
        layouts: Per episode, the layout in which its examples are written.
    """

    id: str
    game: str
    game_version: int
    agent: str
    memory: str
    status: str
    oracle: str
    explored: tuple[Explored, ...]
    hashes: Mapping[str, str]
    layouts: Mapping[str, str]


def datasheet(
    dataset: Dataset,
    policy: SFTPolicy,
    sources: Sequence[Source],
    *,
    name: str,
    text: str,
    form: Format,
    counter: TokenCounter,
) -> dict[str, Any]:
    """Return everything that is known of a file of examples, JSON-safe and without a clock.

    Args:
        dataset: The examples.
        policy: What chose them.
        sources: The studies that they were chosen from.
        name: Name of the file.
        text: Its content.
        form: Its format.
        counter: Counts the tokens, message by message.
    """
    choices = (*dataset.sources, *dataset.dropped)
    return {
        "kind": KIND,
        "file": {
            "name": name,
            "format": form,
            "sha256": sha256(text.encode()).hexdigest(),
            "bytes": len(text.encode()),
        },
        "examples_sha256": dataset.hash,
        "policy": policy.model_dump(mode="json", exclude_none=True),
        "counts": {
            "studies": len(sources),
            "episodes": sum(len(source.explored) for source in sources),
            "steps": len(choices),
            "kept": len(dataset.examples),
            "dropped": len(dataset.dropped),
        },
        "dropped": dataset.reasons,
        "origins": dataset.origins,
        "statuses": _statuses(dataset),
        "games": _games(dataset),
        "tokens": _tokens(dataset, counter),
        "studies": [_study(source, dataset) for source in sources],
        "examples": [
            {
                "line": line,
                "sha256": example_hash(example),
                "weight": example.weight,
                **_place(choice),
                "origin": choice.origin,
            }
            for line, (example, choice) in enumerate(
                zip(dataset.examples, dataset.sources, strict=True), 1
            )
        ],
        "left_out": [
            {**_place(choice), "reason": choice.reason} for choice in _in_order(dataset, sources)
        ],
    }


def _place(choice: Choice) -> dict[str, Any]:
    return {
        "episode": choice.episode,
        "step": choice.step,
        "status": choice.status,
        "self_score": choice.self_score,
        "action": choice.action,
    }


def _in_order(dataset: Dataset, sources: Sequence[Source]) -> list[Choice]:
    """Return the steps that gave no example, in the order of episodes and steps."""
    ids = [item.episode.id for source in sources for item in source.explored]
    rank = {episode: position for position, episode in enumerate(ids)}
    return sorted(dataset.dropped, key=lambda choice: (rank[choice.episode], choice.step))


def _statuses(dataset: Dataset) -> dict[str, dict[str, int]]:
    kept = Counter(choice.status for choice in dataset.sources)
    gone = Counter(choice.status for choice in dataset.dropped)
    return {
        status: {"steps": kept[status] + gone[status], "kept": kept[status]}
        for status in sorted({*kept, *gone})
    }


def _games(dataset: Dataset) -> dict[str, dict[str, Any]]:
    kept = Counter(choice.game for choice in dataset.sources)
    gone = Counter(choice.game for choice in dataset.dropped)
    return {
        game: {
            "steps": kept[game] + gone[game],
            "kept": kept[game],
            "threshold": dataset.thresholds.get(game),
        }
        for game in sorted({*kept, *gone})
    }


def _tokens(dataset: Dataset, counter: TokenCounter) -> dict[str, Any]:
    prompts = [message.content for item in dataset.examples for message in item.messages]
    counted = {text: counter.count(text) for text in dict.fromkeys(prompts)}
    return {
        "counter": counter.name,
        "prompts": sum(counted[text] for text in prompts),
        "answers": sum(counter.count(example.answer) for example in dataset.examples),
    }


def _study(source: Source, dataset: Dataset) -> dict[str, Any]:
    ids = {item.episode.id for item in source.explored}
    kept = Counter(choice.episode for choice in dataset.sources)
    return {
        "id": source.id,
        "game": source.game,
        "game_version": source.game_version,
        "agent": source.agent,
        "memory": source.memory,
        "status": source.status,
        "oracle": source.oracle,
        "kept": sum(n for episode, n in kept.items() if episode in ids),
        "episodes": [
            {
                "id": item.episode.id,
                "steps": len(item.episode.steps),
                "kept": kept[item.episode.id],
                "layout": source.layouts[item.episode.id],
                "hash": source.hashes[item.episode.id],
            }
            for item in source.explored
        ],
    }
