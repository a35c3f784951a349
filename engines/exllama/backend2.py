"""ExLlamaV2 behind `engines.serving`. Its sampler's defaults are not neutral, so every one of them is set.

Without flash-attn it answers one request at a time, and the whole cache is that request's.

The probabilities it tells are those its sampler drew from: 1 for whatever is greedy. So its logits are asked for.
"""

import importlib
import importlib.util
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from engines.exllama.backend import ExllamaBackend, cache_tokens, context_of, folder_of, ids_of
from engines.exllama.constraint import SchemaFilterFactory
from engines.exllama.vocabulary import ExllamaVocabulary, read_end_tokens, reads_begin_token
from engines.serving.backend import BackendAbility, LoadResult, ProgressCallback, Token, WorkItem
from engines.serving.templates import read_template

_CACHES = {0: "ExLlamaV2Cache", 8: "ExLlamaV2Cache_Q8", 6: "ExLlamaV2Cache_Q6", 4: "ExLlamaV2Cache_Q4"}


class Exl2Backend(ExllamaBackend):
    """The backend for EXL2 weights."""

    name = "exllamav2"

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path()
        self._tops: dict[int, int] = {}

    def open(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model. Raises RuntimeError when there is no room or no card."""
        exl, folder = self.library, folder_of(config)
        self._folder = folder
        settings = exl.ExLlamaV2Config(str(folder))
        settings.arch_compat_overrides()
        is_paged = self._has_paged_attention(settings)
        slots = int(str(config["slots"])) if is_paged else 1
        context = context_of(config, settings.max_seq_len)
        settings.max_seq_len = cache_tokens(context, 1)  # it reads prompts by whole pages, and is cut to less by this
        model = exl.ExLlamaV2(settings)
        kind = getattr(exl, _CACHES[int(str(config["kv_bits"]))])
        cache = kind(model, max_seq_len=cache_tokens(context, slots), lazy=True)
        model.load_autosplit(cache, callback=lambda done, total: tell("Reading weights", done / max(1, total)))
        tell("Reading the vocabulary")
        tokenizer = exl.ExLlamaV2Tokenizer(settings)
        template, specials = read_template(folder)
        self.vocabulary = ExllamaVocabulary(self.torch, tokenizer, begins=reads_begin_token(folder))
        self.ends = read_end_tokens(folder) | _own_ends(tokenizer, specials["eos_token"])
        self._parts = importlib.import_module("exllamav2.generator")
        self.generator = self._parts.ExLlamaV2DynamicGenerator(
            model=model,
            cache=cache,
            tokenizer=tokenizer,
            max_batch_size=slots,
            max_seq_len=settings.max_seq_len,
            paged=is_paged,
        )
        return LoadResult(
            context=context,
            slots=slots,
            device="cuda",
            device_name=str(self.torch.cuda.get_device_name(0)),
            abilities=detect_abilities(),
            chat_template=template,
            specials=specials,
        )

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
            max_new_tokens=work.max_tokens,
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
        """Tell whether requests can share the cache: that takes flash-attn, which PyPI has only as sources."""
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
    named = tokenizer.single_id(text) if text else None
    return frozenset(token for token in (tokenizer.eos_token_id, named) if token is not None)


def detect_abilities() -> frozenset[BackendAbility]:
    """Return what it can do; schemas need llguidance, which versions installed before it was locked have not."""
    usual = frozenset(
        {BackendAbility.LOGPROBS, BackendAbility.TOP_LOGPROBS, BackendAbility.MIN_P, BackendAbility.PENALTIES}
    )
    return usual | {BackendAbility.JSON_SCHEMA} if importlib.util.find_spec("llguidance") else usual


def sampler_settings(work: WorkItem) -> dict[str, object]:
    """Return the sampler's settings; what is not asked for does nothing."""
    requested = work.sampling
    is_greedy = requested.temperature == 0
    return {
        "temperature": 1.0 if requested.temperature is None or is_greedy else requested.temperature,
        "top_k": 1 if is_greedy else max(0, requested.top_k or 0),
        "top_p": requested.top_p or 0.0,
        "min_p": requested.min_p or 0.0,
        "token_repetition_penalty": requested.repetition_penalty or 1.0,
        "token_presence_penalty": requested.presence_penalty or 0.0,
        "token_frequency_penalty": requested.frequency_penalty or 0.0,
    }
