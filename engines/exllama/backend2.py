"""ExLlamaV2 behind `engines.serving`. Its sampler's defaults are not neutral, so every one of them is set.

Without flash-attn it is given ours (`paged_attention`). Where a person switches that off in the library's own way, it
answers one request at a time, and the whole cache is that request's.

The probabilities it tells are those its sampler drew from: 1 for whatever is greedy. So its logits are asked for.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from engines.exllama.backend import (
    ExllamaBackend,
    cache_tokens,
    check_vocabularies,
    chunk_tokens,
    context_of,
    drafted_tokens,
    folder_of,
    ids_of,
    kv_bits_of,
    loras_of,
    stage_callback,
)
from engines.exllama.cards import MIB, CardPlacement, read_placement
from engines.exllama.constraint import SchemaFilterFactory
from engines.exllama.paged_attention import provide_paged_attention
from engines.exllama.vocabulary import ExllamaVocabulary, read_end_tokens, reads_begin_token
from engines.serving.backend import BackendAbility, LoadResult, ProgressCallback, Token, WorkItem
from engines.serving.templates import read_template

_CACHES = {0: "ExLlamaV2Cache", 8: "ExLlamaV2Cache_Q8", 6: "ExLlamaV2Cache_Q6", 4: "ExLlamaV2Cache_Q4"}
_LEFT_FIRST, _LEFT_OTHERS = 192 * MIB, 64 * MIB
"""What the library leaves free on the first card and on others where nobody says."""


class Exl2Backend(ExllamaBackend):
    """The backend for EXL2 weights."""

    name = "exllamav2"

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path()
        self._tops: dict[int, int] = {}
        self._draft_room = 0

    def prepare_import(self) -> None:
        """Have it find something to page attention with."""
        provide_paged_attention(self.torch)

    def open(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model. Raises RuntimeError when there is no room or no card."""
        exl, folder = self.library, folder_of(config)
        self._folder = folder
        settings = exl.ExLlamaV2Config(str(folder))
        settings.arch_compat_overrides()
        is_paged = self._has_paged_attention(settings)
        slots = int(str(config["slots"])) if is_paged else 1
        context = context_of(config, settings.max_seq_len)
        self._draft_room = drafted_tokens(config)
        room = context + self._draft_room
        settings.max_seq_len = cache_tokens(room, 1)  # it reads prompts by whole pages, and is cut to less by this
        model, kind = exl.ExLlamaV2(settings), getattr(exl, _CACHES[kv_bits_of(config)[0]])
        self._parts = importlib.import_module("exllamav2.generator")
        tokens = cache_tokens(room, slots)
        draft_arguments = self._open_draft(config, settings, (kind, tokens), tell)
        cache = self._load_weights(model, read_placement(config), (kind, tokens), tell)
        adapters = [exl.ExLlamaV2Lora.from_directory(model, str(adapter)) for adapter in loras_of(config)]
        tell("Reading the vocabulary")
        tokenizer = exl.ExLlamaV2Tokenizer(settings)
        template, specials = read_template(folder)
        self.vocabulary = ExllamaVocabulary(self.torch, tokenizer, begins=reads_begin_token(folder))
        self.ends = read_end_tokens(folder) | _own_ends(tokenizer, specials["eos_token"])
        self.generator = self._parts.ExLlamaV2DynamicGenerator(
            model=model,
            cache=cache,
            tokenizer=tokenizer,
            max_batch_size=slots,
            max_seq_len=settings.max_seq_len,
            max_chunk_size=min(chunk_tokens(config), settings.max_input_len),
            paged=is_paged,
            **draft_arguments,
        )
        if adapters:
            self.generator.set_loras(adapters)
        return LoadResult(
            context=context,
            slots=slots,
            device="cuda",
            device_name=str(self.torch.cuda.get_device_name(0)),
            abilities=detect_abilities(),
            chat_template=template,
            specials=specials,
        )

    def _load_weights(
        self,
        model: Any,  # noqa: ANN401 -- the library's own
        cards: CardPlacement,
        draft_cache: tuple[Any, int],
        tell: ProgressCallback,
    ) -> Any:  # noqa: ANN401 -- as above
        """Deal the model out over the cards; return its cache, of the class and size in `cached`."""
        kind, tokens = draft_cache
        on_weights = stage_callback(tell, "Reading weights")
        if cards.cuts_matrices:
            model.load_tp(cards.card_gigabytes, on_weights, expect_cache_tokens=tokens, expect_cache_base=kind)
            return self.library.ExLlamaV2Cache_TP(model, base=kind, max_seq_len=tokens)
        cache = kind(model, max_seq_len=tokens, lazy=True)
        model.load_autosplit(cache, self._bytes_to_leave(cards), callback=on_weights)
        return cache

    def _open_draft(
        self,
        config: Mapping[str, Any],
        target: Any,  # noqa: ANN401 -- the library's own
        draft_cache: tuple[Any, int],
        tell: ProgressCallback,
    ) -> dict[str, object]:
        """Return what the generator is told of drafting, with the model that drafts loaded, and a cache like its own.

        `target` are the settings of the model it drafts for, `cached` its cache's class and size.
        """
        wish, (kind, tokens) = config["draft"], draft_cache
        if wish is None:
            return {}
        if wish["kind"] == "ngram":
            return {"use_ngram_draft": True, "num_draft_tokens": wish["tokens"]}
        exl = self.library
        settings = exl.ExLlamaV2Config(str(wish["path"]))
        settings.arch_compat_overrides()
        settings.max_seq_len = target.max_seq_len  # the generator wants it to reach as far as the model
        check_vocabularies(target.vocab_size, settings.vocab_size)
        model = exl.ExLlamaV2(settings)
        cache = kind(model, max_seq_len=tokens, lazy=True)
        model.load_autosplit(cache, callback=stage_callback(tell, "Reading the draft model"))
        return {"draft_model": model, "draft_cache": cache, "num_draft_tokens": wish["tokens"]}

    def _bytes_to_leave(self, cards: CardPlacement) -> list[int] | None:
        cuda = self.torch.cuda
        free = [int(cuda.mem_get_info(card)[0]) for card in range(cuda.device_count())]
        return cards.bytes_to_leave(free, [_LEFT_FIRST, *(_LEFT_OTHERS for _ in free[1:])])

    def make_job(self, work: WorkItem) -> Any:  # noqa: ANN401 -- the library's own
        """Return the library's job for a request."""
        schema_filter = None if work.schema is None else self._filter_factory.make_filter(work.schema)
        if schema_filter is not None:
            self._filters[work.id] = schema_filter
        if work.logprobs is not None:
            self._tops[work.id] = work.logprobs
        ends = [] if work.ignores_end and schema_filter is None else sorted(self.ends)
        return self._parts.ExLlamaV2DynamicJob(
            input_ids=self.vocabulary.to_tensor(work.prompt),
            max_new_tokens=work.max_tokens + self._draft_room,  # it ends as many too early as it drafts
            gen_settings=self._parts.ExLlamaV2Sampler.Settings(**sampler_settings(work)),
            seed=work.sampling.seed,
            stop_conditions=ends,
            filters=None if schema_filter is None else [schema_filter],
            return_logits=work.logprobs is not None,
            identifier=work.id,
        )

    def read_tokens(self, work: int, result: Mapping[str, Any]) -> list[Token]:
        """Return tokens with the probabilities the model gave them."""
        if "logits" not in result:
            return super().read_tokens(work, result)
        figures = self.torch.log_softmax(result["logits"][0].to(self.torch.float32), -1)
        tops = self.torch.topk(figures, self._tops.get(work, 0), -1)
        alternatives = zip(tops.indices.tolist(), tops.values.tolist(), strict=True)
        return [
            Token(token, float(row[token]), list(zip(*others, strict=True)))
            for token, row, others in zip(ids_of(result), figures, alternatives, strict=True)
        ]

    def cancel(self, work: int) -> None:
        """Let go of a request."""
        self._tops.pop(work, None)
        super().cancel(work)

    def _has_paged_attention(self, settings: Any) -> bool:  # noqa: ANN401 -- the library's own
        """Tell whether requests can share the cache: that takes flash-attn, or what stands in for it."""
        attention = importlib.import_module("exllamav2.attn")
        return bool(attention.has_flash_attn_with_paged) and not settings.no_flash_attn

    @cached_property
    def _filter_factory(self) -> SchemaFilterFactory:
        return SchemaFilterFactory(self.torch, self._folder, sorted(self.ends))

    def cache_use(self) -> float | None:
        """Return nothing: it does not say."""
        return None


def _own_ends(tokenizer: Any, text: str) -> frozenset[int]:  # noqa: ANN401 -- the library's own
    """Return the end that the tokeniser knows, and the one of `tokenizer_config.json`, which is a text."""
    named_id = tokenizer.single_id(text) if text else None
    return frozenset(token for token in (tokenizer.eos_token_id, named_id) if token is not None)


def detect_abilities() -> frozenset[BackendAbility]:
    """Return what it can do; schemas need llguidance, which versions installed before it was locked have not."""
    usual = frozenset(
        {BackendAbility.LOGPROBS, BackendAbility.TOP_LOGPROBS, BackendAbility.MIN_P, BackendAbility.PENALTIES}
    )
    return usual | {BackendAbility.JSON_SCHEMA} if importlib.util.find_spec("llguidance") else usual


def sampler_settings(work: WorkItem) -> dict[str, object]:
    """Return the sampler's settings; what is not asked for does nothing."""
    requested_sampling = work.sampling
    is_greedy = requested_sampling.temperature == 0
    return {
        "temperature": 1.0 if requested_sampling.temperature is None or is_greedy else requested_sampling.temperature,
        "top_k": 1 if is_greedy else max(0, requested_sampling.top_k or 0),
        "top_p": requested_sampling.top_p or 0.0,
        "min_p": requested_sampling.min_p or 0.0,
        "token_repetition_penalty": requested_sampling.repetition_penalty or 1.0,
        "token_presence_penalty": requested_sampling.presence_penalty or 0.0,
        "token_frequency_penalty": requested_sampling.frequency_penalty or 0.0,
    }
