"""Stands in for exllamav2 0.3.2: the classes our worker uses, with their arguments."""

from collections.abc import Callable
from pathlib import Path

from playing import END, Tokenizer


class ExLlamaV2Config:
    eos_token_id = END
    no_flash_attn = False

    def __init__(self, folder: str) -> None:
        (Path(folder) / "config.json").read_text(encoding="utf-8")
        self.max_seq_len = 4096

    def arch_compat_overrides(self) -> None:
        pass


class ExLlamaV2:
    def __init__(self, config: ExLlamaV2Config) -> None:
        self.config = config

    def load_autosplit(self, cache: "ExLlamaV2Cache", *, callback: Callable[[int, int], None]) -> None:
        assert cache.lazy, "the cache must be lazy, or its memory is taken before the split is known"
        callback(1, 1)


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


class ExLlamaV2Tokenizer(Tokenizer):
    def __init__(self, config: ExLlamaV2Config) -> None:
        self.config = config
