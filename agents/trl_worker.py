"""The process that trains: ``python -m s3gym.agents.trl_worker JOB``, started by ``TRLTrainer``.

It reads what to do from the file JOB and writes beside it: the folder ``weights`` and then
``result.json``, or ``error.json``. It ends when its standard input does, because then whoever
started it is gone.
"""

import errno
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from s3gym.agents.hf_device import Placement, place
from s3gym.agents.hf_engine import first_line, is_out_of_memory, templated
from s3gym.agents.hf_weights import Weights, import_library
from s3gym.errors import ConfigError, S3GymError, ServiceError
from s3gym.records import Message

UNWRITABLE = 74
"""Exit code where the disk takes not even the reason of the end."""
PROMPT = ("input_ids", "attention_mask", "position_ids")
IGNORED = -100
"""Label of a token that is not learned."""
MEGABYTE = 1 << 20
PEAK_UNIT = MEGABYTE if sys.platform == "darwin" else 1024
"""Per megabyte: macOS counts the peak in bytes, Linux in kilobytes."""


def main() -> None:
    """Run the job that the first argument names."""
    job = Path(sys.argv[1])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        result = run(json.loads(job.read_text("utf-8")), job.parent / "weights")
        (job.parent / "result.json").write_text(json.dumps(result), "utf-8")
    except Exception as error:  # any library may raise: told to the parent, and raised again
        told = failure(error)
        kind = "config" if isinstance(told, ConfigError) else "service"
        text = json.dumps({"kind": kind, "message": str(told)})
        try:
            (job.parent / "error.json").write_text(text, "utf-8")
        except OSError:
            raise SystemExit(UNWRITABLE) from error
        raise SystemExit(1) from error


def _end_with_parent() -> None:
    while os.read(0, 1):
        continue
    os._exit(1)


def failure(error: Exception) -> S3GymError:
    """Return the one clear error for whatever training raised."""
    if isinstance(error, S3GymError):
        return error
    if is_out_of_memory(error):
        return ServiceError(
            "out of memory; lower 'batch' or 'max_length', set 'checkpointing', or take a smaller "
            "model"
        )
    full = isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if full or "no space left" in str(error).lower() or "file too large" in str(error).lower():
        return ServiceError("the disk is full, so the new weights could not be saved")
    return ServiceError(f"training failed: {type(error).__name__}: {first_line(error)}")


def run(job: Mapping[str, Any], out: Path) -> dict[str, Any]:
    """Train, write the weights, and return log and machine values.

    Raises:
        ConfigError: The model or the examples cannot be trained on.
    """
    order = job["order"]
    began = time.perf_counter()
    torch, transformers = import_library("torch"), import_library("transformers")
    transformers.utils.logging.disable_progress_bar()
    placement = place(order["device"], torch)
    _settle(torch, transformers, order)
    tokenizer, model = _model(torch, transformers, order, placement)
    rows, too_long = encoded(tokenizer, job["examples"], order, _context(model))
    trainer = make_trainer(model, tokenizer, rows, order, placement, out.parent / "trainer")
    trainer.train()
    trained = trainer.accelerator.unwrap_model(trainer.model)
    must_be_finite(torch, trained)
    _save(trained, tokenizer, order, out)
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    log = {
        "losses": losses,
        "steps": int(trainer.state.global_step),
        "tokens": trainer.n_tokens,
        "answer_tokens": trainer.n_answer_tokens,
        "examples": len(rows),
        "too_long": too_long,
        "device": placement.device,
        "dtype": placement.dtype,
    }
    machine = {
        "seconds": round(time.perf_counter() - began, 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PEAK_UNIT,
    }
    if placement.device.startswith("cuda"):
        machine["peak_gpu_mb"] = torch.cuda.max_memory_allocated() / MEGABYTE
    return {"log": log, "machine": machine}


def _settle(torch: Any, transformers: Any, order: Mapping[str, Any]) -> None:
    """Fix what draws depend on."""
    torch.set_num_threads(order["threads"])
    transformers.set_seed(order["seed"] % 2**32)
    torch.use_deterministic_algorithms(mode=True, warn_only=True)


def _model(
    torch: Any, transformers: Any, order: Mapping[str, Any], placement: Placement
) -> tuple[Any, Any]:
    """Return tokenizer and a model whose trainable weights are set."""
    weights = Weights(
        Path(order["model"]), None if order["adapter"] is None else Path(order["adapter"])
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        weights.model, local_files_only=True, trust_remote_code=False
    )
    if tokenizer.eos_token_id is None:
        raise ConfigError(f"{weights.model}: its tokenizer has no token that ends a reply")
    lora = order["method"] == "lora"
    model = transformers.AutoModelForCausalLM.from_pretrained(
        weights.model,
        dtype=getattr(torch, placement.dtype if lora else "float32"),
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
    )
    peft = import_library("peft")
    if weights.adapter is not None:
        model = peft.PeftModel.from_pretrained(model, weights.adapter, is_trainable=lora)
        if not lora:
            model = model.merge_and_unload()
    elif lora:
        config = peft.LoraConfig(
            r=order["rank"],
            lora_alpha=order["alpha"],
            lora_dropout=0.0,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
        )
        model = peft.get_peft_model(model, config)
    model.config.use_cache = False
    return tokenizer, model


def _context(model: Any) -> int:
    config = model.config.get_text_config()
    return int(getattr(config, "max_position_embeddings", 0) or 1 << 30)


def encoded(
    tokenizer: Any, examples: Sequence[Mapping[str, Any]], order: Mapping[str, Any], context: int
) -> tuple[list[dict[str, Any]], int]:
    """Return the examples as tokens, and how many were left out because they are too long.

    A prompt has just the tokens that it has when the model plays, and the answer those that
    follow; only the answer is learned, with the token that ends it.

    Raises:
        ConfigError: The tokenizer does not give an answer back as it was, or nothing is left.
    """
    longest = min(context, order["max_length"] or context)
    rows: list[dict[str, Any]] = []
    for example in examples:
        prompt, answer = _tokens(tokenizer, example, order["template"])
        _must_come_back(tokenizer, example, answer)
        ids = [*prompt, *answer, tokenizer.eos_token_id]
        if len(ids) <= longest:
            rows.append(
                {
                    "input_ids": ids,
                    "labels": [IGNORED] * len(prompt) + ids[len(prompt) :],
                    "weight": float(example["weight"]),
                }
            )
    if not rows:
        raise ConfigError(f"all {len(examples)} examples are longer than {longest} tokens")
    mean = sum(row["weight"] for row in rows) / len(rows)
    for row in rows:
        row["weight"] /= mean  # so that weights change no learning rate
    return rows, len(examples) - len(rows)


def _tokens(
    tokenizer: Any, example: Mapping[str, Any], template: Mapping[str, Any]
) -> tuple[list[int], list[int]]:
    messages = [Message(one["role"], one["content"]) for one in example["messages"]]
    try:
        text, _ = templated(tokenizer, messages, template)
    except ServiceError as error:
        raise ConfigError(str(error)) from error
    prompt = list(tokenizer(text, add_special_tokens=False)["input_ids"])
    whole = list(tokenizer(text + example["answer"], add_special_tokens=False)["input_ids"])
    if whole[: len(prompt)] == prompt:
        return prompt, whole[len(prompt) :]
    return prompt, list(tokenizer(example["answer"], add_special_tokens=False)["input_ids"])


def _must_come_back(tokenizer: Any, example: Mapping[str, Any], answer: Sequence[int]) -> None:
    back = tokenizer.decode(answer, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    if back.strip() != example["answer"].strip():
        raise ConfigError(
            f"the tokenizer breaks the response contract: the answer {example['answer']!r} of step "
            f"{example['step']} of {example['episode']} comes back as {back!r}"
        )


def make_trainer(
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    order: Mapping[str, Any],
    placement: Placement,
    scratch: Path,
) -> Any:
    """Return TRL's trainer with a loss that weighs examples."""
    trl, datasets = import_library("trl"), import_library("datasets")
    torch = import_library("torch")
    settings = trl.SFTConfig(
        output_dir=str(scratch),
        per_device_train_batch_size=order["batch"],
        gradient_accumulation_steps=order["accumulate"],
        num_train_epochs=order["epochs"],
        max_steps=order["steps"] or -1,
        learning_rate=order["learning_rate"],
        lr_scheduler_type="constant",
        weight_decay=0.0,
        seed=order["seed"] % 2**32,
        data_seed=order["seed"] % 2**32,
        logging_steps=1,
        logging_nan_inf_filter=False,  # it would tell a loss that is no number as 0
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        use_cpu=placement.device == "cpu",
        bf16=placement.dtype == "bfloat16",
        gradient_checkpointing=order["checkpointing"],
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
    )

    trainer: Any = trl.SFTTrainer

    class Weighted(trainer):  # type: ignore[misc] # imported late, so without a type
        """Counts what it trains on, and weighs the loss by example."""

        n_tokens = 0
        n_answer_tokens = 0

        def compute_loss(
            self,
            model: Any,
            inputs: Mapping[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            """Return the mean loss per learned token."""
            labels, weight = inputs["labels"], inputs["weight"]
            given = {name: value for name, value in inputs.items() if name in PROMPT}
            outputs = model(**given, use_cache=False, logits_to_keep=labels.shape[1] + 1)
            logits = outputs.logits[:, :-1].float()
            losses = torch.nn.functional.cross_entropy(
                logits.transpose(1, 2), labels, ignore_index=IGNORED, reduction="none"
            )
            learned = labels != IGNORED
            self.n_tokens += int(inputs["n_tokens"].sum())
            self.n_answer_tokens += int(learned.sum())
            # The count goes over all batches of an optimiser step, where there are several.
            count = learned.sum() if num_items_in_batch is None else num_items_in_batch
            loss = (losses * weight[:, None]).sum() / count
            return (loss, outputs) if return_outputs else loss

    return Weighted(
        model=model,
        args=settings,
        train_dataset=datasets.Dataset.from_list([dict(row) for row in rows]),
        processing_class=tokenizer,
        data_collator=lambda batch: padded(torch, batch, tokenizer.eos_token_id),
    )


def must_be_finite(torch: Any, model: Any) -> None:
    """Refuse weights that are no numbers: transformers tells their loss as 0, which looks perfect.

    Raises:
        ConfigError: The update diverged.
    """
    for name, weights in model.named_parameters():
        if weights.requires_grad and not bool(torch.isfinite(weights).all()):
            raise ConfigError(
                f"the update diverged: {name} holds values that are no numbers; lower "
                f"'learning_rate'"
            )


def padded(torch: Any, batch: Sequence[Mapping[str, Any]], filler: int) -> dict[str, Any]:
    """Return rows as tensors, moved to the right end, so that answers lie over one another."""
    width = max(len(row["input_ids"]) for row in batch)
    answer = max(sum(label != IGNORED for label in row["labels"]) for row in batch)
    ids, mask, positions, labels = [], [], [], []
    for row in batch:
        length = len(row["input_ids"])
        gap = width - length
        ids.append([filler] * gap + list(row["input_ids"]))
        mask.append([0] * gap + [1] * length)
        positions.append([0] * gap + list(range(length)))
        labels.append(([IGNORED] * gap + list(row["labels"]))[width - answer :])
    made = {
        "input_ids": torch.tensor(ids),
        "labels": torch.tensor(labels),
        "weight": torch.tensor([row["weight"] for row in batch]),
        "n_tokens": torch.tensor([len(row["input_ids"]) for row in batch]),
    }
    if any(0 in line for line in mask):  # without a mask attention takes less time and memory
        made |= {"attention_mask": torch.tensor(mask), "position_ids": torch.tensor(positions)}
    return made


def _save(model: Any, tokenizer: Any, order: Mapping[str, Any], out: Path) -> None:
    """Write the adapter, or the whole model with its tokenizer."""
    model.config.use_cache = True
    if order["method"] == "lora":
        model.save_pretrained(out)
        (out / "README.md").unlink(missing_ok=True)  # a model card full of blanks
        return
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)


if __name__ == "__main__":
    main()
