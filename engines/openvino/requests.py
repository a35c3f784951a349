"""One request in OpenVINO's pipeline: its settings, and what comes out of its handle."""

import secrets
from dataclasses import dataclass, field
from typing import Any

from engines.serving.backend import Finish, Outcome, Sampling, Token, Work


@dataclass(slots=True)
class Running:
    """A request that is computed. `prompt` and `left` change when it has to be asked again from where it was."""

    work: Work
    prompt: list[int]
    left: int
    handle: Any = None
    ends: frozenset[int] = frozenset()
    written: list[int] = field(default_factory=list)
    is_over: bool = False

    def read(self) -> Outcome | None:
        """Return what the last step brought; None for nothing."""
        tokens: list[Token] = []
        finish = None
        while finish is None and self.handle.can_read():
            for output in self.handle.read().values():
                tokens += _tokens(output, has_logprobs=self.work.logprobs is not None)
                finish = _FINISHES.get(output.finish_reason.name)
        if finish is None and self.handle.get_status().name == "IGNORED":  # no room in the KV cache for another token
            finish = Finish.LENGTH
        if not tokens and finish is None:
            return None
        self.written += [token.id for token in tokens]
        self.is_over = finish is not None
        if finish is Finish.STOP and tokens and tokens[-1].id in self.ends:
            tokens.pop()
        return Outcome(self.work.id, tokens, finish)

    def resume(self) -> None:
        """Have what was written count as prompt, for the rest to be written after it."""
        self.prompt = [*self.work.prompt, *self.written]
        self.left = self.work.max_tokens - len(self.written)


_FINISHES = {"STOP": Finish.STOP, "LENGTH": Finish.LENGTH, "TOOL_CALL": Finish.STOP}


def generation_config(genai: Any, made: Any, running: Running) -> Any:  # noqa: ANN401 -- the wheel's own types
    """Turn a request into OpenVINO's settings, `made` being the model's own."""
    work = running.work
    made.max_new_tokens = running.left
    made.apply_chat_template = False
    made.ignore_eos = work.ignores_end
    if work.logprobs is not None:
        made.logprobs = 1
    if work.schema is not None:
        made.structured_output_config = genai.StructuredOutputConfig(json_schema=work.schema)
    _choose(made, work.sampling)
    running.ends = frozenset({*made.stop_token_ids, made.eos_token_id})
    return made


def _choose(made: Any, sampling: Sampling) -> None:  # noqa: ANN401 -- the wheel's own type
    if sampling.temperature is not None:
        made.do_sample = sampling.temperature > 0
    if made.do_sample:
        made.rng_seed = secrets.randbits(32) if sampling.seed is None else sampling.seed
        _set(made, "temperature", sampling.temperature)
        _set(made, "top_p", None if sampling.top_p == 0 else sampling.top_p)
        _set(made, "min_p", sampling.min_p)
        if sampling.top_k is not None and sampling.top_k > 0:
            made.top_k = sampling.top_k
        if sampling.top_p == 0:
            made.top_k = 1
    _set(made, "repetition_penalty", sampling.repetition_penalty)
    _set(made, "presence_penalty", sampling.presence_penalty)
    _set(made, "frequency_penalty", sampling.frequency_penalty)


def _set(made: Any, name: str, value: float | None) -> None:  # noqa: ANN401 -- the wheel's own type
    if value is not None:
        setattr(made, name, value)


def _tokens(output: Any, *, has_logprobs: bool) -> list[Token]:  # noqa: ANN401 -- the wheel's own type
    if not has_logprobs:
        return [Token(token) for token in output.generated_ids]
    return [
        Token(token, logprob) for token, logprob in zip(output.generated_ids, output.generated_log_probs, strict=True)
    ]
