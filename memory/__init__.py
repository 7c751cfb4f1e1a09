"""Memory backends, one file each. To add one: write the file, add its line to ``MEMORIES``."""

MEMORIES: dict[str, str] = {
    "history": "s3gym.memory.history:HistoryMemory",
    "insights": "s3gym.memory.insights:InsightsMemory",
    "none": "s3gym.memory.none:NoMemory",
    "summary": "s3gym.memory.summary:SummaryMemory",
    "vector": "s3gym.memory.vector:VectorMemory",
}
"""Name of every built-in memory, and where its class is; called without arguments."""

PROMPTS: dict[str, str] = {
    "insights": "s3gym.memory.insights:insights_prompt",
    "summary-history": "s3gym.memory.summary:history_prompt",
    "summary-rolling": "s3gym.memory.summary:rolling_prompt",
}
"""Layout of a memory's own model call, and where the function is that makes its prompt again."""
