"""ExLlamaV3 behind `engines.serving`: the cache is made before the model is loaded, and schemas go by llguidance."""

import importlib
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from engines.exllama.backend import (
    ExllamaBackend,
    cache_tokens,
    chunk_tokens,
    context_of,
    folder_of,
    ids_of,
    kv_bits_of,
    loras_of,
    schema_refusal,
    stage_callback,
)
from engines.exllama.cards import GIB, read_placement
from engines.exllama.constraint import unknown_schema
from engines.exllama.drafting3 import DraftPlan
from engines.exllama.vision3 import STAGE as VISION_STAGE
from engines.exllama.vision3 import PicturedPrompt, VisionComponent, open_vision, pictures_of
from engines.exllama.vocabulary import ExllamaVocabulary, reads_begin_token
from engines.serving.backend import BackendAbility, LoadResult, ProgressCallback, Token, WorkItem
from engines.serving.refusals import feature_refusal
from engines.serving.templates import read_template

_ABILITIES = frozenset(
    {
        BackendAbility.JSON_SCHEMA,
        BackendAbility.LOGPROBS,
        BackendAbility.TOP_LOGPROBS,
        BackendAbility.MIN_P,
        BackendAbility.PENALTIES,
    }
)
_LEAST = 1e-38
"""A probability that was rounded to nothing still has a logarithm: JSON has no infinity."""


class Exl3Backend(ExllamaBackend):
    """The backend for EXL3 weights."""

    name = "exllamav3"

    def __init__(self) -> None:
        super().__init__()
        self._vision: VisionComponent | None = None

    def open(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model. Raises RuntimeError when there is no room or no card."""
        exl, folder, slots = self.library, folder_of(config), int(str(config["slots"]))
        settings = exl.Config.from_directory(str(folder))
        model = exl.Model.from_config(settings)
        settings.infer_params.moe_cpu_offload = count_expert_layers(model, int(str(config["cpu_moe_layers"])))
        context = context_of(config, settings.max_position_embeddings)
        draft_plan = DraftPlan.make_plan(exl, settings, config["draft"])
        self._vision = open_vision(exl, settings)
        # It wants room for one more token than it will write, and for drafts; recurrent models have a state for each
        # slot. What is drafted and refused is taken back, so that these keep their state of so many tokens ago.
        room = context + 1 + draft_plan.tokens
        sizes = {"max_num_tokens": cache_tokens(room, slots), "max_batch_size": slots}
        chunk = min(chunk_tokens(config), sizes["max_num_tokens"])  # it measures a chunk while it loads, in the cache
        kind = {**sizes, "max_history": draft_plan.tokens, **self._cache_kind(config)}
        cache = exl.Cache(model, **kind)  # before the model is loaded: it is dealt out with the layers
        draft_cache = exl.Cache(draft_plan.model, **kind) if draft_plan.model is not None else None
        self._load_weights(model, draft_plan, {**config, "batch": chunk}, tell)
        model.warmup(cache=cache, max_chunk_size=chunk, callback=stage_callback(tell, "Trying the kernels"))
        tell("Reading the vocabulary")
        tokenizer = exl.Tokenizer.from_config(settings)
        self.vocabulary = ExllamaVocabulary(self.torch, tokenizer, begins=reads_begin_token(folder))
        self.ends = frozenset(settings.eos_token_id_list)
        self._tokenizer = tokenizer
        self.generator = exl.Generator(
            model=model,
            cache=cache,
            tokenizer=tokenizer,
            max_batch_size=slots,
            max_chunk_size=chunk,
            **draft_plan.generator_arguments(draft_cache),
        )
        template, specials = read_template(folder)
        return LoadResult(
            context=context,
            slots=slots,
            device="cuda",
            device_name=str(self.torch.cuda.get_device_name(0)),
            abilities=_ABILITIES if self._vision is None else _ABILITIES | {BackendAbility.IMAGES},
            chat_template=template,
            specials=specials,
        )

    def _load_weights(
        self,
        model: Any,  # noqa: ANN401 -- the library's own
        draft_plan: DraftPlan,
        config: Mapping[str, object],
        tell: ProgressCallback,
    ) -> None:
        """Deal what sees and drafts, the model and its adapters out over the cards."""
        cards = read_placement(config)
        split: dict[str, object] = {
            "max_chunk_size": chunk_tokens(config),
            "max_batch_size": int(str(config["slots"])),
            "use_per_device": cards.card_gigabytes,
        }
        vision_model = None if self._vision is None else self._vision.model
        for part, stage in ((vision_model, VISION_STAGE), (draft_plan.model, draft_plan.load_stage)):
            if part is None:
                continue
            part.load(callback=stage_callback(tell, stage), **split)
            if cards.card_gigabytes is not None:  # what it took is no longer there for the model
                split["use_per_device"] = self._less_what_is_taken(cards.card_gigabytes)
        on_weights = stage_callback(tell, "Reading weights")
        model.load(callback=on_weights, tensor_p=cards.cuts_matrices, draft_model=draft_plan.model, **split)
        for adapter in loras_of(config):
            tell(f"Reading the adapter {adapter.name}")
            importlib.import_module("exllamav3.model.lora").LoRA.from_directory(model, str(adapter))

    def _less_what_is_taken(self, gigabytes: list[float]) -> list[float]:
        taken_gib = [self.torch.cuda.memory_allocated(card) / GIB for card in range(len(gigabytes))]
        return [max(0.0, budget - used_gib) for budget, used_gib in zip(gigabytes, taken_gib, strict=True)]

    def make_job(self, work: WorkItem) -> Any:  # noqa: ANN401 -- the library's own
        """Return the library's job for a request."""
        exl = self.library
        filters = None
        if work.schema is not None:
            filters = [self._make_filter(work.id, work.schema)]
        return exl.Job(
            input_ids=self.vocabulary.to_tensor(work.prompt),
            max_new_tokens=work.max_tokens,
            sampler=exl.ComboSampler(**sampler_arguments(work)),
            seed=work.sampling.seed,
            stop_conditions=[] if work.ignores_end else sorted(self.ends),
            filters=filters,
            return_probs=work.logprobs is not None,
            return_top_tokens=work.logprobs or 0,
            identifier=work.id,
            embeddings=pictures_of(work.prompt),
        )

    def find_picture(self, mark: str) -> object | None:
        """Return what was seen in a picture, if it is kept."""
        return None if self._vision is None else self._vision.find(mark)

    def read_picture(self, mark: str, picture: Any) -> object:  # noqa: ANN401 -- Pillow's
        """Return what the model sees in a picture. Raises Refused for one it cannot look at."""
        if self._vision is None:
            raise feature_refusal("pictures", "messages")
        return self._vision.look_at(mark, picture, self._tokenizer)

    def encode_pictures(self, text: str, pictures: Sequence[object]) -> list[int]:
        """Return a text's tokens, with those of pictures in the place of their marks."""
        encoded_text = self._tokenizer.encode(text, encode_special_tokens=True, embeddings=list(pictures))
        return PicturedPrompt(map(int, encoded_text.tolist()[0]), pictures)

    def _make_filter(self, work: int, schema: str) -> Any:  # noqa: ANN401 -- the library's own
        """Return what holds an answer to a schema. The library's own filter would end the work of everybody else."""
        try:
            schema_filter = self._schema_filter_class(self._tokenizer, json_schema=schema, eos_after_completed=True)
        except ValueError as error:
            raise unknown_schema(str(error).removeprefix("Invalid grammar: ")) from error
        if schema_filter.problem:
            raise schema_refusal(schema_filter)
        self._filters[work] = schema_filter
        return schema_filter

    @cached_property
    def _schema_filter_class(self) -> Any:  # noqa: ANN401 -- a class made of the library's
        return type("SchemaFilter", (self.library.LLGuidanceFilter,), {"problem": "", "_check_error": _record_problem})

    def read_tokens(self, work: int, result: Mapping[str, Any]) -> list[Token]:
        """Return tokens with the probabilities the model gave them, whatever the sampler made of those."""
        if "token_probs" not in result:
            return super().read_tokens(work, result)
        ids, figures = ids_of(result), map(_logarithm, result["token_probs"].tolist()[0])
        return [
            Token(*figures_of_token)
            for figures_of_token in zip(ids, figures, _top_alternatives(result, len(ids)), strict=True)
        ]

    def cache_use(self) -> float | None:
        """Return the share of the cache's tokens in use."""
        stats: Mapping[str, float] = self.generator.get_cache_stats()
        return float(stats["used_tokens"]) / float(max(1, stats["max_tokens"]))

    def _cache_kind(self, config: Mapping[str, object]) -> dict[str, object]:
        keys, values = kv_bits_of(config)
        return {"layer_type": self.library.CacheLayer_quant, "k_bits": keys, "v_bits": values} if keys else {}


def count_expert_layers(model: Any, layers: int) -> int:  # noqa: ANN401 -- the library's own
    """Return how many of so many first layers have experts to choose from: the library counts these alone."""
    places = [(getattr(module, "layer_idx", None), getattr(module, "mlp", None)) for module in model.modules]
    return sum(place is not None and place < layers and hasattr(mlp, "num_experts") for place, mlp in places)


def _record_problem(schema_filter: Any) -> None:  # noqa: ANN401 -- a filter of the library's
    """Keep what went wrong, for the step to end this one request with."""
    if schema_filter._matcher.is_error():  # noqa: SLF001 -- as the method does that this is in the place of
        schema_filter.problem = schema_filter.problem or str(schema_filter._matcher.get_error()).partition("\n")[0]  # noqa: SLF001 -- as above


def _top_alternatives(result: Mapping[str, Any], count: int) -> list[list[tuple[int, float]]]:
    """Return each token's alternatives, likeliest first."""
    if "top_k_tokens" not in result:
        return [[] for _ in range(count)]
    ids, figures = result["top_k_tokens"].tolist()[0], result["top_k_probs"].tolist()[0]
    return [list(zip(row, map(_logarithm, those), strict=True)) for row, those in zip(ids, figures, strict=True)]


def _logarithm(probability: float) -> float:
    return math.log(max(probability, _LEAST))


def sampler_arguments(work: WorkItem) -> dict[str, object]:
    """Return the sampler's arguments; what is not asked for does nothing."""
    requested_sampling = work.sampling
    return {
        "temperature": 1.0 if requested_sampling.temperature is None else requested_sampling.temperature,
        "top_p": 1.0 if requested_sampling.top_p is None else requested_sampling.top_p,
        "top_k": max(0, requested_sampling.top_k or 0),
        "min_p": requested_sampling.min_p or 0.0,
        "rep_p": requested_sampling.repetition_penalty or 1.0,
        "pres_p": requested_sampling.presence_penalty or 0.0,
        "freq_p": requested_sampling.frequency_penalty or 0.0,
    }
