"""What the providers document of a file of training conversations, as checks.

OpenAI, fine-tuning guide and its cookbook "Data preparation and analysis for chat model
fine-tuning": a line is an object with ``messages``; a message has ``role`` and ``content`` and may
have ``name``, ``function_call``, ``tool_calls`` or ``weight`` (0 or 1, assistant alone); some
message is the assistant's, and the last one is; at least 10 lines to start a job.

TRL, "Dataset formats and types": conversational language modelling has ``messages``, prompt and
completion have ``prompt`` and ``completion``, each a list of ``{"role", "content"}``.
"""

import json
from typing import Any

ROLES = {"system", "user", "assistant", "function", "tool", "developer"}
KEYS = {"role", "content", "name", "function_call", "tool_calls", "weight"}
LEAST = 10


def faults(data: bytes) -> list[str]:
    """Return what is wrong with a file of conversations, by line."""
    found = []
    lines = data.decode("utf-8").split("\n")
    if lines[-1]:
        found.append("the last line has no end")
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
        except ValueError:
            found.append(f"{number}: no JSON")
            continue
        found.extend(f"{number}: {fault}" for fault in row_faults(row))
    return found


def row_faults(row: Any) -> list[str]:
    """Return what is wrong with one line."""
    if not isinstance(row, dict):
        return ["no object"]
    messages = row.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["no messages"]
    found = [f"unknown key {key}" for key in row if key not in ("messages", "tools")]
    for message in messages:
        found.extend(message_faults(message))
    if not found and messages[-1]["role"] != "assistant":
        found.append("the last message is not the assistant's")
    if not found and messages[-1].get("weight", 1) != 1:
        found.append("the last answer is not taught")
    return found


def message_faults(message: Any) -> list[str]:
    """Return what is wrong with one message."""
    if not isinstance(message, dict):
        return ["a message is no object"]
    found = [f"no {key}" for key in ("role", "content") if key not in message]
    found += [f"unknown key {key}" for key in message if key not in KEYS]
    if message.get("role") not in ROLES:
        found.append(f"unknown role {message.get('role')!r}")
    if not isinstance(message.get("content"), str) or not message["content"]:
        found.append("no text")
    if "weight" in message and (message["role"] != "assistant" or message["weight"] not in (0, 1)):
        found.append("a weight of something else")
    return found


def is_trl_prompt_completion(row: Any) -> bool:
    """Return whether a line is TRL's conversational prompt and completion."""
    return (
        isinstance(row, dict)
        and list(row) == ["prompt", "completion"]
        and all(
            isinstance(part, list)
            and part
            and all(sorted(message) == ["content", "role"] for message in part)
            for part in row.values()
        )
    )
