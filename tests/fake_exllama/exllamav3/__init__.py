"""Stands in for exllamav3 1.6.5: the classes our worker uses, with their arguments.

What it was told is kept for tests (`playing.keep`).
"""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from playing import END, PAGE, WIDTH, PlayedGenerator, PlayedJob, keep_facts, logits_for
from playing import Tokenizer as _Tokenizer
from torch import Tensor, softmax


class Config:
    eos_token_id_list = [END]  # noqa: RUF012 -- read only

    def __init__(self, config_json: dict[str, Any]) -> None:
        self.max_position_embeddings = config_json.get("max_position_embeddings", 8192)
        self.has_head = bool(config_json.get("mtp_num_hidden_layers"))
        self.vocab_size = config_json["vocab_size"]
        self.infer_params = SimpleNamespace(moe_cpu_offload=0)
        self.model_classes = {"text": Model, **({"vision": Model} if "vision_config" in config_json else {})}
        self.layers = config_json["num_hidden_layers"]
        self.experts, self.dense = config_json.get("num_experts", 0), config_json.get("first_k_dense_replace", 0)

    @staticmethod
    def from_directory(folder: str) -> "Config":
        text = (Path(folder) / "config.json").read_text(encoding="utf-8")
        if "Starship" in text:
            raise ValueError("Unsupported architecture in config.json: StarshipForCausalLM")
        return Config(json.loads(text))


class Model:
    def __init__(self, config: Config, component: str) -> None:
        self.caches: list[Cache] = []
        self.is_loaded = False
        self.config = config
        sparse, plain = SimpleNamespace(num_experts=config.experts), SimpleNamespace()
        blocks = [sparse if config.experts and at >= config.dense else plain for at in range(config.layers)]
        self.modules = [
            SimpleNamespace(layer_idx=None),
            *(SimpleNamespace(layer_idx=at, mlp=mlp) for at, mlp in enumerate(blocks)),
        ]
        self.caps = {"default_draft_size": 3, "mtp_draft": True} if component == "mtp" else {"recurrent_states": True}

    @staticmethod
    def from_config(config: Config, component: str = "text") -> "Model":
        assert component != "mtp" or config.has_head, "the checkpoint has no MTP layers"
        assert component != "vision" or "vision" in config.model_classes
        return Model(config, component)

    def load(
        self,
        *,
        callback: Callable[[int, int], None],
        max_chunk_size: int,
        max_batch_size: int,
        use_per_device: list[float] | None = None,
        tensor_p: bool = False,
        draft_model: "Model | None" = None,
    ) -> None:
        if tensor_p and self.config.infer_params.moe_cpu_offload:
            raise NotImplementedError("CPU expert offload is not currently implemented for tensor-parallel loads")
        assert draft_model is None or draft_model.is_loaded, "a draft is loaded first"
        assert max_chunk_size % PAGE == 0
        assert all(max_chunk_size <= cache.max_num_tokens for cache in self.caches), "Cache too small for batch shape"
        for step in (0, 1, 2):
            callback(step, 2)
        self.is_loaded = True
        for cache in self.caches:
            cache.is_allocated = True
        keep_facts(use_per_device=use_per_device, tensor_p=tensor_p, moe=self.config.infer_params.moe_cpu_offload)

    def get_image_embeddings(self, tokenizer: "Tokenizer", image: Any, text_alias: str) -> "MMEmbedding":
        """See how large a picture is, and of what colour; one that is far too narrow is refused, as originals do."""
        assert self.is_loaded, "what sees is loaded with the model"
        assert max(image.size) < 200 * min(image.size), "absolute aspect ratio must be smaller than 200"
        keep_facts(looked=text_alias)
        return MMEmbedding(text_alias, f"{image.width}x{image.height} {image.getpixel((0, 0))}")

    def warmup(self, *, cache: "Cache", max_chunk_size: int, callback: Callable[[int, int], None]) -> list[str]:
        assert cache.is_allocated
        callback(1, 1)
        return []


class CacheLayer_quant:
    pass


class MMEmbedding:
    """What a picture is in a prompt: here its own description, which the generator says again."""

    def __init__(self, text_alias: str, description: str) -> None:
        self.text_alias, self.token_list = text_alias, [1 + byte for byte in description.encode()]


class Cache:
    """`max_batch_size` is how many states of recurrent models there are."""

    is_allocated = False

    def __init__(
        self,
        model: Model,
        *,
        max_num_tokens: int,
        layer_type: Any = None,
        max_batch_size: int = 16,
        max_history: int = 0,
        k_bits: int = 0,
        v_bits: int = 0,
    ) -> None:
        assert max_num_tokens % PAGE == 0, "max_num_tokens must be a multiple of 256"
        assert layer_type is None or (layer_type is CacheLayer_quant and 2 <= k_bits <= 8 and 2 <= v_bits <= 8)
        if max_num_tokens > 1_000_000:
            raise RuntimeError("Insufficient VRAM in split for model and cache")
        self.max_num_tokens, self.max_batch_size, self.max_history = max_num_tokens, max_batch_size, max_history
        self.k_bits, self.v_bits = k_bits, v_bits
        model.caches.append(self)


class Tokenizer(_Tokenizer):
    def encode(
        self,
        text: str,
        *,
        add_bos: bool = False,
        encode_special_tokens: bool = False,
        embeddings: list[MMEmbedding] | None = None,
    ) -> Tensor:
        tokens = super().encode(text, add_bos=add_bos, encode_special_tokens=encode_special_tokens).tolist()[0]
        for picture in embeddings or []:
            mark = [1 + byte for byte in picture.text_alias.encode()]
            while (at := next((i for i in range(len(tokens)) if tokens[i : i + len(mark)] == mark), None)) is not None:
                tokens[at : at + len(mark)] = picture.token_list
        return Tensor([tokens])

    @staticmethod
    def from_config(config: Config) -> "Tokenizer":
        return Tokenizer()


class ComboSampler:
    def __init__(
        self, *, rep_p: float, freq_p: float, pres_p: float, temperature: float, min_p: float, top_k: int, top_p: float
    ) -> None:
        self.is_greedy = temperature == 0 or top_k == 1


class Matcher:
    """Of llguidance: it gives up after so many tokens, if it is to."""

    def __init__(self, breaks_at: int | None) -> None:
        self.tokens_left = 1_000_000 if breaks_at is None else breaks_at

    def is_error(self) -> bool:
        return self.tokens_left <= 0

    def get_error(self) -> str:
        return "Parser limit exceeded\nstate: 42"


class LLGuidanceFilter:
    def __init__(self, tokenizer: Tokenizer, *, json_schema: str, eos_after_completed: bool) -> None:
        schema = json.loads(json_schema)
        if schema.get("type") == "nonsense":
            raise ValueError("Invalid grammar: Invalid type: nonsense")
        self._matcher = Matcher(schema.get("breaks_at"))
        self._check_error()

    def accept_token(self, _token: int) -> None:
        self._matcher.tokens_left -= 1
        self._check_error()

    def _check_error(self) -> None:
        if self._matcher.is_error():
            raise RuntimeError(f"llguidance matcher error: {self._matcher.get_error()}")


class Job(PlayedJob):
    def __init__(
        self,
        *,
        input_ids: Tensor,
        max_new_tokens: int,
        sampler: ComboSampler,
        seed: int | None,
        stop_conditions: list[int],
        filters: list[LLGuidanceFilter] | None,
        return_probs: bool,
        return_top_tokens: int,
        identifier: object,
        embeddings: list[MMEmbedding],
    ) -> None:
        super().__init__(input_ids, max_new_tokens, stop_conditions, identifier)
        self.embeddings = embeddings
        self.return_probs, self.return_top_tokens = return_probs, return_top_tokens
        self.filters, self.serial_number = filters or [], 0

    def choose(self, token: int) -> tuple[int, dict[str, Any]]:
        """As the original: what the model thought, before the sampler."""
        for filter_ in self.filters:
            filter_.accept_token(token)
        figures: dict[str, Any] = {}
        probabilities = softmax(logits_for(token))
        if self.return_probs:
            figures["token_probs"] = probabilities[token]
        if self.return_top_tokens:
            best = sorted(range(WIDTH), key=lambda at: -probabilities[at])[: self.return_top_tokens]
            figures["top_k_tokens"] = best
            figures["top_k_probs"] = [probabilities[at] for at in best]
        return token, figures


class Generator(PlayedGenerator):
    beyond = 1

    def __init__(
        self,
        *,
        model: Model,
        cache: Cache,
        tokenizer: Tokenizer,
        max_batch_size: int,
        draft_model: Model | None = None,
        draft_cache: Cache | None = None,
        max_chunk_size: int = 2048,
        num_draft_tokens: int | None = None,
        ngram_match_min: int = 0,
    ) -> None:
        keep_facts(draft_tokens=num_draft_tokens, ngram=ngram_match_min, kv=(cache.k_bits, cache.v_bits))
        assert not ngram_match_min or (cache.max_history >= (num_draft_tokens or 4) and draft_model is None)
        if draft_model is not None:
            assert draft_model.is_loaded
            assert draft_cache is not None
            assert draft_cache.is_allocated
            most = draft_model.caps.get("default_draft_size", num_draft_tokens)
            assert cache.max_history >= most, "Speculative passes need max_history"
        assert cache.is_allocated, "Cache tensors were never allocated. Construct the Cache BEFORE calling model.load()"
        self.beyond = 1 + (num_draft_tokens or 0)  # as the original, it ends an answer where a draft has no room left
        super().__init__(cache.max_num_tokens, min(max_batch_size, cache.max_batch_size))

    def _one(self, job: PlayedJob) -> dict[str, Any]:
        """As the original, which gives up a job whose prompt it cannot compute, and does not say whose it was."""
        if bytes(token - 1 for token in job.prompt if token).startswith(b"too much"):
            error = RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB")
            return {"job": job, "serial": 0, "stage": "error", "eos": True, "error": error}
        return super()._one(job)

    def get_cache_stats(self) -> dict[str, int]:
        return {"used_tokens": self.page * sum(map(self.pages, self.active_jobs)), "max_tokens": self.max_tokens}
