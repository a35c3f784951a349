"""ONNX Runtime GenAI in a process of its own: `python -m engines.onnx_genai.worker`.

Each request has a generator of its own, and generators take turns, a token each. The library's batched engine would
have a request that joins wait until the others end, unless a model was built for dynamic batching on a GPU.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from engines import worker_base
from engines.onnx_genai.generation import OnnxGeneration, step_together
from engines.serving.backend import (
    BackendAbility,
    Decoder,
    LoadResult,
    ProgressCallback,
    StepOutcome,
    WorkItem,
    share_time,
)
from engines.serving.json_text import encode_compact, parse_object
from engines.serving.refusals import RequestRefused, invalid_request
from engines.serving.server import serve_backend
from engines.serving.templates import read_template

_GPUS = frozenset({"cuda", "dml"})


class OnnxBackend:
    """`engines.serving.backend.WorkerBackend` with one generator a request."""

    def __init__(self) -> None:
        self._genai: Any = None
        self._model: Any = None
        self._tokenizer: Any = None
        self._generations: dict[int, OnnxGeneration] = {}
        self._adds_special: bool | None = None

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model with the provider asked for, and no other. Raises RuntimeError when the library refuses."""
        tell("Starting ONNX Runtime")
        import onnxruntime_genai  # noqa: PLC0415 -- native code: the lifeline must hold before it loads

        onnxruntime_genai.disable_telemetry_events()
        tell("Reading weights")
        self._genai = onnxruntime_genai
        folder = Path(str(config["model"]))
        self._model = onnxruntime_genai.Model(self._make_config(folder, config))
        self._check_device(config["provider"])
        self._tokenizer = onnxruntime_genai.Tokenizer(self._model)
        context, requested_context = _read_trained_context(folder), config["context"]
        template, specials = read_template(folder)
        return LoadResult(
            context=min(int(str(requested_context)), context) if requested_context else context,
            slots=int(str(config["slots"])),
            device=str(self._model.device_type),
            device_name=str(config["provider"] or "CPUExecutionProvider"),
            abilities=frozenset({BackendAbility.JSON_SCHEMA, BackendAbility.LOGPROBS, BackendAbility.TOP_LOGPROBS}),
            chat_template=template,
            specials=specials,
        )

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens."""
        if adds_special is not self._adds_special:
            self._tokenizer.update_options(add_special_tokens="true" if adds_special else "false")
            self._adds_special = adds_special
        return [int(token) for token in self._tokenizer.encode(text)] if text or adds_special else []

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._tokenizer.decode(list(tokens))) if tokens else ""

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""
        return _StreamDecoder(self._tokenizer.create_stream())

    def start(self, work: WorkItem) -> None:
        """Take on a request. Raises Refused for what the library refuses at once, such as a bad schema."""
        try:
            self._generations[work.id] = OnnxGeneration(self._genai, self._model, self._tokenizer.eos_token_ids, work)
        except RuntimeError as error:
            is_schema = work.schema is not None and "grammar" in str(error)
            raise invalid_request(
                f"ONNX Runtime does not accept this request: {error}.",
                "response_format" if is_schema else None,
                code="invalid_schema" if is_schema else "invalid_value",
            ) from error

    def step(self) -> Iterable[StepOutcome]:
        """Compute the next tokens of every request, or a part of a long prompt."""
        running_requests = list(self._generations.values())
        if all(generation.is_steady for generation in running_requests):
            yield from step_together(running_requests, time.perf_counter() + share_time(len(running_requests)))
            return
        for generation in running_requests:
            outcome = generation.step()
            if outcome is not None:
                yield outcome

    def cancel(self, work: int) -> None:
        """Let go of a request; its memory goes with it."""
        self._generations.pop(work, None)

    def cache_use(self) -> float | None:
        """Return None: each generator has a cache of its own, as long as its answer may get."""
        return None

    def _check_device(self, provider: object) -> None:
        """Raise RuntimeError where the library took the processor instead of a GPU, which it does without a word."""
        if provider in _GPUS and str(self._model.device_type).upper() == "CPU":
            raise RuntimeError(f"{provider} execution provider is not used: the model runs on the processor")

    def _make_config(self, folder: Path, config: Mapping[str, object]) -> Any:  # noqa: ANN401 -- the wheel's own type
        settings = self._genai.Config(str(folder))
        if config["provider"] is not None:
            settings.clear_providers()
            if config["provider"]:
                settings.append_provider(config["provider"])
            provider_options = config["provider_options"]
            if isinstance(provider_options, dict):
                for name, value in provider_options.items():
                    settings.set_provider_option(config["provider"], name, value)
        if config["threads"]:
            options = {"intra_op_num_threads": config["threads"]}
            settings.overlay(encode_compact({"model": {"decoder": {"session_options": options}}}).decode())
        return settings


class _StreamDecoder:
    """`engines.serving.backend.Decoder` on the library's own stream, which keeps unfinished characters back."""

    def __init__(self, stream: Any) -> None:  # noqa: ANN401 -- the wheel's own type
        self._stream = stream

    def feed(self, token: int) -> str:
        """Return the text that a token completes."""
        return str(self._stream.decode(token))

    def flush(self) -> str:
        """Return nothing: the library drops bytes that never became a character."""
        return ""


def _read_trained_context(folder: Path) -> int:
    """Return the context the model was made for. Raises RuntimeError for a folder that does not say."""
    try:
        model = parse_object((folder / "genai_config.json").read_bytes()).get("model")
    except (OSError, RequestRefused) as error:
        raise RuntimeError(f"Error opening {folder}/genai_config.json: {error}") from error
    length = model.get("context_length") if isinstance(model, dict) else None
    if not isinstance(length, int) or length < 1:
        raise RuntimeError(f"{folder}/genai_config.json does not say the model's context_length")
    return length


def main() -> None:
    """Serve as the environment says."""
    worker_base.run(lambda launch: serve_backend(launch, OnnxBackend))


if __name__ == "__main__":
    main()
