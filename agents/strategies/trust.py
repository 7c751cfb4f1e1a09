"""Plain strategies for trust. They know the printed payoffs and what was played, nothing else.

A self-score is the payoff to expect when the opponent goes on collaborating as often as it has
so far (one imagined round of each kind counted in, so that the first round is not certain).
"""

from s3gym.agents.reading.trust import CHEAT, COLLABORATE, TrustView, read
from s3gym.agents.strategies.playbook import Chooser, Move, Playbook
from s3gym.records import Turn
from s3gym.seeds import Stream

PAYOFF = {
    (COLLABORATE, COLLABORATE): 2,
    (COLLABORATE, CHEAT): -1,
    (CHEAT, COLLABORATE): 3,
    (CHEAT, CHEAT): 0,
}
"""Own payoff by (own move, opponent's move), as the rules print it."""


def expected_payoff(view: TrustView, own: str) -> float:
    """Return the expected payoff of a move, in game points, to two decimals."""
    friendly = sum(each.other == COLLABORATE for each in view.rounds)
    share = (friendly + 1) / (len(view.rounds) + 2)
    return round(share * PAYOFF[own, COLLABORATE] + (1 - share) * PAYOFF[own, CHEAT], 2)


def always_cheat(turn: Turn, stream: Stream) -> Move:
    """Cheat in every round."""
    return _move(read(turn.observation.text), CHEAT)


def always_collaborate(turn: Turn, stream: Stream) -> Move:
    """Collaborate in every round."""
    return _move(read(turn.observation.text), COLLABORATE)


def contrarian(turn: Turn, stream: Stream) -> Move:
    """Cheat first, then do the opposite of what the opponent did last."""
    view = read(turn.observation.text)
    cheated = bool(view.rounds) and view.rounds[-1].other == CHEAT
    return _move(view, COLLABORATE if cheated else CHEAT)


def copycat_last_cheat(turn: Turn, stream: Stream) -> Move:
    """Collaborate first, then repeat the opponent's last move; cheat in the last round."""
    view = read(turn.observation.text)
    if view.step >= view.max_steps:
        return _move(view, CHEAT)
    return _move(view, view.rounds[-1].other if view.rounds else COLLABORATE)


def random_word(turn: Turn, stream: Stream) -> Move:
    """Draw one of the two words."""
    return _move(read(turn.observation.text), stream.pick((COLLABORATE, CHEAT)))


def outcome(text: str) -> float:
    """Return the sum of the payoffs that the text shows, in game points."""
    return float(sum(each.payoff for each in read(text).rounds))


def _move(view: TrustView, own: str) -> Move:
    return Move(action=own, self_score=expected_payoff(view, own))


STRATEGIES: dict[str, Chooser] = {
    "always-cheat": always_cheat,
    "always-collaborate": always_collaborate,
    "contrarian": contrarian,
    "copycat-last-cheat": copycat_last_cheat,
}
PLAYBOOK = Playbook(strategies=STRATEGIES, random=random_word, outcome=outcome)
