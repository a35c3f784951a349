"""The generator half of the stand-in."""

from typing import Any

from playing import PAGE, PlayedGenerator, PlayedJob, logits_for
from torch import Tensor

from exllamav2.attn import has_flash_attn_with_paged


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
        filters: list[Any] | None,
        return_logits: bool,
        identifier: object,
    ) -> None:
        super().__init__(input_ids, max_new_tokens, stop_conditions, identifier)
        self.filters, self.return_logits, self.is_begun = filters or [], return_logits, False

    def choose(self, wanted: int) -> tuple[int, dict[str, Any]]:
        """As the original: filters are begun at the first token, asked for a mask, and fed what was sampled."""
        if not self.is_begun:
            self.is_begun = True
            for one in self.filters:
                one.background_drop()
                one.begin("")
        before = Tensor([[logits_for(wanted)]])
        logits = before
        if self.filters and all(one.can_mask_logits() for one in self.filters):
            for one in self.filters:
                assert one.get_next(mask=True) == True, "filter is not precomputing mask"  # noqa: E712 -- its own words
                logits = one.mask_logits(logits[0][0]).view(1, 1, -1)
        row = logits.tolist()[0][0]
        token = row.index(max(row))
        for one in self.filters:
            one.feed(Tensor([[token]]))
            assert not one.use_background_worker(), "nobody plays a queue of filters"
        return token, {"logits": before.tolist()[0][0]} if self.return_logits else {}


class ExLlamaV2DynamicGenerator(PlayedGenerator):
    def __init__(
        self, *, model: Any, cache: Any, tokenizer: Any, max_batch_size: int, max_seq_len: int, paged: bool = True
    ) -> None:
        assert not paged or has_flash_attn_with_paged, "Paged attention required Flash Attention 2.5.7 or later"
        config = model.config
        assert 8 * max_batch_size <= config.max_batch_size * config.max_input_len, "generator requires max_batch_size"
        assert max_seq_len <= config.max_seq_len, "requested seq len"
        assert not paged or config.max_input_len % PAGE == 0, "max_chunk_size must be multiple of 256, received None"
        super().__init__(cache.max_seq_len, max_batch_size, page=PAGE if paged else cache.max_seq_len)
