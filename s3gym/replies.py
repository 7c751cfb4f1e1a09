"""The response contract: reading ``Answer: <ACTION>, Score: <SELF-SCORE>`` out of a reply.

One grammar for all games. An exact last line is ``ok``; what the lenient search finds
elsewhere is ``repaired``, with each repair named.

Source: S3Gym paper, response contract; games.md 0.4 for everything that it leaves open.
"""

import re
from collections import deque

from s3gym.records import MOST_POINTS, Decision, Status

NUMBER_PATTERN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
NUMBER = re.compile(NUMBER_PATTERN)
EXACT = re.compile(rf"Answer: (?P<action>.*), Score: (?P<score>{NUMBER_PATTERN})")
ANSWER = re.compile(r"\banswer[ \t]*:", re.IGNORECASE)
SCORE = re.compile(r"\bscore[ \t]*:", re.IGNORECASE)
DECORATION = " \t,*`"
AROUND_NUMBER = "*,`\"'()[]{}<>;"
PAIRS = (("{", "}"), ("<", ">"), ('"', '"'), ("'", "'"))
END = "END"


def is_end(action: str) -> bool:
    """Return whether an action says that the agent stops (any case)."""
    return len(action) < 16 and action.strip().upper() == END


def parse_reply(reply: str) -> Decision:
    """Turn a model's reply into a decision; never raises.

    A model may reason above its answer. The last ``Answer:`` counts, and of its line only; the
    action may itself hold commas. A number with anything glued to it (``1%``, ``1/16``) is no
    number: the action is kept and the self-score is missing.

    Args:
        reply: Full text of the model's message.

    Returns:
        The action, stripped, and the self-score in game points; ``status`` says how well the
        contract was kept: ``ok``, ``repaired``, ``no_score``, ``no_action`` or ``end``. A number
        beyond ``MOST_POINTS`` is no score.

    Source: games.md 0.4.
    """
    last_line = reply.rstrip().rpartition("\n")[2]
    exact = EXACT.fullmatch(last_line)
    if exact:
        action, score = exact["action"].strip(), _finite(exact["score"])
        if score is not None and action == _undecorated(action, []):
            status: Status = "end" if is_end(action) else "ok"
            return Decision(action=action, self_score=score, status=status, raw=reply)
    return _search(reply)


def _search(reply: str) -> Decision:
    last = deque(ANSWER.finditer(reply), maxlen=1)
    if not last:
        return Decision(action="", status="no_action", raw=reply)
    found = last[0]
    repairs: list[str] = []
    line = reply[found.end() :].partition("\n")[0].rstrip("\r")
    if "\n" in reply[found.end() :].rstrip():
        repairs.append("answer is not the last line")
    left, right = line, None
    parts = list(SCORE.finditer(line))
    if parts:
        left, right = line[: parts[-1].start()], line[parts[-1].end() :]
    action = _undecorated(left, repairs)
    score = None if right is None else _number(right, repairs)
    if is_end(action):
        status: Status = "end"
    elif score is None:
        status = "no_score"
    else:
        status = "repaired"
        repairs = repairs or ["wording or spacing of the answer line"]
    return Decision(
        action=action, self_score=score, status=status, raw=reply, repairs=tuple(repairs)
    )


def _undecorated(action: str, repairs: list[str]) -> str:
    bare = action.strip(DECORATION)
    if bare != action.strip():
        repairs.append("decoration around the action")
    for opening, closing in PAIRS:
        if len(bare) > 1 and bare[0] == opening and bare[-1] == closing:
            repairs.append("brackets or quotes around the action")
            return bare[1:-1].strip(DECORATION)
    return bare


def _number(text: str, repairs: list[str]) -> float | None:
    """Return the first number of the text when nothing is glued to it."""
    for index, word in enumerate(text.split()):
        if not any(character in "0123456789" for character in word):
            continue
        bare = word.strip(AROUND_NUMBER).rstrip(".")
        if not NUMBER.fullmatch(bare):
            return None
        if bare != word:
            repairs.append("decoration around the score")
        if index:
            repairs.append("words before the score")
        return _finite(bare)
    return None


def _finite(text: str) -> float | None:
    value = float(text)
    return value + 0.0 if abs(value) <= MOST_POINTS else None
