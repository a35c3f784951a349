"""One request in OpenVINO's pipeline: its settings, and what comes out of its handle."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from engines.serving.backend import BackendFinish, BackendSampling, StepOutcome, Token, WorkItem


@dataclass(slots=True)
class RunningRequest:
    """A request that is computed. `prompt` and `left` change when it has to be asked again from where it was."""

    work: WorkItem
    prompt: list[int]
    left: int
    handle: Any = None
    ends: frozenset[int] = frozenset()
    written: list[int] = field(default_factory=list)
    is_over: bool = False

    def read_outcome(self) -> StepOutcome | None:
        """Return what the last step brought; None for nothing."""
        tokens: list[Token] = []
        finish = None
        while finish is None and self.handle.can_read():
            for output in self.handle.read().values():
                tokens += _tokens(output, has_logprobs=self.work.logprobs is not None)
                finish = _FINISHES.get(output.finish_reason.name)
        if finish is None and self.handle.get_status().name == "IGNORED":  # no room in the KV cache for another token
            finish = BackendFinish.LENGTH
        if not tokens and finish is None:
            return None
        self.written += [token.id for token in tokens]
        self.is_over = finish is not None
        if finish is BackendFinish.STOP and tokens and tokens[-1].id in self.ends:
            tokens.pop()
        return StepOutcome(self.work.id, tokens, finish)

    def resume(self) -> None:
        """Have what was written count as prompt, for the rest to be written after it."""
        self.prompt = [*self.work.prompt, *self.written]
        self.left = self.work.max_tokens - len(self.written)


_FINISHES = {"STOP": BackendFinish.STOP, "LENGTH": BackendFinish.LENGTH, "TOOL_CALL": BackendFinish.STOP}


def generation_config(genai: Any, settings: Any, running_request: RunningRequest) -> Any:  # noqa: ANN401 -- the wheel's own types
    """Turn a request into OpenVINO's settings, `settings` being the model's own."""
    work = running_request.work
    settings.max_new_tokens = running_request.left
    settings.apply_chat_template = False
    settings.ignore_eos = work.ignores_end
    if work.logprobs is not None:
        settings.logprobs = 1
    if work.schema is not None:
        settings.structured_output_config = genai.StructuredOutputConfig(json_schema=work.schema)
    _choose(settings, work.sampling)
    running_request.ends = frozenset({*settings.stop_token_ids, settings.eos_token_id})
    return settings


def _choose(settings: Any, sampling: BackendSampling) -> None:  # noqa: ANN401 -- the wheel's own type
    if sampling.temperature is not None:
        settings.do_sample = sampling.temperature > 0
    if settings.do_sample:
        settings.rng_seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        _set(settings, "temperature", sampling.temperature)
        _set(settings, "top_p", None if sampling.top_p == 0 else sampling.top_p)
        _set(settings, "min_p", sampling.min_p)
        if sampling.top_k is not None and sampling.top_k > 0:
            settings.top_k = sampling.top_k
        if sampling.top_p == 0:
            settings.top_k = 1
    _set(settings, "repetition_penalty", sampling.repetition_penalty)
    _set(settings, "presence_penalty", sampling.presence_penalty)
    _set(settings, "frequency_penalty", sampling.frequency_penalty)


def _set(settings: Any, name: str, value: float | None) -> None:  # noqa: ANN401 -- the wheel's own type
    if value is not None:
        setattr(settings, name, value)


def _tokens(output: Any, *, has_logprobs: bool) -> list[Token]:  # noqa: ANN401 -- the wheel's own type
    if not has_logprobs:
        return [Token(token) for token in output.generated_ids]
    return [
        Token(token, logprob) for token, logprob in zip(output.generated_ids, output.generated_log_probs, strict=True)
    ]
