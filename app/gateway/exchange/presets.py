"""What a made model adds to a request, put into the body its engine is sent, whichever dialect it came in.

The request's own values go before the preset's: its system prompt, its stops, its temperature. For models without a
preset, which is nearly all requests, the bytes are handed on untouched.
"""

from collections.abc import Mapping, Sequence

import msgspec

from app.core.models import ModelInfo, Preset
from app.core.thinking import ThinkingLevel
from app.gateway.canonical.request import ConversationRequest
from app.gateway.exchange.engine.request import EFFORTS, look_back_tokens, thinking_arguments
from engines.api import Route

_SAMPLING = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "typical_p",
    "seed",
    "repeat_last_n",
    "repeat_penalty",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
)
_NAMES: Mapping[Route, Mapping[str, str]] = {
    Route.CHAT: {"stop": "stop", "num_predict": "max_tokens"},
    Route.COMPLETIONS: {"stop": "stop", "num_predict": "max_tokens"},
    Route.INFILL: {"stop": "stop", "num_predict": "n_predict"},
    Route.MESSAGES: {"stop": "stop_sequences"},
    Route.RESPONSES: {"stop": "stop", "num_predict": "max_output_tokens"},
}
"""Routes that write, and what they call the parameters that have several names."""
_SAME = {
    "max_tokens": ("max_completion_tokens", "n_predict"),
    "n_predict": ("max_tokens",),
    "repeat_penalty": ("repetition_penalty",),
    "repetition_penalty": ("repeat_penalty",),
}
"""Other names under which a request may have said the same."""
THINK, THINKING_BUDGET = "think", "thinking_budget_tokens"
"""Parameters that say how much is thought: Ollama's word, and llama-server's."""
_THINKING_ARGUMENTS = frozenset({"enable_thinking", "thinking", "reasoning_effort", "thinking_budget"})
"""Of the chat template: with one of them a request has said how much to think."""
_THINKING_FIELDS = ("reasoning_effort", "reasoning", "thinking", THINK, THINKING_BUDGET, "reasoning_budget_tokens")
_SYSTEM = frozenset({"system", "developer"})
_TALKS = frozenset({Route.CHAT, Route.APPLY_TEMPLATE})
_ANTHROPIC = frozenset({Route.MESSAGES, Route.COUNT_TOKENS})

_Fields = dict[str, object]


def apply_preset(body: bytes, model: ModelInfo, route: Route) -> bytes:
    """Return the body with what the model's preset adds to it on an engine's route."""
    if model.preset is None:
        return body
    fields: _Fields = msgspec.json.decode(body)
    if route in _TALKS:
        _into_chat(fields, model.preset)
    elif route in _ANTHROPIC:
        _into_messages(fields, model.preset)
    elif route is Route.RESPONSES:
        _into_responses(fields, model.preset)
    if route in _NAMES:
        _add_parameters(fields, model.preset, _NAMES[route])
    if route in _TALKS | _ANTHROPIC:
        _add_thinking(fields, model.preset, route)
    return msgspec.json.encode(fields)


def _into_chat(fields: _Fields, preset: Preset) -> None:
    turns = _turns_in(fields.get("messages"))
    lead = next((at for at, turn in enumerate(turns) if _role_of(turn) not in _SYSTEM), len(turns))
    has_system = any(_role_of(turn) in _SYSTEM for turn in turns)
    system = [{"role": "system", "content": preset.system}] if preset.system and not has_system else []
    fields["messages"] = [*system, *turns[:lead], *_preset_turns(preset), *turns[lead:]]


def _into_messages(fields: _Fields, preset: Preset) -> None:
    turns = _turns_in(fields.get("messages"))
    if preset.system and not fields.get("system") and not any(_role_of(turn) in _SYSTEM for turn in turns):
        fields["system"] = preset.system
    fields["messages"] = [*_preset_turns(preset), *turns]


def _into_responses(fields: _Fields, preset: Preset) -> None:
    text_input = fields.get("input")
    turns = (
        [{"role": "user", "content": text_input}]
        if isinstance(text_input, str) and text_input
        else _turns_in(text_input)
    )
    if preset.system and not fields.get("instructions") and not any(_role_of(turn) in _SYSTEM for turn in turns):
        fields["instructions"] = preset.system
    if preset.messages:
        fields["input"] = [*_preset_turns(preset), *turns]


def _add_parameters(fields: _Fields, preset: Preset, names: Mapping[str, str]) -> None:
    for ours, given_value in preset.parameters.items():
        value = (
            look_back_tokens(given_value) if ours == "repeat_last_n" and isinstance(given_value, int) else given_value
        )
        theirs = ours if ours in _SAMPLING else names.get(ours)
        if theirs is None or (ours == "num_predict" and isinstance(value, int) and value < 0):
            continue
        if all(fields.get(name) is None for name in (theirs, *_SAME.get(theirs, ()))):
            fields[theirs] = value


def with_default_thinking(request: ConversationRequest, preset: Preset | None) -> ConversationRequest:
    """Return the request with how much its model thinks where it does not say itself."""
    level = _thinking_level(preset)
    is_said = request.thinking is not ThinkingLevel.DEFAULT or _THINKING_ARGUMENTS & request.template_arguments.keys()
    return request if level is None or is_said else msgspec.structs.replace(request, thinking=level)


def _thinking_level(preset: Preset | None) -> ThinkingLevel | None:
    value = None if preset is None else preset.parameters.get(THINK)
    if isinstance(value, bool):
        return ThinkingLevel.ON if value else ThinkingLevel.OFF
    return ThinkingLevel(value) if isinstance(value, str) and value in set(ThinkingLevel) else None


def _add_thinking(fields: _Fields, preset: Preset, route: Route) -> None:
    """Say how much is thought, unless the request says otherwise in any way."""
    level, given_fields = _thinking_level(preset) or ThinkingLevel.DEFAULT, fields.get("chat_template_kwargs")
    arguments = dict(given_fields) if isinstance(given_fields, dict) else {}
    defaults = thinking_arguments(level)
    differ = [key for key in _THINKING_ARGUMENTS & arguments.keys() if defaults.get(key) != arguments[key]]
    if differ or _says_thinking(fields):
        return
    if defaults:
        fields["chat_template_kwargs"] = {**defaults, **arguments}
    if route is Route.CHAT and level in EFFORTS:
        fields["reasoning_effort"] = EFFORTS[level]
    budget = preset.parameters.get(THINKING_BUDGET)
    if route is Route.CHAT and isinstance(budget, int) and level is not ThinkingLevel.OFF:
        fields[THINKING_BUDGET] = budget


def _says_thinking(fields: _Fields) -> bool:
    output = fields.get("output_config")
    has_effort = isinstance(output, dict) and output.get("effort") is not None
    return has_effort or any(fields.get(name) is not None for name in _THINKING_FIELDS)


def _preset_turns(preset: Preset) -> list[object]:
    return [msgspec.to_builtins(turn) for turn in preset.messages if turn.role not in _SYSTEM]


def _turns_in(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _role_of(turn: object) -> object:
    return turn.get("role") if isinstance(turn, dict) else None
