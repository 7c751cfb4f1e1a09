"""What happens in a run, for whoever watches it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that a watcher of a run may want to show; holds nothing of the verifier.

    Attributes:
        kind: ``study``, ``episode`` (one is over), ``checkpoint`` (one is evaluated),
            ``update`` (of weights), ``invalid``, ``done``, ``paused``, ``failed`` or ``moved`` (to
            another worker).
        ordinal: Exploration episodes so far, or the checkpoint.
    """

    kind: str
    study: str
    ordinal: int = 0
    note: str = ""
