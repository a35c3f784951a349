"""ExLlamaV2 behind `engines.serving`. Its sampler's defaults are not neutral, so every one of them is set."""

import importlib
from collections.abc import Mapping
from typing import Any

from engines.exllama.backend import Exllama, cache_tokens, context_of, folder_of
from engines.exllama.vocabulary import Vocabulary
from engines.serving.backend import Ability, Loaded, Tell, Work
from engines.serving.templates import found_in

_CACHES = {0: "ExLlamaV2Cache", 8: "ExLlamaV2Cache_Q8", 6: "ExLlamaV2Cache_Q6", 4: "ExLlamaV2Cache_Q4"}


class Exl2(Exllama):
    """The backend for EXL2 weights."""

    name = "exllamav2"

    def open(self, config: Mapping[str, object], tell: Tell) -> Loaded:
        """Load the model. Raises RuntimeError when there is no room or no card."""
        exl, folder, slots = self.library, folder_of(config), int(str(config["slots"]))
        settings = exl.ExLlamaV2Config(str(folder))
        settings.arch_compat_overrides()
        context = context_of(config, settings.max_seq_len)
        settings.max_seq_len = context
        model = exl.ExLlamaV2(settings)
        kind = getattr(exl, _CACHES[int(str(config["kv_bits"]))])
        cache = kind(model, max_seq_len=cache_tokens(context, slots), lazy=True)
        model.load_autosplit(cache, callback=lambda done, total: tell("Reading weights", done / max(1, total)))
        tell("Reading the vocabulary")
        tokenizer = exl.ExLlamaV2Tokenizer(settings)
        self.vocabulary = Vocabulary(self.torch, tokenizer)
        ends = settings.eos_token_id
        self.ends = frozenset(ends if isinstance(ends, list) else [ends])
        self._parts = importlib.import_module("exllamav2.generator")
        self.generator = self._parts.ExLlamaV2DynamicGenerator(
            model=model, cache=cache, tokenizer=tokenizer, max_batch_size=slots, max_seq_len=context
        )
        template, specials = found_in(folder)
        return Loaded(
            context=context,
            slots=slots,
            device="cuda",
            device_name=str(self.torch.cuda.get_device_name(0)),
            abilities=frozenset({Ability.MIN_P, Ability.PENALTIES}),
            chat_template=template,
            specials=specials,
        )

    def job(self, work: Work) -> Any:  # noqa: ANN401 -- the library's own
        """Return the library's job for a request."""
        return self._parts.ExLlamaV2DynamicJob(
            input_ids=self.vocabulary.tensor(work.prompt),
            max_new_tokens=work.max_tokens,
            gen_settings=self._parts.ExLlamaV2Sampler.Settings(**sampling(work)),
            seed=work.sampling.seed,
            stop_conditions=[] if work.ignores_end else sorted(self.ends),
            identifier=work.id,
        )

    def cache_use(self) -> float | None:
        """Return nothing: it does not say."""
        return None


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
