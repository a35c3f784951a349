"""OpenVINO GenAI in a process of its own: `python -m engines.openvino.worker`.

One continuous-batching pipeline serves every request. Its `step` keeps the interpreter lock, so the server shares its
thread (see `engines.serving`).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines import worker_base
from engines.openvino.requests import RunningRequest, generation_config
from engines.openvino.vocabulary import OpenVinoVocabulary
from engines.serving.backend import BackendAbility, Decoder, LoadResult, ProgressCallback, StepOutcome, WorkItem
from engines.serving.json_text import parse_object
from engines.serving.refusals import RequestRefused, invalid_request
from engines.serving.server import serve_backend
from engines.serving.templates import read_template

BLOCK_TOKENS = {"CPU": 32}
"""Tokens in one block of the KV cache; the GPU's have 16."""
_GPU_BLOCK_TOKENS = 16
_UNBOUNDED_CONTEXT = 4096
"""Where neither a person nor the model says how long a conversation may be."""


class OpenVinoBackend:
    """`engines.serving.backend.WorkerBackend` on a continuous-batching pipeline."""

    def __init__(self) -> None:
        self._genai: Any = None
        self._pipeline: Any = None
        self._vocabulary: OpenVinoVocabulary
        self._requests: dict[int, RunningRequest] = {}

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model on the device asked for, and no other. Raises RuntimeError when OpenVINO refuses."""
        tell("Starting OpenVINO")
        import openvino  # noqa: PLC0415 -- 60 MB of native code: the lifeline must hold before it loads
        import openvino_genai  # noqa: PLC0415 -- as above

        folder, device = Path(str(config["model"])), str(config["device"])
        context, slots = _context_limit(folder, config), int(str(config["slots"]))
        tell("Reading weights")
        self._genai = openvino_genai
        self._pipeline = openvino_genai.ContinuousBatchingPipeline(
            str(folder), self._scheduler_config(config, context, slots), device, _properties(config)
        )
        tell("Reading the vocabulary")
        self._vocabulary = OpenVinoVocabulary(openvino_genai, self._pipeline.get_tokenizer())
        template, specials = read_template(folder)
        return LoadResult(
            context=context,
            slots=slots,
            device=device,
            device_name=str(openvino.Core().get_property(device, "FULL_DEVICE_NAME")),
            hides_cache=bool(config["prefix_cache"]),
            abilities=frozenset(
                {BackendAbility.JSON_SCHEMA, BackendAbility.LOGPROBS, BackendAbility.MIN_P, BackendAbility.PENALTIES}
            ),
            chat_template=template or self._pipeline.get_tokenizer().get_original_chat_template() or None,
            specials=specials,
        )

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens."""
        return self._vocabulary.encode(text, adds_special=adds_special)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return self._vocabulary.decode(tokens)

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""
        return self._vocabulary.make_decoder()

    def start(self, work: WorkItem) -> None:
        """Take on a request. Raises Refused for what the library refuses at once."""
        running_request = RunningRequest(work, list(work.prompt), work.max_tokens)
        try:
            self._add(running_request)
        except RuntimeError as error:
            raise invalid_request(f"OpenVINO does not accept this request: {_error_sentence(error)}.") from error
        self._requests[work.id] = running_request

    def step(self) -> Iterable[StepOutcome]:
        """Compute the next token of every request, or a part of a long prompt."""
        try:
            self._pipeline.step()
        except RuntimeError as error:
            return self._recover_from(error)
        outcomes = [running_request.read_outcome() for running_request in self._requests.values()]
        return [outcome for outcome in outcomes if outcome is not None]

    def cancel(self, work: int) -> None:
        """Let go of a request; the pipeline gives its memory back with the next step."""
        running_request = self._requests.pop(work, None)
        if running_request is None or running_request.is_over:
            return
        running_request.handle.cancel()
        if not self._requests and self._pipeline.has_non_finished_requests():
            self._pipeline.step()

    def cache_use(self) -> float | None:
        """Return the share of the KV cache's blocks in use."""
        return float(self._pipeline.get_metrics().cache_usage) / 100

    def _scheduler_config(self, config: Mapping[str, object], context: int, slots: int) -> Any:  # noqa: ANN401 -- the wheel's own
        """Give the cache as many blocks as all slots can fill; without a number it would grow for ever."""
        cache = self._genai.SchedulerConfig()
        size = BLOCK_TOKENS.get(str(config["device"]), _GPU_BLOCK_TOKENS)
        cache.num_kv_blocks = slots * (math.ceil(context / size) + 1)
        cache.max_num_seqs = slots
        cache.enable_prefix_caching = bool(config["prefix_cache"])
        if config["batch"]:
            cache.max_num_batched_tokens = int(str(config["batch"]))
        return cache

    def _add(self, running_request: RunningRequest) -> None:
        import numpy as np  # noqa: PLC0415 -- comes with openvino
        from openvino import Tensor  # noqa: PLC0415 -- as in `load`

        settings = generation_config(self._genai, self._pipeline.get_config(), running_request)
        tokens = Tensor(np.array([running_request.prompt], dtype=np.int64))
        running_request.handle = self._pipeline.add_request(running_request.work.id, tokens, settings)

    def _recover_from(self, error: RuntimeError) -> list[StepOutcome]:
        """Go on after a step that failed, as it does on a schema OpenVINO cannot follow.

        A pipeline that failed in the middle of a step computes nothing until all its requests are let go of. Those that
        can are asked again from where they were. Raises the error if no request can have been the cause.
        """
        suspects = [
            running_request
            for running_request in self._requests.values()
            if running_request.work.schema is not None and not running_request.written
        ]
        if not suspects:
            raise error
        for running_request in self._requests.values():
            running_request.handle.cancel()
        self._pipeline.step()
        outcomes = [StepOutcome(running_request.work.id, (), error=_bad_schema(error)) for running_request in suspects]
        for running_request in self._requests.values():
            if running_request in suspects:
                continue
            if running_request.work.schema is not None:  # its grammar cannot be resumed in the middle
                outcomes.append(StepOutcome(running_request.work.id, (), error=_interruption_error()))
                continue
            running_request.resume()
            self._add(running_request)
        for outcome in outcomes:
            self._requests[outcome.work].is_over = True
        return outcomes


def _context_limit(folder: Path, config: Mapping[str, object]) -> int:
    """Return how many tokens a conversation may have: what was asked for, within what the model was made for."""
    made_for = _read_trained_context(folder)
    requested_context = config["context"]
    return (
        min(int(str(requested_context)), made_for or int(str(requested_context)))
        if requested_context
        else made_for or _UNBOUNDED_CONTEXT
    )


def _read_trained_context(folder: Path) -> int | None:
    try:
        length = parse_object((folder / "config.json").read_bytes()).get("max_position_embeddings")
    except (OSError, RequestRefused):
        return None
    return length if isinstance(length, int) and length > 0 else None


def _properties(config: Mapping[str, object]) -> dict[str, object]:
    properties: dict[str, object] = {"KV_CACHE_PRECISION": config["kv_precision"]}
    if config["threads"] and config["device"] == "CPU":
        properties["INFERENCE_NUM_THREADS"] = config["threads"]
    return properties


def _error_sentence(error: RuntimeError) -> str:
    """Return the last line of what OpenVINO says; those before name source files of its own."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1].rpartition(".cc:")[2].rstrip(".") if lines else "no reason given"


def _bad_schema(error: RuntimeError) -> RequestRefused:
    return invalid_request(
        f"OpenVINO cannot follow this schema: {_error_sentence(error)}.", "response_format", code="invalid_schema"
    )


def _interruption_error() -> RequestRefused:
    return RequestRefused(
        503, "The answer was interrupted by another request's mistake; try again.", kind="unavailable_error"
    )


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(lambda launch: serve_backend(launch, OpenVinoBackend))


if __name__ == "__main__":
    main()
