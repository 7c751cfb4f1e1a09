"""Examples as a file: chat JSONL as fine-tuning services and TRL document it."""

import json
from typing import Any, Literal, get_args

from s3gym.contracts.trainer import Example
from s3gym.records import Message
from s3gym.sft.dataset import Dataset

Format = Literal["messages", "prompt-completion"]
FORMATS: tuple[Format, ...] = get_args(Format)


def to_jsonl(dataset: Dataset, form: Format = "messages") -> str:
    """Return one JSON object per example and line, in plain ASCII; equal data give equal bytes.

    Args:
        dataset: The examples.
        form: ``messages``: OpenAI's chat format and TRL's conversational language modelling.
            ``prompt-completion``: TRL's conversational prompt and completion.
    """
    shape = as_messages if form == "messages" else as_prompt_completion
    return "".join(json.dumps(shape(example)) + "\n" for example in dataset.examples)


def as_messages(example: Example) -> dict[str, Any]:
    """Return an example as one conversation that ends with the answer.

    Earlier answers of the agent, which a layout may show in a prompt, have the weight 0: they are
    read and not taught.
    """
    prompt = [
        _plain(message) | ({"weight": 0} if message.role == "assistant" else {})
        for message in example.messages
    ]
    return {"messages": [*prompt, _answer(example)]}


def as_prompt_completion(example: Example) -> dict[str, Any]:
    """Return an example as a prompt and the completion that is taught."""
    return {
        "prompt": [_plain(message) for message in example.messages],
        "completion": [_answer(example)],
    }


def _plain(message: Message) -> dict[str, Any]:
    return {"role": message.role, "content": message.content}


def _answer(example: Example) -> dict[str, Any]:
    return {"role": "assistant", "content": example.answer}
