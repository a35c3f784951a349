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

from engines.exllama.backend import Exllama, cache_tokens, context_of, folder_of, ids_of
from engines.exllama.constraint import Constraints
from engines.exllama.ends import begins_in, ends_in
from engines.exllama.vocabulary import Vocabulary
from engines.serving.backend import Ability, Loaded, Tell, Token, Work
from engines.serving.templates import found_in

_CACHES = {0: "ExLlamaV2Cache", 8: "ExLlamaV2Cache_Q8", 6: "ExLlamaV2Cache_Q6", 4: "ExLlamaV2Cache_Q4"}


class Exl2(Exllama):
    """The backend for EXL2 weights."""

    name = "exllamav2"

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path()
        self._tops: dict[int, int] = {}

    def open(self, config: Mapping[str, object], tell: Tell) -> Loaded:
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
        template, specials = found_in(folder)
        self.vocabulary = Vocabulary(self.torch, tokenizer, begins=begins_in(folder))
        self.ends = ends_in(folder) | _own_ends(tokenizer, specials["eos_token"])
        self._parts = importlib.import_module("exllamav2.generator")
        self.generator = self._parts.ExLlamaV2DynamicGenerator(
            model=model,
            cache=cache,
            tokenizer=tokenizer,
            max_batch_size=slots,
            max_seq_len=settings.max_seq_len,
            paged=is_paged,
        )
        return Loaded(
            context=context,
            slots=slots,
            device="cuda",
            device_name=str(self.torch.cuda.get_device_name(0)),
            abilities=_abilities(),
            chat_template=template,
            specials=specials,
        )

    def job(self, work: Work) -> Any:  # noqa: ANN401 -- the library's own
        """Return the library's job for a request."""
        held = None if work.schema is None else self._constraints.filter(work.schema)
        if held is not None:
            self._filters[work.id] = held
        if work.logprobs is not None:
            self._tops[work.id] = work.logprobs
        ends = [] if work.ignores_end and held is None else sorted(self.ends)
        return self._parts.ExLlamaV2DynamicJob(
            input_ids=self.vocabulary.tensor(work.prompt),
            max_new_tokens=work.max_tokens,
            gen_settings=self._parts.ExLlamaV2Sampler.Settings(**sampling(work)),
            seed=work.sampling.seed,
            stop_conditions=ends,
            filters=None if held is None else [held],
            return_logits=work.logprobs is not None,
            identifier=work.id,
        )

    def tokens(self, work: int, result: Mapping[str, Any]) -> list[Token]:
        """Return tokens with the probabilities the model gave them."""
        if "logits" not in result:
            return super().tokens(work, result)
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
    def _constraints(self) -> Constraints:
        return Constraints(self.torch, self._folder, sorted(self.ends))

    def cache_use(self) -> float | None:
        """Return nothing: it does not say."""
        return None


def _own_ends(tokenizer: Any, text: str) -> frozenset[int]:  # noqa: ANN401 -- the library's own
    """Return the end that the tokeniser knows, and the one of `tokenizer_config.json`, which is a text."""
    named = tokenizer.single_id(text) if text else None
    return frozenset(token for token in (tokenizer.eos_token_id, named) if token is not None)


def _abilities() -> frozenset[Ability]:
    """Return what it can do; schemas need llguidance, which versions installed before it was locked have not."""
    usual = frozenset({Ability.LOGPROBS, Ability.TOP_LOGPROBS, Ability.MIN_P, Ability.PENALTIES})
    return usual | {Ability.JSON_SCHEMA} if importlib.util.find_spec("llguidance") else usual


def sampling(work: Work) -> dict[str, object]:
    """Return the sampler's settings; what is not asked for does nothing."""
    asked = work.sampling
    is_greedy = asked.temperature == 0
    return {
        "temperature": 1.0 if asked.temperature is None or is_greedy else asked.temperature,
        "top_k": 1 if is_greedy else max(0, asked.top_k or 0),
        "top_p": asked.top_p or 0.0,
        "min_p": asked.min_p or 0.0,
        "token_repetition_penalty": asked.repetition_penalty or 1.0,
        "token_presence_penalty": asked.presence_penalty or 0.0,
        "token_frequency_penalty": asked.frequency_penalty or 0.0,
    }
