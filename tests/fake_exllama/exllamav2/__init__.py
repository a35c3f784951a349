"""Stands in for exllamav2 0.3.2: the classes our worker uses, with their arguments."""

import json
from collections.abc import Callable
from pathlib import Path

from playing import END, Tokenizer, keep_facts


class ExLlamaV2Config:
    no_flash_attn = False
    max_batch_size, max_input_len = 1, 2048

    def __init__(self, folder: str) -> None:
        body = json.loads((Path(folder) / "config.json").read_text(encoding="utf-8"))
        ends = body["eos_token_id"]
        self.eos_token_id = ends[0] if isinstance(ends, list) else ends  # all the original takes
        self.max_seq_len = body["max_position_embeddings"]
        self.vocab_size = body["vocab_size"]
        self.supports_tp = "Cohere" not in str(body["architectures"])

    def arch_compat_overrides(self) -> None:
        pass


class ExLlamaV2:
    is_loaded = False

    def __init__(self, config: ExLlamaV2Config) -> None:
        self.config = config

    def load_autosplit(
        self,
        cache: "ExLlamaV2Cache",
        reserve_vram: list[int] | None = None,
        *,
        callback: Callable[[int, int], None],
    ) -> None:
        assert cache.lazy, "the cache must be lazy, or its memory is taken before the split is known"
        self.config.max_input_len = min(self.config.max_input_len, self.config.max_seq_len)
        callback(0, 1)
        callback(1, 1)
        self.is_loaded = True
        keep_facts(reserve=reserve_vram)

    def load_tp(
        self,
        gpu_split: list[float] | None,
        callback: Callable[[int, int], None],
        *,
        expect_cache_tokens: int,
        expect_cache_base: type,
    ) -> None:
        assert self.config.supports_tp, "Tensor-parallel is not supported for CohereForCausalLM"
        callback(1, 1)
        self.is_loaded = True
        keep_facts(gpu_split=gpu_split, expected=[expect_cache_tokens, expect_cache_base.__name__])


class ExLlamaV2Cache:
    def __init__(self, model: ExLlamaV2, *, max_seq_len: int, lazy: bool) -> None:
        if max_seq_len > 1_000_000:
            raise RuntimeError("Insufficient VRAM for model and cache")
        self.max_seq_len, self.lazy = max_seq_len, lazy


class ExLlamaV2Cache_Q8(ExLlamaV2Cache):
    pass


class ExLlamaV2Cache_Q6(ExLlamaV2Cache):
    pass


class ExLlamaV2Cache_Q4(ExLlamaV2Cache):
    pass


class ExLlamaV2Cache_TP:
    def __init__(self, model: ExLlamaV2, *, base: type[ExLlamaV2Cache], max_seq_len: int) -> None:
        assert model.is_loaded, "Cannot create TP cache unless model is loaded with load_tp()"
        self.max_seq_len, self.base = max_seq_len, base


class ExLlamaV2Lora:
    @staticmethod
    def from_directory(model: ExLlamaV2, directory: str) -> "ExLlamaV2Lora":
        assert model.is_loaded
        keep_facts(lora=Path(directory).name)
        return ExLlamaV2Lora()


class ExLlamaV2Tokenizer(Tokenizer):
    def __init__(self, config: ExLlamaV2Config) -> None:
        self.eos_token_id = config.eos_token_id

    def single_id(self, token: str) -> int | None:
        """Know the vocabulary's one special token by the name that the tests' models give it."""
        return END if token == "<|endoftext|>" else None
