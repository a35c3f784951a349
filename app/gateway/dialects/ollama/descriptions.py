"""How Ollama describes models: names with a tag, digests, details, and what `/api/show` tells editors.

`digest` identifies a file as it is (path, size, time of change); it is not a hash of its content, which would take
minutes to read. `template` names the variables the model can be given, in Ollama's template language, since editors
search it for `.Suffix` and `.Tools`; the model's own template is in `model_info`.
"""

import hashlib
import math
from collections.abc import Collection, Mapping
from datetime import UTC, datetime

import msgspec

from app.core.capabilities import Capability
from app.core.engines import EngineStatus
from app.core.model_facts import ModelFacts
from app.core.models import ModelInfo, Preset
from app.gateway.dialects.ollama.modelfile import modelfile, parameter_lines
from app.gateway.dialects.ollama.wire import Details, Listed, Loaded, ShownMessage, ShowReply

_WORDS = {
    Capability.COMPLETION: "completion",
    Capability.TOOLS: "tools",
    Capability.INFILL: "insert",
    Capability.VISION: "vision",
    Capability.AUDIO: "audio",
    Capability.EMBEDDING: "embedding",
    Capability.RERANK: "rerank",
    Capability.THINKING: "thinking",
}
"""Ollama's words for what a model can do, in its order; "rerank", which it has no word for, is ours."""
NEVER = datetime(2318, 1, 1, tzinfo=UTC)
"""What "never" looks like in Ollama: its longest duration, 292 years, from now."""
_BILLION, _MILLION, _THOUSAND = 10**9, 10**6, 10**3
_TAG = ":latest"


def tagged(name: str) -> str:
    """Return the name as Ollama lists it: always with a tag."""
    return name if ":" in name.rpartition("/")[2] else name + _TAG


def moment(unix_s: float) -> str:
    """Return a time in RFC 3339, to the microsecond: Python before 3.11 reads no more digits, and no "Z"."""
    return datetime.fromtimestamp(unix_s, UTC).isoformat(timespec="microseconds")


def digest_of(model: ModelInfo) -> str:
    """Return 64 hexadecimal digits that change when the file does, and differ between models."""
    told = f"{model.path}\0{model.name}\0{model.size_bytes}\0{model.modified_at!r}"
    return hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()


def details_of(model: ModelInfo, facts: ModelFacts | None = None) -> Details:
    """Return a model in a few words; an unknown one is an empty text, never null."""
    return Details(
        parent_model=tagged(model.preset.base) if model.preset and model.preset.base else "",
        format=model.format,
        family=model.architecture,
        families=[model.architecture] if model.architecture else [],
        parameter_size=parameter_size(model.parameters or (facts.parameters if facts else 0)),
        quantization_level=model.quantization,
        context_length=model.trained_context or 0,
        embedding_length=facts.hidden if facts else 0,
    )


def parameter_size(parameters: int) -> str:
    """Return a count of parameters as Ollama writes it: "8.0B", "494.03M", "12K"."""
    if parameters >= _BILLION:
        return f"{parameters / _BILLION:.1f}B"
    if parameters >= _MILLION:
        return f"{parameters / _MILLION:.2f}M"
    if parameters >= _THOUSAND:
        return f"{parameters / _THOUSAND:.0f}K"
    return str(parameters) if parameters else ""


def listed(model: ModelInfo) -> Listed:
    """Return a model as `/api/tags` has it; its capabilities are those it has here."""
    name = tagged(model.name)
    return Listed(
        name=name,
        model=name,
        modified_at=moment(model.modified_at),
        size=model.size_bytes,
        digest=digest_of(model),
        details=details_of(model),
        capabilities=named_capabilities(model.capabilities),
    )


def loaded(model: ModelInfo, status: EngineStatus) -> Loaded:
    """Return a loaded model as `/api/ps` has it. An engine that says nothing of its memory has at least its weights."""
    name = tagged(model.name)
    size = status.memory_bytes or model.size_bytes
    return Loaded(
        name=name,
        model=name,
        size=size,
        digest=digest_of(model),
        details=details_of(model),
        expires_at=NEVER.isoformat(timespec="microseconds") if status.unload_at is None else moment(status.unload_at),
        size_vram=0 if status.backend in {"", "cpu"} else size,
        context_length=status.context or 0,
    )


def longest_first(status: EngineStatus) -> float:
    """Sort key: what stays longest comes first."""
    return -(math.inf if status.unload_at is None else status.unload_at)


def named_capabilities(capabilities: Collection[Capability]) -> list[str]:
    """Return what a model can do in Ollama's words."""
    return [word for capability, word in _WORDS.items() if capability in capabilities]


def shown(
    model: ModelInfo, facts: ModelFacts | None, *, capabilities: list[str], context: int, basename: str
) -> ShowReply:
    """Return `/api/show`. `context` is what it is, or would be, loaded with; `basename` names it in Copilot."""
    preset = model.preset or Preset()
    turns = [ShownMessage(role=turn.role, content=turn.content) for turn in preset.messages]
    return ShowReply(
        license="\n".join(preset.license),
        modelfile=modelfile(tagged(preset.base or model.name), preset, context=context),
        parameters=parameter_lines(preset, context) if model.chats else "",
        template=preset.template or _template(capabilities),
        system=preset.system,
        details=details_of(model, facts),
        model_info=model_info(model, facts, basename=basename),
        capabilities=capabilities,
        modified_at=moment(model.modified_at),
        messages=turns or msgspec.UNSET,
    )


def model_info(model: ModelInfo, facts: ModelFacts | None, *, basename: str) -> dict[str, object]:
    """Return the figures under GGUF's names, whatever the format; unknown ones are left out."""
    architecture = model.architecture or (facts.architecture if facts else "") or "unknown"
    general: dict[str, object] = {
        "general.architecture": architecture,
        "general.basename": basename,
        "general.parameter_count": model.parameters or (facts.parameters if facts else None),
        "general.type": "model",
        f"{architecture}.context_length": model.trained_context or (facts.trained_context if facts else None),
    }
    own = {f"{architecture}.{name}": value for name, value in _figures(facts).items()} if facts else {}
    template = {"tokenizer.chat_template": facts.chat_template} if facts and facts.chat_template else {}
    return {name: value for name, value in (general | own | template).items() if value}


def _figures(facts: ModelFacts) -> Mapping[str, object]:
    layers = [layer for layer in facts.layers if not layer.is_draft]
    attending = [layer for layer in layers if layer.heads]
    first = attending[0] if attending else None
    return {
        "embedding_length": facts.hidden,
        "block_count": len(layers),
        "vocab_size": facts.vocabulary,
        "feed_forward_length": max((layer.feed_forward for layer in layers), default=0),
        "expert_count": max((layer.experts for layer in layers), default=0),
        "expert_used_count": max((layer.experts_used for layer in layers), default=0),
        "attention.head_count": first.heads if first else 0,
        "attention.head_count_kv": first.kv_heads if first else 0,
        "attention.key_length": first.key_dim if first else 0,
        "attention.value_length": first.value_dim if first else 0,
    }


def _template(capabilities: list[str]) -> str:
    parts = []
    if "insert" in capabilities:
        parts.append("{{- if .Suffix }}{{ .Prompt }}{{ .Suffix }}{{ else }}")
    if "tools" in capabilities:
        parts.append("{{- if .Tools }}{{ .Tools }}{{ end }}")
    if "completion" in capabilities:
        parts.append("{{- range .Messages }}{{ .Role }}: {{ .Content }}\n{{ end }}")
    if "insert" in capabilities:
        parts.append("{{- end }}")
    return "".join(parts)
