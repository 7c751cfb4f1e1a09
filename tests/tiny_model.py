"""A tiny model of the Qwen3 architecture with random weights, made in seconds."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from s3gym.agents.hf_weights import import_library
from s3gym.records import Message

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXTS = [
    "Answer: collaborate, Score: 2",
    "Answer: cheat, Score: 3",
    "You are playing a text game, one action at a time. Work out the best next action.",
    "Rules: each round, choose collaborate or cheat. Round 1 of 10. system user assistant",
]
ANSWERS = ("Answer: collaborate, Score: 2", "Answer: cheat, Score: 3")


def needs_training_libraries() -> None:
    """Skip where the extra ``train`` is not installed."""
    for name in ("torch", "transformers", "peft", "trl"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed: pip install 's3gym[train]' (issue 7)")


def make_tiny_model(folder: Path, *, template: str | None = CHATML, seed: int = 1) -> Path:
    """Write model and tokenizer into a folder and return it."""
    torch = import_library("torch")
    transformers = import_library("transformers")
    torch.manual_seed(seed)
    tokenizer = _tokenizer(transformers, template, TEXTS, 320)
    transformers.Qwen3ForCausalLM(_config(transformers, tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _config(transformers: Any, tokenizer: Any) -> Any:
    return transformers.Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=4096,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )


def _tokenizer(transformers: Any, template: str | None, texts: Sequence[str], size: int) -> Any:
    tokenizers = import_module("tokenizers")
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    if template is not None:
        made.chat_template = template
    return made


def make_speaking_model(folder: Path, prompts: Sequence[Sequence[Message]]) -> Path:
    """Write a tiny model that answers such prompts in the response contract, most of the time."""
    torch, transformers = import_library("torch"), import_library("transformers")
    torch.set_num_threads(1)  # threads that share a core wait for one another
    torch.manual_seed(1)
    said = [message.content for prompt in prompts for message in prompt]
    tokenizer = _tokenizer(transformers, CHATML, [*TEXTS, *ANSWERS] * 40 + said, 700)
    model = transformers.Qwen3ForCausalLM(_config(transformers, tokenizer))
    rows = []
    for index, prompt in enumerate(prompts):
        chat = [{"role": one.role, "content": one.content} for one in prompt]
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
        start = tokenizer(text, add_special_tokens=False)["input_ids"]
        answer = tokenizer(ANSWERS[index % len(ANSWERS)], add_special_tokens=False)["input_ids"]
        rows.append((start, [*answer, tokenizer.eos_token_id]))
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for step in range(400):
        start, answer = rows[step % len(rows)]
        # The ends of prompts alone at first: they take little time, and the answer hangs on them.
        ids = torch.tensor([[*start[-40 if step < 340 else 0 :], *answer]])
        logits = model(input_ids=ids, logits_to_keep=len(answer) + 1).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, ids[0, -len(answer) :])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
