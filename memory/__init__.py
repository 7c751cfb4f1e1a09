"""Memory backends, one file each. To add one: write the file, add its line to ``MEMORIES``."""

MEMORIES: dict[str, str] = {
    "history": "s3gym.memory.history:HistoryMemory",
    "none": "s3gym.memory.none:NoMemory",
}
"""Name of every built-in memory, and where its class is; called without arguments."""
