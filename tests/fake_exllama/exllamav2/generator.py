"""The generator half of the stand-in."""

from typing import Any

from playing import PAGE, PlayedGenerator, PlayedJob, keep_facts, logits_for
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

    def choose(self, token_text: int) -> tuple[int, dict[str, Any]]:
        """As the original: filters are begun at the first token, asked for a mask, and fed what was sampled."""
        if not self.is_begun:
            self.is_begun = True
            for filter_ in self.filters:
                filter_.background_drop()
                filter_.begin("")
        before = Tensor([[logits_for(token_text)]])
        logits = before
        if self.filters and all(filter_.can_mask_logits() for filter_ in self.filters):
            for filter_ in self.filters:
                assert filter_.get_next(mask=True) == True, "filter is not precomputing mask"  # noqa: E712 -- its own words
                logits = filter_.mask_logits(logits[0][0]).view(1, 1, -1)
        row = logits.tolist()[0][0]
        token = row.index(max(row))
        for filter_ in self.filters:
            filter_.feed(Tensor([[token]]))
            assert not filter_.use_background_worker(), "nobody plays a queue of filters"
        return token, {"logits": before.tolist()[0][0]} if self.return_logits else {}


class ExLlamaV2DynamicGenerator(PlayedGenerator):
    def __init__(
        self,
        *,
        model: Any,
        cache: Any,
        tokenizer: Any,
        max_batch_size: int,
        max_seq_len: int,
        max_chunk_size: int,
        paged: bool = True,
        draft_model: Any = None,
        draft_cache: Any = None,
        num_draft_tokens: int = 4,
        use_ngram_draft: bool = False,
    ) -> None:
        assert not paged or has_flash_attn_with_paged, "Paged attention required Flash Attention 2.5.7 or later"
        config = model.config
        assert 8 * max_batch_size <= config.max_batch_size * config.max_input_len, "generator requires max_batch_size"
        assert max_seq_len <= config.max_seq_len, "requested seq len"
        assert max_chunk_size <= config.max_input_len, "max_chunk_size must be less than model max_input_len"
        assert not paged or max_chunk_size % PAGE == 0, f"max_chunk_size must be multiple of 256: {max_chunk_size}"
        if draft_model is not None:
            assert draft_model.is_loaded
            assert draft_cache.max_seq_len == cache.max_seq_len, "Cache and draft cache must be same dimensions"
            assert draft_model.config.max_seq_len >= config.max_seq_len, "Draft model seq len must be >= model seq len"
        self.draft_tokens = num_draft_tokens if draft_model is not None or use_ngram_draft else 0
        keep_facts(draft_tokens=num_draft_tokens, ngram=use_ngram_draft, drafts=draft_model is not None)
        super().__init__(cache.max_seq_len, max_batch_size, page=PAGE if paged else cache.max_seq_len)

    def enqueue(self, job: PlayedJob) -> None:
        """As the original, which ends an answer as many tokens too early as it drafts."""
        super().enqueue(job)
        job.limit -= self.draft_tokens

    def set_loras(self, loras: list[Any]) -> None:
        keep_facts(loras_set=len(loras))
