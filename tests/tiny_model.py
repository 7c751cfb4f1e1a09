"""A tiny model of the Qwen3 architecture with random weights, made in seconds."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from s3gym.agents.hf_weights import import_library

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
    tokenizer = _tokenizer(transformers, template)
    config = transformers.Qwen3Config(
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
    model = transformers.Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def _tokenizer(transformers: Any, template: str | None) -> Any:
    tokenizers = import_module("tokenizers")
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=special,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(TEXTS, trainer)
    made = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>"
    )
    if template is not None:
        made.chat_template = template
    return made
