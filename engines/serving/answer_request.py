"""What a client asks for, from OpenAI's fields: everything is checked here, before the library hears of it.

Reading the fields of a request: each has a type and a range, and null is the same as nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from types import MappingProxyType

from engines.serving.backend import BackendAbility, BackendSampling
from engines.serving.refusals import feature_refusal, invalid_request


@dataclass(frozen=True, slots=True)
class RequestFields:
    """A JSON object whose fields are asked for by type. Every method raises Refused."""

    of: Mapping[str, object]

    def has(self, name: str) -> bool:
        """Whether a field is there and says something."""
        return self.of.get(name) not in (None, False, 0, "", [], {})

    def integer(self, name: str, *, least: int, most: int = 2**63 - 1) -> int | None:
        """Return a whole number within a range."""
        value = self.number(name, least=least, most=most)
        if value is not None and value != int(value):
            raise invalid_request(f"`{name}` must be a whole number.", name)
        return None if value is None else int(value)

    def number(self, name: str, *, least: float, most: float) -> float | None:
        """Return a number within a range."""
        value = self.of.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
            raise invalid_request(f"`{name}` must be a number.", name)
        if not least <= value <= most:
            raise invalid_request(f"`{name}` must be from {least:g} to {most:g}.", name)
        return value

    def flag(self, name: str) -> bool:
        """Return a truth value; false if it is not there."""
        value = self.of.get(name)
        if value is None or isinstance(value, bool):
            return bool(value)
        raise invalid_request(f"`{name}` must be true or false.", name)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.of.get(name)
        if value is None or isinstance(value, str):
            return value
        raise invalid_request(f"`{name}` must be a string.", name)

    def json_object(self, name: str) -> Mapping[str, object]:
        """Return an object; an empty one if it is not there."""
        value = self.of.get(name)
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise invalid_request(f"`{name}` must be an object.", name)

    def objects(self, name: str) -> list[dict[str, object]]:
        """Return a list of objects; an empty one if it is not there."""
        value = self.of.get(name)
        if value is None:
            return []
        if isinstance(value, list) and all(isinstance(entry, dict) for entry in value):
            return value
        raise invalid_request(f"`{name}` must be a list of objects.", name)

    def strings(self, name: str) -> Sequence[str]:
        """Return a list of strings; one alone counts as a list."""
        value = self.of.get(name)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if isinstance(values, list) and all(isinstance(text, str) for text in values):
            return [text for text in values if text]
        raise invalid_request(f"`{name}` must be a string or a list of strings.", name)

    def tokens(self, name: str) -> list[int] | None:
        """Return a list of token numbers; None if the field is something else."""
        value = self.of.get(name)
        if not isinstance(value, list) or not value:
            return None
        is_tokens = all(isinstance(token, int) and not isinstance(token, bool) and token >= 0 for token in value)
        return list(value) if is_tokens else None


MOST_STOPS = 16
_MOST_LOGPROBS = 20
_MOST_DIGITS = 9
"""Of a token's number: no vocabulary has a thousand million."""
_NOT_OFFERED = {
    "suffix": "text after the answer",
    "echo": "repeating the prompt",
    "grammar": "grammars",
    "functions": "functions; use tools",
    "audio": "audio",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRequest:
    """What chat and bare completions have in common. `max_tokens` None: as many as fit."""

    sampling: BackendSampling
    stops: Sequence[str]
    max_tokens: int | None
    ignores_end: bool
    streams: bool
    tells_usage: bool
    schema: str | None
    logprobs: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateInput:
    """What a chat template is rendered with."""

    messages: Sequence[Mapping[str, object]]
    tools: Sequence[Mapping[str, object]] = ()
    arguments: Mapping[str, object] | None = None
    """Further names for the template, as clients may give them."""
    continues: bool = False
    """Whether the prompt ends with the words of the last message, an assistant's, which the model goes on with."""


def parse_answer_request(
    body: Mapping[str, object],
    abilities: frozenset[BackendAbility],
    *,
    is_chat: bool,
    usual: Mapping[str, float | int] = MappingProxyType({}),
) -> AnswerRequest:
    """Return what a request wants of the answer; `usual` sampling counts where it does not say. Raises Refused."""
    fields = RequestFields(body)
    _refuse_what_nobody_offers(fields)
    limits = [fields.integer(name, least=-1) for name in ("max_tokens", "max_completion_tokens", "n_predict")]
    most = next((limit for limit in limits if limit is not None), None)
    if most == 0:
        raise invalid_request("`max_tokens` must be at least 1.", "max_tokens")
    stops = fields.strings("stop")
    if len(stops) > MOST_STOPS:
        raise invalid_request(f"`stop` may hold at most {MOST_STOPS} strings.", "stop")
    return AnswerRequest(
        sampling=_sampling(_with_usual_sampling(fields, usual, abilities), abilities),
        stops=stops,
        max_tokens=None if most == -1 else most,
        ignores_end=fields.flag("ignore_eos"),
        streams=fields.flag("stream"),
        tells_usage=RequestFields(fields.json_object("stream_options")).flag("include_usage"),
        schema=_schema(fields, abilities),
        logprobs=_logprobs(fields, abilities, is_chat=is_chat),
    )


def parse_template_input(body: Mapping[str, object]) -> TemplateInput:
    """Return the conversation of a chat request. Raises Refused."""
    fields = RequestFields(body)
    messages = fields.objects("messages")
    if not messages:
        raise invalid_request("`messages` must hold at least one message.", "messages")
    tools = [] if body.get("tool_choice") == "none" else fields.objects("tools")
    read, continues = [_message(message) for message in messages], fields.flag("continue_final_message")
    if continues and (read[-1]["role"] != "assistant" or not str(read[-1]["content"]).strip()):
        raise invalid_request(
            "`continue_final_message` needs words of the assistant at the end of `messages`.", "continue_final_message"
        )
    return TemplateInput(
        messages=read, tools=tools, arguments=fields.json_object("chat_template_kwargs"), continues=continues
    )


def parse_prompt(body: Mapping[str, object]) -> str | list[int]:
    """Return the one prompt of a bare completion, as text or as tokens. Raises Refused."""
    fields = RequestFields(body)
    prompt = body.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], str | list):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return prompt
    tokens = fields.tokens("prompt") or RequestFields({"prompt": prompt}).tokens("prompt")
    if tokens is None:
        raise invalid_request("`prompt` must be one string, or one list of tokens.", "prompt")
    return tokens


def _refuse_what_nobody_offers(fields: RequestFields) -> None:
    for name, what in _NOT_OFFERED.items():
        if fields.has(name):
            raise feature_refusal(what, name)
    for name in ("n", "best_of"):
        count = fields.integer(name, least=1)
        if count is not None and count > 1:
            raise feature_refusal("several answers to one request", name)


def _with_usual_sampling(
    fields: RequestFields, usual: Mapping[str, float | int], abilities: frozenset[BackendAbility]
) -> RequestFields:
    """Return the fields with what is usual; what the library cannot do is refused to clients, and not done unasked."""
    if not usual:
        return fields
    able = {name: value for name, value in usual.items() if name != "min_p" or BackendAbility.MIN_P in abilities}
    return RequestFields({**able, **{name: value for name, value in fields.of.items() if value is not None}})


def _sampling(fields: RequestFields, abilities: frozenset[BackendAbility]) -> BackendSampling:
    repetition_penalty = fields.number("repetition_penalty", least=0.01, most=10)
    sampling = BackendSampling(
        temperature=fields.number("temperature", least=0, most=100),
        top_p=fields.number("top_p", least=0, most=1),
        top_k=fields.integer("top_k", least=-1, most=2**31 - 1),
        min_p=fields.number("min_p", least=0, most=1),
        repetition_penalty=fields.number("repeat_penalty", least=0.01, most=10)
        if repetition_penalty is None
        else repetition_penalty,
        presence_penalty=fields.number("presence_penalty", least=-2, most=2),
        frequency_penalty=fields.number("frequency_penalty", least=-2, most=2),
        seed=_seed(fields),
        logit_bias=_logit_bias(fields, abilities),
    )
    if sampling.min_p and BackendAbility.MIN_P not in abilities:
        raise feature_refusal("a least probability", "min_p")
    if (sampling.presence_penalty or sampling.frequency_penalty) and BackendAbility.PENALTIES not in abilities:
        raise feature_refusal("penalties of presence and frequency", "presence_penalty")
    return sampling


def _seed(fields: RequestFields) -> int | None:
    """Return the seed, which llama-server's clients also give as -1 for a random one."""
    seed = fields.integer("seed", least=-1)
    return None if seed == -1 else seed


def _logit_bias(fields: RequestFields, abilities: frozenset[BackendAbility]) -> Mapping[int, float]:
    """Return what is added to the logits of which tokens; OpenAI's names of tokens are their numbers as text."""
    if not fields.has("logit_bias"):
        return {}
    if BackendAbility.LOGIT_BIAS not in abilities:
        raise feature_refusal("a bias for tokens", "logit_bias")
    biases = RequestFields(fields.json_object("logit_bias"))
    if not all(name.isascii() and name.isdigit() and len(name) <= _MOST_DIGITS for name in biases.of):
        raise invalid_request("The names in `logit_bias` must be numbers of tokens.", "logit_bias")
    return {int(name): biases.number(name, least=-100, most=100) or 0.0 for name in biases.of}


def _schema(fields: RequestFields, abilities: frozenset[BackendAbility]) -> str | None:
    response_format = fields.json_object("response_format")
    kind = response_format.get("type", "text")
    if kind == "text":
        schema: object = fields.of.get("json_schema")
    elif kind == "json_object":
        schema = response_format.get("schema") or {"type": "object"}
    elif kind == "json_schema":
        inner = RequestFields(response_format).json_object("json_schema")
        schema = inner.get("schema", inner)
    else:
        raise feature_refusal(f"the response format {kind!r}", "response_format")
    if schema is None:
        return None
    if BackendAbility.JSON_SCHEMA not in abilities:
        raise feature_refusal("answers in a given format", "response_format")
    if not isinstance(schema, dict | bool):
        raise invalid_request("The schema must be an object.", "response_format")
    return json.dumps(schema)


def _logprobs(fields: RequestFields, abilities: frozenset[BackendAbility], *, is_chat: bool) -> int | None:
    if is_chat:
        top = fields.integer("top_logprobs", least=0, most=_MOST_LOGPROBS)
        count = (top or 0) if fields.flag("logprobs") else None
    elif isinstance(fields.of.get("logprobs"), bool):  # as llama-server's clients give it
        count = fields.integer("top_logprobs", least=0, most=_MOST_LOGPROBS) or 0 if fields.flag("logprobs") else None
    else:
        count = fields.integer("logprobs", least=0, most=_MOST_LOGPROBS)
    if count is not None and BackendAbility.LOGPROBS not in abilities:
        raise feature_refusal("log probabilities", "logprobs")
    if count and BackendAbility.TOP_LOGPROBS not in abilities:
        raise feature_refusal("log probabilities of other tokens than the chosen", "top_logprobs")
    return count


def _message(message: Mapping[str, object]) -> dict[str, object]:
    """Return a message as templates take it: its text in one piece, and the arguments of calls as objects."""
    if not isinstance(message.get("role"), str):
        raise invalid_request("Each message must have a `role`.", "messages")
    ours = {**message, "content": _content(message.get("content"))}
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        ours["tool_calls"] = [_call(call) for call in calls]
    return ours


def _content(content: object) -> str:
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise invalid_request("A message's `content` must be a string or a list of parts.", "messages")
    texts = [part.get("text") if part.get("type", "text") in {"text", "input_text"} else None for part in content]
    if not all(isinstance(text, str) for text in texts):
        raise invalid_request("This engine reads text only.", "messages", code="unsupported_content")
    return "".join(str(text) for text in texts)


def _call(call: object) -> object:
    """Return a call with its arguments as an object, which most templates expect; text that is none stays text."""
    if not isinstance(call, dict) or not isinstance(call.get("function"), dict):
        raise invalid_request("Each of `tool_calls` must have a `function`.", "messages")
    function = call["function"]
    try:
        arguments = json.loads(function["arguments"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call
