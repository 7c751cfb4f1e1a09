"""Answers of the model server as server-sent events, in the form of both providers."""

import json
from typing import Any


def event(data: dict[str, Any], name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


def pieces(text: str) -> list[str]:
    """Cut a text into words with their blanks, and one sign of several bytes in its middle."""
    return [f"{word} " for word in text.split(" ")[:-1]] + [text.split(" ")[-1]]


def openai_events(answer: dict[str, Any], body: dict[str, Any]) -> list[bytes]:
    choice = answer["choices"][0]
    head = {
        "id": answer["id"],
        "object": "chat.completion.chunk",
        "created": 1,
        "model": answer["model"],
    }

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return event(head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in pieces(choice["message"]["content"] or "")]
    events.append(chunk({}, choice["finish_reason"]))
    if (body.get("stream_options") or {}).get("include_usage") and "usage" in answer:
        events.append(event(head | {"choices": [], "usage": answer["usage"]}))
    return [*events, b"data: [DONE]\n\n"]


def anthropic_events(answer: dict[str, Any]) -> list[bytes]:
    usage = answer["usage"]
    start = answer | {"content": [], "stop_reason": None, "usage": usage | {"output_tokens": 1}}
    events = [event({"type": "message_start", "message": start}, "message_start")]
    for index, block in enumerate(answer["content"]):
        empty = {"type": "text", "text": ""}
        begin = {"type": "content_block_start", "index": index, "content_block": empty}
        events.append(event(begin, "content_block_start"))
        for piece in pieces(block.get("text", "")):
            delta = {"type": "text_delta", "text": piece}
            part = {"type": "content_block_delta", "index": index, "delta": delta}
            events.append(event(part, "content_block_delta"))
        events.append(event({"type": "content_block_stop", "index": index}, "content_block_stop"))
    stop = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": usage["output_tokens"]}
    last = {"type": "message_delta", "delta": stop, "usage": used}
    return [*events, event(last, "message_delta"), event({"type": "message_stop"}, "message_stop")]
