"""The generator half of the stand-in."""

from typing import Any

from playing import PlayedGenerator, PlayedJob
from torch import Tensor


class ExLlamaV2Sampler:
    class Settings:
        def __init__(self, **settings: float) -> None:
            assert {"temperature", "top_k", "top_p", "token_repetition_penalty"} <= settings.keys(), "none is neutral"


class ExLlamaV2DynamicJob(PlayedJob):
    def __init__(
        self,
        *,
        input_ids: Tensor,
        max_new_tokens: int,
        gen_settings: ExLlamaV2Sampler.Settings,
        seed: int | None,
        stop_conditions: list[int],
        identifier: object,
    ) -> None:
        super().__init__(input_ids, max_new_tokens, stop_conditions, identifier)


class ExLlamaV2DynamicGenerator(PlayedGenerator):
    def __init__(self, *, model: Any, cache: Any, tokenizer: Any, max_batch_size: int, max_seq_len: int) -> None:
        super().__init__(cache.max_seq_len, max_batch_size)
