"""Reading observation texts, damaged ones too: refused by ValueError, or read without a loss."""

from functools import cache
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import pytest
from episodes import play_episode

from s3gym.agents.strategies import playbook_of
from s3gym.catalog import find_game, pictures
from s3gym.games import GAMES
from s3gym.records import Phase
from s3gym.seeds import Stream

PIECES = ("", "0", "9", "-", ".", "A", "#", " ", "?", "<", "&", "1e5", "99999999999", "\u0663",
          "\u202e", "\ud800", "\n")  # fmt: skip


@cache
def texts(name: str) -> tuple[str, ...]:
    if name == "chess_duel":
        pytest.importorskip("chess")
    found: list[str] = []
    for phase in Phase:
        choose = playbook_of(name).random
        found += play_episode(find_game(name), None, phase, 5, choose, world=2).observations
    return tuple(dict.fromkeys(found))


def reader(name: str) -> Any:
    return import_module(f"s3gym.agents.reading.{name}").read


def damaged(text: str, stream: Stream) -> str:
    """Return the text with a line lost, doubled or moved, or some characters replaced."""
    lines = text.split("\n")
    for _ in range(stream.between(1, 2)):
        kind, index = stream.below(6), stream.below(len(lines))
        if kind == 0 and len(lines) > 1:
            del lines[index]
        elif kind == 1:
            lines.insert(index, stream.pick(lines))
        elif kind == 2:
            other = stream.below(len(lines))
            lines[index], lines[other] = lines[other], lines[index]
        else:
            line = lines[index]
            place = stream.between(0, len(line))
            rest = line[place + stream.below(2) :]
            lines[index] = f"{line[:place]}{stream.pick(PIECES)}{rest}"
    return "\n".join(lines)


def renumbered(text: str) -> list[str]:
    """Return the text with a leading zero put before each of its numbers in turn."""
    starts = [
        index
        for index, sign in enumerate(text)
        if sign.isdigit() and not (index and text[index - 1].isdigit())
    ]
    return [f"{text[:index]}0{text[index:]}" for index in starts[:200]]


@pytest.mark.parametrize("name", sorted(GAMES))
def test_a_damaged_text_is_refused_or_read_without_a_loss(name: str) -> None:
    stream, read, draw = Stream(9), reader(name), pictures([name])[name]
    outcome = playbook_of(name).outcome
    known = texts(name)
    tried = [damaged(stream.pick(known), stream) for _ in range(400)]
    messages: list[str] = []
    for text in [*known, *tried, *renumbered(known[0]), *renumbered(known[-1])]:
        try:
            view = read(text)
        except ValueError as error:
            messages.append(str(error))
            continue
        assert view.render() == text
        ElementTree.fromstring(draw(text))
        outcome(text)
    assert len(messages) > 200
    assert all(message.isascii() and len(message) < 400 for message in messages)


def test_frames_of_chess_with_different_pieces_are_refused() -> None:
    text = texts("chess")[0]
    head, _, last = text.rpartition("Frame 6")
    letter = next(sign for sign in last if sign.isalpha())
    with pytest.raises(ValueError, match="the same pieces"):
        reader("chess")(f"{head}Frame 6{last.replace(letter, _free(text))}")


def _free(text: str) -> str:
    """Return a letter that no piece of the text has."""
    used = {sign.upper() for line in text.split("\n")[3:] if "." in line for sign in line}
    return next(letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in used)
