"""A loaded transformers model: prompts are read one by one, answers are written together.

A prompt is read message by message, always in the same pieces, and what was read is kept for
later prompts that begin alike. So a prompt is computed the same way whether its beginning was
kept or not, and whatever other prompts wait beside it. Only the writing of new tokens happens in
batches, where float rounding may differ in the last digits with the size of the batch.
"""

import gc
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from itertools import pairwise
from typing import Any

from jinja2 import TemplateError

from s3gym.agents.hf_device import Placement, place
from s3gym.agents.hf_weights import Weights, import_library
from s3gym.contracts.chat import Finish
from s3gym.errors import ModelError
from s3gym.records import Message
from s3gym.seeds import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How a token is chosen; ``temperature`` 0 takes the most likely one."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0


@dataclass(slots=True, kw_only=True)
class Job:
    """One reply to write.

    Attributes:
        ids: Tokens of the prompt.
        cuts: Where a message ends, in tokens, rising; each below the length.
        max_tokens: Most new tokens.
        dropped: Says that nobody waits for the reply any more.
    """

    ids: list[int]
    cuts: list[int]
    max_tokens: int
    sampling: Sampling
    stream: Stream
    dropped: Callable[[], bool] = lambda: False
    written: list[int] = field(default_factory=list)
    finish: Finish | None = None


class Engine:
    """A model in memory.

    Args:
        weights: What to load.
        device: ``auto``, ``cpu``, ``cuda``, ``mps``.
        threads: Threads that compute on a CPU.
        kept_tokens: Most tokens of prompts that are kept for prompts that begin alike.
        hub: Whether the hub may be asked.

    Raises:
        ModelError: The weights cannot be loaded.
    """

    def __init__(
        self,
        weights: Weights,
        *,
        device: str,
        threads: int,
        kept_tokens: int,
        hub: bool = False,
    ) -> None:
        self.torch = import_library("torch", hub=hub)
        self._transformers = import_library("transformers", hub=hub)
        self._transformers.utils.logging.set_verbosity_error()
        self._transformers.utils.logging.disable_progress_bar()
        self.torch.set_num_threads(threads)
        self.placement = place(device, self.torch)
        self._kept_tokens = kept_tokens
        self._kept: OrderedDict[tuple[int, ...], list[Any]] = OrderedDict()
        self.tokenizer, self.model = self._loaded(weights)
        self.stops = self._stop_ids()
        # Transformers 5 renames this argument, and warns about the older name.
        taken = signature(self.model.forward).parameters
        self._cache_name = "cache" if "cache" in taken else "past_key_values"
        config = self.model.config.get_text_config()
        self.context = int(getattr(config, "max_position_embeddings", 0) or 1 << 30)

    def _loaded(self, weights: Weights) -> tuple[Any, Any]:
        try:
            return load(self._transformers, self.torch, weights, self.placement)
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise self.failure(error, f"{weights.location} cannot be loaded") from error

    def _stop_ids(self) -> frozenset[int]:
        said = getattr(self.model.generation_config, "eos_token_id", None)
        several = said if isinstance(said, list) else [said]
        stops = [*several, self.tokenizer.eos_token_id]
        return frozenset(token for token in stops if token is not None)

    def prompt(
        self, messages: Sequence[Message], arguments: Mapping[str, Any]
    ) -> tuple[list[int], list[int]]:
        """Return a prompt's tokens, and where its messages end.

        Raises:
            ModelError: The chat template refuses the messages.
        """
        text, ends = templated(self.tokenizer, messages, arguments)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        ids = list(encoded["input_ids"])
        starts = {begin: index for index, (begin, _) in enumerate(encoded["offset_mapping"])}
        cuts = [starts[end] for end in ends if 0 < starts.get(end, 0) < len(ids)]
        return ids, cuts

    def answer(self, jobs: Sequence[Job]) -> None:
        """Write the replies of jobs, in place.

        Raises:
            ModelError: The memory does not suffice, or the device failed.
        """
        try:
            with self.torch.inference_mode():
                self._answer(jobs)
        except (RuntimeError, MemoryError) as error:
            self._kept.clear()
            raise self.failure(error, f"a batch of {len(jobs)} could not be computed") from error

    def _answer(self, jobs: Sequence[Job]) -> None:
        rows: list[_Row] = []
        for job in jobs:
            if job.dropped():
                continue
            cache, logits = self._read(job)
            token = self._chosen(job, logits[0, -1])
            if self._goes_on(job, token):
                rows.append(_Row(job, cache, len(job.ids), token))
        plain = [row for row in rows if _is_plain(row.cache)]
        if plain:
            self._write(plain)
        for row in rows:
            if not _is_plain(row.cache):  # a cache that cannot be put beside others
                self._write([row])

    def _read(self, job: Job) -> tuple[Any, Any]:
        """Return a cache that holds the prompt, and the logits after it."""
        cache = self._transformers.DynamicCache(config=self.model.config)
        done = 0
        for cut in reversed(job.cuts):
            kept = self._kept.get(tuple(job.ids[:cut]))
            if kept is not None:
                self._kept.move_to_end(tuple(job.ids[:cut]))
                for index, (keys, values) in enumerate(kept):
                    cache.update(keys, values, index)
                done = cut
                break
        logits = None
        for begin, end in pairwise([done, *(cut for cut in job.cuts if cut > done), len(job.ids)]):
            piece = self._tensor([job.ids[begin:end]])
            logits = self._forward(input_ids=piece, cache=cache)
        if _is_plain(cache):
            for cut in {job.cuts[0], job.cuts[-1]} if job.cuts else ():
                self._keep(tuple(job.ids[:cut]), cache)
        return cache, logits

    def _keep(self, ids: tuple[int, ...], cache: Any) -> None:
        """Keep the beginning of a prompt; the longest unused ones go."""
        if ids in self._kept or len(ids) > self._kept_tokens:
            return
        self._kept[ids] = [
            (layer.keys[:, :, : len(ids)].clone(), layer.values[:, :, : len(ids)].clone())
            for layer in cache.layers
        ]
        while sum(map(len, self._kept)) > self._kept_tokens:
            self._kept.popitem(last=False)

    def _write(self, rows: "list[_Row]") -> None:
        """Write all rows token by token; a row that ends leaves the batch."""
        torch = self.torch
        cache, widest = rows[0].cache, max(row.length for row in rows)
        if len(rows) > 1:
            cache = self._together([row.cache for row in rows], widest)
        mask = torch.ones((len(rows), widest), dtype=torch.long, device=self.placement.device)
        for index, row in enumerate(rows):
            mask[index, : widest - row.length] = 0
        while rows:
            mask = torch.nn.functional.pad(mask, (0, 1), value=1)
            logits = self._forward(
                input_ids=self._tensor([[row.token] for row in rows]),
                attention_mask=mask if len(rows) > 1 or not mask.all() else None,
                position_ids=self._tensor([[row.length] for row in rows]),
                cache=cache,
            )
            staying = []
            for index, row in enumerate(rows):
                row.length += 1
                row.token = self._chosen(row.job, logits[index, -1])
                if self._goes_on(row.job, row.token):
                    staying.append(index)
            if 0 < len(staying) < len(rows):
                kept = self._tensor(staying)
                cache.batch_select_indices(kept)
                mask = mask[kept]
            rows = [rows[index] for index in staying]

    def _together(self, caches: Sequence[Any], widest: int) -> Any:
        """Return one cache of several, each moved to the right end."""
        pad = self.torch.nn.functional.pad
        joined = self._transformers.DynamicCache(config=self.model.config)
        for index in range(len(caches[0].layers)):
            parts = []
            for name in ("keys", "values"):
                tensors = [getattr(cache.layers[index], name) for cache in caches]
                shifted = [pad(one, (0, 0, widest - one.shape[2], 0)) for one in tensors]
                parts.append(self.torch.cat(shifted))
            joined.update(parts[0], parts[1], index)
        return joined

    def _forward(self, *, cache: Any, **inputs: Any) -> Any:
        given = {name: value for name, value in inputs.items() if value is not None}
        given[self._cache_name] = cache
        return self.model(**given, use_cache=True, logits_to_keep=1).logits

    def _chosen(self, job: Job, logits: Any) -> int:
        return choose(self.torch, logits, job.sampling, job.stream)

    def _goes_on(self, job: Job, token: int) -> bool:
        """Take a new token in; return whether more are to come."""
        if token in self.stops:
            job.finish = "stop"
            return False
        job.written.append(token)
        if len(job.written) >= job.max_tokens:
            job.finish = "length"
            return False
        return not job.dropped()

    def _tensor(self, values: Any) -> Any:
        return self.torch.tensor(values, dtype=self.torch.long, device=self.placement.device)

    def failure(self, error: Exception, what: str) -> ModelError:
        """Return the error to raise for one of a library."""
        if is_out_of_memory(error):
            return ModelError(
                f"{what}: out of memory on {self.placement.device}; lower 'parallel' or the "
                f"lengths of prompts, or take a smaller model",
                retryable=False,
            )
        return ModelError(f"{what}: {type(error).__name__}: {first_line(error)}", retryable=False)

    def close(self) -> None:
        """Give the memory back."""
        self._kept.clear()
        self.model = self.tokenizer = None
        gc.collect()
        if self.placement.device.startswith("cuda"):
            self.torch.cuda.empty_cache()


@dataclass(slots=True)
class _Row:
    job: Job
    cache: Any
    length: int
    token: int


def load(transformers: Any, torch: Any, weights: Weights, placement: Placement) -> tuple[Any, Any]:
    """Return tokenizer and model; an adapter is merged into the model."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(
        weights.model, local_files_only=True, trust_remote_code=False
    )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        weights.model,
        dtype=getattr(torch, placement.dtype),
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
    )
    if weights.adapter is not None:
        peft = import_library("peft")
        with warnings.catch_warnings():  # peft calls transformers by older names
            warnings.simplefilter("ignore", FutureWarning)
            model = peft.PeftModel.from_pretrained(model, weights.adapter, is_trainable=False)
            model = model.merge_and_unload()
    return tokenizer, model.to(placement.device).eval()


def templated(
    tokenizer: Any, messages: Sequence[Message], arguments: Mapping[str, Any]
) -> tuple[str, list[int]]:
    """Return the text of a prompt, and after how many characters its messages end.

    Raises:
        ModelError: The chat template refuses the messages.
    """
    said = [{"role": message.role, "content": message.content} for message in messages]
    try:
        text = tokenizer.apply_chat_template(
            said, tokenize=False, add_generation_prompt=True, **arguments
        )
    except (TemplateError, TypeError, ValueError) as error:
        raise ModelError(
            f"the chat template refuses the messages: {first_line(error)} (some templates want "
            f"user and assistant to take turns: try the layout 'cached')",
            retryable=False,
        ) from error
    ends = []
    for count in range(1, len(said) + 1):
        try:
            part = tokenizer.apply_chat_template(said[:count], tokenize=False, **arguments)
        except (TemplateError, TypeError, ValueError):
            continue  # such a template has no end there
        if text.startswith(part):
            ends.append(len(part))
    return str(text), sorted(set(ends))


def choose(torch: Any, logits: Any, sampling: Sampling, stream: Stream) -> int:
    """Return the next token; draws come from the stream alone, one per token.

    Args:
        torch: The library.
        logits: One row, of any device.
        sampling: How to choose.
        stream: Where draws come from.
    """
    if sampling.temperature == 0:
        return int(logits.argmax())
    row = logits.detach().to("cpu", torch.float64) / sampling.temperature
    if sampling.top_k:
        least = torch.topk(row, min(sampling.top_k, len(row))).values[-1]
        row = row.masked_fill(row < least, -torch.inf)
    shares = torch.softmax(row, 0)
    if sampling.top_p < 1:
        ranked, order = torch.sort(shares, descending=True, stable=True)
        beyond = torch.cumsum(ranked, 0) - ranked >= sampling.top_p
        shares[order[beyond]] = 0
    totals = torch.cumsum(shares, 0)
    drawn = torch.tensor(stream.uniform() * float(totals[-1]), dtype=torch.float64)
    return min(int(torch.searchsorted(totals, drawn, right=True)), len(row) - 1)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that memory does not suffice, on a GPU or on a CPU."""
    if isinstance(error, MemoryError):
        return True
    said = str(error).lower()
    return "out of memory" in said or "can't allocate memory" in said


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, of bounded length."""
    return (str(error).strip().splitlines() or [""])[0][:300]


def _is_plain(cache: Any) -> bool:
    """Return whether a cache holds all positions of all layers, so that it can be cut."""
    return all(type(layer).__name__ == "DynamicLayer" for layer in cache.layers)
