"""What both ExLlamas have in common: a generator that is fed jobs and iterated, on one thread.

Their asynchronous wrappers are not used: a job that is cancelled there while it runs ends the loop of all others.
"""

import importlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from engines.exllama.kernel_build import visible_cards, watch_kernel_build
from engines.exllama.vocabulary import ExllamaVocabulary  # noqa: TC001 -- an attribute's type, and no cost
from engines.serving.backend import BackendFinish, Decoder, LoadResult, ProgressCallback, StepOutcome, Token, WorkItem
from engines.serving.refusals import RequestRefused, engine_failure, invalid_request

PAGE_TOKENS = 256
"""Both page their cache by so much; a cache is a multiple of it."""
UNBOUNDED_CONTEXT = 4096
"""Where neither a person nor the model says how long a conversation may be."""
_CHUNK = 2048
"""Tokens of a prompt computed at once where nobody says: the libraries' own default."""
_SPARE_TOKENS = 128
"""By so many may vocabularies differ in length: they are padded."""


_TELLING = frozenset({"streaming", "error"})
"""Stages of a job of which its client hears."""
_REFUSALS = (ValueError, TypeError, KeyError, IndexError, AssertionError, OSError)
"""What the libraries raise for models and cards they cannot do with."""


class AnswerConstraint(Protocol):
    """What holds an answer to a schema."""

    @property
    def problem(self) -> str:
        """Why it cannot any more; empty while it can."""


class ExllamaBackend(ABC):
    """`engines.serving.backend.WorkerBackend` on a dynamic generator."""

    name = ""
    """The library's module."""

    def __init__(self) -> None:
        self.library: Any = None
        self.torch: Any = None
        self.vocabulary: ExllamaVocabulary
        self.ends: frozenset[int] = frozenset()
        self.generator: Any = None
        self._jobs: dict[int, Any] = {}
        self._filters: dict[int, AnswerConstraint] = {}

    def load(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model onto the cards that were chosen, else all. Raises RuntimeError when the library refuses."""
        devices = config["devices"]
        if isinstance(devices, list) and devices:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, devices))
        tell(f"Starting {self.name}")
        self.torch = importlib.import_module("torch")
        if not self.torch.cuda.is_available():  # without this the kernels would be compiled first, and for no card
            raise RuntimeError("no CUDA GPUs are available to PyTorch")
        self.prepare_import()
        with watch_kernel_build(self.name, visible_cards(self.torch), os.environ, tell):
            self.library = importlib.import_module(self.name)
        try:
            return self.open(config, tell)
        except _REFUSALS as error:  # to our server these would be mistakes in what it was told
            raise RuntimeError(f"{type(error).__name__}: {error}") from error

    def prepare_import(self) -> None:  # noqa: B027 -- most have nothing to do
        """Do what has to be done before the library is imported; PyTorch is there."""

    @abstractmethod
    def open(self, config: Mapping[str, object], tell: ProgressCallback) -> LoadResult:
        """Load the model with the library, which is there."""

    @abstractmethod
    def make_job(self, work: WorkItem) -> Any:  # noqa: ANN401 -- the library's own
        """Return the library's job for a request."""

    @abstractmethod
    def cache_use(self) -> float | None:
        """Return the share of the KV cache in use."""

    def encode(self, text: str, *, adds_special: bool) -> list[int]:
        """Return a text's tokens."""
        return self.vocabulary.encode(text, adds_special=adds_special)

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return self.vocabulary.decode(tokens)

    def make_decoder(self) -> Decoder:
        """Return what turns the tokens of one answer into text."""
        return self.vocabulary.make_decoder()

    def start(self, work: WorkItem) -> None:
        """Take on a request. Raises Refused for one that can never fit, or whose schema nobody understands."""
        try:
            job = self.make_job(work)
            self.generator.enqueue(job)
        except (AssertionError, ValueError) as error:
            self.cancel(work.id)
            raise invalid_request(f"ExLlama does not accept this request: {error}.") from error
        self._jobs[work.id] = job

    def step(self) -> Iterable[StepOutcome]:
        """Compute a little for every job. Raises RuntimeError when the library fails for good."""
        try:
            results = self.generator.iterate()
        except AssertionError as error:
            raise RuntimeError(f"ExLlama failed: {error}") from error
        return [self._result_outcome(result) for result in results if result["stage"] in _TELLING]

    def _result_outcome(self, result: Mapping[str, Any]) -> StepOutcome:
        """Return what one result tells of its request: its tokens, or why nothing more comes."""
        if result["stage"] == "error":  # ExLlamaV3 gives up one job where it can, and goes on with the others
            error = engine_failure(f"The engine gave this request up: {result['error']}")
            return StepOutcome(int(result["job"].identifier), [], error=error)
        outcome = self.token_outcome(result)
        constraint = self._filters.get(outcome.work)
        return (
            StepOutcome(outcome.work, [], error=schema_refusal(constraint))
            if constraint is not None and constraint.problem
            else outcome
        )

    def read_tokens(self, work: int, result: Mapping[str, Any]) -> list[Token]:  # noqa: ARG002 -- where it matters
        """Return the tokens in a part of a result, with the figures that came with them."""
        return [Token(token) for token in ids_of(result)]

    def cancel(self, work: int) -> None:
        """Let go of a request."""
        self._filters.pop(work, None)
        job = self._jobs.pop(work, None)
        if job is not None:
            self.generator.cancel(job)

    def token_outcome(self, result: Mapping[str, Any]) -> StepOutcome:
        """Return what one result tells of its request."""
        work = int(result["identifier"])
        tokens = self.read_tokens(work, result)
        reason = result.get("eos_reason") if result["eos"] else None
        if reason == "stop_token":  # what was held back comes apart, with the end-of-sequence token last
            tokens += self.read_tokens(work, result.get("held", {}))[:-1]
        finish = None if reason is None else BackendFinish.LENGTH if reason == "max_new_tokens" else BackendFinish.STOP
        cached_tokens = result.get("cached_tokens") if finish else None
        return StepOutcome(work, tokens, finish, cached_tokens)


def schema_refusal(constraint: AnswerConstraint) -> RequestRefused:
    """Return why an answer ends whose schema could not be kept to."""
    sentence = f"This schema could not be followed to the end: {constraint.problem}."
    return invalid_request(sentence, "response_format", code="invalid_schema")


def ids_of(result: Mapping[str, Any]) -> list[int]:
    """Return the tokens of one result; none while the library holds them back for the end of a character."""
    tensor = result.get("token_ids")
    return [] if tensor is None else [int(token_id) for token_id in tensor.tolist()[0]]


def cache_tokens(context: int, slots: int) -> int:
    """Return the size of a cache that holds every slot's context."""
    pages = -(-context // PAGE_TOKENS)
    return pages * PAGE_TOKENS * slots


def chunk_tokens(config: Mapping[str, object]) -> int:
    """Return how many tokens of a prompt are computed at once: what was asked for, in whole pages."""
    return -(-int(str(config["batch"] or _CHUNK)) // PAGE_TOKENS) * PAGE_TOKENS


def kv_bits_of(config: Mapping[str, Any]) -> tuple[int, int]:
    """Return the bits of keys and values in the cache; 0 for those that are not quantised."""
    keys, values = config["kv_bits"]
    return int(keys), int(values)


def drafted_tokens(config: Mapping[str, Any]) -> int:
    """Return how many tokens are drafted at once."""
    return 0 if config["draft"] is None else int(config["draft"]["tokens"])


def loras_of(config: Mapping[str, Any]) -> list[Path]:
    """Return the adapters' folders. Raises ValueError for what is none."""
    folders = [Path(str(path)) for path in config["loras"]]
    for folder in folders:
        if not (folder / "adapter_config.json").is_file():
            raise ValueError(f"{folder} is no folder with a LoRA adapter of PEFT (adapter_config.json)")
    return folders


def stage_callback(tell: ProgressCallback, stage: str) -> Callable[[int, int], None]:
    """Return what the libraries tell how far they are with something."""
    return lambda done_count, total: tell(stage, done_count / max(1, total))


def check_vocabularies(mine: int | None, draft: int | None) -> None:
    """Raise ValueError where a model's tokens and those of its draft cannot be the same."""
    if mine is not None and draft is not None and abs(mine - draft) > _SPARE_TOKENS:
        raise ValueError(f"the draft model has a vocabulary of {draft} tokens, and this model one of {mine}")


def context_of(config: Mapping[str, object], made_for: int | None) -> int:
    """Return how many tokens a conversation may have: what was asked for, within what the model was made for."""
    requested_context = config["context"]
    if not requested_context:
        return made_for or UNBOUNDED_CONTEXT
    return min(int(str(requested_context)), made_for or int(str(requested_context)))


def folder_of(config: Mapping[str, object]) -> Path:
    """Return the model's folder."""
    return Path(str(config["model"]))
